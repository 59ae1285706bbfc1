#include "models/lowering/lower.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "models/lowering/alike.hpp"
#include "models/lowering/convolution.hpp"
#include "models/lowering/engine_layers.hpp"
#include "models/lowering/fusion.hpp"
#include "models/lowering/gradient_fusion.hpp"
#include "models/lowering/kernels.hpp"
#include "models/lowering/layers.hpp"
#include "models/lowering/low_precision_operands.hpp"
#include "models/lowering/normalization_fusion.hpp"
#include "models/lowering/pair_fusion.hpp"
#include "models/lowering/precision_plan.hpp"
#include "models/lowering/recurrent.hpp"
#include "sim/base/error.hpp"

namespace tracecast {
namespace {

using lowering::Context;
using lowering::PrecisionPlan;

/// Walks the graph once; remembers which forward activations cost no kernel, since their gradients
/// then cost none.
class Lowering {
 public:
  Lowering(const Context& context, PrecisionPlan plan, const GpuTraits& gpu)
      : context_(context), plan_(std::move(plan)), gpu_(gpu) {}

  LoweredStep run() {
    const auto ops = context_.graph.ops();
    fused_.assign(ops.size(), false);
    if (context_.framework.fusion.batch_norm_residual) {
      const bool folds =
          context_.framework.fusion.folds_inference_batch_norm && !context_.is_training;
      norm_fusion_ = folds ? lowering::fuse_sums_into_convolutions(context_.graph)
                           : lowering::fuse_residual_sums(context_.graph);
    }
    if (context_.framework.backward.adds_gradients_in_convolutions && context_.is_training) {
      gradient_fusion_ = lowering::fuse_gradient_sums(context_.graph);
    }
    if (context_.framework.fusion.pair_gemms) {
      pair_fusion_ = lowering::fuse_pair_gemms(context_.graph);
    }
    step_.ops.reserve(ops.size());
    for (std::uint32_t i = 0; i < ops.size(); ++i) {
      context_.formats = plan_.formats(OpId{i});
      const std::size_t before = step_.ops.size();
      lower_op(OpId{i}, ops[i]);
      if (step_.ops.size() == before) continue;
      prepend(step_.ops.back(), input_casts(ops[i]));
      if (converts_as_it_reads(ops[i])) read_as_kept(step_.ops.back(), ops[i]);
    }
    return std::move(step_);
  }

 private:
  void lower_op(OpId id, const Op& op) {
    if (op.kind == OpKind::Optimizer) return lower_optimizer(id, op);
    if (pair_fusion_ && pair_fusion_->is_part[id.index]) return lower_pairs(id);
    if (is_empty(op) || op.kind == OpKind::Reshape) return append(id, std::vector<Kernel>{});
    switch (op.kind) {
      case OpKind::Conv:
      case OpKind::ConvTranspose:
        return lower_convolution(id, op);
      case OpKind::Linear:
      case OpKind::MatMul:
        return append(id, lower_gemm(context_, op));
      case OpKind::Attention:
        return append(id, lower_attention(context_, op));
      case OpKind::Scan:
        return append(id, lower_scan(context_, op));
      case OpKind::TopKeys:
        return append(id, lower_top_keys(context_, op));
      case OpKind::Recurrent:
        append(id, {});
        step_.ops.back().candidates = lower_recurrent(context_, op, gpu_);
        return;
      case OpKind::BatchNorm:
        if (stands_alone(op)) return append(id, {scale_of_channels(op)});
        append(id, with_residual(id, op, lower_normalization(context_, op)));
        step_.ops.back().spares_library = lowering::runs_own_batch_norm(context_);
        return;
      case OpKind::LayerNorm:
      case OpKind::InstanceNorm:
      case OpKind::GroupNorm:
      case OpKind::Lrn:
      case OpKind::Softmax:
      case OpKind::Loss:
        return append(id, lower_normalization(context_, op));
      case OpKind::Routine:
        append(id, lower_sparse(context_, op));
        step_.ops.back().host_waits = std::get<RoutineAttributes>(op.attributes).waits;
        return;
      case OpKind::MaxPool:
      case OpKind::AvgPool:
        append(id, lower_streaming(context_, op));
        step_.ops.back().runs_on_host = pools_on_host(op, context_.framework);
        return;
      case OpKind::EdgeAttention:
      case OpKind::EmbeddingBag:
      case OpKind::Sample:
      case OpKind::Route:
      case OpKind::Scatter:
        return append(id, lower_sparse(context_, op));
      case OpKind::Binary:
      case OpKind::Activation:
        if (gradient_fusion_ && gradient_fusion_->is_fused_sum[id.index]) {
          return append(id, std::vector<Kernel>{});
        }
        if (is_fused(id, op)) {
          fused_[id.index] = true;
          return append(id, std::vector<Kernel>{});
        }
        return append(id, lower_streaming(context_, op));
      default:
        return append(id, lower_streaming(context_, op));
    }
  }

