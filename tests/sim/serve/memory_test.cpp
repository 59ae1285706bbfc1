#include "sim/serve/memory.hpp"

#include <doctest/doctest.h>

#include "tests/sim/serve/small_server.hpp"

namespace tracecast::test {
namespace {

using namespace serve;

TEST_SUITE_BEGIN("sim/serve/memory");

TEST_CASE("what a board holds adds up to the engine's share of it") {
  const SmallServer server;
  const ServedMemory m = served_memory(server.served, server.profile, server.board, {}, 4096);
  CHECK((m.weights + m.activations + m.graphs + m.context + m.buffers + m.cache).in_bytes() ==
        doctest::Approx(m.budget.in_bytes()));
  // 8,030,261,248 weights of 2 bytes; a token of 32 layers, 8 heads of 128, keys and values.
  CHECK(m.weights.in_bytes() == doctest::Approx(16'060'522'496.0));
  CHECK(m.cache_token.in_bytes() == 32 * 2 * 8 * 128 * 2);
  CHECK(m.cache_tokens % server.profile.block_tokens == 0);
  CHECK(static_cast<double>(m.cache_tokens) * m.cache_token.in_bytes() <= m.cache.in_bytes());
}

TEST_CASE("narrow weights, narrow caches and more ranks leave more tokens") {
  SmallServer server;
  const auto tokens = [&] {
    return served_memory(server.served, server.profile, server.board, {}, 4096).cache_tokens;
  };
  const std::int64_t plain = tokens();
  server.served.formats.gemms = GemmFormat::Fp8;
  const std::int64_t low_precision = tokens();
  server.served.formats.fp8_cache = true;
  const std::int64_t both = tokens();
  CHECK(low_precision > plain);
  CHECK(both >= 2 * low_precision - server.profile.block_tokens);
  server.served.sharing.tensor = 4;
  CHECK(tokens() > 4 * both);
}

TEST_CASE("a network that does not fit is reported the smallest changes that would") {
  SmallServer server("vllm_v1", "llama3_70b");
  const ServedMemory m = served_memory(server.served, server.profile, server.board, {}, 4096);
  CHECK_FALSE(m.fits());  // 141 GB on 80
  // Half of 141.1 GB on each of two boards, whose engine takes 71.3 GiB: 65.7, and 4096 tokens of
  // 160 KiB. 200,000 tokens are 30.5 GiB there: 8-bit weights of 33 leave them.
  CHECK(smallest_change(server.served, server.profile, server.board, {}, 4096) == "--tp 2");
  CHECK(smallest_change(server.served, server.profile, server.board, {}, 200'000) ==
        "--tp 2 --precision fp8");
  // 46.7 G weights are 87 GiB, of 8 bits 44: those cost no second board.
  SmallServer moe("vllm_v1", "mixtral_8x7b");
  CHECK(smallest_change(moe.served, moe.profile, moe.board, {}, 4096) ==
        "--precision fp8, or --tp 2");
}

TEST_CASE("windows stop growing") {
  SmallServer server("vllm_v1", "gpt_oss_20b");
  const ServedMemory brief = served_memory(server.served, server.profile, server.board, {}, 128);
  const ServedMemory lengthy =
      served_memory(server.served, server.profile, server.board, {}, 128'000);
  // Half of the layers see 128 tokens.
  CHECK(lengthy.cache_token.in_bytes() / brief.cache_token.in_bytes() ==
        doctest::Approx(0.5).epsilon(0.01));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
