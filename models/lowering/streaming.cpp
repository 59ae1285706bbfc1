#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string_view>
#include <utility>

#include "models/lowering/kernels.hpp"
#include "models/lowering/layers.hpp"
#include "models/lowering/lower.hpp"

namespace tracecast::lowering {
namespace {

/// Arithmetic instructions per element of common functions. Guess: counted from the operations of
/// their usual formulas, a special-function instruction as 4 (a quarter of the rate on every
/// generation); not measured.
double operations_of(std::string_view function) {
  struct Row {
    std::string_view name;
    double operations;
  };
  static constexpr std::array<Row, 17> kRows{{{"relu", 1},
                                              {"add", 1},
                                              {"mul", 1},
                                              {"sub", 1},
                                              {"clip", 2},
                                              {"relu6", 2},
                                              {"leakyrelu", 2},
                                              {"prelu", 2},
                                              {"sigmoid", 10},
                                              {"tanh", 12},
                                              {"gelu", 20},
                                              {"erf", 16},
                                              {"exp", 5},
                                              {"pow", 20},
                                              {"silu", 11},
                                              {"mish", 24},
                                              {"swish", 11}}};
  for (const Row& row : kRows) {
    if (row.name == function) return row.operations;
  }
  return 4;
}

std::string_view name_of(const Op& op) {
  const auto* a = std::get_if<ElementwiseAttributes>(&op.attributes);
  return a ? std::string_view(a->name) : std::string_view();
}

/// Every input read once, every output written once.
Kernel pass_through(const Context& context, const Op& op, std::string_view name,
                    KernelClass kernel_class, double operations = 1) {
  return stream_kernel(name, kernel_class, op.pass, context.formats.storage,
                       context.input_bytes(op), context.output_bytes(op),
                       context.output_elements(op), operations);
}

/// Where operands lie otherwise than the result, one that is broadcast among them, threads find
/// each element's place by parallel layout.
Kernel strided(const Context& context, Kernel kernel) {
  std::get<StreamWork>(kernel.work).instructions_per_element =
      context.framework.kernels.strided_instructions;
  return kernel;
}

/// An operand of fewer elements than the result, not a scalar.
bool broadcasts(const Context& context, const Op& op) {
  const double result = context.output_elements(op);
  return std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId input) {
    const double elements = context.elements(input);
    return elements > 1 && elements < result;
  });
}

std::vector<Kernel> lower_pool(const Context& context, const Op& op) {
  const auto& a = std::get<PoolAttributes>(op.attributes);
  const Bytes e = element_size(context.formats.storage);
  if (pools_on_host(op, context.framework)) {
    return {stream_kernel("upload", KernelClass::Copy, op.pass, context.formats.storage, Bytes(0),
                          context.output_bytes(op), context.output_elements(op))};
  }
  const bool is_max = op.kind == OpKind::MaxPool;
  const double window = static_cast<double>(a.kernel_h) * static_cast<double>(a.kernel_w);
  const bool saves_indices = is_max && context.framework.kernels.max_pool_saves_indices;
  constexpr Bytes kIndex(8);
  if (op.pass == Pass::Forward) {
    const double x = context.elements(op.inputs.front()), y = context.elements(op.outputs.front());
    const Bytes indices = saves_indices && context.is_training ? kIndex * y : Bytes(0);
    return {stream_kernel(is_max ? "max_pool" : "avg_pool", KernelClass::Pooling, op.pass,
                          context.formats.storage, e * x, e * y + indices, y, window)};
  }
  const double dx = context.output_elements(op),
               dy = context.elements(context.incoming_gradient(op));
  Bytes read = e * dy;
  if (is_max) read += saves_indices ? kIndex * dy : e * (dx + dy);
  // Each of dy's windows has `window` of dx's cells: a cell lies in as many on average, one where
  // pooling is global.
  const double windows_per_cell = std::max(1.0, window * dy / dx);
  Kernel kernel = stream_kernel("pool_backward", KernelClass::Pooling, op.pass,
                                context.formats.storage, read, e * dx, dx, windows_per_cell);
  if (is_max) {
    std::get<StreamWork>(kernel.work).access_efficiency =
        context.framework.kernels.max_pool_backward_efficiency;
  }
  return {std::move(kernel)};
}

