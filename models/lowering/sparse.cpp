#include <string_view>

#include "models/lowering/kernels.hpp"
#include "models/lowering/layers.hpp"

namespace tracecast::lowering {
namespace {

/// Forward: one kernel reads every id and its row and writes the sums. Backward: the gradient of a sum goes to
/// each row of its bag.
std::vector<Kernel> lower_bag(const Context& context, const Op& op) {
  const Bytes e = element_size(context.formats.storage);
  const double out = context.output_elements(op);
  const double ids = context.elements(op.inputs.front());
  if (op.pass != Pass::Forward) {
    return {stream_kernel("spread_rows", KernelClass::Embedding, op.pass, context.formats.storage,
                          context.input_bytes(op), context.output_bytes(op), out)};
  }
  const double width = context.elements(op.inputs[1]) /
                       static_cast<double>(context.graph.tensor(op.inputs[1]).shape[0]);
  const bool is_wide = context.graph.tensor(op.inputs[1]).is_wide;  // kept in 32 bits
  const Bytes rows = (is_wide ? max(e, element_size(Precision::Fp32)) : e) * (ids * width);
  return {stream_kernel("bag", KernelClass::Embedding, op.pass, context.formats.storage,
                        rows + context.bytes(op.inputs.front()), context.output_bytes(op), out,
                        out > 0 ? ids * width / out : 1)};
}

/// Routing as transformers' Switch runs it: choice, one-hot, running sum, capacity, masking and gate each pass over
/// a mask of a word per token and expert; then every expert counts and selects its tokens, once to read and once
/// to write them. Small kernels whose number is known and whose time is not measured: a bounded guess.
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

/// Forward: rows read and written in place. Backward: the whole gradient copied, rows written over cleared in it.
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
    default:
      return lower_scatter(context, op);
  }
}

}  // namespace tracecast::lowering
