#include "sim/cluster/step_program.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>

#include "models/lowering/lower.hpp"

namespace tracecast {

namespace {

bool same(const MatrixWork& x, const MatrixWork& y) {
  return x.batch == y.batch && x.m == y.m && x.n == y.n && x.k == y.k &&
         x.transpose_a == y.transpose_a && x.transpose_b == y.transpose_b;
}

bool same(const Work& a, const Work& b) {
  if (a.index() != b.index()) return false;
  if (const auto* conv = std::get_if<ConvWork>(&a)) {
    return conv->shape == std::get<ConvWork>(b).shape;
  }
  if (const auto* x = std::get_if<MatrixWork>(&a)) {
    return same(*x, std::get<MatrixWork>(b));
  }
  if (const auto* x = std::get_if<StreamWork>(&a)) {
    const auto& y = std::get<StreamWork>(b);
    return x->elements == y.elements && x->operations_per_element == y.operations_per_element &&
           x->access_efficiency == y.access_efficiency &&
           x->instructions_per_element == y.instructions_per_element;
  }
  if (const auto* x = std::get_if<RecurrentWork>(&a)) {
    const auto& y = std::get<RecurrentWork>(b);
    return x->steps == y.steps && x->cells == y.cells && same(x->product, y.product) &&
           x->projection == y.projection && x->elementwise_bytes == y.elementwise_bytes &&
           x->elements == y.elements && x->may_split_k == y.may_split_k &&
           x->persistent == y.persistent;
  }
  if (const auto* x = std::get_if<AttentionWork>(&a)) {
    const auto& y = std::get<AttentionWork>(b);
    return x->shape == y.shape && x->products == y.products;
  }
  const auto &x = std::get<ReductionWork>(a), &y = std::get<ReductionWork>(b);
  return x.rows == y.rows && x.cols == y.cols && x.passes == y.passes && x.strided == y.strided &&
         x.row_threads == y.row_threads && x.block_threads == y.block_threads;
}

bool same(const Kernel& a, const Kernel& b) {
  return a.kernel_class == b.kernel_class && a.algorithm == b.algorithm && a.pass == b.pass &&
         a.math == b.math && a.data == b.data && a.unit == b.unit && a.flops == b.flops &&
         a.read == b.read && a.written == b.written && a.launches == b.launches &&
         a.more_launches == b.more_launches && a.driven_steps == b.driven_steps &&
         a.is_bounded_guess == b.is_bounded_guess && same(a.work, b.work);
}

bool same(const Candidate& a, const Candidate& b) {
  return a.algorithm == b.algorithm && a.workspace == b.workspace &&
         std::equal(a.kernels.begin(), a.kernels.end(), b.kernels.begin(), b.kernels.end(),
                    [](const Kernel& x, const Kernel& y) { return same(x, y); });
}

/// Whether the library would choose alike for both, at the same price.
bool same(const LoweredOp& a, const LoweredOp& b) {
  return a.policy == b.policy && a.workspace_limit == b.workspace_limit &&
         std::equal(a.candidates.begin(), a.candidates.end(), b.candidates.begin(),
                    b.candidates.end(),
                    [](const Candidate& x, const Candidate& y) { return same(x, y); });
}

/// Prices of ops that have several candidates, to be found again: deep networks repeat their blocks.
class PriceMemory {
 public:
  [[nodiscard]] std::optional<std::uint32_t> find(const LoweredStep& step,
                                                  const LoweredOp& op) const {
    const auto known = by_work_.find(key(op));
    if (known == by_work_.end()) return std::nullopt;
    for (const std::uint32_t i : known->second) {
      if (same(step.ops[i], op)) return i;
    }
    return std::nullopt;
  }
  void add(const LoweredOp& op, std::uint32_t index) { by_work_[key(op)].push_back(index); }

