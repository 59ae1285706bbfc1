#include "models/recompute.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "models/ops.hpp"

namespace tracecast {
namespace {

constexpr std::array<std::pair<std::string_view, Recompute>, 3> kNames{{
    {"none", Recompute::None},
    {"selective", Recompute::Selective},
    {"full", Recompute::Full},
}};

constexpr int kMostOpsAgain = 8;

/// Segments tried: up to some hundreds, each half as many again.
constexpr std::array<int, 14> kSegments{2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192};

double bytes_of(const Tensor& tensor) {
  return static_cast<double>(element_count(tensor.shape)) *
         (tensor.is_integer ? tensor.integer_bytes : 4);
}

/// The forward half of a step: who makes a tensor, who reads it, what its memory is.
struct ForwardHalf {
  explicit ForwardHalf(const NetworkGraph& step) : graph(step) {
    const auto ops = step.ops();
    while (num_ops < ops.size() && ops[num_ops].pass == Pass::Forward) ++num_ops;
    const std::size_t num_tensors = step.tensors().size();
    root.resize(num_tensors);
    last_read.assign(num_tensors, 0);
    is_saved.assign(num_tensors, false);
    for (std::uint32_t t = 0; t < num_tensors; ++t) root[t] = t;
    for (std::uint32_t i = 0; i < num_ops; ++i) {
      if (shares_memory_with_input(ops[i]) && !ops[i].inputs.empty() && !ops[i].outputs.empty()) {
        root[ops[i].outputs[0].index] = root[ops[i].inputs[0].index];
      }
      for (const TensorId input : ops[i].inputs) last_read[root[input.index]] = i;
    }
    for (std::size_t i = num_ops; i < ops.size(); ++i) {
      for (const TensorId input : ops[i].inputs) is_saved[root[input.index]] = true;
    }
  }
  /// Index of the forward op that makes `tensor`; nothing for inputs, weights and gradients.
  [[nodiscard]] std::optional<std::uint32_t> maker(TensorId tensor) const {
    const auto producer = graph.producer(tensor);
    if (!producer || producer->index >= num_ops) return std::nullopt;
    return producer->index;
  }

  const NetworkGraph& graph;
  std::uint32_t num_ops = 0;
  std::vector<std::uint32_t> root;       ///< per tensor: the first of those that share its memory
  std::vector<std::uint32_t> last_read;  ///< per root: last forward op that reads it
  std::vector<bool> is_saved;            ///< per root: a backward op reads it
};

bool is_gemm_with_weights(const NetworkGraph& graph, const Op& op) {
  if (op.kind != OpKind::MatMul) return false;
  return std::any_of(op.inputs.begin(), op.inputs.end(),
                     [&](TensorId id) { return graph.tensor(id).role == TensorRole::Weight; });
}

bool is_costly(const NetworkGraph& graph, const Op& op) {
  switch (op.kind) {
    case OpKind::Conv:
    case OpKind::ConvTranspose:
    case OpKind::Linear:
    case OpKind::Loss:
    case OpKind::Scan:
    case OpKind::Unknown:
      return true;
    default:
      return is_gemm_with_weights(graph, op);
  }
}

/// By root: what stays in memory between the passes.
std::vector<bool> keep_costly(const ForwardHalf& forward) {
  std::vector<bool> kept(forward.root.size(), false);
  std::vector<int> ops_again(forward.root.size(), 0);  // per tensor: ops to get it back, capped
  for (std::uint32_t i = 0; i < forward.num_ops; ++i) {
    const Op& op = forward.graph.ops()[i];
    int again = 1;
    for (const TensorId input : op.inputs) {
      if (forward.maker(input) && !kept[forward.root[input.index]]) again += ops_again[input.index];
    }
    const bool keep = is_costly(forward.graph, op) || again > kMostOpsAgain;
    for (const TensorId output : op.outputs) {
      ops_again[output.index] = std::min(again, kMostOpsAgain + 1);
      if (keep) kept[forward.root[output.index]] = true;
    }
  }
  return kept;
}

/// Cuts of the forward half into segments; a cut at i separates op i - 1 from op i.
class Segmentation {
 public:
  explicit Segmentation(const ForwardHalf& forward)
      : forward_(forward), saved_(forward.num_ops, 0.0), crossing_(forward.num_ops + 2, 0.0) {
    for (std::uint32_t t = 0; t < forward.root.size(); ++t) {
      const auto maker = forward.maker(TensorId{t});
      if (forward.root[t] != t || !maker) continue;
      const double bytes = bytes_of(forward.graph.tensors()[t]);
      if (forward.is_saved[t]) saved_[*maker] += bytes;
      if (forward.last_read[t] > *maker) {
        crossing_[*maker + 1] += bytes;
        crossing_[forward.last_read[t] + 1] -= bytes;
      }
    }
    for (std::size_t i = 1; i < crossing_.size(); ++i) crossing_[i] += crossing_[i - 1];
  }

