#include "models/lowering/fusion_graph.hpp"

#include <algorithm>
#include <utility>

#include "models/lowering/kernels.hpp"

namespace tracecast::lowering {
namespace {

constexpr Bytes kStatistic(4);  // sums and means are fp32 whatever the images are

/// Arithmetic per element, counted from the formulas of the pieces: x - mean, times 1 / deviation,
/// times scale, plus bias; x - shift, its square, two sums; and so on. A special function is 4.
struct Operations {
  double statistics = 4, normalize = 4, gradient_sums = 4, gradient = 6;
  double maximum = 1, exponential_sum = 6, quotient = 9, dot = 2, softmax_gradient = 2;
  double l2_loss = 2;
};
constexpr Operations kOperations;

class Builder {
 public:
  Builder(const Context& context, const LoweredStep& step)
      : context_(context), compiler_(*context.framework.compiler), step_(step) {
    const auto tensors = context.graph.tensors();
    graph_.values.reserve(2 * tensors.size());
    current_.reserve(tensors.size());
    for (std::uint32_t t = 0; t < tensors.size(); ++t) {
      graph_.values.push_back({.tensor = TensorId{t},
                               .bytes = context.bytes(TensorId{t}),
                               .elements = context.elements(TensorId{t}),
                               .writer = {},
                               .readers = {}});
      current_.push_back(ValueId{t});
    }
    graph_.nodes.reserve(2 * step.ops.size());
    graph_.keeps_kernels.assign(step.ops.size(), true);
  }

  FusionGraph build() {
    for (entry_ = 0; entry_ < step_.ops.size(); ++entry_) {
      // What stands before an op's own entry (loss scaling) keeps its kernels.
      const bool is_own =
          entry_ + 1 == step_.ops.size() || step_.ops[entry_ + 1].op != step_.ops[entry_].op;
      if (is_own) add(context_.graph.op(step_.ops[entry_].op));
    }
    for (const TensorId output : context_.graph.outputs) {
      graph_.values[current_[output.index].index].is_result = true;
    }
    return std::move(graph_);
  }

 private:
  [[nodiscard]] const std::vector<Kernel>& lowered_kernels() const {
    return step_.ops[entry_].candidates.front().kernels;
  }

  void add(const Op& op) {
    graph_.keeps_kernels[entry_] = false;
    if (op.kind == OpKind::Reshape) return rename(op);
    if (lowered_kernels().empty() || step_.ops[entry_].keeps_kernels) return add_library(op);
    switch (op.kind) {
      case OpKind::Conv:
      case OpKind::ConvTranspose:
      case OpKind::Linear:
      case OpKind::MatMul:
        return add_gemm(op);
      case OpKind::BatchNorm:
      case OpKind::LayerNorm:
      case OpKind::InstanceNorm:
      case OpKind::GroupNorm:
        return compiler_.expands_normalization ? add_norm(op) : add_library(op);
      case OpKind::Softmax:
      case OpKind::Loss:
        return compiler_.expands_normalization ? add_softmax(op) : add_library(op);
      case OpKind::Activation:
        return runs_in_epilogue(op) ? rename(op) : add_loop(op);
      case OpKind::Binary:
      case OpKind::Cast:
      case OpKind::Concat:
      case OpKind::Slice:
      case OpKind::Pad:
        return add_loop(op);
      case OpKind::Transpose:
        return compiler_.moves_in_loops ? add_loop(op) : add_library(op);
      case OpKind::Split:
        return add_split(op);
      case OpKind::Dropout:
        return add_dropout(op);
      case OpKind::Reduce:
        return add_reduce(op);
      case OpKind::Optimizer:
        return context_.framework.optimizer.multi_tensor ? add_library(op) : add_update(op);
      default:
        return add_library(op);
    }
  }

  // Values and nodes.

  ValueId new_value(Bytes bytes, double elements, std::optional<TensorId> tensor = {}) {
    graph_.values.push_back(
        {.tensor = tensor, .bytes = bytes, .elements = elements, .writer = {}, .readers = {}});
    return ValueId{static_cast<std::uint32_t>(graph_.values.size() - 1)};
  }
  [[nodiscard]] ValueRead all_of(ValueId id) const { return {id, graph_.values[id.index].bytes}; }
  [[nodiscard]] ValueRead all_of(TensorId id) const { return all_of(current_[id.index]); }
  [[nodiscard]] std::vector<ValueRead> all_inputs(const Op& op) const {
    std::vector<ValueRead> reads;
    for (const TensorId input : op.inputs) reads.push_back(all_of(input));
    return reads;
  }