 private:
  using Key = std::tuple<std::size_t, double, double>;
  static Key key(const LoweredOp& op) {
    const auto& kernels = op.candidates.front().kernels;
    if (kernels.empty()) return {op.candidates.size(), 0, 0};
    return {op.candidates.size(), kernels.back().flops.in_flop(),
            kernels.back().bytes().in_bytes()};
  }
  std::map<Key, std::vector<std::uint32_t>> by_work_;
};

/// What lives on between steps and is handed to compiled code.
double count_arguments(const NetworkGraph& graph) {
  return static_cast<double>(
      std::count_if(graph.tensors().begin(), graph.tensors().end(), [](const Tensor& tensor) {
        return tensor.role == TensorRole::Weight || tensor.role == TensorRole::Buffer ||
               tensor.role == TensorRole::OptimizerState;
      }));
}

}  // namespace

PricedStep price(LoweredStep lowered, const GpuSpec& gpu, const CostProfile& profile) {
  PricedStep priced;
  priced.lowered = std::move(lowered);
  priced.choices.reserve(priced.lowered.ops.size());
  PriceMemory memory;
  for (std::uint32_t i = 0; i < priced.lowered.ops.size(); ++i) {
    const LoweredOp& op = priced.lowered.ops[i];
    const bool worth_finding = op.candidates.size() > 1;
    if (worth_finding) {
      if (const auto twin = memory.find(priced.lowered, op)) {
        cost::PricedCandidate choice = priced.choices[*twin];
        const auto which = choice.candidate - priced.lowered.ops[*twin].candidates.data();
        choice.candidate = &op.candidates[static_cast<std::size_t>(which)];
        priced.choices.push_back(std::move(choice));
        continue;
      }
      memory.add(op, i);
    }
    priced.choices.push_back(cost::choose(op, gpu, profile));
  }
  return priced;
}

StepProgram build_step_program(const NetworkGraph& graph, const PricedStep& priced,
                               const FrameworkProfile& framework, Seconds input_copy) {
  StepProgram program;
  program.step_overhead = framework.step_overhead;
  if (framework.compiler) {
    program.step_overhead += framework.compiler->argument * count_arguments(graph);
  }
  program.launch = framework.launch_per_kernel;
  program.input_copy = input_copy;
  program.synchronizes = framework.synchronizes_each_step;
  // An engine that cuts a training graph into pieces runs an inference graph as one (framework profile of MXNet, "bulk").
  const bool is_training = std::any_of(graph.ops().begin(), graph.ops().end(),
                                       [](const Op& op) { return op.pass != Pass::Forward; });
  int ops_since_wait = 0;
  bool result_awaited = false;
  for (std::uint32_t i = 0; i < priced.choices.size(); ++i) {
    const cost::PricedCandidate& choice = priced.choices[i];
    if (choice.estimates.empty()) continue;
    const Op& op = graph.op(priced.lowered.ops[i].op);
    const int ops_per_wait = op.pass == Pass::Update ? framework.updates_per_synchronization
                             : is_training           ? framework.graph_ops_per_synchronization
                                                     : 0;
    const bool reads = op.kind == OpKind::Routine && priced.lowered.ops[i].host_waits;
    const bool on_host = priced.lowered.ops[i].runs_on_host;
    const bool waits =
        result_awaited || reads || on_host || (ops_per_wait > 0 && ops_since_wait >= ops_per_wait);
    result_awaited = priced.lowered.ops[i].host_waits;
    ops_since_wait = waits ? 1 : ops_since_wait + 1;
    const Seconds waking = waits ? framework.synchronization : Seconds();
    const Seconds host_work =
        on_host ? host_pooling_time(graph, op, *framework.host_pooling) : Seconds();
    program.ops.push_back(
        {.dispatch = dispatch_time(op, framework, is_training) + waking + host_work,
         .first_kernel = static_cast<std::uint32_t>(program.kernels.size()),
         .num_kernels = static_cast<std::uint32_t>(choice.estimates.size()),
         .waits_for_gpu = waits});
    for (std::uint32_t k = 0; k < choice.estimates.size(); ++k) {
      const Kernel& kernel = choice.candidate->kernels[k];
      // Launches of a loop follow each other no faster than the host issues them.
      const double launches = static_cast<double>(kernel.launches);
      const Seconds issued = launches > 1 ? framework.launch_per_kernel * launches : Seconds();
      program.kernels.push_back({.duration = std::max(choice.estimates[k].duration, issued),
                                 .more_launch = framework.launch_per_kernel * kernel.more_launches +
                                                framework.recurrent_step * kernel.driven_steps,
                                 .op = i,
                                 .kernel = k});
    }
  }
  return program;
}

}  // namespace tracecast
