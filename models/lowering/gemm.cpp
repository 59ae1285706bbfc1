#include "models/lowering/kernels.hpp"
#include "models/lowering/layers.hpp"

namespace tracecast::lowering {
namespace {

/// An operand of a GEMM as the unit wants it, written `copies` times.
Kernel operand_cast(const Context& context, Pass pass, double elements, double copies) {
  const Bytes from = element_size(context.formats.storage) * elements;
  const Bytes to = element_size(context.formats.operands) * elements;
  return stream_kernel("operand_cast", KernelClass::Elementwise, pass, context.formats.storage,
                       from, to * copies, elements);
}

/// The same as a recipe has it: passes for the greatest value, then kernels that share the copies
/// between them, with a scale for each block.
void add_operand_casts(const Context& context, Pass pass, double elements, double copies,
                       const OperandRecipe& operand, std::vector<Kernel>& kernels) {
  const Bytes from = element_size(context.formats.storage) * elements;
  for (double done = 0; done < operand.greatest_passes; ++done) {
    kernels.push_back(stream_kernel("operand_greatest", KernelClass::Reduction, pass,
                                    context.formats.storage, from, Bytes(4), elements));
  }
  const double scales = context.formats.recipe->scale_bytes * elements * copies;
  for (double done = 0; done < operand.cast_passes; ++done) {
    Kernel kernel = operand_cast(context, pass, elements, copies / operand.cast_passes);
    kernel.written += Bytes(scales / operand.cast_passes);
    kernels.push_back(std::move(kernel));
  }
}

/// Sizes of a GEMM as a compiler pads them: multiples of 8 where arithmetic bounds it.
MatMulAttributes padded(const Context& context, MatMulAttributes a) {
  const auto& compiler = context.framework.compiler;
  const Formats& f = context.formats;
  if (!compiler || !compiler->pads_gemms || f.unit != MathUnit::TensorCore ||
      element_size(f.operands) != Bytes(2)) {
    return a;
  }
  constexpr std::int64_t kMultiple = 8;
  constexpr double kBound = 100;  // FLOP a byte: half the balance of V100 to H100, 70 to 150
  const double m = static_cast<double>(a.m), n = static_cast<double>(a.n),
               k = static_cast<double>(a.k);
  const double intensity = 2 * m * n * k / (2 * (m * k + k * n + m * n));
  if (intensity < kBound) return a;
  for (std::int64_t* size : {&a.m, &a.n, &a.k})
    *size = (*size + kMultiple - 1) / kMultiple * kMultiple;
  return a;
}

/// Copies of the operands whose sizes grew.
void add_pads(const Context& context, Pass pass, const MatMulAttributes& was,
              const MatMulAttributes& is, std::vector<Kernel>& kernels) {
  const auto add = [&](std::int64_t rows, std::int64_t columns, std::int64_t padded_rows,
                       std::int64_t padded_columns) {
    if (rows == padded_rows && columns == padded_columns) return;
    const double from = static_cast<double>(was.batch * rows * columns);
    const double to = static_cast<double>(was.batch * padded_rows * padded_columns);
    const Bytes e = element_size(context.formats.storage);
    kernels.push_back(stream_kernel("pad", KernelClass::Copy, pass, context.formats.storage,
                                    e * from, e * to, to));
  };
  add(was.m, was.k, is.m, is.k);
  add(was.k, was.n, is.k, is.n);
}

/// Half GEMMs off the tensor cores: frameworks ask cublasGemmEx for 32-bit sums, which multiplies
/// in fp32 (PyTorch ATen/cuda/CUDABlas.cpp, TensorFlow stream_executor/cuda/cuda_blas.cc); only
/// cublasHgemm, which they do not call, computes in half.
Formats gemm_formats(Formats formats) {
  if (formats.unit == MathUnit::CudaCore && element_size(formats.math) == Bytes(2))
    formats.math = Precision::Fp32;
  return formats;
}

}  // namespace

Kernel bias_add(const Context& context, Pass pass, double elements, double channels) {
  const Bytes e = element_size(context.formats.storage);
  Kernel kernel = stream_kernel("bias_add", KernelClass::Elementwise, pass, context.formats.storage,
                                e * (elements + channels), e * elements, elements);
  std::get<StreamWork>(kernel.work).instructions_per_element =
      context.framework.kernels.strided_instructions;
  return kernel;
}

Kernel bias_gradient(const Context& context, double elements, std::int64_t channels) {
  const Bytes e = element_size(context.formats.storage);
  const double cols = channels > 0 ? elements / static_cast<double>(channels) : 0;
  return reduction_kernel(
      "bias_gradient", KernelClass::Reduction, Pass::BackwardWeights, context.formats.storage,
      e * elements, e * static_cast<double>(channels),
      {.rows = channels, .cols = static_cast<std::int64_t>(cols), .passes = 1, .strided = true});
}

Kernel weight_cast(const Context& context, Pass pass, double elements) {
  const Bytes wide = element_size(context.formats.weights) * elements;
  const Bytes low_precision = element_size(context.formats.storage) * elements;
  const bool downcasts = pass == Pass::Forward;
  return stream_kernel("weight_cast", KernelClass::Elementwise, pass, context.formats.weights,
                       downcasts ? wide : low_precision, downcasts ? low_precision : wide,
                       elements);
}

Kernel cast(Pass pass, Precision from, Precision to, double elements) {
  const bool wide = element_size(from) > element_size(to);
  const bool integer = from == Precision::Int8 || to == Precision::Int8;
  return stream_kernel(integer ? (wide ? "quantize" : "dequantize") : "cast",
                       KernelClass::Elementwise, pass, wide ? from : to,
                       element_size(from) * elements, element_size(to) * elements, elements);
}

/// A weight that is not trained is kept in the format of GEMMs, written once; the backward GEMM,
/// which reads it transposed, has it turned before. Source: Transformer Engine,
/// pytorch/module/linear.py, weights without a cached transpose.
bool reads_frozen_weight(const Context& context, const Op& op) {
  return op.kind == OpKind::Linear && op.inputs.size() > 1 &&
         context.graph.tensor(op.inputs[1]).role == TensorRole::Buffer;
}

std::vector<Kernel> lower_gemm(const Context& context, const Op& op) {
  const auto& a = std::get<MatMulAttributes>(op.attributes);
  const double m = static_cast<double>(a.m), n = static_cast<double>(a.n),
               k = static_cast<double>(a.k);
  const bool casts = op.kind == OpKind::Linear && context.formats.casts_weights();
  std::vector<Kernel> kernels;
  kernels.reserve(4);
  if (context.formats.casts_operands()) {
    // Transformer Engine: input and weight before the forward GEMM, the output's gradient before
    // the backward ones; in training each is written a second time, transposed.
    const double copies = context.is_training ? 2 : 1;
    const double batches = static_cast<double>(a.batch);
    const bool is_frozen = reads_frozen_weight(context, op);
    const auto& recipe = context.formats.recipe;
    if (op.pass == Pass::Forward && !context.formats.weights_are_ready && !is_frozen) {
      if (recipe) {
        add_operand_casts(context, op.pass, batches * n * k, copies, recipe->weight, kernels);
      } else {
        kernels.push_back(operand_cast(context, op.pass, batches * n * k, copies));
      }
    }
    if (op.pass == Pass::BackwardData && is_frozen) {
      const Bytes weight = element_size(context.formats.math) * (n * k);
      kernels.push_back(stream_kernel("weight_transpose", KernelClass::Elementwise, op.pass,
                                      context.formats.math, weight, weight, n * k));
    }
    if (op.pass != Pass::BackwardWeights) {
      if (recipe) {
        add_operand_casts(context, op.pass, batches * m * k, copies,
                          op.pass == Pass::Forward ? recipe->input : recipe->gradient, kernels);
      } else {
        kernels.push_back(operand_cast(context, op.pass, batches * m * k, copies));
      }
    }
  }
  if (casts && op.pass == Pass::Forward) kernels.push_back(weight_cast(context, op.pass, n * k));
  const MatMulAttributes runs = padded(context, a);
  add_pads(context, op.pass, a, runs, kernels);
  kernels.push_back(matrix_kernel(
      "gemm", a.batch > 1 ? KernelClass::BatchedGemm : KernelClass::Gemm, op.pass,
      gemm_formats(context.formats),
      {.batch = a.batch,
       .m = runs.m,
       .n = runs.n,
       .k = runs.k,
       .transpose_a = a.transpose_a,
       .transpose_b = a.transpose_b,
       .weights = context.formats.gemm_weights,
       .by_cublas_lt = op.pass == Pass::Forward && a.has_bias &&
                       context.framework.fusion.gemm_bias && !context.framework.fusion.bias,
       .by_early_library = context.framework.kernels.early_gemms}));
  if (op.pass == Pass::BackwardWeights &&
      context.framework.backward.adds_weight_gradients_in_place) {
    kernels.back().read += element_size(context.formats.storage) * m * n;
  }
  // A compiler fuses bias, its gradient and the cast of the weight's (fusion_graph.hpp).
  if (context.framework.compiler) return kernels;
  const bool in_epilogue = context.framework.fusion.bias || context.framework.fusion.gemm_bias;
  if (op.pass == Pass::Forward && a.has_bias && !in_epilogue) {
    kernels.push_back(bias_add(context, op.pass, static_cast<double>(a.batch) * m * n, n));
  }
  if (op.pass == Pass::BackwardWeights) {
    // The GEMM is the weight's gradient; its inner dimension runs over the rows of dy.
    if (a.has_bias && !context.framework.fusion.bias_gradients) {
      const std::int64_t channels = element_count(context.graph.tensor(op.outputs.back()).shape);
      kernels.push_back(bias_gradient(context, k * static_cast<double>(channels), channels));
    }
    if (casts) kernels.push_back(weight_cast(context, op.pass, m * n));
  }
  return kernels;
}

std::vector<Kernel> lower_attention(const Context& context, const Op& op) {
  const auto& a = std::get<AttentionAttributes>(op.attributes);
  const bool is_forward = op.pass == Pass::Forward;
  std::vector<Kernel> kernels;
  if (!is_forward) {
    const Bytes dy = context.bytes(context.incoming_gradient(op));
    const double elements = context.elements(context.incoming_gradient(op));
    kernels.push_back(stream_kernel("row_sums", KernelClass::Reduction, op.pass,
                                    context.formats.storage, dy * 2.0,
                                    dy / static_cast<double>(a.width_of_values()), elements, 2));
  }
  Kernel kernel;
  kernel.name = "attention";
  kernel.kernel_class = KernelClass::Attention;
  kernel.pass = op.pass;
  kernel.data = context.formats.storage;
  const bool splits = context.formats.splits_attention;
  kernel.math = splits ? Precision::Tf32 : gemm_formats(context.formats).math;
  // 8 bits: no recipe has attention in four. The plan of 8-bit floats leaves it wide.
  const auto& recipe = context.framework.precision.recipe;
  if (recipe && recipe->low_precision_attention && context.is_training && !splits)
    kernel.math = Precision::Fp8;
  kernel.unit = splits ? MathUnit::TensorCore : context.formats.unit;
  const AttentionWork work{.shape = a,
                           .gemms = is_forward ? 2 : 5,
                           .by_warps = context.framework.kernels.early_attention};
  kernel.flops = Flops(work.gemms * a.macs());
  kernel.read = context.input_bytes(op);
  kernel.written = context.output_bytes(op);
  kernel.work = work;
  kernels.push_back(std::move(kernel));
  return kernels;
}

}  // namespace tracecast::lowering