std::vector<Kernel> lower_dropout(const Context& context, const Op& op) {
  // Philox needs about 40 integer operations for four numbers, and a comparison and a
  // multiplication per element.
  constexpr double kOperations = 12;
  if (op.pass != Pass::Forward)
    return {pass_through(context, op, "dropout_grad", KernelClass::Elementwise)};
  const int count = std::max(1, context.framework.kernels.dropout_kernels);
  const double elements = context.elements(op.outputs.front());
  const Bytes once = element_size(context.formats.storage) * elements;
  std::vector<Kernel> kernels;
  kernels.reserve(static_cast<std::size_t>(count));
  // Separate kernels: uniform numbers, then one elementary step each through memory.
  for (int i = 1; i < count; ++i) {
    kernels.push_back(stream_kernel(i == 1 ? "random" : "dropout_step", KernelClass::Elementwise,
                                    op.pass, context.formats.storage, i == 1 ? Bytes(0) : once,
                                    once, elements, i == 1 ? kOperations : 1));
  }
  kernels.push_back(
      pass_through(context, op, "dropout", KernelClass::Elementwise, count == 1 ? kOperations : 1));
  return kernels;
}

/// Kernels and fills besides a gradient's own two, where ids are sorted first: radix sort, scans,
/// segments. Source: traces/recordings, embedding_dense_backward of Llama, OPT, BLOOM and Qwen2, 31
/// in all; IndexBackward0 of Swin, 13.
double sorting_launches(const Context& context, const Op& op) {
  if (!context.framework.kernels.sorts_row_gradients) return 0;
  if (op.kind == OpKind::Gather) return 11;
  constexpr double kFewIds = 3072;
  return context.elements(op.inputs.front()) > kFewIds ? 29 : 0;
}

std::vector<Kernel> lower_embedding(const Context& context, const Op& op) {
  const Formats& formats = context.formats;
  if (op.pass == Pass::Forward) {
    // Rows looked up, not the whole table.
    Bytes ids{};
    const Bytes out = context.output_bytes(op);
    for (const TensorId input : op.inputs) {
      const bool is_table =
          op.kind == OpKind::Gather && input == op.inputs.front() && context.bytes(input) > out;
      if (context.graph.tensor(input).is_integer && !is_table) ids += context.bytes(input);
    }
    return {stream_kernel("gather", KernelClass::Embedding, op.pass, formats.storage, out + ids,
                          out, context.output_elements(op))};
  }
  // A dense gradient: cleared, then rows added into it.
  const Bytes table = context.output_bytes(op);
  const TensorId gradient = context.incoming_gradient(op);
  const Bytes rows = context.bytes(gradient);
  std::vector<Kernel> kernels{
      stream_kernel("clear", KernelClass::Memset, op.pass, formats.weights, Bytes(0), table,
                    context.output_elements(op)),
      stream_kernel("scatter_add", KernelClass::Embedding, op.pass, formats.storage, rows * 2.0,
                    rows, context.elements(gradient), 2)};
  kernels.back().more_launches = sorting_launches(context, op);
  return kernels;
}

/// As many threads as a short row has elements, to a power of two: several rows share a warp.
/// Source: PyTorch, ATen/native/cuda/Reduce.cuh, setReduceConfig and set_block_dimension.
int threads_of_reduction(std::int64_t cols) {
  constexpr unsigned kMost = 128;
  return static_cast<int>(
      std::bit_floor(std::clamp<std::uint64_t>(static_cast<std::uint64_t>(cols), 1, kMost)));
}

std::vector<Kernel> lower_reduce(const Context& context, const Op& op) {
  // A gradient spread over what was reduced; the gradient of what broadcasting stretched is a
  // reduction itself.
  const auto* a = std::get_if<ReduceAttributes>(&op.attributes);
  const bool expands = op.pass != Pass::Forward &&
                       context.output_elements(op) >= context.elements(op.inputs.front());
  if (expands || a == nullptr)
    return {strided(context, pass_through(context, op, "expand", KernelClass::Elementwise))};
  return {reduction_kernel("reduce", KernelClass::Reduction, op.pass, context.formats.storage,
                           context.input_bytes(op), context.output_bytes(op),
                           {.rows = a->rows,
                            .cols = a->cols,
                            .passes = 1,
                            .row_threads = threads_of_reduction(a->cols)})};
}