  void add_node(Node node) {
    const NodeId id{static_cast<std::uint32_t>(graph_.nodes.size())};
    node.entry = static_cast<std::uint32_t>(entry_);
    for (const ValueRead& read : node.reads) {
      auto& readers = graph_.values[read.value.index].readers;
      if (readers.empty() || readers.back() != id) readers.push_back(id);
    }
    for (const ValueId written : node.writes) graph_.values[written.index].writer = id;
    graph_.nodes.push_back(std::move(node));
  }
  void add_loop(std::string_view name, KernelClass kernel_class, std::vector<ValueRead> reads,
                std::vector<ValueId> writes, double elements, double operations) {
    add_node({.kind = NodeKind::Loop,
              .name = name,
              .reads = std::move(reads),
              .writes = std::move(writes),
              .elements = elements,
              .operations_per_element = operations,
              .kernel_class = kernel_class,
              .data = context_.formats.storage});
  }
  void add_reduction(std::string_view name, KernelClass kernel_class, std::vector<ValueRead> reads,
                     std::vector<ValueId> writes, const ReductionWork& work, double operations) {
    add_node({.kind = NodeKind::Reduce,
              .name = name,
              .reads = std::move(reads),
              .writes = std::move(writes),
              .elements = static_cast<double>(work.rows) * static_cast<double>(work.cols),
              .operations_per_element = operations,
              .rows = work.rows,
              .strided = work.strided,
              .kernel_class = kernel_class,
              .data = context_.formats.storage});
  }
  /// `per_row` fp32 results for each of `rows`.
  ValueId new_statistics(std::int64_t rows, double per_row) {
    const double count = static_cast<double>(rows) * per_row;
    return new_value(kStatistic * count, count);
  }

  void add_library(const Op& op) {
    graph_.keeps_kernels[entry_] = true;
    Node node;
    node.reads = all_inputs(op);
    for (const TensorId output : op.outputs) node.writes.push_back(current_[output.index]);
    add_node(std::move(node));
  }

  // Ops.

  /// A relu straight after a convolution, of which nothing else reads the result.
  [[nodiscard]] bool runs_in_epilogue(const Op& op) {
    if (!compiler_.fuses_convolution_epilogue || op.pass != Pass::Forward) return false;
    const auto* a = std::get_if<ElementwiseAttributes>(&op.attributes);
    const auto producer = context_.graph.producer(op.inputs.front());
    if (a == nullptr || a->name != "relu" || !producer) return false;
    return context_.graph.op(*producer).kind == OpKind::Conv &&
           count_forward_readers(op.inputs.front()) == 1;
  }
  int count_forward_readers(TensorId tensor) {
    if (forward_readers_.empty()) {
      forward_readers_.resize(current_.size());
      for (const Op& op : context_.graph.ops()) {
        if (op.pass != Pass::Forward) continue;
        for (const TensorId input : op.inputs) ++forward_readers_[input.index];
      }
    }
    return forward_readers_[tensor.index];
  }
  [[nodiscard]] bool is_read(TensorId tensor) {
    if (read_.empty()) {
      read_.resize(current_.size());
      for (const Op& op : context_.graph.ops()) {
        for (const TensorId input : op.inputs) read_[input.index] = true;
      }
    }
    return read_[tensor.index];
  }
  void rename(const Op& op) {
    current_[op.outputs.front().index] = current_[op.inputs.front().index];
  }