  void lower_pairs(OpId id) {
    append(id, std::vector<Kernel>{});
    const auto& pairs = pair_fusion_->kernels[id.index];
    if (!pairs) return;
    step_.ops.back().candidates.front().kernels = {lower_pair_gemms(context_, *pairs)};
    step_.ops.back().keeps_kernels = true;
  }

  [[nodiscard]] bool is_empty(const Op& op) const {
    return !op.outputs.empty() && context_.output_elements(op) == 0;
  }

  [[nodiscard]] bool is_fused(OpId id, const Op& op) const {
    if (op.pass != Pass::Forward) return op.forward && fused_[op.forward->index];
    if (op.kind == OpKind::Binary) {
      return norm_fusion_ && norm_fusion_->is_fused_sum[id.index] && batch_norm_fuses();
    }
    const auto producer = context_.graph.producer(op.inputs.front());
    if (!producer) return false;
    if (norm_fusion_ && norm_fusion_->is_fused_sum[producer->index] && batch_norm_fuses()) {
      return true;
    }
    const OpKind kind = context_.graph.op(*producer).kind;
    const bool runs_batch_norm =
        kind == OpKind::BatchNorm ||
        (kind == OpKind::InstanceNorm && context_.framework.batch_norm.takes_instance_norm);
    if (runs_batch_norm && context_.framework.fusion.batch_norm_activation && batch_norm_fuses()) {
      return true;
    }
    return context_.framework.fusion.activations && kind != OpKind::Reshape;
  }

  /// An engine folds batch norm into the weights of the convolution or GEMM before it; where there
  /// is none, or where something else reads its result, a kernel scales the channels.
  [[nodiscard]] bool stands_alone(const Op& op) const {
    if (!context_.framework.fusion.layers || context_.is_training) return false;
    const TensorId x = op.inputs.front();
    const auto producer = context_.graph.producer(x);
    if (!producer) return true;
    const OpKind kind = context_.graph.op(*producer).kind;
    const bool has_weights =
        kind == OpKind::Conv || kind == OpKind::ConvTranspose || kind == OpKind::Linear;
    return !has_weights || readers_of(x) > 1;
  }
  [[nodiscard]] int readers_of(TensorId id) const {
    if (readers_.empty()) {
      readers_.resize(context_.graph.tensors().size());
      for (const Op& reader : context_.graph.ops()) {
        for (const TensorId input : reader.inputs) ++readers_[input.index];
      }
    }
    return readers_[id.index];
  }
  [[nodiscard]] Kernel scale_of_channels(const Op& op) const {
    const double elements = context_.output_elements(op);
    const Bytes image = element_size(context_.formats.storage) * elements;
    return lowering::stream_kernel("scale", KernelClass::Normalization, op.pass,
                                   context_.formats.storage, image, image, elements, 2);
  }

  /// Channels-last kernels of batch norm with the activation and the residual in them, cuDNN's and
  /// Apex's, take 16-bit images alone; what folds batch norm into convolutions, and kernels for
  /// channels first (OneFlow's own), fuse in any format. Source: NVIDIA cuDNN API,
  /// cudnnBatchNormalizationForwardTrainingEx, on CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION; NVIDIA's
  /// scripts for MXNet (hwspecs/framework/mxnet_nvidia.textproto) leave fusions off with float32.
  [[nodiscard]] bool batch_norm_fuses() const {
    return element_size(context_.formats.storage) == Bytes(2) ||
           context_.framework.fusion.folds_inference_batch_norm ||
           image_layout() == ImageLayout::Nchw;
  }

