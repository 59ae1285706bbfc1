#include "models/lowering/precision_plan.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

namespace tracecast::lowering {
namespace {

bool is_image_or_gradient(const Tensor& tensor) {
  return !tensor.is_integer &&
         (tensor.role == TensorRole::Input || tensor.role == TensorRole::Activation ||
          tensor.role == TensorRole::Gradient);
}

bool has_weight(const NetworkGraph& graph, const Op& op) {
  return std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId input) {
    return graph.tensor(input).role == TensorRole::Weight;
  });
}

bool is_convolution(const Op& op) {
  return op.kind == OpKind::Conv || op.kind == OpKind::ConvTranspose;
}

/// The word by which lists of ops name an op: its kind, or the function it applies.
std::string_view word_of(const Op& op) {
  if (const auto* a = std::get_if<ElementwiseAttributes>(&op.attributes)) return a->name;
  switch (op.kind) {
    case OpKind::Softmax:
      return "softmax";
    case OpKind::Loss:
      return "loss";
    case OpKind::LayerNorm:
      return "layer_norm";
    case OpKind::InstanceNorm:
      return "instance_norm";
    case OpKind::GroupNorm:
      return "group_norm";
    case OpKind::Lrn:
      return "lrn";
    case OpKind::Reduce:
      return "reduce";
    default:
      return {};
  }
}

