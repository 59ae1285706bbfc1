#include <algorithm>
#include <string_view>
#include <utility>

#include "models/lowering/kernels.hpp"
#include "models/lowering/layers.hpp"

namespace tracecast::lowering {
namespace {

/// Forward: one kernel reads every id and its row and writes the sums. Backward: the gradient of a
/// sum goes to each row of its bag.
std::vector<Kernel> lower_bag(const Context& context, const Op& op) {
  const Bytes e = element_size(context.formats.storage);
  const double out = context.output_elements(op);
  const double ids = context.elements(op.inputs.front());
  if (op.pass != Pass::Forward) {
    return {stream_kernel("uncertainty_rows", KernelClass::Embedding, op.pass,
                          context.formats.storage, context.input_bytes(op),
                          context.output_bytes(op), out)};
  }
  const double width = context.elements(op.inputs[1]) /
                       static_cast<double>(context.graph.tensor(op.inputs[1]).shape[0]);
  const bool is_wide = context.graph.tensor(op.inputs[1]).is_wide;  // kept in 32 bits
  const Bytes rows = (is_wide ? max(e, element_size(Precision::Fp32)) : e) * (ids * width);
  return {stream_kernel("bag", KernelClass::Embedding, op.pass, context.formats.storage,
                        rows + context.bytes(op.inputs.front()), context.output_bytes(op), out,
                        out > 0 ? ids * width / out : 1)};
}

/// Routing as transformers' Switch runs it: choice, one-hot, running sum, capacity, masking and
/// gate each pass over a mask of a word per token and expert; then every expert counts and selects
/// its tokens, once to read and once to write them. Small kernels whose number is known and whose
/// time is not measured: a bounded guess.
std::vector<Kernel> lower_route(const Context& context, const Op& op) {
  constexpr std::string_view kSteps[] = {"choose", "one_hot", "running_sum",
                                         "limit",  "mask",    "gate"};
  constexpr std::string_view kSelection[] = {"count", "select", "count", "select"};
  constexpr Bytes kWord(8);
  const double words = context.elements(op.inputs.front());
  const Bytes mask = kWord * words;
  std::vector<Kernel> kernels;
  const auto add = [&](std::string_view name, double elements, Bytes read, Bytes written) {
    kernels.push_back(stream_kernel(name, KernelClass::Other, op.pass, context.formats.storage,
                                    read, written, elements));
    kernels.back().is_bounded_guess = true;
  };
  if (op.pass != Pass::Forward) {
    add("gate_grad", words, context.input_bytes(op), context.output_bytes(op));
    return kernels;
  }
  for (const std::string_view name : kSteps) add(name, words, mask, mask);
  for (std::size_t expert = 1; expert < op.outputs.size(); ++expert) {
    const Bytes ids = context.bytes(op.outputs[expert]);
    const double share = words / static_cast<double>(op.outputs.size() - 1);
    for (const std::string_view name : kSelection) add(name, share, kWord * share, ids);
  }
  return kernels;
}

/// Forward: rows read and written in place. Backward: the whole gradient copied, rows written over
/// cleared in it.
std::vector<Kernel> lower_scatter(const Context& context, const Op& op) {
  const Precision data = context.formats.storage;
  if (op.pass == Pass::Forward) {
    const Bytes rows = context.bytes(op.inputs[2]);
    return {stream_kernel("scatter", KernelClass::Embedding, op.pass, data,
                          rows + context.bytes(op.inputs[1]), rows,
                          context.elements(op.inputs[2]))};
  }
  const Bytes whole = context.output_bytes(op);
  const double elements = context.output_elements(op);
  const double width =
      elements / static_cast<double>(context.graph.tensor(op.outputs.front()).shape[0]);
  const double cleared = context.elements(op.inputs[1]) * width;
  return {stream_kernel("copy", KernelClass::Copy, op.pass, data, whole, whole, elements),
          stream_kernel("clear_rows", KernelClass::Memset, op.pass, data,
                        context.bytes(op.inputs[1]), element_size(data) * cleared, cleared)};
}

/// Kernels of an op over edges: what they move is reported in values of `width` (a node's) or
/// `heads` (an edge's).
class EdgeKernels {
 public:
  EdgeKernels(const Context& context, const Op& op)
      : context_(context), op_(op), a_(std::get<EdgeAttributes>(op.attributes)) {
    width_ = static_cast<double>(a_.heads * a_.width);
  }

