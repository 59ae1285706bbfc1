#include "tools/show/network_summary.hpp"

#include <algorithm>
#include <tuple>

#include "hwspecs/loaders/known_names.hpp"
#include "models/kept_activations.hpp"
#include "models/training.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/job/network_file.hpp"
#include "sim/job/resolved_job.hpp"

namespace tracecast {
namespace {

constexpr int kFloatBytes = 4;

NetworkGraph build(const std::string& network, const SummaryOptions& options, bool training) {
  if (!is_network_path(network)) {
    return build_network(
        network,
        {.image_size = options.image_size, .seq_len = options.seq_len, .training = training});
  }
  refuse_other_file(network);
  return read_network_file(
             read_network_bytes(network), network,
             {.image_size = options.image_size, .seq_len = options.seq_len, .training = training})
      .graph;
}

/// The summary of an op's kind, appended when it is the first of its kind.
KindSummary& of_kind(std::vector<KindSummary>& kinds, OpKind kind) {
  const auto found = std::ranges::find(kinds, kind, &KindSummary::kind);
  return found != kinds.end() ? *found : kinds.emplace_back(KindSummary{.kind = kind});
}

void add_forward(NetworkSummary& summary, const NetworkGraph& graph) {
  std::vector<bool> is_counted(graph.tensors().size());
  for (const Op& op : graph.ops()) {
    KindSummary& kind = of_kind(summary.kinds, op.kind);
    ++kind.ops;
    kind.macs += macs(op);
    for (const TensorId input : op.inputs) {
      if (graph.tensor(input).role != TensorRole::Weight || is_counted[input.index]) continue;
      is_counted[input.index] = true;
      kind.parameters += element_count(graph.tensor(input).shape);
    }
  }
}

void add_kept(NetworkSummary& summary, const NetworkGraph& step) {
  for (const TensorId id : kept_activations(step)) {
    const double bytes = tensor_bytes(step.tensor(id), kFloatBytes);
    summary.activation_bytes += bytes;
    of_kind(summary.kinds, step.op(*step.producer(id)).kind).activation_bytes += bytes;
  }
}

}  // namespace

NetworkSummary summarize_network(const std::string& network, const SummaryOptions& options) {
  const NetworkGraph forward = build(network, options, false);
  NetworkSummary summary{.name = forward.name,
                         .parameters = forward.parameter_count(),
                         .macs = forward.forward_macs()};
  for (const Tensor& tensor : forward.tensors()) {
    if (tensor.role == TensorRole::Input) summary.inputs.push_back({tensor.name, tensor.shape});
  }
  add_forward(summary, forward);
  add_kept(summary, make_training_graph(build(network, options, true), {.with_optimizer = false}));
  std::ranges::stable_sort(summary.kinds, std::greater<>(), [](const KindSummary& kind) {
    return std::tuple(kind.macs, kind.parameters, kind.ops);
  });
  return summary;
}

void check_sizes_apply(const ZooEntry& entry, std::optional<std::int64_t> image_size,
                       std::optional<std::int64_t> seq_len) {
  const auto refuse = [&](const char* flag, std::int64_t value, const char* what) {
    throw InputError(flag, std::to_string(value),
                     "no such flag: " + std::string(entry.name) + " reads no " + what);
  };
  if (image_size && entry.image_size == 0) refuse("--image-size", *image_size, "images");
  if (seq_len && entry.seq_len == 0) refuse("--seq-len", *seq_len, "sequences");
}

}  // namespace tracecast
