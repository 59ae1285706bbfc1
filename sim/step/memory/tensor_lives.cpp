#include "sim/step/memory/tensor_lives.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "models/ops.hpp"
#include "sim/step/memory/memory.hpp"

namespace tracecast {
namespace {

constexpr std::uint32_t kNever = UINT32_MAX;
constexpr double kIndexBytes = 8;  // int64, PyTorch's and Torch's

bool is_permanent(TensorRole role) {
  return role == TensorRole::Input || role == TensorRole::Weight || role == TensorRole::Buffer ||
         role == TensorRole::OptimizerState;
}

MemoryClass class_of(TensorRole role) {
  switch (role) {
    case TensorRole::Weight:
    case TensorRole::Buffer:
      return MemoryClass::Weights;
    case TensorRole::WeightGradient:
      return MemoryClass::Gradients;
    case TensorRole::OptimizerState:
      return MemoryClass::Optimizer;
    case TensorRole::Store:
    case TensorRole::Input:
    case TensorRole::Activation:
    case TensorRole::Gradient:
      break;
  }
  return MemoryClass::Activations;
}

/// Beyond 2^50 bytes no device answers anyway; the cap keeps sums within 64 bits.
std::int64_t whole(double bytes) { return static_cast<std::int64_t>(std::min(bytes, 0x1p50)); }

/// Values that a normalisation saves for its gradient: 2 per row; none for other ops.
double saved_statistics(const Op& op) {
  const bool is_norm = op.kind == OpKind::BatchNorm || op.kind == OpKind::LayerNorm ||
                       op.kind == OpKind::InstanceNorm || op.kind == OpKind::GroupNorm;
  const auto* norm = std::get_if<NormAttributes>(&op.attributes);
  return is_norm && norm != nullptr ? 2.0 * static_cast<double>(norm->rows) : 0.0;
}

class Lives {
 public:
  Lives(const NetworkGraph& graph, const FrameworkProfile& framework, const LivesOptions& options)
      : graph_(graph), framework_(framework), options_(options) {
    keeps_gradients_ = framework.optimizer.zeroes_gradients || options.keeps_gradients;
    adds_gradients_ = framework.optimizer.accumulates_gradients || options.keeps_gradients;
  }

  std::vector<TensorBuffer> find() && {
    start();
    for (std::uint32_t i = 0; i < graph_.ops().size(); ++i) {
      share(graph_.ops()[i]);
      touch(graph_.ops()[i], i);
      release_parts(graph_.ops()[i]);
    }
    const auto last =
        static_cast<std::uint32_t>(graph_.ops().empty() ? 0 : graph_.ops().size() - 1);
    for (const TensorId output : graph_.outputs) of(output).last = last;
    std::vector<TensorBuffer> buffers;
    buffers.reserve(buffers_.size());
    for (std::uint32_t t = 0; t < buffers_.size(); ++t) {
      const bool exists = buffers_[t].permanent || buffers_[t].first != kNever;
      if (buffer_of_[t] == t && exists && buffers_[t].bytes > 0) buffers.push_back(buffers_[t]);
    }
    add_saved(buffers);
    if (adds_gradients_) add_new_gradients(buffers);
    add_update_temporaries(buffers);
    add_routines(buffers);
    return buffers;
  }

 private:
  void start() {
    const auto tensors = graph_.tensors();
    buffer_of_.resize(tensors.size());
    buffers_.resize(tensors.size());
    for (std::uint32_t t = 0; t < tensors.size(); ++t) {
      buffer_of_[t] = t;
      const TensorRole role = tensors[t].role;
      buffers_[t] = {.bytes = bytes_of(TensorId{t}),
                     .memory_class = class_of(role),
                     .permanent = is_permanent(role) || residences(role),
                     .first = kNever};
    }
  }

  [[nodiscard]] bool residences(TensorRole role) const {
    switch (role) {
      case TensorRole::WeightGradient:
        return keeps_gradients_;
      case TensorRole::Activation:
        return framework_.memory.tensors != TensorMemory::UntilLastUse;
      case TensorRole::Gradient:
        return framework_.memory.tensors == TensorMemory::WholeStep;
      default:
        return false;
    }
  }

  [[nodiscard]] std::int64_t bytes_of(TensorId id) const {
    return whole(static_cast<double>(element_count(graph_.tensor(id).shape)) *
                 options_.element_sizes[id.index].in_bytes());
  }