  void add_gemm(const Op& op) {
    graph_.keeps_kernels[entry_] = true;
    const auto* conv = std::get_if<ConvAttributes>(&op.attributes);
    const auto* gemm = std::get_if<MatMulAttributes>(&op.attributes);
    const bool has_bias = conv != nullptr ? conv->has_bias : gemm != nullptr && gemm->has_bias;
    Node node;
    node.reads = all_inputs(op);
    node.writes = {current_[op.outputs.front().index]};
    if (op.pass == Pass::BackwardWeights) {
      Value& gradient = graph_.values[node.writes.front().index];
      gradient.bytes = element_size(context_.formats.storage) * gradient.elements;
    }
    const bool adds = op.pass == Pass::Forward && has_bias && op.inputs.size() > 2;
    const bool in_epilogue = context_.framework.fusion.bias ||
                             (op.kind == OpKind::Conv && compiler_.fuses_convolution_epilogue);
    if (adds && !in_epilogue) {
      const ValueRead bias = node.reads.back();
      node.reads.pop_back();
      const ValueId raw = node.writes.front();
      add_node(std::move(node));
      const Value y = graph_.values[raw.index];
      const ValueId sum = new_value(y.bytes, y.elements, y.tensor);
      current_[op.outputs.front().index] = sum;
      return add_loop("bias_add", KernelClass::Elementwise, {all_of(raw), bias}, {sum}, y.elements,
                      1);
    }
    const bool has_bias_gradient =
        op.pass == Pass::BackwardWeights && has_bias && op.outputs.size() > 1;
    const bool writes_it = context_.framework.fusion.bias_gradients;
    if (has_bias_gradient && writes_it) node.writes.push_back(current_[op.outputs.back().index]);
    add_node(std::move(node));
    if (has_bias_gradient && !writes_it) add_bias_gradient(op);
  }
  void add_bias_gradient(const Op& op) {
    const ValueRead dy = all_of(context_.incoming_gradient(op));
    const ValueId db = current_[op.outputs.back().index];
    const double elements = graph_.values[dy.value.index].elements;
    const double channels = std::max(1.0, graph_.values[db.index].elements);
    add_reduction("bias_gradient", KernelClass::Reduction, {dy}, {db},
                  {.rows = static_cast<std::int64_t>(channels),
                   .cols = static_cast<std::int64_t>(elements / channels),
                   .strided = true},
                  1);
  }

  void add_norm(const Op& op) {
    const auto& a = std::get<NormAttributes>(op.attributes);
    const bool by_channel = op.kind == OpKind::BatchNorm;
    const KernelClass kernel_class = KernelClass::Normalization;
    const ReductionWork work{.rows = a.rows, .cols = a.cols, .passes = 1, .strided = by_channel};
    const double elements = static_cast<double>(a.rows) * static_cast<double>(a.cols);
    if (op.pass != Pass::Forward) return add_norm_backward(op, work, elements);
    const ValueId y = current_[op.outputs.front().index];
    if (by_channel && !context_.is_training) {
      return add_loop("normalize", kernel_class, all_inputs(op), {y}, elements,
                      kOperations.normalize);
    }
    const ValueRead x = all_of(op.inputs.front());
    const ValueId statistics = new_statistics(a.rows, 2);
    add_reduction("statistics", kernel_class, {x}, {statistics}, work, kOperations.statistics);
    std::vector<ValueRead> reads = {x, all_of(statistics)}, running = {all_of(statistics)};
    for (std::size_t i = 1; i < op.inputs.size(); ++i) {
      const bool is_buffer = context_.graph.tensor(op.inputs[i]).role == TensorRole::Buffer;
      (is_buffer ? running : reads).push_back(all_of(op.inputs[i]));
    }
    if (running.size() > 1) {
      add_loop("running_update", KernelClass::Elementwise, std::move(running),
               {new_statistics(a.rows, 2)}, static_cast<double>(2 * a.rows), 3);
    }
    add_loop("normalize", kernel_class, std::move(reads), {y}, elements, kOperations.normalize);
  }

  void add_norm_backward(const Op& op, const ReductionWork& work, double elements) {
    const KernelClass kernel_class = KernelClass::Normalization;
    const ValueRead x = all_of(op.inputs[0]), dy = all_of(op.inputs[1]);
    std::vector<ValueId> dx, weight_gradients;
    for (const TensorId output : op.outputs) {
      const bool is_image = context_.graph.tensor(output).role == TensorRole::Gradient;
      (is_image ? dx : weight_gradients).push_back(current_[output.index]);
    }
    const ValueId sums = new_statistics(work.rows, 2);
    std::vector<ValueId> sum_results = {sums};
    if (work.strided) {
      // The sums over a channel are the gradients of its scale and shift.
      sum_results.insert(sum_results.end(), weight_gradients.begin(), weight_gradients.end());
    } else if (!weight_gradients.empty()) {
      add_reduction("weight_grad", kernel_class, {x, dy}, weight_gradients,
                    {.rows = work.cols, .cols = work.rows, .strided = true},
                    kOperations.gradient_sums);
    }
    add_reduction("gradient_sums", kernel_class, {x, dy}, std::move(sum_results), work,
                  kOperations.gradient_sums);
    if (dx.empty()) return;
    std::vector<ValueRead> reads = {x, dy, all_of(sums)};
    if (op.inputs.size() > 2) reads.push_back(all_of(op.inputs[2]));
    add_loop("gradient", kernel_class, std::move(reads), std::move(dx), elements,
             kOperations.gradient);
  }

