#include <algorithm>

#include "models/lowering/kernels.hpp"
#include "models/lowering/layers.hpp"

namespace tracecast::lowering {
namespace {

/// Reads and writes of the whole data in one call; what of them misses the caches is the cost
/// model's business.
struct Passes {
  double forward, backward;
};

Passes passes_of(OpKind kind) {
  switch (kind) {
    case OpKind::BatchNorm:
      // Forward: read for the statistics, read to normalise, write. Backward: x and dy for the two
      // sums, x and dy again, write. cuDNN Developer Guide, cudnnBatchNormalizationForwardTraining
      // and ...Backward (formulas).
      return {3, 5};
    case OpKind::InstanceNorm:
    case OpKind::GroupNorm:
    case OpKind::LayerNorm:
      return {3, 5};
    default:
      // Softmax: maximum, sum, result: three reads and a write; backward: y and dy for the dot
      // product, again for the result, write.
      return {4, 5};
  }
}

/// Reads that remain when a warp keeps its row in registers: each operand once.
constexpr Passes kInRegisters{2, 3};

/// Rows of softmax: up to 1024 elements a warp each, longer ones a block each, eight elements a
/// thread. Source: PyTorch 2.1, ATen/native/cuda/SoftMax.cu (host_softmax, SoftMax_getBlockSize)
/// and PersistentSoftmax.cuh.
ReductionWork softmax_rows(const NormAttributes& a, bool is_forward) {
  constexpr std::int64_t kWarpRow = 1024;
  const bool by_warp = a.cols <= kWarpRow;
  const Passes passes = by_warp ? kInRegisters : passes_of(OpKind::Softmax);
  int threads = 32;
  if (!by_warp) {
    for (threads = 128; threads < 512 && threads * 8 < a.cols;) threads *= 2;
  }
  return {.rows = a.rows,
          .cols = a.cols,
          .passes = is_forward ? passes.forward : passes.backward,
          .row_threads = threads};
}

KernelClass class_of(OpKind kind) {
  return kind == OpKind::Softmax || kind == OpKind::Loss ? KernelClass::Softmax
                                                         : KernelClass::Normalization;
}

/// Batch norm in training as sums and elementwise kernels of two images in and one out. Each sum is
/// a kernel that reads the image once; the vectors between them are small.
std::vector<Kernel> composed_batch_norm(const Context& context, const Op& op,
                                        const ComposedBatchNorm& composed) {
  const auto& a = std::get<NormAttributes>(op.attributes);
  const Precision data = context.formats.storage;
  const double elements = static_cast<double>(a.rows) * static_cast<double>(a.cols);
  const Bytes image = element_size(data) * elements;
  const Bytes vector = element_size(data) * static_cast<double>(a.rows);
  const bool is_forward = op.pass == Pass::Forward;
  const int sums = is_forward ? composed.forward_sums : composed.backward_sums;
  std::vector<Kernel> kernels(
      static_cast<std::size_t>(sums),
      reduction_kernel("sum", KernelClass::Normalization, op.pass, data, image, vector,
                       {.rows = a.rows,
                        .cols = a.cols,
                        .passes = 1,
                        .strided = true,
                        .block_threads = composed.block_threads}));
  double left = (is_forward ? context.framework.batch_norm.forward_passes
                            : context.framework.batch_norm.backward_passes) -
                sums;
  for (; left > 0; left -= 3) {
    const double share = std::min(left, 3.0) / 3;
    Kernel step = stream_kernel("norm_step", KernelClass::Normalization, op.pass, data,
                                image * (2 * share), image * share, elements);
    std::get<StreamWork>(step.work).instructions_per_element = composed.address_instructions;
    kernels.push_back(std::move(step));
  }
  return kernels;
}

/// PyTorch's own batch norm. Forward in training: statistics, one block per channel; running
/// statistics; then one multiplication and addition per element. At inference: the running variance
/// to a deviation, the weights to fp32, the same multiplication. Backward: one kernel, one block
/// per channel, that reads x and dy for the sums and again for dx. Every thread loads one element
/// and waits for it. Source: PyTorch 2, aten/src/ATen/native/cuda/Normalization.cuh (MAX_BLOCK_SIZE
/// 512; batch_norm_collect_statistics_kernel, batch_norm_transform_input_kernel,
/// batch_norm_backward_kernel).
std::vector<Kernel> own_batch_norm(const Context& context, const Op& op) {
  constexpr int kBlockThreads = 512;
  // An SM's 2048 threads take an element each per wait of about 950 cycles: as long as that many
  // instructions for every element would take its four schedulers. Source: traces/recordings,
  // ResNet-50 and EfficientNet-B0 in bf16 on H200: 420 to 500 elements per ns whatever the image
  // from 28 x 28 on.
  constexpr double kInstructionsForTheWait = 60;
  const auto& a = std::get<NormAttributes>(op.attributes);
  const Precision data = context.formats.storage;
  const double elements = static_cast<double>(a.rows) * static_cast<double>(a.cols);
  const double channels = static_cast<double>(a.rows);
  const Bytes image = element_size(data) * elements;
  const Bytes statistics = element_size(Precision::Fp32) * channels;
  const auto per_channel = [&](std::string_view name, double passes, Bytes read, Bytes written) {
    return reduction_kernel(name, KernelClass::Normalization, op.pass, data, read, written,
                            {.rows = a.rows,
                             .cols = a.cols,
                             .passes = passes,
                             .strided = true,
                             .block_threads = kBlockThreads,
                             .element_by_element = true});
  };
  const auto small = [&](std::string_view name) {
    return stream_kernel(name, KernelClass::Elementwise, op.pass, Precision::Fp32, statistics * 2.0,
                         statistics, channels);
  };
  if (op.pass != Pass::Forward) {
    return {per_channel("own_backward", 2, image * 2.0, image)};
  }
  std::vector<Kernel> kernels;
  if (context.is_training) {
    kernels.push_back(per_channel("own_statistics", 1, image, statistics * 2.0));
    kernels.push_back(small("update_statistics"));
    for (int i = 0; i < context.framework.batch_norm.update_kernels; ++i) {
      kernels.push_back(small("running_update"));
    }
  } else {
    kernels.push_back(small("cast_statistics"));
    kernels.push_back(small("deviation"));
  }
  kernels.push_back(stream_kernel("own_transform", KernelClass::Normalization, op.pass, data,
                                  image + statistics * 4.0, image, elements, 2));
  std::get<StreamWork>(kernels.back().work).instructions_per_element = kInstructionsForTheWait;
  return kernels;
}

}  // namespace

bool runs_own_batch_norm(const Context& context) {
  const FrameworkBatchNorm& own = context.framework.batch_norm;
  const Formats& formats = context.formats;
  return (own.own_bf16 && formats.storage == Precision::Bf16) ||
         (own.own_half && formats.storage == Precision::Fp16 && formats.weights == Precision::Fp16);
}

std::vector<Kernel> lower_normalization(const Context& context, const Op& op) {
  const auto& a = std::get<NormAttributes>(op.attributes);
  const Formats& formats = context.formats;
  const Bytes e = element_size(formats.storage);
  const double elements = static_cast<double>(a.rows) * static_cast<double>(a.cols);
  const bool is_forward = op.pass == Pass::Forward;
  const KernelClass kernel_class = class_of(op.kind);
  std::vector<Kernel> kernels;

  if (op.kind == OpKind::Lrn) {
    // Across channels: x in, y out; backward x, y, dy in, dx out. One multiply-add per neighbour, a
    // power each.
    const double operations = 2 * a.lrn_size + 20;
    kernels.push_back(stream_kernel(is_forward ? "lrn" : "lrn_backward", kernel_class, op.pass,
                                    formats.storage, e * (is_forward ? elements : 3 * elements),
                                    e * elements, elements, operations));
    return kernels;
  }
  if (op.kind == OpKind::Loss) {
    // Log-softmax over the classes, then the label's entry; backward a sparse gradient, then that
    // of the softmax.
    const double rows = static_cast<double>(a.rows);
    const ReductionWork work = softmax_rows(a, is_forward);
    if (is_forward) {
      kernels.push_back(reduction_kernel("log_softmax", kernel_class, op.pass, formats.storage,
                                         e * elements, e * elements, work));
      kernels.push_back(stream_kernel("pick_labels", kernel_class, op.pass, formats.storage,
                                      (e + Bytes(8)) * rows, e, rows));
    } else {
      kernels.push_back(stream_kernel("label_grad", kernel_class, op.pass, formats.storage,
                                      Bytes(8) * rows, e * elements, elements));
      kernels.push_back(reduction_kernel("softmax_grad", kernel_class, op.pass, formats.storage,
                                         e * (2 * elements), e * elements, work));
    }
    return kernels;
  }
  if (op.kind == OpKind::BatchNorm && runs_own_batch_norm(context)) {
    return own_batch_norm(context, op);
  }
  if (op.kind == OpKind::BatchNorm && is_forward && !context.is_training) {
    if (!context.framework.fusion.folds_inference_batch_norm) {
      kernels.push_back(stream_kernel(
          "batch_norm", kernel_class, op.pass, formats.storage,
          e * elements + element_size(Precision::Fp32) * (4 * static_cast<double>(a.rows)),
          e * elements, elements, 2));
    }
    return kernels;
  }
  if (op.kind == OpKind::LayerNorm && !context.framework.compiler) {
    if (const auto* composed = context.framework.kernels.composed_of("layer_norm"))
      return composed_passes(kernel_class, op.pass, formats.storage, elements,
                             is_forward ? composed->forward : composed->backward);
  }
  const Passes passes = passes_of(op.kind);
  const bool is_batch_norm = op.kind == OpKind::BatchNorm;
  const ReductionWork work =
      op.kind == OpKind::Softmax
          ? softmax_rows(a, is_forward)
          : ReductionWork{.rows = a.rows,
                          .cols = a.cols,
                          .passes = is_forward ? passes.forward : passes.backward,
                          .strided = is_batch_norm};
  const auto& composed = context.framework.batch_norm.composed;
  if (op.kind == OpKind::Softmax && !is_forward && context.framework.kernels.composed_gradients) {
    kernels.push_back(stream_kernel("y_times_dy", kernel_class, op.pass, formats.storage,
                                    e * (2 * elements), e * elements, elements));
  }
  if (is_batch_norm && composed) {
    kernels = composed_batch_norm(context, op, *composed);
  } else {
    kernels.push_back(reduction_kernel(is_forward ? "forward" : "backward", kernel_class, op.pass,
                                       formats.storage, e * (is_forward ? elements : 2 * elements),
                                       e * elements, work));
  }
  if (is_batch_norm && !composed) {
    // Composed of elementary kernels: two images in, one out, until the framework's count is met.
    double left = is_forward ? context.framework.batch_norm.forward_passes - passes.forward
                             : context.framework.batch_norm.backward_passes - passes.backward;
    for (; left > 0; left -= 3) {
      const double share = std::min(left, 3.0) / 3;
      kernels.push_back(stream_kernel("norm_step", kernel_class, op.pass, formats.storage,
                                      e * (2 * share * elements), e * (share * elements),
                                      elements));
    }
  }
  if (is_batch_norm && is_forward) {
    const double channels = static_cast<double>(a.rows);
    const Bytes statistics = element_size(Precision::Fp32) * channels;
    for (int i = 0; i < context.framework.batch_norm.update_kernels; ++i) {
      kernels.push_back(stream_kernel("running_update", KernelClass::Elementwise, op.pass,
                                      Precision::Fp32, statistics * 2.0, statistics, channels));
    }
  }
  if (!is_forward && (op.kind == OpKind::LayerNorm || op.kind == OpKind::GroupNorm)) {
    // Gradients of scale and shift: sums down the rows, a second kernel.
    kernels.push_back(
        reduction_kernel("weight_grad", kernel_class, op.pass, formats.storage, e * (2 * elements),
                         e * (2 * static_cast<double>(a.cols)),
                         {.rows = a.cols, .cols = a.rows, .passes = 2, .strided = true}));
  }
  return kernels;
}

}  // namespace tracecast::lowering
