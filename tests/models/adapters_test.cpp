#include "models/adapters.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "models/kept_activations.hpp"
#include "models/ops.hpp"
#include "models/training.hpp"
#include "models/transformer/layout.hpp"
#include "models/transformer/shard.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("models/adapters");

bool is_adapter(const Op& op) { return op.name.find(kAdapterMark) != std::string::npos; }

int count_gemms(const NetworkGraph& graph, Pass pass) {
  return static_cast<int>(std::count_if(graph.ops().begin(), graph.ops().end(), [&](const Op& op) {
    return op.kind == OpKind::Linear && op.pass == pass && !op.name.starts_with("update");
  }));
}

NetworkGraph step_of(NetworkGraph forward) {
  return make_training_graph(std::move(forward), {.optimizer = OptimizerKind::Adam});
}

TEST_CASE("LLaMA's attention has adapters of the published number of parameters") {
  // Four GEMMs of 4096 x 4096 in 32 layers: 2 x 4096 x rank each.
  const NetworkGraph base =
      build_network("llama_7b", {.batch = 1, .seq_len = 128, .training = true});
  const NetworkGraph adapted = add_adapters(base, {.rank = 8});
  CHECK(adapted.parameter_count() - base.parameter_count() == 32 * 4 * 2 * 4096 * 8);
  CHECK(adapted.frozen_parameters == base.parameter_count());
  CHECK(adapted.outputs == base.outputs);

  const NetworkGraph step = step_of(adapted);
  // Every adapter's A and B get a gradient and an update, and nothing else does.
  CHECK(count_gemms(step, Pass::BackwardWeights) == 2 * 4 * 32);
  for (const Op& op : step.ops()) {
    if (op.pass == Pass::Update || op.pass == Pass::BackwardWeights) CHECK(is_adapter(op));
  }
  // The GEMMs themselves pass gradients on: all but the first layer's, below which nothing is
  // trained.
  CHECK(count_gemms(step, Pass::BackwardData) > 7 * 31);
}

TEST_CASE("all GEMMs of layers can have adapters, the last of the network has none") {
  const NetworkGraph base =
      build_network("llama_7b", {.batch = 1, .seq_len = 128, .training = true});
  const NetworkGraph adapted = add_adapters(base, {.rank = 4, .targets = AdapterTargets::Linear});
  const std::int64_t attention = 4 * 2 * 4096, feed_forward = 3 * (4096 + 11008);
  CHECK(adapted.parameter_count() - base.parameter_count() == 32 * 4 * (attention + feed_forward));
  const Op& head = *std::find_if(adapted.ops().rbegin(), adapted.ops().rend(),
                                 [](const Op& op) { return op.kind == OpKind::Linear; });
  CHECK_FALSE(is_adapter(head));
}

TEST_CASE("what belongs to attention is found in other networks' code too") {
  const auto added = [](const char* network) {
    const NetworkGraph base = build_network(network, {.batch = 1, .training = true});
    return add_adapters(base, {.rank = 1}).parameter_count() - base.parameter_count();
  };
  CHECK(added("bert_base") == 12 * 4 * 2 * 768);           // queries, keys, values, and out
  CHECK(added("gpt2") == 12 * (768 + 3 * 768 + 2 * 768));  // packed, and out
  CHECK(added("vit_b_16") == 12 * (768 + 3 * 768 + 2 * 768));
}

TEST_CASE("packed weights are bytes that every GEMM unpacks, in the backward pass again") {
  const NetworkGraph base =
      build_network("llama_7b", {.batch = 1, .seq_len = 128, .training = true});
  const NetworkGraph packed = add_adapters(base, {.rank = 8, .base = BaseFormat::Nf4});
  // Seven GEMMs a layer: 4 x 4096^2 + 3 x 4096 x 11008 weights; 4 bits and 4 bytes for each 64.
  const double weights = 32 * (4 * 4096.0 * 4096 + 3 * 4096.0 * 11008);
  double bytes = 0;
  for (const Tensor& tensor : packed.tensors()) {
    if (tensor.role == TensorRole::Buffer && tensor.is_integer && tensor.integer_bytes == 1)
      bytes += static_cast<double>(element_count(tensor.shape));
  }
  CHECK(bytes == doctest::Approx(weights * 0.5625).epsilon(1e-6));
  CHECK(packed.frozen_parameters == base.parameter_count());
  const NetworkGraph step = step_of(packed);
  const auto unpacks = [&](Pass pass) {
    return std::count_if(step.ops().begin(), step.ops().end(), [&](const Op& op) {
      return op.kind == OpKind::Cast && op.pass == pass &&
             op.name.find(".unpack") != std::string::npos;
    });
  };
  const auto forward = unpacks(Pass::Forward);
  CHECK(forward > 100);
  // Nothing before the first adapters needs a gradient.
  CHECK(unpacks(Pass::Backward) >= forward - 4);
  CHECK(unpacks(Pass::Backward) <= forward);
  for (const TensorId kept : kept_activations(step)) {
    CHECK(step.tensor(kept).name.find(".unpacked") == std::string::npos);
  }
}

TEST_CASE("formats of a base take what their papers say") {
  CHECK(bytes_per_weight(BaseFormat::Nf4) == 0.5625);
  // 0.127 bits a weight with double quantization (Dettmers et al., arXiv 2305.14314, section 3).
  CHECK(8 * (bytes_per_weight(BaseFormat::Nf4Double) - 0.5) ==
        doctest::Approx(0.127).epsilon(1e-2));
  CHECK(find_base_format("int8") == BaseFormat::Int8);
  CHECK(!find_base_format("int3"));
}

TEST_CASE("a network without GEMMs of attention, and no rank, are refused") {
  const NetworkGraph resnet = build_network("resnet50", {.batch = 1, .training = true});
  CHECK_THROWS_AS((void)add_adapters(resnet, {.rank = 8}), InputError);
  CHECK_THROWS_AS((void)add_adapters(resnet, {.rank = 0}), InputError);
}

TEST_CASE("a divided layer trains its part of the adapters") {
  const TransformerLayout& layout = *find_network("llama2_70b")->transformer;
  const LowRankAdapters adapters{.rank = 16};
  const TransformerShard shard{
      .tokens = 512, .tensor = 4, .sequence_parallel = true, .adapters = adapters};
  const NetworkGraph layer = sharded_layer(layout, shard, false);
  TransformerShard whole = shard;
  whole.adapters = {};
  const NetworkGraph usual = sharded_layer(layout, whole, false);
  const std::int64_t input = 512 / 4 * 8192;  // a weight in name only
  CHECK(layer.frozen_parameters == usual.parameter_count() - input);
  // A of the packed GEMM is whole, its B a quarter; A of the other a quarter, its B whole.
  const std::int64_t packed = (64 + 2 * 8) * 128;
  CHECK(layer.parameter_count() - layer.frozen_parameters - input ==
        16 * (8192 + packed / 4 + 8192 / 4 + 8192));
  CHECK(layout.adapter_parameters(adapters) == 80.0 * 16 * (8192 + packed + 8192 + 8192));

  const auto bytes_kept = [](const NetworkGraph& forward) {
    const NetworkGraph step =
        make_training_graph(forward, {.with_loss = false, .with_optimizer = false});
    double sum = 0;
    for (const TensorId id : kept_activations(step)) sum += tensor_bytes(step.tensor(id), 2);
    return sum;
  };
  CHECK(bytes_kept(layer) < bytes_kept(usual));
  // No gradient of weights gathers inputs again.
  CHECK(layer_collectives(layout, shard, false).backward.size() ==
        layer_collectives(layout, whole, false).backward.size() - 2 + 1);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
