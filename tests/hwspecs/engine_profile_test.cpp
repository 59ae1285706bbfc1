#include "hwspecs/software/engine_profile.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "hwspecs/library.hpp"
#include "sim/base/error.hpp"

namespace tracecast::test {
namespace {

const EngineProfile& find(std::string_view engine, std::string_view version = "") {
  return SpecLibrary::embedded().find_engine(engine, version);
}

TEST_SUITE_BEGIN("hwspecs/software/engine_profile");

TEST_CASE("every profile in the binary is valid, and each value names a source of its file") {
  const auto profiles = SpecLibrary::embedded().engines();
  CHECK(profiles.size() >= 6);
  for (const EngineProfile& p : profiles) {
    CAPTURE(p.id);
    CHECK(p.values.size() >= 30);
    CHECK(p.tokens_per_step > 0);
    CHECK(find(p.id == p.engine ? p.engine : p.id).engine == p.engine);
  }
}

TEST_CASE("a version picks the last profile that begins no later; without one, the newest") {
  CHECK(find("vllm", "0.2.0").id == "vllm_v0_2023");
  CHECK(find("vllm", "0.6.3").id == "vllm_v0");
  CHECK(find("vllm", "0.11").id == "vllm_v1");
  CHECK(find("vllm", "0.19.0").id == "vllm_v1_async");
  CHECK(find("vllm").id == "vllm_v1_async");
  CHECK(find("trtllm").id == "tensorrt_llm");
  CHECK(find("SGLang").id == "sglang");
}

TEST_CASE("a batch runs in the next captured one; none holds more than the largest") {
  const EngineProfile p = find("vllm_v1");
  CHECK(p.graph_of(1) == 1);
  CHECK(p.graph_of(3) == 4);
  CHECK(p.graph_of(9) == 16);
  CHECK(p.graph_of(512) == 512);
  CHECK_FALSE(p.graph_of(513).has_value());
  CHECK_FALSE(find("vllm_v0_2023").graph_of(1).has_value());
}

TEST_CASE("a slower thread takes longer for everything the host does, and for nothing else") {
  const EngineProfile here = find("vllm_v0_2023"), there = here.on_host(2);
  CHECK(there.launch == here.launch * 2);
  CHECK(there.step == here.step * 2);
  CHECK(there.context_token == here.context_token * 2);
  CHECK(there.exchange_hop == here.exchange_hop);
  CHECK(there.frontend == here.frontend);
}

TEST_CASE("boards of much memory have budgets of their own") {
  const EngineProfile p = find("vllm_v1");
  CHECK(p.tokens_of(Bytes(24e9)) == 2048);
  CHECK(p.tokens_of(Bytes(80e9)) == 8192);
  CHECK(p.sequences_of(Bytes(24e9)) == 256);
}

TEST_CASE("an unknown engine, a value without a source and sizes that fall are refused") {
  CHECK_THROWS_AS((void)find("vlm"), InputError);
  CHECK_THROWS_AS((void)find("vllm", "new"), InputError);
  CHECK_THROWS_AS((void)parse_engine_profile("id: \"x\"", "x.textproto"), InputError);
  CHECK_THROWS_AS((void)parse_engine_profile("name: \"x\"", "x.textproto"), InputError);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