  /// A batch norm that adds a residual reads it as well; its backward kernel writes the residual's
  /// gradient and reads a bit per element that says where the activation passed.
  [[nodiscard]] std::vector<Kernel> with_residual(OpId id, const Op& op,
                                                  std::vector<Kernel> kernels) const {
    const OpId forward = op.pass == Pass::Forward ? id : op.forward.value_or(id);
    if (!norm_fusion_ || !norm_fusion_->adds_residual[forward.index] || kernels.empty() ||
        !batch_norm_fuses()) {
      return kernels;
    }
    const auto& a = std::get<NormAttributes>(op.attributes);
    const double elements = static_cast<double>(a.rows) * static_cast<double>(a.cols);
    const Bytes image = element_size(context_.formats.storage) * elements;
    const Bytes bits(elements / 8);
    kernels.front().read += op.pass == Pass::Forward ? image : bits;
    if (op.pass != Pass::Forward) {
      kernels.front().written += image;
    } else if (context_.is_training) {
      kernels.front().written += bits;
    }
    return kernels;
  }

  /// Whether an op of operands of two formats is one kernel that converts what it reads: where
  /// casts are those that the code writes, as in PyTorch since 1.5 (TensorIterator's
  /// promote_inputs_to_common_dtype; on GPUs aten/src/ATen/native/cuda/Loops.cuh loads with a
  /// cast).
  [[nodiscard]] bool converts_as_it_reads(const Op& op) const {
    return op.kind == OpKind::Binary && op.pass == Pass::Forward &&
           context_.framework.kernels.casts_as_written && !context_.framework.compiler;
  }
  /// Counts every image in the format that it is kept in.
  void read_as_kept(LoweredOp& lowered, const Op& op) const {
    if (plan_.casts_are_ops) return;
    const double wanted = element_size(context_.formats.storage).in_bytes();
    double spared = 0;
    for (const TensorId input : op.inputs) {
      if (!is_image(input)) continue;
      spared +=
          (wanted - element_size(plan_.kept[input.index]).in_bytes()) * context_.elements(input);
    }
    for (Candidate& candidate : lowered.candidates) {
      if (candidate.kernels.empty()) continue;
      Kernel& last = candidate.kernels.back();
      last.read = max(Bytes(0), last.read - Bytes(spared));
    }
  }
  [[nodiscard]] bool is_image(TensorId id) const {
    const Tensor& tensor = context_.graph.tensor(id);
    return !tensor.is_integer &&
           (tensor.role == TensorRole::Input || tensor.role == TensorRole::Activation ||
            tensor.role == TensorRole::Gradient);
  }

  /// One kernel for every image or gradient that is kept in another format than the op wants.
  [[nodiscard]] std::vector<Kernel> input_casts(const Op& op) {
    std::vector<Kernel> casts;
    if (op.kind == OpKind::Optimizer || plan_.casts_are_ops) return casts;
    if (context_.framework.fusion.layers) return casts;  // kernels write what their readers take
    if (converts_as_it_reads(op)) return casts;
    const Precision wanted = context_.formats.storage;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const TensorId input = op.inputs[i];
      const Tensor& tensor = context_.graph.tensor(input);
      const Precision kept = plan_.kept[input.index];
      if (!is_image(input) || element_size(kept) == element_size(wanted)) continue;
      // Backward ops read what the forward op saved, which was cast then: only gradients are new.
      if (op.pass != Pass::Forward && tensor.role != TensorRole::Gradient) continue;
      if (std::find(op.inputs.begin(), op.inputs.begin() + static_cast<std::ptrdiff_t>(i), input) !=
          op.inputs.begin() + static_cast<std::ptrdiff_t>(i)) {
        continue;
      }
      // The gradient of a cast is one cast, however many read it.
      const bool once =
          context_.framework.precision.reuses_casts || tensor.role == TensorRole::Gradient;
      if (once && !cast_done_.insert({input, wanted}).second) continue;
      casts.push_back(lowering::cast(op.pass, kept, wanted, context_.elements(input)));
    }
    return casts;
  }
  /// Puts `kernels` before those of every candidate that has any.
  static void prepend(LoweredOp& lowered, const std::vector<Kernel>& kernels) {
    if (kernels.empty()) return;
    for (Candidate& candidate : lowered.candidates) {
      if (candidate.kernels.empty()) continue;
      candidate.kernels.insert(candidate.kernels.begin(), kernels.begin(), kernels.end());
    }
  }