  /// By root: what crosses the best cuts, and the last segment.
  [[nodiscard]] std::vector<bool> keep_boundaries() const {
    double total = 0;
    for (const double bytes : saved_) total += bytes;
    std::vector<std::uint32_t> best;
    double least = total;
    for (const int segments : kSegments) {
      std::vector<std::uint32_t> cuts = divide(total / segments);
      const double peak = peak_of(cuts);
      if (peak < least) {
        least = peak;
        best = std::move(cuts);
      }
    }
    return kept_with(best);
  }

 private:
  /// Ends a segment when it holds `budget`, in its second half where the least crosses.
  [[nodiscard]] std::vector<std::uint32_t> divide(double budget) const {
    std::vector<std::uint32_t> cuts;
    double held = 0, held_since_cut = 0;
    std::uint32_t cut = 0;
    for (std::uint32_t i = 0; i < forward_.num_ops; ++i) {
      held += saved_[i];
      held_since_cut += saved_[i];
      if (held >= budget / 2 && (cut == 0 || crossing_[i + 1] <= crossing_[cut])) {
        cut = i + 1;
        held_since_cut = 0;
      }
      if (held < budget || cut == 0 || cut >= forward_.num_ops) continue;
      cuts.push_back(cut);
      held = held_since_cut;
      cut = 0;
    }
    return cuts;
  }

  [[nodiscard]] std::vector<bool> kept_with(const std::vector<std::uint32_t>& cuts) const {
    std::vector<bool> kept(forward_.root.size(), false);
    const std::uint32_t last_segment = cuts.empty() ? 0 : cuts.back();
    for (std::uint32_t t = 0; t < kept.size(); ++t) {
      const auto maker = forward_.maker(TensorId{t});
      if (forward_.root[t] != t || !maker) continue;
      const auto next = std::upper_bound(cuts.begin(), cuts.end(), *maker);
      kept[t] = *maker >= last_segment || (next != cuts.end() && forward_.last_read[t] >= *next);
    }
    return kept;
  }

  /// What is kept plus the greatest segment once it is computed again. The last one is kept as it
  /// is.
  [[nodiscard]] double peak_of(const std::vector<std::uint32_t>& cuts) const {
    const std::vector<bool> kept = kept_with(cuts);
    const std::uint32_t last_segment = cuts.empty() ? 0 : cuts.back();
    std::vector<double> segments(cuts.size() + 1, 0.0);
    double boundaries = 0;
    for (std::uint32_t t = 0; t < kept.size(); ++t) {
      const auto maker = forward_.maker(TensorId{t});
      if (forward_.root[t] != t || !maker) continue;
      const double bytes = bytes_of(forward_.graph.tensors()[t]);
      if (kept[t] && *maker < last_segment) {
        boundaries += bytes;
      } else if (forward_.is_saved[t]) {
        const auto at = std::upper_bound(cuts.begin(), cuts.end(), *maker) - cuts.begin();
        segments[static_cast<std::size_t>(at)] += bytes;
      }
    }
    return boundaries + *std::max_element(segments.begin(), segments.end());
  }

  const ForwardHalf& forward_;
  std::vector<double> saved_;     ///< per op: bytes that the backward pass reads
  std::vector<double> crossing_;  ///< per cut: bytes made before it and read behind it
};

/// Copies a step and runs forward ops again where the backward pass misses their results.
class Rerun {
 public:
  Rerun(const ForwardHalf& forward, std::vector<bool> kept)
      : forward_(forward), kept_(std::move(kept)), again_(forward.root.size()) {}