  /// Where nothing is ever freed, an op done in place is undone in place: its gradient overwrites
  /// the one that came in.
  [[nodiscard]] bool gradient_is_in_place(const Op& op) const {
    return framework_.memory.tensors != TensorMemory::UntilLastUse && op.pass == Pass::Backward &&
           op.kind == OpKind::Activation && op.forward.has_value() &&
           shares_memory_with_input(graph_.op(*op.forward));
  }

  /// Where activations are never freed, what is computed again is written where it was.
  [[nodiscard]] bool overwrites_itself(const Op& op) const {
    return op.pass == Pass::Forward && op.forward.has_value() && residences(TensorRole::Activation);
  }

  void share(const Op& op) {
    if (overwrites_itself(op)) {
      const std::vector<TensorId>& first = graph_.op(*op.forward).outputs;
      for (std::size_t i = 0; i < std::min(first.size(), op.outputs.size()); ++i) {
        buffer_of_[op.outputs[i].index] = buffer_of_[first[i].index];
      }
      return;
    }
    if (op.outputs.empty() || op.inputs.empty()) return;
    const bool may_share = op.kind == OpKind::Reshape || op.kind == OpKind::Recurrent ||
                           framework_.kernels.in_place_activations;
    if (may_share && shares_memory_with_input(op)) {
      buffer_of_[op.outputs[0].index] = buffer_of_[op.inputs[0].index];
    } else if (framework_.kernels.in_place_activations && gradient_is_in_place(op) &&
               op.inputs.size() > 1) {
      buffer_of_[op.outputs[0].index] = buffer_of_[op.inputs[1].index];
    }
  }

  /// A weight that several ops read gets its gradient in parts; only their sum is kept.
  void release_parts(const Op& op) {
    if (op.pass != Pass::Backward || shares_memory_with_input(op)) return;
    for (const TensorId input : op.inputs) {
      if (graph_.tensor(input).role == TensorRole::WeightGradient) of(input).permanent = false;
    }
  }

  void touch(const Op& op, std::uint32_t i) {
    for (const TensorId output : op.outputs) {
      TensorBuffer& buffer = of(output);
      buffer.first = std::min(buffer.first, i);
      buffer.last = std::max(buffer.last, i);
    }
    for (const TensorId input : op.inputs) of(input).last = std::max(of(input).last, i);
  }

  TensorBuffer& of(TensorId id) { return buffers_[buffer_of_[id.index]]; }

  void add_saved(std::vector<TensorBuffer>& buffers) const {
    const auto ops = graph_.ops();
    std::vector<std::uint32_t> runs(ops.size());  // where a forward op ran last
    for (std::uint32_t i = 0; i < ops.size(); ++i) {
      runs[i] = i;
      if (ops[i].pass == Pass::Forward && ops[i].forward) runs[ops[i].forward->index] = i;
      if (ops[i].pass != Pass::Backward || !ops[i].forward) continue;
      const Op& forward = graph_.op(*ops[i].forward);
      if (forward.outputs.empty()) continue;
      double bytes = saved_statistics(forward) * 4;
      if (forward.kind == OpKind::MaxPool && framework_.kernels.max_pool_saves_indices) {
        const Tensor& y = graph_.tensor(forward.outputs[0]);
        bytes = static_cast<double>(element_count(y.shape)) * kIndexBytes;
      }
      if (bytes <= 0) continue;
      buffers.push_back({.bytes = whole(bytes),
                         .memory_class = MemoryClass::Activations,
                         .permanent = framework_.memory.tensors != TensorMemory::UntilLastUse,
                         .first = runs[ops[i].forward->index],
                         .last = i});
    }
  }

  void add_new_gradients(std::vector<TensorBuffer>& buffers) const {
    const auto ops = graph_.ops();
    for (std::uint32_t i = 0; i < ops.size(); ++i) {
      if (shares_memory_with_input(ops[i])) continue;
      for (const TensorId output : ops[i].outputs) {
        const Tensor& tensor = graph_.tensor(output);
        if (tensor.role != TensorRole::WeightGradient || bytes_of(output) == 0) continue;
        buffers.push_back({.bytes = bytes_of(output),
                           .memory_class = MemoryClass::Gradients,
                           .first = i,
                           .last = i});
      }
    }
  }