  [[nodiscard]] std::vector<Kernel> lower() && {
    const bool is_forward = op_.pass == Pass::Forward;
    if (context_.framework.fusion.edge_attention) {
      is_forward ? add_joined() : add_joined_backward();
    } else {
      is_forward ? add_stepwise() : add_stepwise_backward();
    }
    return std::move(kernels_);
  }

 private:
  static constexpr double kIdBytes = 8;

  [[nodiscard]] double sources() const { return static_cast<double>(a_.sources); }
  [[nodiscard]] double destinations() const { return static_cast<double>(a_.destinations); }
  [[nodiscard]] double edges() const { return static_cast<double>(a_.edges); }
  [[nodiscard]] double edge_values() const { return edges() * static_cast<double>(a_.heads); }

  /// `read` and `written` in values of the network's format.
  Kernel& add(std::string_view name, KernelClass kernel_class, double read, double written,
              double elements, double operations = 1) {
    const Bytes e = element_size(context_.formats.storage);
    return kernels_.emplace_back(stream_kernel(name, kernel_class, op_.pass,
                                               context_.formats.storage, e * read, e * written,
                                               elements, operations));
  }
  Kernel& add_by_edges(std::string_view name, KernelClass kernel_class, double read, double written,
                       double elements, double operations) {
    Kernel& kernel = add(name, kernel_class, read, written, elements, operations);
    kernel.read += Bytes(kIdBytes * edges());
    return kernel;
  }

  /// A GEMM and an addition for the score, and for the sum.
  void add_joined() {
    const double rows = edges() * width_, results = destinations() * width_;
    add_by_edges("edge_attention", KernelClass::Reduction, rows + results, results + edge_values(),
                 rows, 4);
  }

  void add_joined_backward() {
    const Bytes wide = element_size(Precision::Fp32);
    const double rows = edges() * width_, nodes = (sources() + destinations()) * width_;
    const double touched = std::min(edges(), sources()) * width_;
    Kernel& cleared = add("clear", KernelClass::Memset, 0, 0, nodes);
    cleared.written = wide * nodes;
    Kernel& kernel = add_by_edges("edge_grad", KernelClass::Reduction,
                                  rows + 3 * destinations() * width_ + edge_values(), 0, rows, 8);
    kernel.read += wide * touched;
    kernel.written += wide * (touched + destinations() * width_);
    std::get<StreamWork>(kernel.work).additions = rows;
    if (element_size(context_.formats.storage) == wide) return;
    Kernel& low_precision = add("cast", KernelClass::Elementwise, 0, nodes, nodes);
    low_precision.read = wide * nodes;
  }

  void add_stepwise() {
    for (const double nodes : {sources(), destinations()}) {
      const double values = nodes * width_;
      add("score_mul", KernelClass::Elementwise, values, values, values);
      add_head_sums(nodes);
    }
    const double scores = edge_values();
    add_by_edges("edge_scores", KernelClass::Elementwise, 2 * scores, scores, scores, 1);
    add("leaky_relu", KernelClass::Elementwise, scores, scores, scores, 2);
    const double sums = destinations() * static_cast<double>(a_.heads);
    add_by_edges("segment_max", KernelClass::Reduction, scores, sums, scores, 1);
    add_by_edges("subtract", KernelClass::Elementwise, 2 * scores, scores, scores, 1);
    add("exp", KernelClass::Elementwise, scores, scores, scores, 5);
    add_by_edges("segment_sum", KernelClass::Reduction, scores, sums, scores, 1);
    add_by_edges("divide", KernelClass::Elementwise, 2 * scores, scores, scores, 1);
    add_weighed_sums("weighed_sum", destinations());
  }