  NetworkGraph build() && {
    const NetworkGraph& old = forward_.graph;
    step_.name = old.name;
    step_.batch = old.batch;
    step_.frozen_parameters = old.frozen_parameters;
    step_.reserve(old.tensors().size() * 2, old.ops().size() * 2);
    for (const Tensor& tensor : old.tensors()) step_.add_tensor(tensor);
    step_.outputs = old.outputs;
    for (std::uint32_t i = 0; i < old.ops().size(); ++i) {
      Op op = old.ops()[i];
      if (i >= forward_.num_ops) {
        for (const std::uint32_t missing : find_missing(op)) run_again(missing);
        for (TensorId& input : op.inputs) input = current(input);
      }
      step_.add_op(std::move(op));
    }
    return std::move(step_);
  }

 private:
  [[nodiscard]] TensorId current(TensorId id) const { return again_[id.index].value_or(id); }

  [[nodiscard]] bool is_missing(TensorId id) const {
    return forward_.maker(id) && !kept_[forward_.root[id.index]] && !again_[id.index];
  }

  /// Forward ops that must run before `op` can, in order.
  [[nodiscard]] std::vector<std::uint32_t> find_missing(const Op& op) const {
    std::vector<std::uint32_t> missing;
    std::vector<TensorId> wanted;
    const auto want = [&](const Op& reader) {
      for (const TensorId input : reader.inputs) {
        if (is_missing(input)) wanted.push_back(input);
      }
    };
    want(op);
    while (!wanted.empty()) {
      const std::uint32_t maker = *forward_.maker(wanted.back());
      wanted.pop_back();
      const auto at = std::lower_bound(missing.begin(), missing.end(), maker);
      if (at != missing.end() && *at == maker) continue;
      missing.insert(at, maker);
      want(forward_.graph.ops()[maker]);
    }
    return missing;
  }

  void run_again(std::uint32_t index) {
    Op op = forward_.graph.ops()[index];
    op.name += " again";
    op.forward = OpId{index};
    for (TensorId& input : op.inputs) input = current(input);
    for (TensorId& output : op.outputs) {
      Tensor tensor = forward_.graph.tensor(output);
      tensor.name += " again";
      const TensorId copy = step_.add_tensor(std::move(tensor));
      again_[output.index] = copy;
      output = copy;
    }
    step_.add_op(std::move(op));
  }

  const ForwardHalf& forward_;
  std::vector<bool> kept_;
  std::vector<std::optional<TensorId>> again_;  ///< per tensor: its second copy
  NetworkGraph step_;
};

/// By root: results of all ops but those that run again.
std::vector<bool> keep_others(const ForwardHalf& forward,
                              const std::function<bool(const Op&)>& runs_again) {
  std::vector<bool> kept(forward.root.size(), true);
  for (std::uint32_t i = 0; i < forward.num_ops; ++i) {
    const Op& op = forward.graph.ops()[i];
    if (!runs_again(op)) continue;
    for (const TensorId output : op.outputs) kept[forward.root[output.index]] = false;
  }
  return kept;
}

}  // namespace

std::string_view to_string(Recompute recompute) {
  for (const auto& [name, value] : kNames) {
    if (value == recompute) return name;
  }
  return "?";
}

std::optional<Recompute> find_recompute(std::string_view name) {
  for (const auto& [known, value] : kNames) {
    if (known == name) return value;
  }
  return std::nullopt;
}

NetworkGraph recompute_activations(NetworkGraph step, Recompute recompute) {
  const ForwardHalf forward(step);
  if (recompute == Recompute::None || forward.num_ops == step.ops().size()) return step;
  std::vector<bool> kept = recompute == Recompute::Selective
                               ? keep_costly(forward)
                               : Segmentation(forward).keep_boundaries();
  return Rerun(forward, std::move(kept)).build();
}

NetworkGraph recompute_ops(NetworkGraph step, const std::function<bool(const Op&)>& runs_again) {
  const ForwardHalf forward(step);
  if (forward.num_ops == step.ops().size()) return step;
  return Rerun(forward, keep_others(forward, runs_again)).build();
}

}  // namespace tracecast