  void append(OpId id, std::vector<Kernel> kernels) {
    LoweredOp& lowered = step_.ops.emplace_back();
    lowered.op = id;
    lowered.policy = policy();
    lowered.workspace_limit = context_.framework.convolutions.workspace_limit;
    lowered.candidates.emplace_back().kernels = std::move(kernels);
  }
  [[nodiscard]] ChoicePolicy policy() const {
    return context_.framework.convolutions.autotunes ? ChoicePolicy::Autotuned
                                                     : ChoicePolicy::Heuristic;
  }

  [[nodiscard]] ImageLayout image_layout() const {
    const bool half_on_tensor_cores = context_.formats.unit == MathUnit::TensorCore &&
                                      element_size(context_.formats.storage) == Bytes(2);
    return half_on_tensor_cores ? context_.framework.convolutions.tensor_core_image_layout
                                : context_.framework.convolutions.image_layout;
  }

  /// Whether cuDNN's heuristic does not name non-fused Winograd, however fast it is.
  /// From Ampere on it names tensor-core kernels before Winograd's, which round more. Source: a
  /// recorded ResNet-50 step on A100 in TF32 (HolisticTraceAnalysis, cuDNN 8), where none of 161
  /// convolutions is Winograd's. In FP32 it does not where padding few images to 16 takes more
  /// multiplications than it saves: see notes/0001-kernels-that-could-run.md.
  [[nodiscard]] bool heuristic_avoids_nonfused_winograd(const ConvAttributes& a, Pass pass) const {
    if (policy() != ChoicePolicy::Heuristic) return false;
    if (context_.formats.unit == MathUnit::TensorCore) {
      return gpu_.architecture() >= Architecture::Ampere;
    }
    return context_.formats.storage == Precision::Fp32 &&
           !lowering::nonfused_winograd_saves_multiplications(a, pass);
  }

  void lower_convolution(OpId id, const Op& op) {
    const auto& a = std::get<ConvAttributes>(op.attributes);
    // A transposed convolution is the data gradient of the convolution that its attributes
    // describe.
    Pass pass = op.pass;
    if (op.kind == OpKind::ConvTranspose && pass == Pass::Forward) {
      pass = Pass::BackwardData;
    } else if (op.kind == OpKind::ConvTranspose && pass == Pass::BackwardData) {
      pass = Pass::Forward;
    }
    LoweredOp& lowered = step_.ops.emplace_back();
    lowered.op = id;
    lowered.policy = policy();
    lowered.workspace_limit = context_.framework.convolutions.workspace_limit;
    const bool engine = context_.framework.fusion.layers;
    ConvAttributes shape = a;
    if (engine && element_size(context_.formats.storage) < element_size(Precision::Fp32)) {
      shape.channels_last =
          element_size(context_.formats.storage) == Bytes(1) || image_layout() == ImageLayout::Nhwc;
    }
    lowered.candidates = lowering::convolution_candidates(
        shape, pass, context_.formats, shape.channels_last ? ImageLayout::Nhwc : image_layout(),
        gpu_.architecture(), context_.framework.convolutions.cudnn_version);
    // Tables of offsets and spectra of filters are made when the engine is built.
    if (engine) {
      for (Candidate& candidate : lowered.candidates) {
        std::erase_if(candidate.kernels, [](const Kernel& k) {
          return k.name == "offsets" || k.name == "filter_tf" || k.name == "flip_filter";
        });
      }
    }
    if (context_.framework.convolutions.avoids_tiled_fft && pass != Pass::BackwardData) {
      std::erase_if(lowered.candidates,
                    [](const Candidate& c) { return c.algorithm == Algorithm::FftTiling; });
    }
    std::erase_if(lowered.candidates, [&](const Candidate& c) {
      return c.algorithm == Algorithm::WinogradNonfused &&
             (context_.framework.convolutions.avoids_nonfused_winograd ||
              heuristic_avoids_nonfused_winograd(a, pass));
    });
    // The heuristic's answer for NCHW images in 16 bits passes through NHWC (notes/0001).
    if (policy() == ChoicePolicy::Heuristic && element_size(context_.formats.storage) == Bytes(2)) {
      std::erase_if(lowered.candidates, [&](const Candidate& c) {
        return lowered.candidates.size() > 1 && c.algorithm == Algorithm::ExplicitGemm &&
               c.kernels.back().unit == MathUnit::TensorCore;
      });
    }
    if (context_.framework.convolutions.pads_uneven_images) even_out_padding(lowered, a, pass);
    add_surroundings(lowered, op, a);
    if (norm_fusion_ && norm_fusion_->adds_residual[id.index]) read_addend(lowered, op);
    if (gradient_fusion_ && gradient_fusion_->adds_gradient[id.index]) read_addend(lowered, op);
  }