  void add_stepwise_backward() {
    const double scores = edge_values(), rows = edges() * width_;
    add_by_edges("edge_dot", KernelClass::Reduction, 2 * rows, scores, rows, 2);
    add_weighed_sums("weighed_sum", sources());
    add_by_edges("softmax_grad", KernelClass::Softmax, 3 * scores, scores, scores, 3);
    add("leaky_relu_grad", KernelClass::Elementwise, 2 * scores, scores, scores, 2);
    for (const double nodes : {sources(), destinations()}) {
      const double values = nodes * width_;
      add_by_edges("segment_sum", KernelClass::Reduction, scores,
                   nodes * static_cast<double>(a_.heads), scores, 1);
      add("score_grad", KernelClass::Elementwise, 2 * values, values, values, 2);
      add("vector_grad", KernelClass::Reduction, values, width_, values);
    }
  }
  void add_head_sums(double nodes) {
    add("head_sum", KernelClass::Reduction, nodes * width_, nodes * static_cast<double>(a_.heads),
        nodes * width_);
  }
  /// Rows at the far ends of edges, each times its edge's weight.
  void add_weighed_sums(std::string_view name, double nodes) {
    add_by_edges(name, KernelClass::Reduction, edges() * width_ + edge_values(), nodes * width_,
                 edges() * width_, 2);
  }

  const Context& context_;
  const Op& op_;
  const EdgeAttributes& a_;
  double width_ = 0;
  std::vector<Kernel> kernels_;
};

/// Where a node's edges begin, edges drawn from among them, and the ids renumbered through a hash
/// table: each value lies alone in a sector of 32 bytes. Around these, counts, scans and copies of
/// few values: their number is a guess.
std::vector<Kernel> lower_sample(const Context& context, const Op& op) {
  constexpr double kSector = 32, kSmallKernels = 6;
  const auto& a = std::get<EdgeAttributes>(op.attributes);
  const double id = context.graph.tensor(op.outputs.front()).integer_bytes;
  const double edges = static_cast<double>(a.edges), nodes = static_cast<double>(a.destinations);
  const auto kernel = [&](std::string_view name, double read, double written, double elements) {
    Kernel one = stream_kernel(name, KernelClass::Embedding, op.pass, context.formats.storage,
                               Bytes(read), Bytes(written), elements);
    one.is_bounded_guess = true;
    return one;
  };
  std::vector<Kernel> kernels = {kernel("draw", kSector * (nodes + edges), id * edges, edges),
                                 kernel("renumber", (kSector + id) * edges, kSector * edges, edges),
                                 kernel("look_up", (kSector + id) * edges, id * edges, edges)};
  kernels.back().more_launches = kSmallKernels;
  return kernels;
}

}  // namespace

/// One kernel that stands for all: they hide behind their launches.
std::vector<Kernel> lower_routine(const Context& context, const Op& op) {
  Bytes read{};
  for (const TensorId input : op.inputs) read += context.bytes(input);
  Kernel kernel = stream_kernel("small_ops", KernelClass::Other, op.pass, context.formats.storage,
                                read, context.output_bytes(op), context.output_elements(op));
  kernel.more_launches = static_cast<double>(std::get<RoutineAttributes>(op.attributes).ops - 1);
  return {kernel};
}

std::vector<Kernel> lower_sparse(const Context& context, const Op& op) {
  switch (op.kind) {
    case OpKind::Routine:
      return lower_routine(context, op);
    case OpKind::EmbeddingBag:
      return lower_bag(context, op);
    case OpKind::Route:
      return lower_route(context, op);
    case OpKind::EdgeAttention:
      return EdgeKernels(context, op).lower();
    case OpKind::Sample:
      return lower_sample(context, op);
    default:
      return lower_scatter(context, op);
  }
}

}  // namespace tracecast::lowering