  void add_softmax(const Op& op) {
    const auto& a = std::get<NormAttributes>(op.attributes);
    const KernelClass kernel_class = KernelClass::Softmax;
    const ReductionWork work{.rows = a.rows, .cols = a.cols, .passes = 1};
    const double elements = static_cast<double>(a.rows) * static_cast<double>(a.cols);
    const bool is_loss = op.kind == OpKind::Loss;
    const ValueId result = current_[op.outputs.back().index];
    if (op.pass == Pass::Forward) {
      const ValueRead x = all_of(op.inputs.front());
      const ValueId maximum = new_statistics(a.rows, 1), sum = new_statistics(a.rows, 1);
      add_reduction("maximum", kernel_class, {x}, {maximum}, work, kOperations.maximum);
      add_reduction("exponential_sum", kernel_class, {x, all_of(maximum)}, {sum}, work,
                    kOperations.exponential_sum);
      add_loop("quotient", kernel_class, {x, all_of(maximum), all_of(sum)}, {result}, elements,
               kOperations.quotient);
      if (is_loss) {
        const double rows = static_cast<double>(a.rows);
        const Bytes picked = element_size(context_.formats.storage) * rows;
        add_reduction("pick_labels", kernel_class, {{result, picked}, all_of(op.inputs[1])},
                      {current_[op.outputs.front().index]}, {.rows = 1, .cols = a.rows}, 2);
      }
      return;
    }
    if (is_loss) {
      return add_loop("softmax_grad", kernel_class, all_inputs(op), {result}, elements,
                      kOperations.exponential_sum);
    }
    const ValueId dot = new_statistics(a.rows, 1);
    add_reduction("dot", kernel_class, all_inputs(op), {dot}, work, kOperations.dot);
    std::vector<ValueRead> reads = all_inputs(op);
    reads.push_back(all_of(dot));
    add_loop("softmax_grad", kernel_class, std::move(reads), {result}, elements,
             kOperations.softmax_gradient);
  }

  /// An op whose kernels stream once over all operands.
  void add_loop(const Op& op) {
    const auto& kernels = lowered_kernels();
    if (kernels.empty() || op.outputs.size() != 1) return add_library(op);
    std::vector<ValueRead> reads = all_inputs(op);
    const ValueId y = current_[op.outputs.front().index];
    const double elements = graph_.values[y.index].elements;
    if (op.kind == OpKind::Slice) {
      reads.front().bytes = min(reads.front().bytes, graph_.values[y.index].bytes);
    }
    double operations = 0;
    for (const Kernel& kernel : kernels) operations += kernel.flops.in_flop();
    add_loop(kernels.back().name, kernels.back().kernel_class, std::move(reads), {y}, elements,
             elements > 0 ? operations / elements : 1);
  }

  void add_split(const Op& op) {
    const ValueId x = current_[op.inputs.front().index];
    for (const TensorId output : op.outputs) {
      const ValueId y = current_[output.index];
      add_loop("copy", KernelClass::Copy, {{x, graph_.values[y.index].bytes}}, {y},
               graph_.values[y.index].elements, 1);
    }
  }