  /// Tensors of a rule with two states that hold a value for every weight at once, and the
  /// direction of Adafactor, which one weight has at a time.
  void add_update_temporaries(std::vector<TensorBuffer>& buffers) const {
    const auto ops = graph_.ops();
    const auto is_update = [](const Op& op) { return op.kind == OpKind::Optimizer; };
    const auto first = std::find_if(ops.begin(), ops.end(), is_update);
    if (first == ops.end()) return;
    const auto begin = static_cast<std::uint32_t>(first - ops.begin());
    const auto end = static_cast<std::uint32_t>(ops.size() - 1);
    for (std::uint32_t i = begin; i < ops.size(); ++i) {
      const auto* rule = std::get_if<OptimizerAttributes>(&ops[i].attributes);
      if (rule == nullptr || ops[i].inputs.size() < 2) continue;
      const bool is_factored = rule->name == "adafactor";
      const double times = rule->states > 1 && rule->name != "adam8bit"
                               ? framework_.memory.update_temporaries
                           : is_factored ? 1.0
                                         : 0.0;
      const std::int64_t bytes = whole(times * static_cast<double>(bytes_of(ops[i].inputs[1])));
      if (bytes <= 0) continue;
      buffers.push_back({.bytes = bytes,
                         .memory_class = MemoryClass::Optimizer,
                         .first = is_factored ? i : begin,
                         .last = is_factored ? i : end});
    }
  }

  /// What routines hold while they run, and until the gradient of the loss takes its place.
  void add_routines(std::vector<TensorBuffer>& buffers) const {
    const auto ops = graph_.ops();
    const auto turns = std::find_if(ops.begin(), ops.end(), [](const Op& op) {
      return op.kind == OpKind::Loss && op.pass == Pass::Backward;
    });
    const bool goes_back = turns != ops.end();
    for (std::uint32_t i = 0; i < ops.size(); ++i) {
      const auto* routine = std::get_if<RoutineAttributes>(&ops[i].attributes);
      if (routine == nullptr || !goes_back) continue;
      const auto add = [&](std::int64_t bytes, std::uint32_t last) {
        if (bytes <= 0) return;
        buffers.push_back({.bytes = bytes,
                           .memory_class = MemoryClass::Activations,
                           .first = i,
                           .last = std::max(i, last)});
      };
      add(routine->scratch_bytes, i);
      add(routine->kept_bytes, static_cast<std::uint32_t>(turns - ops.begin()));
    }
  }

  const NetworkGraph& graph_;
  const FrameworkProfile& framework_;
  const LivesOptions& options_;
  bool keeps_gradients_ = false, adds_gradients_ = false;
  std::vector<std::uint32_t> buffer_of_;  ///< per tensor
  std::vector<TensorBuffer> buffers_;  ///< per tensor; only those that are their own buffer count
};

}  // namespace

std::vector<TensorBuffer> find_buffers(const NetworkGraph& graph, const FrameworkProfile& framework,
                                       const LivesOptions& options) {
  return Lives(graph, framework, options).find();
}

namespace {

StepLives::ByOp by_op(std::span<const TensorBuffer> buffers, std::size_t num_ops,
                      std::uint32_t TensorBuffer::*op) {
  StepLives::ByOp sorted;
  sorted.first.assign(num_ops + 1, 0);
  for (const TensorBuffer& buffer : buffers) {
    if (!buffer.permanent) ++sorted.first[buffer.*op + 1];
  }
  for (std::size_t i = 1; i < sorted.first.size(); ++i) sorted.first[i] += sorted.first[i - 1];
  std::vector<std::uint32_t> next(sorted.first.begin(), sorted.first.end() - 1);
  sorted.index.resize(sorted.first.back());
  for (std::uint32_t b = 0; b < buffers.size(); ++b) {
    if (!buffers[b].permanent) sorted.index[next[buffers[b].*op]++] = b;
  }
  return sorted;
}

}  // namespace

StepLives order_lives(std::vector<TensorBuffer> buffers, std::size_t num_ops) {
  StepLives lives{.buffers = std::move(buffers), .num_ops = num_ops, .born = {}, .dead = {}};
  lives.born = by_op(lives.buffers, num_ops, &TensorBuffer::first);
  lives.dead = by_op(lives.buffers, num_ops, &TensorBuffer::last);
  return lives;
}

}  // namespace tracecast