/// Reductions stand in a list as "reduce", all of them, or by their function: "reduce_sum". The
/// sums of backward passes are no calls of the network's code, which autocast would see.
bool is_listed(const Op& op, std::span<const std::string> words) {
  const auto has = [&](std::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  if (has(word_of(op))) return true;
  return op.kind == OpKind::Reduce && op.pass == Pass::Forward && has("reduce_" + op.note);
}

/// Decides op by op, in order, and notes which tensors are wide.
class Planner {
 public:
  Planner(const NetworkGraph& graph, PrecisionPlan& plan)
      : graph_(graph), plan_(plan), wide_tensor_(graph.tensors().size(), false) {
    plan_.is_wide.assign(graph.ops().size(), false);
  }

  /// Autocast: see PrecisionPlan.
  void plan_mixed(std::span<const std::string> wide_words) {
    upcast_inputs();
    for_each_op([&](const Op& op) {
      if (is_convolution(op) || op.kind == OpKind::Linear || op.kind == OpKind::MatMul ||
          op.kind == OpKind::Attention || op.kind == OpKind::EdgeAttention ||
          op.kind == OpKind::Scan || op.kind == OpKind::Recurrent)
        return false;
      if (is_listed(op, wide_words)) return true;
      const auto [any, all, count] = wide_inputs(op);
      return count == 0 ? has_weight(graph_, op) : any;
    });
  }

  /// `by_engine`: attention and norms have kernels that take and give 8 bits.
  void plan_integer(bool wide_ends, bool by_engine) {
    if (wide_ends) upcast_inputs();
    find_last_gemms();
    std::vector<bool> raw(graph_.tensors().size(), false);  // no GEMM since the input
    for (std::size_t t = 0; t < raw.size(); ++t) {
      raw[t] = graph_.tensors()[t].role == TensorRole::Input;
    }
    std::uint32_t index = 0;
    for_each_op([&](const Op& op) {
      const bool last = is_last_[index++];
      const bool gemm = is_convolution(op) || op.kind == OpKind::Linear;
      const bool after_input = std::any_of(op.inputs.begin(), op.inputs.end(),
                                           [&](TensorId input) { return raw[input.index]; });
      if (!gemm) {
        for (const TensorId output : op.outputs) raw[output.index] = after_input;
      }
      const bool at_an_end = last || (after_input && is_convolution(op));
      if (gemm) return (wide_ends && at_an_end) || !has_weight(graph_, op);
      if (!passes_integers(op) && !(by_engine && has_engine_kernel(op))) return true;
      const auto [any, all, count] = wide_inputs(op);
      return count == 0 || all;
    });
  }

  /// GEMMs with a weight, experts' among them, whose sides are multiples of 16 (rows: 8) are the
  /// narrow ones; storage does not differ. Source: Transformer Engine, user guide, FP8 primer,
  /// "supported layers"; GroupedLinear.
  void plan_eight_bit_float() {
    for_each_op([&](const Op& op) {
      const auto* a = std::get_if<MatMulAttributes>(&op.attributes);
      const bool has_rows =
          op.kind == OpKind::Linear || (op.kind == OpKind::MatMul && has_weight(graph_, op));
      if (!has_rows || a == nullptr) return true;
      return a->m % 8 != 0 || a->n % 16 != 0 || a->k % 16 != 0;
    });
  }

  /// Convolutions and recurrent layers, which are cuDNN's, in TF32; GEMMs, cuBLAS's, in FP32.
  void plan_tf32_without_gemms() {
    for_each_op([](const Op& op) { return !is_convolution(op) && op.kind != OpKind::Recurrent; });
  }

  /// The graph says which tensors its code keeps wide; their ops are computed so.
  void plan_as_marked() {
    for (std::uint32_t i = 0; i < graph_.ops().size(); ++i) {
      const Op& op = graph_.ops()[i];
      plan_.is_wide[i] = std::any_of(op.outputs.begin(), op.outputs.end(), [&](TensorId output) {
        return graph_.tensor(output).is_wide;
      });
    }
    for (std::size_t t = 0; t < wide_tensor_.size(); ++t) {
      wide_tensor_[t] = graph_.tensors()[t].is_wide;
    }
  }

  void keep_tensors() {
    plan_.kept.resize(graph_.tensors().size());
    for (std::size_t t = 0; t < plan_.kept.size(); ++t) {
      const bool wide = is_image_or_gradient(graph_.tensors()[t]) && wide_tensor_[t];
      plan_.kept[t] = wide ? plan_.wide.storage : plan_.low_precision.storage;
    }
    // Weights are kept as the op that reads them wants them, or wide where the graph says so.
    for (std::uint32_t i = 0; i < graph_.ops().size(); ++i) {
      for (const TensorId input : graph_.ops()[i].inputs) {
        if (is_image_or_gradient(graph_.tensor(input))) continue;
        plan_.kept[input.index] =
            graph_.tensor(input).is_wide ? Precision::Fp32 : plan_.formats(OpId{i}).weights;
      }
      for (const TensorId output : graph_.ops()[i].outputs) {
        if (graph_.tensor(output).role == TensorRole::WeightGradient)
          plan_.kept[output.index] = plan_.formats(OpId{i}).weights;
      }
    }
  }

 private:
  struct WideInputs {
    bool any = false, all = true;
    int count = 0;
  };
  [[nodiscard]] WideInputs wide_inputs(const Op& op) const {
    WideInputs found;
    for (const TensorId input : op.inputs) {
      if (!is_image_or_gradient(graph_.tensor(input))) continue;
      ++found.count;
      found.any = found.any || wide_tensor_[input.index];
      found.all = found.all && wide_tensor_[input.index];
    }
    return found;
  }

  void upcast_inputs() {
    for (std::size_t t = 0; t < wide_tensor_.size(); ++t) {
      wide_tensor_[t] = graph_.tensors()[t].role == TensorRole::Input;
    }
  }

  template <class Decide>
  void for_each_op(Decide decide) {
    const auto ops = graph_.ops();
    for (std::uint32_t i = 0; i < ops.size(); ++i) {
      const Op& op = ops[i];
      bool wide = decide(op);
      // A gradient is computed as its forward op was; sums of gradients follow their inputs.
      if (op.pass != Pass::Forward && op.forward && graph_.op(*op.forward).kind == op.kind) {
        wide = plan_.is_wide[op.forward->index];
      }
      plan_.is_wide[i] = wide;
      for (const TensorId output : op.outputs) wide_tensor_[output.index] = wide;
    }
  }

  /// GEMMs whose result reaches the network's output through no other GEMM.
  void find_last_gemms() {
    const auto ops = graph_.ops();
    is_last_.assign(ops.size(), false);
    std::vector<bool> reaches(graph_.tensors().size(), false);
    for (const TensorId output : graph_.outputs) reaches[output.index] = true;
    for (std::size_t i = ops.size(); i-- > 0;) {
      const Op& op = ops[i];
      const bool here = std::any_of(op.outputs.begin(), op.outputs.end(),
                                    [&](TensorId output) { return reaches[output.index]; });
      if (!here) continue;
      if (is_convolution(op) || op.kind == OpKind::Linear || op.kind == OpKind::MatMul) {
        is_last_[i] = true;
      } else {
        for (const TensorId input : op.inputs) reaches[input.index] = true;
      }
    }
  }

  /// Ops that work on 8-bit integers as they are.
  static bool passes_integers(const Op& op) {
    switch (op.kind) {
      case OpKind::Activation:
      case OpKind::Binary:
      case OpKind::BatchNorm:  // folded, or one multiplication and addition per channel
      case OpKind::MaxPool:
      case OpKind::AvgPool:
      case OpKind::Concat:
      case OpKind::Split:
      case OpKind::Slice:
      case OpKind::Pad:
      case OpKind::Transpose:
      case OpKind::Reshape:
      case OpKind::Resize:
      case OpKind::Dropout:
        return true;
      default:
        return false;
    }
  }

  static bool has_engine_kernel(const Op& op) {
    return op.kind == OpKind::LayerNorm || op.kind == OpKind::Softmax ||
           op.kind == OpKind::MatMul || op.kind == OpKind::Attention;
  }

  const NetworkGraph& graph_;
  PrecisionPlan& plan_;
  std::vector<bool> wide_tensor_;
  std::vector<bool> is_last_;
};

}  // namespace