  /// A residual or an earlier gradient is added on the way out: the last kernel of every candidate
  /// reads it.
  void read_addend(LoweredOp& lowered, const Op& op) const {
    const Bytes image = element_size(context_.formats.storage) * context_.output_elements(op);
    for (Candidate& candidate : lowered.candidates) {
      if (!candidate.kernels.empty()) candidate.kernels.back().read += image;
    }
  }

  /// The library pads both sides alike: the image, or its gradient, passes through a copy that
  /// holds the difference.
  void even_out_padding(LoweredOp& lowered, const ConvAttributes& a, Pass pass) {
    const std::int64_t rows = std::abs(a.pad_bottom - a.pad_top);
    const std::int64_t columns = std::abs(a.pad_right - a.pad_left);
    if (rows == 0 && columns == 0) return;
    const double planes = static_cast<double>(a.n) * static_cast<double>(a.c);
    const double image = planes * static_cast<double>(a.h) * static_cast<double>(a.w);
    const double padded =
        planes * static_cast<double>(a.h + rows) * static_cast<double>(a.w + columns);
    const Bytes element = element_size(context_.formats.storage);
    const bool is_gradient = pass == Pass::BackwardData;
    const double made = is_gradient ? image : padded;
    const Kernel copy = lowering::stream_kernel(is_gradient ? "crop" : "pad", KernelClass::Copy,
                                                pass, context_.formats.storage, element * image,
                                                element * made, made, 10);
    for (Candidate& candidate : lowered.candidates) {
      candidate.kernels.insert(is_gradient ? candidate.kernels.end() : candidate.kernels.begin(),
                               copy);
    }
  }

  /// What a framework runs round every convolution, whatever its algorithm: weight casts and
  /// layout, bias.
  void add_surroundings(LoweredOp& lowered, const Op& op, const ConvAttributes& a) {
    const bool is_transposed = op.kind == OpKind::ConvTranspose;
    const double weights = static_cast<double>(a.k) * static_cast<double>(a.c / a.groups) *
                           static_cast<double>(a.r) * static_cast<double>(a.s);
    const std::int64_t channels_out = is_transposed ? a.c : a.k;
    const double image_out = is_transposed ? static_cast<double>(a.h) * static_cast<double>(a.w)
                                           : static_cast<double>(a.p) * static_cast<double>(a.q);
    const double y = static_cast<double>(a.n) * static_cast<double>(channels_out) * image_out;
    std::vector<Kernel> before, after;
    if (context_.framework.compiler) return add_filter_copy(lowered, op, weights);
    if (op.pass == Pass::Forward) {
      if (context_.formats.casts_weights())
        before.push_back(weight_cast(context_, op.pass, weights));
      if (a.has_bias && !context_.framework.fusion.bias) {
        after.push_back(bias_add(context_, op.pass, y, static_cast<double>(channels_out)));
      }
    } else if (op.pass == Pass::BackwardWeights) {
      if (context_.framework.backward.adds_weight_gradients_in_place) {
        for (Candidate& candidate : lowered.candidates) {
          if (candidate.kernels.empty()) continue;
          candidate.kernels.back().read += element_size(context_.formats.storage) * weights;
        }
      }
      if (a.has_bias) after.push_back(bias_gradient(context_, y, channels_out));
      if (context_.formats.casts_weights())
        after.push_back(weight_cast(context_, op.pass, weights));
    }
    std::optional<Kernel> filter;
    if (context_.framework.convolutions.transforms_filters) {
      const Bytes bytes = element_size(context_.formats.storage) * weights;
      filter = lowering::stream_kernel("filter_layout", KernelClass::Transpose, op.pass,
                                       context_.formats.storage, bytes, bytes, weights);
    }
    for (Candidate& candidate : lowered.candidates) {
      std::vector<Kernel>& kernels = candidate.kernels;
      if (filter && !takes_filter_along(candidate)) {
        kernels.insert(op.pass == Pass::BackwardWeights ? kernels.end() : kernels.begin(), *filter);
      }
      kernels.insert(kernels.begin(), before.begin(), before.end());
      kernels.insert(kernels.end(), after.begin(), after.end());
    }
  }