/// Whether a pad adds nothing, or an op is such a one's gradient: the memory is copied as it lies.
bool pads_nothing(const Context& context, const Op& op) {
  const bool is_pad = op.pass == Pass::Forward
                          ? op.kind == OpKind::Pad
                          : op.forward && context.graph.op(*op.forward).kind == OpKind::Pad;
  return is_pad && context.output_elements(op) == context.elements(op.inputs.front());
}

/// One copy kernel per tensor that is cut out; one for all that are joined.
std::vector<Kernel> lower_copy(const Context& context, const Op& op, std::string_view name,
                               KernelClass kernel_class) {
  std::vector<Kernel> kernels;
  kernels.reserve(op.outputs.size());
  for (const TensorId output : op.outputs) {
    const Bytes bytes = context.bytes(output);
    Kernel copy = stream_kernel(name, kernel_class, op.pass, context.formats.storage, bytes, bytes,
                                context.elements(output));
    kernels.push_back(pads_nothing(context, op) ? std::move(copy)
                                                : strided(context, std::move(copy)));
  }
  return kernels;
}

/// PyTorch's kernel for operands of another format than its result's takes one element at a time
/// and asks for each what it is (aten/src/ATen/native/cuda/CUDALoops.cuh, LoadWithCast); copies to
/// 16 bits have kernels of their own (Copy.cu).
std::vector<Kernel> lower_cast(const Context& context, const Op& op) {
  Kernel kernel = pass_through(context, op, "cast", KernelClass::Elementwise);
  const Tensor& from = context.graph.tensor(op.inputs.front());
  const bool upcasts = !from.is_wide && context.graph.tensor(op.outputs.front()).is_wide;
  return {upcasts ? strided(context, std::move(kernel)) : std::move(kernel)};
}

/// PyTorch's x^n has the gradient dy * (n * x^(n - 1)), each step a kernel
/// (torch/csrc/autograd/FunctionsManual.cpp, pow_backward).
std::vector<Kernel> lower_power_gradient(const Context& context, const Op& op) {
  const double elements = context.output_elements(op);
  const Bytes x = context.bytes(op.outputs.front());
  const auto step = [&](std::string_view name, double read, double operations) {
    return stream_kernel(name, KernelClass::Elementwise, op.pass, context.formats.storage, x * read,
                         x, elements, operations);
  };
  return {step("power", 1, 1), step("scale", 1, 1), step("activation_grad", 2, 1)};
}

/// PyTorch clears a gradient of the whole and copies that of the part into it (FunctionsManual.cpp,
/// slice_backward).
std::vector<Kernel> lower_slice_gradient(const Context& context, const Op& op) {
  const TensorId part = context.incoming_gradient(op), whole = op.outputs.front();
  const Precision data = context.formats.storage;
  const Bytes moved = context.bytes(part);
  return {stream_kernel("clear", KernelClass::Memset, op.pass, data, Bytes(0), context.bytes(whole),
                        context.elements(whole)),
          strided(context, stream_kernel("copy", KernelClass::Copy, op.pass, data, moved, moved,
                                         context.elements(part)))};
}

/// A slice that readers take as it lies, or rows of the outermost dimension, which lie in one
/// piece: what PyTorch gives is a view, which no reader needs to copy.
bool is_view(const Context& context, const Op& op) {
  if (op.pass != Pass::Forward || !context.framework.kernels.slices_are_views) return false;
  if (op.note == kViewNote) return true;
  const Shape& whole = context.graph.tensor(op.inputs.front()).shape;
  const Shape& part = context.graph.tensor(op.outputs.front()).shape;
  return !part.empty() && part.front() < whole.front() &&
         std::equal(part.begin() + 1, part.end(), whole.begin() + 1, whole.end());
}

/// The gradient of a resize between pixels is cleared, and each of the result's gradients added to
/// its neighbours': two along each dimension, four where cubic. Source: PyTorch,
/// aten/src/ATen/native/cuda/UpSampleBilinear2d.cu; TensorFlow, resize_bilinear_op_gpu.cu.cc.
std::vector<Kernel> lower_resize_gradient(const Context& context, const Op& op) {
  const TensorId gradient = context.incoming_gradient(op);
  const Shape& from = context.graph.tensor(gradient).shape;
  const Precision data = context.formats.storage;
  const double elements = context.elements(gradient), result = context.output_elements(op);
  double neighbours = 1;
  for (std::size_t i = 2; i < from.size(); ++i) neighbours *= name_of(op) == "cubic" ? 4 : 2;
  const Bytes written = context.output_bytes(op);
  Kernel add = stream_kernel("resize_add", KernelClass::Elementwise, op.pass, data,
                             context.bytes(gradient), written, elements, 10);
  std::get<StreamWork>(add.work).additions = neighbours * elements;
  return {stream_kernel("clear", KernelClass::Memset, op.pass, data, Bytes(0), written, result),
          std::move(add)};
}

