#include <doctest/doctest.h>

#include "tests/sim/serve/small_server.hpp"

namespace tracecast::test {
namespace {

using namespace serve;

StepTime one_token(StepPrice& price, std::int64_t sequences, double keys) {
  StepBatch batch;
  batch.decodes = batch.words = sequences;
  batch.keys = keys * static_cast<double>(sequences);
  return price.price(batch);
}

TEST_SUITE_BEGIN("sim/serve/step_price");

TEST_CASE("more bandwidth, less time per token; no less than the weights take to read") {
  SmallServer server("ideal");
  double before = 1e9;
  for (const double factor : {1.0, 1.5, 2.0}) {
    CAPTURE(factor);
    SmallServer faster("ideal");
    faster.board.dram_bandwidth = server.board.dram_bandwidth * factor;
    faster.reprice();
    const double seconds = one_token(*faster.price, 1, 1000).gpu_seconds;
    CHECK(seconds < before);
    CHECK(seconds >
          served_weight_bytes(faster.served) * 0.9 / faster.board.dram_bandwidth / Seconds(1));
    before = seconds;
  }
}

TEST_CASE("longer sequences and more of them never take less") {
  SmallServer server;
  double before = 0;
  for (const double keys : {16.0, 100.0, 1000.0, 8000.0, 100'000.0}) {
    const double seconds = one_token(*server.price, 32, keys).gpu_seconds;
    CHECK(seconds > before);
    before = seconds;
  }
  // Between the table's entries as at them: along a captured batch time is linear in the keys.
  const double low = one_token(*server.price, 8, 1024).gpu_seconds;
  const double high = one_token(*server.price, 8, 2048).gpu_seconds;
  const double middle = one_token(*server.price, 8, 1536).gpu_seconds;
  CHECK(middle > low);
  CHECK(middle < high);
}

TEST_CASE("a batch between two captured ones runs in the larger") {
  SmallServer server;
  StepBatch nine;
  nine.decodes = nine.words = 9;
  nine.keys = 9;
  const StepTime time = server.price->price(nine);
  CHECK(time.in_graph);
  StepBatch sixteen = nine;
  sixteen.decodes = 16;
  sixteen.keys = 16;
  const auto gemms = static_cast<std::size_t>(StepPart::Gemms);
  sixteen.words = 9;
  CHECK(time.parts.seconds[gemms] ==
        doctest::Approx(server.price->price(sixteen).parts.seconds[gemms]));
}

TEST_CASE("outside graphs a small step takes what its launches take") {
  SmallServer server("vllm_v0_2023");
  const StepTime time = one_token(*server.price, 1, 100);
  CHECK_FALSE(time.in_graph);
  CHECK(time.host_seconds > time.gpu_seconds);
  CHECK(time.seconds == doctest::Approx(time.host_seconds));
}

TEST_CASE("tensors that stay taken beyond what is left of the board are renewed") {
  SmallServer server("vllm_v0_2023", "llama2_70b", 8, "a100_sxm4_80gb", "dgx_a100");
  const auto prompt = [&](std::int64_t tokens) {
    StepBatch batch;
    batch.add_prompt(tokens, 0);
    return server.price->price(batch);
  };
  const StepTime few = prompt(1024), many = prompt(8192);
  const double each = server.profile.renewed_seconds_per_byte;
  server.profile.renewed_seconds_per_byte = 0;
  server.reprice();
  // 161 sums of 1024 x 8192 x 2 bytes are 2.7 GB: they fit.
  CHECK(prompt(1024).seconds == doctest::Approx(few.seconds));
  const StepTime at_once = prompt(8192);
  const double ahead =
      161.0 * 8192 * 8192 * 2 *
      (1 - (at_once.host_seconds - server.profile.step.in_s()) / at_once.gpu_seconds);
  const double left = server.board.memory.in_bytes() * 0.1 - server.profile.context.in_bytes();
  CHECK(many.seconds - at_once.seconds == doctest::Approx((ahead - left) * each).epsilon(0.02));
}

TEST_CASE("a cached prefix saves its own attention and leaves that of the new tokens") {
  SmallServer server;
  StepBatch whole, rest, without;
  whole.add_prompt(4000, 0);
  rest.add_prompt(1000, 3000);
  without.add_prompt(1000, 0);
  const double a = server.price->price(whole).gpu_seconds,
               b = server.price->price(rest).gpu_seconds,
               c = server.price->price(without).gpu_seconds;
  CHECK(b < a);
  CHECK(c < b);
}

TEST_CASE("two tensor ranks take less than one and more than half") {
  SmallServer one("vllm_v1", "llama3_8b", 1), two("vllm_v1", "llama3_8b", 2);
  const double a = one_token(*one.price, 64, 2000).gpu_seconds,
               b = one_token(*two.price, 64, 2000).gpu_seconds;
  CHECK(b < a);
  CHECK(b > a / 2);
}

TEST_CASE("MoE networks, latent attention and recurrent layers have prices") {
  for (const char* network :
       {"mixtral_8x7b", "gpt_oss_20b", "deepseek_v2_lite", "qwen3.5_397b_a17b"}) {
    CAPTURE(network);
    const ZooEntry* entry = find_network(network);
    if (entry == nullptr) continue;
    SmallServer server("sglang", network);
    StepBatch batch;
    batch.add_prompt(2000, 0);
    batch.words = 1;
    const StepTime prompt = server.price->price(batch), token = one_token(*server.price, 4, 2000);
    CHECK(prompt.gpu_seconds > token.gpu_seconds);
    CHECK(token.gpu_seconds > 0);
    CHECK(token.log_sd > 0);
    CHECK(token.parts.joules > 0);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