  /// Whether the filter needs no transform of its own: what goes from NHWC to NCHW and back takes
  /// it along.
  [[nodiscard]] bool takes_filter_along(const Candidate& candidate) const {
    return image_layout() == ImageLayout::Nhwc &&
           std::any_of(candidate.kernels.begin(), candidate.kernels.end(), [](const Kernel& k) {
             return k.name == "to_nchw" && k.kernel_class == KernelClass::Transpose;
           });
  }

  /// A compiler casts a filter and changes its layout in one kernel, before its first use; the
  /// gradient's way back is part of the update (fusion_graph.hpp).
  void add_filter_copy(LoweredOp& lowered, const Op& op, double weights) {
    if (op.pass != Pass::Forward) return;
    std::optional<Kernel> copy;
    if (context_.formats.casts_weights()) {
      copy = weight_cast(context_, op.pass, weights);
    } else if (context_.framework.convolutions.transforms_filters) {
      const Bytes bytes = element_size(context_.formats.storage) * weights;
      copy = lowering::stream_kernel("filter_layout", KernelClass::Transpose, op.pass,
                                     context_.formats.storage, bytes, bytes, weights);
    }
    if (!copy) return;
    for (Candidate& candidate : lowered.candidates) {
      candidate.kernels.insert(candidate.kernels.begin(), *copy);
    }
  }

  /// Loss scaling stands before the first update.
  void scale_gradients(OpId id) {
    if (scaling_done_ || !plan_.scales_loss) return;
    scaling_done_ = true;
    std::vector<const Op*> updates;
    for (const Op& other : context_.graph.ops()) {
      if (other.kind == OpKind::Optimizer && other.pass == Pass::Update) updates.push_back(&other);
    }
    std::vector<Kernel> kernels = lower_loss_scaling(context_, updates);
    if (kernels.empty()) return;
    append(id, std::move(kernels));
    step_.ops.back().host_waits = true;
  }

  void lower_optimizer(OpId id, const Op& op) {
    const bool updates = std::get<OptimizerAttributes>(op.attributes).name != "none";
    if (updates && op.pass == Pass::Update) scale_gradients(id);
    // What is updated within the backward pass runs there.
    if (!context_.framework.optimizer.multi_tensor || op.pass != Pass::Update) {
      const Op* one = &op;
      return append(id, lower_update(context_, {&one, 1}));
    }
    // All updates with the same rule run together, where the first one stands.
    if (updates_done_) return;
    updates_done_ = true;
    std::vector<const Op*> together;
    for (const Op& other : context_.graph.ops()) {
      if (other.kind == OpKind::Optimizer && other.pass == Pass::Update) {
        together.push_back(&other);
      }
    }
    append(id, lower_update(context_, together));
  }