/// An operator without a cost model: every operand through memory three times, as an unfused
/// sequence of a few simple kernels would. Guess; marked as such.
std::vector<Kernel> lower_unknown(const Context& context, const Op& op) {
  constexpr double kTimes = 3;
  Kernel kernel = pass_through(context, op, "unknown", KernelClass::Other, kTimes);
  kernel.read *= kTimes;
  kernel.written *= kTimes;
  kernel.is_bounded_guess = true;
  return {kernel};
}

}  // namespace

Bytes Context::input_bytes(const Op& op) const {
  Bytes total{};
  for (const TensorId input : op.inputs) total += bytes(input);
  return total;
}
Bytes Context::output_bytes(const Op& op) const {
  Bytes total{};
  for (const TensorId output : op.outputs) total += bytes(output);
  return total;
}
double Context::output_elements(const Op& op) const {
  double total = 0;
  for (const TensorId output : op.outputs) total += elements(output);
  return total;
}
TensorId Context::incoming_gradient(const Op& op) const {
  for (const TensorId input : op.inputs) {
    if (graph.tensor(input).role == TensorRole::Gradient) return input;
  }
  return op.inputs.back();
}

std::vector<Kernel> lower_streaming(const Context& context, const Op& op) {
  switch (op.kind) {
    case OpKind::MaxPool:
    case OpKind::AvgPool:
      return lower_pool(context, op);
    case OpKind::Activation:
      if (op.pass != Pass::Forward && name_of(op) == "pow" &&
          context.framework.kernels.composed_gradients) {
        return lower_power_gradient(context, op);
      }
      if (const auto* composed = context.framework.compiler
                                     ? nullptr
                                     : context.framework.kernels.composed_of(name_of(op))) {
        return composed_passes(KernelClass::Elementwise, op.pass, context.formats.storage,
                               context.output_elements(op),
                               op.pass == Pass::Forward ? composed->forward : composed->backward);
      }
      return {pass_through(context, op, op.pass == Pass::Forward ? "activation" : "activation_grad",
                           KernelClass::Elementwise, operations_of(name_of(op)))};
    case OpKind::Binary: {
      const double terms = std::max(1.0, static_cast<double>(op.inputs.size()) - 1);
      Kernel kernel = pass_through(context, op, "combine", KernelClass::Elementwise,
                                   terms * operations_of(name_of(op)));
      return {broadcasts(context, op) ? strided(context, std::move(kernel)) : std::move(kernel)};
    }
    case OpKind::Dropout:
      return lower_dropout(context, op);
    case OpKind::Embedding:
    case OpKind::Gather:
      return lower_embedding(context, op);
    case OpKind::Reduce:
      return lower_reduce(context, op);
    case OpKind::Concat:
    case OpKind::Split:
    case OpKind::Slice:
    case OpKind::Pad: {
      // Of a copy of the whole the gradient is a copy.
      const bool clears = op.kind == OpKind::Pad && op.pass != Pass::Forward &&
                          context.framework.kernels.slices_are_views &&
                          context.output_elements(op) > context.elements(op.inputs.front());
      if (clears) return lower_slice_gradient(context, op);
      if (op.kind == OpKind::Slice && is_view(context, op)) return {};
      if (op.kind == OpKind::Split && op.note == kViewNote && op.pass == Pass::Forward) return {};
      return lower_copy(context, op, "copy", KernelClass::Copy);
    }
    case OpKind::Transpose:
      return lower_copy(context, op, "transpose", KernelClass::Transpose);
    case OpKind::Resize:
      if (op.pass != Pass::Forward && name_of(op) != "nearest") {
        return lower_resize_gradient(context, op);
      }
      return {pass_through(context, op, "resize", KernelClass::Elementwise, 10)};
    case OpKind::Cast:
      return lower_cast(context, op);
    case OpKind::Reshape:
      return {};
    default:
      return lower_unknown(context, op);
  }
}

}  // namespace tracecast::lowering
