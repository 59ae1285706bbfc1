#include <doctest/doctest.h>

#include "hwspecs/loaders/gpu_loader.hpp"
#include "models/lowering/gpu_traits.hpp"
#include "models/lowering/lower.hpp"
#include "models/training.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/support/specs.hpp"

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("models/lowering/alike");

TEST_CASE("an op is alike the first one with its candidates, and no such one is missed") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  for (const char* network : {"resnet50", "bert_base", "lstm_wikitext2"}) {
    for (const char* framework : {"pytorch", "tensorflow_xla"}) {
      CAPTURE(network);
      CAPTURE(framework);
      const NetworkGraph graph = make_training_graph(build_network(network, {.batch = 4}), {});
      const LoweredStep step =
          lower(graph, find_framework(framework), catalog.find("v100_sxm2_16gb"), {});
      REQUIRE(step.first_alike.size() == step.ops.size());
      std::size_t repeated = 0;
      bool right = true;
      for (std::size_t i = 0; i < step.ops.size(); ++i) {
        std::size_t first = 0;
        while (step.ops[first].candidates != step.ops[i].candidates ||
               step.ops[first].policy != step.ops[i].policy) {
          ++first;
        }
        right = right && step.first_alike[i] == first;
        repeated += first < i ? 1 : 0;
      }
      CHECK(right);
      CHECK(4 * repeated > step.ops.size());  // deep networks repeat their blocks
    }
  }
}

TEST_CASE("traits tell GPUs apart by units and generation, not by speed or size of memory") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  const auto traits = [&](const char* id) { return GpuTraits(catalog.find(id)); };
  CHECK(traits("v100_sxm2_16gb") == traits("v100_pcie_32gb"));
  CHECK(traits("h100_pcie_80gb") == traits("h100_sxm5_80gb"));
  CHECK_FALSE(traits("v100_sxm2_16gb") == traits("t4"));
  // FP16 on CUDA cores: twice the rate of FP32 on GP100, a sixty-fourth of it on GP104.
  CHECK(traits("p100_pcie_16gb").outruns_fp32(Precision::Fp16));
  CHECK_FALSE(traits("gtx1080").outruns_fp32(Precision::Fp16));
  CHECK_FALSE(traits("p100_pcie_16gb") == traits("gtx1080"));
  CHECK(traits("h100_sxm5_80gb").has(Precision::Fp8, MathUnit::TensorCore));
  CHECK_FALSE(traits("a100_sxm4_40gb").has(Precision::Fp8, MathUnit::TensorCore));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