  /// Random numbers come from a kernel of the framework; what is done with them fuses.
  void add_dropout(const Op& op) {
    const auto& kernels = lowered_kernels();
    if (op.pass != Pass::Forward) return add_loop(op);
    if (compiler_.draws_in_kernels) {
      const ValueRead x = all_of(op.inputs.front());
      std::vector<ValueId> writes;
      for (const TensorId output : op.outputs) {
        if (output == op.outputs.front() || is_read(output)) {
          writes.push_back(current_[output.index]);
        }
      }
      // Ten rounds of Philox, two GEMMs of 64 bits and two logical operations each, as 32-bit
      // results, and one number kept of the four that they give; the comparison and the scale.
      // Source: Triton, python/triton/language/random.py, rand.
      constexpr double kDrawing = 10 * (2 * 2 + 2) + 2;
      return add_loop("dropout", KernelClass::Elementwise, {x}, std::move(writes),
                      graph_.values[x.value.index].elements, kDrawing);
    }
    if (kernels.size() < 2) return add_library(op);
    graph_.keeps_kernels[entry_] = true;
    const ValueRead x = all_of(op.inputs.front());
    const double elements = graph_.values[x.value.index].elements;
    const ValueId numbers = new_value(kernels.front().written, elements);
    add_node({.kind = NodeKind::Library, .name = {}, .reads = {}, .writes = {numbers}});
    std::vector<ValueId> writes;
    for (const TensorId output : op.outputs) writes.push_back(current_[output.index]);
    add_loop("dropout", KernelClass::Elementwise, {x, all_of(numbers)}, std::move(writes), elements,
             static_cast<double>(kernels.size()));
  }

  void add_reduce(const Op& op) {
    const auto& kernels = lowered_kernels();
    const auto* work = kernels.empty() ? nullptr : std::get_if<ReductionWork>(&kernels.back().work);
    if (work == nullptr) return add_loop(op);
    add_reduction("reduce", KernelClass::Reduction, all_inputs(op),
                  {current_[op.outputs.front().index]}, *work, 1);
  }

  void add_update(const Op& op) {
    const auto& a = std::get<OptimizerAttributes>(op.attributes);
    if (a.name == "none") return;
    const ValueRead weight = all_of(op.inputs.front());
    const double elements = graph_.values[weight.value.index].elements;
    if (a.name == "lamb") return add_lamb(op, weight, elements);
    if (context_.framework.optimizer.weight_decay == WeightDecay::AsLoss && a.name != "adamw") {
      add_reduction("l2_loss", KernelClass::Optimizer, {weight}, {new_statistics(1, 1)},
                    {.rows = 1, .cols = static_cast<std::int64_t>(elements)}, kOperations.l2_loss);
    }
    add_loop("update", KernelClass::Optimizer, all_inputs(op),
             {new_value(weight.bytes * (1.0 + a.states), elements)}, elements, 4 + 6.0 * a.states);
    graph_.nodes.back().data = context_.formats.weights;
  }

  /// New moments and the direction, the norms of direction and weight, the step.
  void add_lamb(const Op& op, const ValueRead& weight, double elements) {
    const ReductionWork whole{.rows = 1, .cols = static_cast<std::int64_t>(elements)};
    const ValueId direction = new_value(weight.bytes, elements);
    const ValueId weight_norm = new_statistics(1, 1), direction_norm = new_statistics(1, 1);
    add_loop("direction", KernelClass::Optimizer, all_inputs(op),
             {direction, new_value(weight.bytes * 2.0, elements)}, elements, 20);
    graph_.nodes.back().data = context_.formats.weights;
    add_reduction("weight_norm", KernelClass::Optimizer, {weight}, {weight_norm}, whole,
                  kOperations.l2_loss);
    add_reduction("direction_norm", KernelClass::Optimizer, {all_of(direction)}, {direction_norm},
                  whole, kOperations.l2_loss);
    add_loop("update", KernelClass::Optimizer,
             {weight, all_of(direction), all_of(weight_norm), all_of(direction_norm)},
             {new_value(weight.bytes, elements)}, elements, 2);
    graph_.nodes.back().data = context_.formats.weights;
  }

  const Context& context_;
  const GraphCompiler& compiler_;
  const LoweredStep& step_;
  FusionGraph graph_;
  std::vector<ValueId> current_;  ///< per tensor: the value it is now
  std::vector<int> forward_readers_;
  std::vector<bool> read_;  ///< per tensor: by an op
  std::size_t entry_ = 0;
};

}  // namespace

FusionGraph build_fusion_graph(const Context& context, const LoweredStep& step) {
  return Builder(context, step).build();
}

}  // namespace tracecast::lowering