  Context context_;  ///< its formats are those of the op at hand
  PrecisionPlan plan_;
  const GpuTraits& gpu_;
  LoweredStep step_;
  std::set<std::pair<TensorId, Precision>> cast_done_;
  std::vector<bool> fused_;
  std::optional<lowering::NormalizationFusion> norm_fusion_;
  std::optional<lowering::GradientFusion> gradient_fusion_;
  std::optional<lowering::PairFusion> pair_fusion_;
  mutable std::vector<int> readers_;  ///< by tensor; when asked for
  bool updates_done_ = false, scaling_done_ = false;
};

Context make_context(const NetworkGraph& graph, const FrameworkProfile& framework,
                     const PrecisionPlan& plan) {
  bool is_training = graph.training_mode;
  for (const Op& op : graph.ops()) is_training = is_training || op.pass != Pass::Forward;
  return {.graph = graph,
          .framework = framework,
          .formats = plan.low_precision,
          .is_training = is_training};
}

}  // namespace

LoweredStep lower(const NetworkGraph& graph, const FrameworkProfile& framework,
                  const GpuTraits& gpu, const LoweringOptions& options) {
  const PrecisionPlan plan =
      lowering::plan_precision(graph, framework, gpu, options.precision, options.wide_ends);
  const Context context = make_context(graph, framework, plan);
  LoweredStep step = Lowering(context, plan, gpu).run();
  if (framework.compiler) step = lowering::fuse(context, std::move(step));
  if (framework.fusion.layers && !context.is_training) {
    lowering::join_layers(context, plan, gpu, step);
  }
  if (framework.fusion.operand_casts && plan.low_precision.casts_operands() && context.is_training)
    lowering::join_operand_casts(context, step);
  step.first_alike = lowering::find_alike(step.ops);
  return step;
}

NetworkGraph graph_in_memory(const NetworkGraph& graph, const FrameworkProfile& framework,
                             const GpuTraits& gpu, const LoweringOptions& options) {
  if (!framework.compiler) return graph;
  const PrecisionPlan plan =
      lowering::plan_precision(graph, framework, gpu, options.precision, options.wide_ends);
  const Context context = make_context(graph, framework, plan);
  return lowering::fused_graph(context, Lowering(context, plan, gpu).run());
}

std::vector<Bytes> element_sizes(const NetworkGraph& graph, const FrameworkProfile& framework,
                                 const GpuTraits& gpu, PrecisionMode precision) {
  const PrecisionPlan plan = lowering::plan_precision(graph, framework, gpu, precision);
  std::vector<Bytes> sizes;
  sizes.reserve(plan.kept.size());
  for (std::size_t t = 0; t < plan.kept.size(); ++t) {
    const Tensor& tensor = graph.tensors()[t];
    sizes.push_back(tensor.is_integer ? Bytes(tensor.integer_bytes) : element_size(plan.kept[t]));
  }
  return sizes;
}

namespace {

/// Ops that the host sees in place of one that the framework composes; 1 of others.
double elementary_ops(const Op& op, const FrameworkProfile& framework) {
  if (framework.compiler || framework.kernels.composed.empty()) return 1;
  std::string_view name;
  if (op.kind == OpKind::LayerNorm) name = "layer_norm";
  if (const auto* a = std::get_if<ElementwiseAttributes>(&op.attributes)) name = a->name;
  if (const auto* rule = std::get_if<OptimizerAttributes>(&op.attributes)) name = rule->name;
  const ComposedKernels* composed = name.empty() ? nullptr : framework.kernels.composed_of(name);
  if (composed == nullptr) return 1;
  return op.pass == Pass::Forward || op.pass == Pass::Update ? composed->forward
                                                             : composed->backward;
}

}  // namespace