PrecisionPlan plan_precision(const NetworkGraph& graph, const FrameworkProfile& framework,
                             const GpuTraits& gpu, PrecisionMode mode, bool wide_ends) {
  PrecisionPlan plan;
  plan.low_precision = plan.wide = choose_formats(mode, gpu);
  Planner planner(graph, plan);
  switch (mode) {
    case PrecisionMode::Amp:
      // Wide ops see fp32; no GEMM is among them.
      if (framework.compiler) break;  // its fused kernels read one format and write another
      plan.wide = choose_formats(PrecisionMode::Fp32, gpu);
      plan.scales_loss = true;
      planner.plan_mixed(framework.precision.wide_ops);
      break;
    case PrecisionMode::Tf32:
      if (framework.precision.tf32_gemms) break;
      plan.wide = choose_formats(PrecisionMode::Fp32, gpu);
      planner.plan_tf32_without_gemms();
      break;
    case PrecisionMode::Fp16:
    case PrecisionMode::Bf16:
      // GEMMs of wide operands are rare: TF32 where a program in 16 bits allows it. A guess.
      plan.wide = choose_formats(
          gpu.has(Precision::Tf32, MathUnit::TensorCore) && framework.precision.tf32_gemms
              ? PrecisionMode::Tf32
              : PrecisionMode::Fp32,
          gpu);
      plan.wide.weights = plan.low_precision.weights;
      plan.wide.unmarked_storage = plan.low_precision.storage;
      plan.casts_are_ops = true;
      planner.plan_as_marked();
      break;
    case PrecisionMode::Fp8:
    case PrecisionMode::Fp8Block:
    case PrecisionMode::Nvfp4:
    case PrecisionMode::Mxfp4:
    case PrecisionMode::Int8Weights:
    case PrecisionMode::Int4Weights:
      plan.wide = choose_formats(PrecisionMode::Bf16, gpu);
      if (framework.precision.recipe) {
        plan.low_precision = with_recipe(plan.low_precision, *framework.precision.recipe, gpu);
      }
      planner.plan_eight_bit_float();
      break;
    case PrecisionMode::Int8: {
      const bool half = gpu.has(Precision::Fp16, MathUnit::TensorCore);
      plan.wide = choose_formats(half ? PrecisionMode::Fp16 : PrecisionMode::Fp32, gpu);
      planner.plan_integer(wide_ends && !framework.precision.quantizes_ends,
                           framework.fusion.layers);
      break;
    }
    default:
      break;
  }
  planner.keep_tensors();
  return plan;
}

}  // namespace tracecast::lowering
