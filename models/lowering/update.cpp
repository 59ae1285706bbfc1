#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "models/lowering/kernels.hpp"
#include "models/lowering/layers.hpp"

namespace tracecast::lowering {
namespace {

/// A term of an update rule: tensors of the weight's size read and written.
struct Term {
  std::string_view name;
  double reads = 0, writes = 0;
  double operations = 1;
};

constexpr std::array<Term, 1> kSgd{{{"update", 2, 1, 2}}};
constexpr std::array<Term, 3> kMomentum{
    {{"scale", 1, 1, 1}, {"add", 2, 1, 2}, {"update", 2, 1, 2}}};
constexpr std::array<Term, 8> kAdam{{{"scale", 1, 1, 1},
                                     {"add", 2, 1, 2},
                                     {"scale", 1, 1, 1},
                                     {"addcmul", 2, 1, 3},
                                     {"sqrt", 1, 1, 4},
                                     {"divide", 1, 1, 4},
                                     {"add", 1, 1, 1},
                                     {"update", 3, 1, 6}}};

// AdamW is Adam behind a step of decay, w *= 1 - lr * decay. Source: PyTorch 2,
// torch/optim/adam.py,
// `_foreach_mul_(params, 1 - lr * weight_decay)`.
constexpr Term kDecay{"decay", 1, 1, 1};
// PyTorch has no LAMB of its own: NVIDIA apex's FusedLAMB, the norm of all gradients first. Source:
// apex/optimizers/fused_lamb.py, csrc/multi_tensor_lamb.cu, csrc/multi_tensor_l2norm_kernel.cu.
constexpr std::array<Term, 5> kLamb{{{"gradient_norm", 1, 0, 2},
                                     {"weight_norm", 1, 0, 2},
                                     {"direction", 4, 3, 20},
                                     {"direction_norm", 1, 0, 2},
                                     {"update", 2, 1, 2}}};

// One kernel per tensor assigned to. Source: TensorFlow 1.10, core/kernels/training_ops_gpu.cu.cc.
constexpr std::array<Term, 2> kAssignedMomentum{{{"accumulate", 2, 1, 2}, {"update", 2, 1, 2}}};
constexpr std::array<Term, 3> kAssignedAdam{
    {{"moment1", 2, 1, 3}, {"moment2", 2, 1, 4}, {"update", 3, 1, 6}}};
// TensorFlow Addons, optimizers/weight_decay_optimizers.py: `var.assign_sub(rate * var)`, then
// Adam.
constexpr std::array<Term, 5> kAssignedAdamW{{{"decay", 1, 1, 1},
                                              {"subtract_decay", 2, 1, 1},
                                              {"moment1", 2, 1, 3},
                                              {"moment2", 2, 1, 4},
                                              {"update", 3, 1, 6}}};
// TensorFlow Addons, optimizers/lamb.py: two moments, the direction, two norms, the step.
constexpr std::array<Term, 6> kAssignedLamb{{{"moment1", 2, 1, 3},
                                             {"moment2", 2, 1, 4},
                                             {"direction", 3, 1, 8},
                                             {"weight_norm", 1, 0, 2},
                                             {"direction_norm", 1, 0, 2},
                                             {"update", 2, 1, 2}}};
constexpr std::array<Term, 2> kAssignedAdagrad{{{"accumulate", 2, 1, 2}, {"update", 3, 1, 6}}};
constexpr std::array<Term, 3> kAssignedRmsProp{
    {{"mean_square", 2, 1, 4}, {"momentum", 3, 1, 7}, {"update", 2, 1, 1}}};
constexpr std::array<Term, 3> kAssignedAdadelta{
    {{"accumulate", 2, 1, 4}, {"update", 4, 1, 12}, {"accumulate_step", 3, 1, 14}}};

constexpr std::array<Term, 6> kAdafactor{{{"square", 1, 1, 2},
                                          {"row_mean", 1, 0, 1},
                                          {"column_mean", 1, 0, 1},
                                          {"direction", 1, 1, 3},
                                          {"norm", 1, 0, 2},
                                          {"step", 2, 1, 2}}};

std::span<const Term> assigned_terms(std::string_view name) {
  if (name == "momentum") return kAssignedMomentum;
  if (name == "adam") return kAssignedAdam;
  if (name == "adamw") return kAssignedAdamW;
  if (name == "lamb") return kAssignedLamb;
  if (name == "adagrad") return kAssignedAdagrad;
  if (name == "rmsprop") return kAssignedRmsProp;
  if (name == "adadelta") return kAssignedAdadelta;
  return kSgd;
}

/// Decays weights itself, not their gradients.
bool decays_weights(std::string_view name) { return name == "adamw" || name == "lamb"; }

/// What the rule itself computes; nothing for "none".
void append_rule(const OptimizerAttributes& a, const FrameworkProfile& framework,
                 std::vector<Term>& terms) {
  switch (decays_weights(a.name) ? WeightDecay::None : framework.optimizer.weight_decay) {
    case WeightDecay::None:
      break;
    case WeightDecay::OnGradient:
      if (!framework.optimizer.fused) terms.push_back({"weight_decay", 2, 1, 2});
      break;
    case WeightDecay::AsLoss:
      terms.push_back({"l2_loss", 1, 0, 2});
      terms.push_back({"l2_gradient", 1, 1, 1});
      terms.push_back({"add_gradient", 2, 1, 1});
      break;
  }
  const double states = a.states;
  if (const auto* composed = framework.compiler ? nullptr : framework.kernels.composed_of(a.name)) {
    // What a script computes with the framework's elementary ops, and assigns.
    terms.insert(terms.end(), static_cast<std::size_t>(composed->forward), {"composed", 1.5, 1, 1});
    return;
  }
  if (a.name == "lamb" && !framework.optimizer.assigns_terms) {
    // A norm is known when all of its tensor was read: fused or not, these are passes of their own.
    terms.insert(terms.end(), kLamb.begin(), kLamb.end());
  } else if (a.name == "adam8bit") {
    // One kernel a tensor, both moments in bytes. Source: bitsandbytes, csrc/kernels.cu,
    // kOptimizerStatic8bit2StateBlockwise.
    terms.push_back({"update", 2.5, 1.5, 24});
  } else if (a.name == "adafactor") {
    // Source: transformers, optimization.py, Adafactor.step: squares, their means by row and by
    // column, the direction, its norm, the step.
    terms.insert(terms.end(), kAdafactor.begin(), kAdafactor.end());
  } else if (framework.optimizer.fused) {
    terms.push_back({"update", 2 + states, 1 + states, 4 + 6 * states});
  } else if (framework.optimizer.assigns_terms) {
    const auto assigned = assigned_terms(a.name);
    terms.insert(terms.end(), assigned.begin(), assigned.end());
  } else if (a.name == "sgd" && a.states == 0) {
    terms.insert(terms.end(), kSgd.begin(), kSgd.end());
  } else if (a.name == "momentum") {
    terms.insert(terms.end(), kMomentum.begin(), kMomentum.end());
  } else if (a.name == "adam" || a.name == "adamw") {
    if (a.name == "adamw") terms.push_back(kDecay);
    terms.insert(terms.end(), kAdam.begin(), kAdam.end());
  } else {
    for (int i = 0; i < a.states; ++i) {
      terms.push_back({"scale", 1, 1, 1});
      terms.push_back({"add", 2, 1, 2});
    }
    terms.push_back({"update", 2 + states, 1, 6});
  }
}

std::vector<Term> terms_of(const OptimizerAttributes& a, const FrameworkProfile& framework) {
  std::vector<Term> terms;
  terms.reserve(12);
  if (a.name != "none") append_rule(a, framework, terms);
  if (framework.optimizer.accumulates_gradients)
    terms.insert(terms.begin(), {"accumulate", 2, 1, 1});
  if (framework.optimizer.zeroes_gradients) terms.push_back({"zero", 0, 1, 1});
  return terms;
}

/// Elements of a gradient, which its update touches: the weight's, or the rows a sparse gradient
/// has (repeated ones too). Source for loss scaling: PyTorch 2, torch/amp/grad_scaler.py,
/// _unscale_grads_: of a sparse gradient its values alone are divided and checked, and only
/// gradients of 16 bits have their rows summed before.
double updated_elements(const Context& context, const Op& op) {
  const double weight = context.elements(op.inputs.front());
  return op.inputs.size() > 1 ? std::min(weight, context.elements(op.inputs[1])) : weight;
}

/// Launches of one term over all parameters: 65536 elements per block, at most 320 blocks and so
/// many tensors per launch, by the number of lists. Source: PyTorch 1.12
/// ATen/native/cuda/MultiTensorApply.cuh.
int count_launches(const Term& term, const Context& context, std::span<const Op* const> ops) {
  constexpr std::array<double, 5> kMostTensors{110, 64, 48, 36, 30};
  const auto lists =
      static_cast<std::size_t>(std::clamp(std::max(term.reads, term.writes), 1.0, 5.0));
  double blocks = 0;
  for (const Op* op : ops) blocks += std::ceil(updated_elements(context, *op) / 65536);
  const double launches =
      std::max(std::ceil(blocks / 320),
               std::ceil(static_cast<double>(ops.size()) / kMostTensors[lists - 1]));
  return static_cast<int>(std::clamp(launches, 1.0, 1e4));
}

/// Kernels of `term` over all parameters, together or one by one.
void append_term(const Term& term, const Context& context, std::span<const Op* const> updates,
                 std::vector<Kernel>& kernels) {
  double elements = 0;
  for (const Op* op : updates) elements += updated_elements(context, *op);
  const int launches = count_launches(term, context, updates);
  const double share = elements / launches;
  const Bytes once = element_size(context.formats.weights) * share;
  for (int i = 0; i < launches; ++i) {
    kernels.push_back(stream_kernel(term.name, KernelClass::Optimizer, Pass::Update,
                                    context.formats.weights, once * term.reads, once * term.writes,
                                    share, term.operations));
  }
}

}  // namespace

std::vector<Kernel> lower_loss_scaling(const Context& context, std::span<const Op* const> updates) {
  std::vector<Kernel> kernels;
  switch (context.framework.precision.loss_scaling) {
    case LossScaling::None:
      return kernels;
    case LossScaling::Check:
      append_term({"all_finite", 1, 0, 1}, context, updates, kernels);
      break;
    case LossScaling::UnscaleTogether:
      append_term({"unscale_check", 1, 1, 2}, context, updates, kernels);
      break;
    case LossScaling::UnscaleEach:
      for (const Op* update : updates) {
        const double n = updated_elements(context, *update);
        append_term({"unscale", 1, 1, 1}, context, {&update, 1}, kernels);
        // A byte of truth per element, and its conjunction.
        const Bytes gradient = element_size(context.formats.weights) * n, truth(n);
        kernels.push_back(stream_kernel("is_finite", KernelClass::Optimizer, Pass::Update,
                                        context.formats.weights, gradient, truth, n));
        kernels.push_back(stream_kernel("reduce_all", KernelClass::Optimizer, Pass::Update,
                                        Precision::Int8, truth, Bytes(1), n));
      }
      break;
  }
  kernels.push_back(stream_kernel("update_scale", KernelClass::Optimizer, Pass::Update,
                                  Precision::Fp32, Bytes(12), Bytes(8), 1));
  return kernels;
}

std::vector<Kernel> lower_update(const Context& context, std::span<const Op* const> ops) {
  double elements = 0;
  for (const Op* op : ops) elements += updated_elements(context, *op);
  const auto& attributes = std::get<OptimizerAttributes>(ops.front()->attributes);
  const bool is_wide = context.graph.tensor(ops.front()->inputs.front()).is_wide;
  const Precision data = is_wide && ops.size() == 1 ? Precision::Fp32 : context.formats.weights;
  std::vector<Kernel> kernels;
  for (const Term& term : terms_of(attributes, context.framework)) {
    const int launches = ops.size() > 1 ? count_launches(term, context, ops) : 1;
    const double share = elements / launches;
    const Bytes once = element_size(data) * share;
    const KernelClass kernel_class =
        term.name == "zero" ? KernelClass::Memset : KernelClass::Optimizer;
    for (int i = 0; i < launches; ++i) {
      kernels.push_back(stream_kernel(term.name, kernel_class, Pass::Update, data,
                                      once * term.reads, once * term.writes, share,
                                      term.operations));
    }
  }
  return kernels;
}

}  // namespace tracecast::lowering
