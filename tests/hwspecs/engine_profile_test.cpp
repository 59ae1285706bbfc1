#include "hwspecs/software/engine_profile.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "hwspecs/library.hpp"
#include "hwspecs/loaders/gpu_loader.hpp"
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
  CHECK(there.communication_hop == here.communication_hop);
  CHECK(there.frontend == here.frontend);
}

TEST_CASE("boards of much memory have budgets of their own") {
  const GpuCatalog gpus = GpuCatalog::embedded();
  for (const char* version : {"0.11", "0.17"}) {
    const EngineProfile p = find("vllm", version);
    CHECK(p.tokens_of(gpus.find("l4")) == 2048);
    CHECK(p.sequences_of(gpus.find("l4")) == 256);
    CHECK(p.tokens_of(gpus.find("h100_sxm5_80gb")) == 8192);
    CHECK(p.sequences_of(gpus.find("h100_sxm5_80gb")) == 1024);
  }
}

TEST_CASE("boards that an engine's source excepts by name are not large, whatever they hold") {
  const GpuCatalog gpus = GpuCatalog::embedded();
  for (const char* version : {"0.11", "0.17"}) {
    const EngineProfile p = find("vllm", version);
    for (const char* id : {"a100_sxm4_80gb", "a100_pcie_80gb"}) {
      CAPTURE(id);
      CHECK(gpus.find(id).memory > p.large_memory);
      CHECK(p.tokens_of(gpus.find(id)) == 2048);
      CHECK(p.sequences_of(gpus.find(id)) == 256);
    }
    // The source looks for "a100" alone.
    CHECK(p.tokens_of(gpus.find("a800_sxm4_80gb")) == 8192);
  }
  // Others have no such exception.
  CHECK(find("sglang").tokens_of(gpus.find("a100_sxm4_80gb")) == 8192);
}

TEST_CASE("a version is newer than the known one by as many numbers as that one has") {
  const EngineProfile p = find("vllm");
  CHECK(p.known_version == "0.17");
  CHECK(p.is_newer("0.18"));
  CHECK(p.is_newer("0.33.1"));
  CHECK(p.is_newer("v1.0.0rc2"));
  CHECK_FALSE(p.is_newer("0.17.1"));
  CHECK_FALSE(p.is_newer("0.17.0.post1"));
  CHECK_FALSE(p.is_newer("0.9"));
  CHECK_FALSE(p.is_newer(""));
  // An older profile is followed by a known one.
  CHECK_FALSE(find("vllm", "0.11").is_newer("0.13"));
  for (const char* engine : {"vllm", "sglang", "tensorrt_llm"}) {
    CAPTURE(engine);
    CHECK_FALSE(find(engine).known_version.empty());
    CHECK(find(engine).newer_log_sd > 0);
  }
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