Seconds dispatch_time(const Op& op, const FrameworkProfile& framework, bool is_training,
                      bool spares_library) {
  Seconds time = framework.host.dispatch_per_backward_op;
  if (op.pass == Pass::Forward) time = framework.host.dispatch_per_op;
  if (op.pass == Pass::Update) time = framework.host.dispatch_per_optimizer_op;
  // Without an optimizer a gradient is kept by a node of the backward pass.
  const auto* rule = std::get_if<OptimizerAttributes>(&op.attributes);
  if (rule != nullptr && rule->name == "none") time = framework.host.dispatch_per_backward_op;
  if (const double more = elementary_ops(op, framework) - 1; more > 0) return time * (1 + more);
  Seconds call = spares_library ? Seconds() : framework.host.dispatch_per_library_call;
  if (is_training && op.pass == Pass::Forward) call += framework.host.autograd_per_library_call;
  switch (op.kind) {
    case OpKind::Conv:
    case OpKind::ConvTranspose:
    case OpKind::Linear:  // cublasLt where the bias is fused; MatMul is one plain cublas call
      return time + call;
    case OpKind::BatchNorm:
      if (framework.compiler && framework.compiler->expands_normalization) return time;
      if (is_training && op.pass == Pass::Forward && framework.batch_norm.updates_are_ops) {
        time += framework.host.dispatch_per_op * framework.batch_norm.update_kernels;
      }
      return time + call;
    case OpKind::Recurrent:
    case OpKind::Attention:
    case OpKind::Scan:
      return time + call;
    case OpKind::Transpose:  // the view, then the copy
      return time + view_time(op, framework);
    case OpKind::Routine:
      return time * static_cast<double>(std::get<RoutineAttributes>(op.attributes).ops);
    case OpKind::EdgeAttention:
      return framework.fusion.edge_attention ? time + call : time * lowering::kEdgeAttentionOps;
    case OpKind::LayerNorm:
    case OpKind::GroupNorm:
      // Three results and two weights cost the host as much as a library's descriptors. Source:
      // smallest times of data/kernels/layernorm.csv, 46 to 58 us where elementwise ops take 26
      // to 31.
      if (framework.compiler && framework.compiler->expands_normalization) return time;
      return time + call;
    default:
      return time;
  }
}

Seconds cast_time(const Op& op, std::span<const Kernel> kernels,
                  const FrameworkProfile& framework) {
  if (framework.precision.reuses_casts || framework.compiler || op.kind == OpKind::Cast) return {};
  const auto casts = std::count_if(kernels.begin(), kernels.end(), [](const Kernel& kernel) {
    return kernel.name == "weight_cast" || kernel.name == "cast";
  });
  const Seconds each = op.pass == Pass::Forward ? framework.host.dispatch_per_op
                                                : framework.host.dispatch_per_backward_op;
  return each * static_cast<double>(casts);
}

Seconds view_time(const Op& op, const FrameworkProfile& framework) {
  if (op.kind != OpKind::Reshape && op.kind != OpKind::Slice && op.kind != OpKind::Transpose) {
    return {};
  }
  return op.pass == Pass::Forward ? framework.host.view : framework.host.backward_view;
}

bool pools_on_host(const Op& op, const FrameworkProfile& framework) {
  if (!framework.host.pooling) return false;
  if (op.kind != OpKind::MaxPool && op.kind != OpKind::AvgPool) return false;
  const auto& a = std::get<PoolAttributes>(op.attributes);
  const bool overlaps = a.stride_h < a.kernel_h || a.stride_w < a.kernel_w;
  return a.ceil_mode && (op.kind == OpKind::AvgPool || overlaps);
}

Seconds host_pooling_time(const NetworkGraph& graph, const Op& op, const HostPooling& host) {
  const auto& a = std::get<PoolAttributes>(op.attributes);
  const bool is_forward = op.pass == Pass::Forward;
  const auto elements = [&](TensorId id) {
    return static_cast<double>(element_count(graph.tensor(id).shape));
  };
  const double result = elements(op.outputs.front());
  double fetched = 0, smallest = result;
  for (const TensorId input : op.inputs) {
    const bool is_new = is_forward || graph.tensor(input).role == TensorRole::Gradient;
    if (is_new) fetched += elements(input);
    smallest = std::min(smallest, elements(input));
  }
  const double cells = smallest * static_cast<double>(a.kernel_h) * static_cast<double>(a.kernel_w);
  const Bytes copied = element_size(Precision::Fp32) * (fetched + result);
  return (is_forward ? host.forward_per_cell : host.backward_per_cell) * cells + copied / host.copy;
}

std::vector<Candidate> convolution_candidates(const ConvAttributes& shape, Pass pass,
                                              PrecisionMode precision, ImageLayout layout,
                                              const GpuTraits& gpu, double cudnn_version) {
  return lowering::convolution_candidates(shape, pass, lowering::choose_formats(precision, gpu),
                                          layout, gpu.architecture(), cudnn_version);
}

}  // namespace tracecast
