#include "sim/step/prepared_step.hpp"

#include <utility>

#include "hwspecs/software/framework_kernels.hpp"
#include "models/lowering/lower.hpp"
#include "sim/cost/price.hpp"
#include "sim/cost/sustained_clock.hpp"
#include "sim/step/memory/memory.hpp"

namespace tracecast {
namespace {

std::vector<std::vector<Bytes>> tried_workspaces_of(const LoweredStep& lowered,
                                                    std::size_t num_ops) {
  std::vector<std::vector<Bytes>> tried;
  for (const LoweredOp& op : lowered.ops) {
    if (op.policy != ChoicePolicy::Autotuned || op.candidates.size() < 2) continue;
    tried.resize(num_ops);
    for (const Candidate& candidate : op.candidates) {
      tried[op.op.index].push_back(candidate.workspace);
    }
  }
  return tried;
}

Bytes input_bytes(const NetworkGraph& graph, const std::vector<Bytes>& element_sizes) {
  Bytes bytes{};
  for (std::size_t t = 0; t < element_sizes.size(); ++t) {
    const Tensor& tensor = graph.tensors()[t];
    if (tensor.role != TensorRole::Input) continue;
    bytes += element_sizes[t] * static_cast<double>(element_count(tensor.shape));
  }
  return bytes;
}

}  // namespace

std::shared_ptr<const PreparedStep> prepare_step(const NetworkGraph& graph,
                                                 const FrameworkProfile& framework,
                                                 const GpuTraits& gpu,
                                                 const PrepareOptions& options) {
  auto step = std::make_shared<PreparedStep>();
  const LoweringOptions lowering{.precision = options.precision};
  step->lowered = std::make_shared<const LoweredStep>(lower(graph, framework, gpu, lowering));
  step->tried_workspaces = tried_workspaces_of(*step->lowered, graph.ops().size());
  step->input = input_bytes(graph, element_sizes(graph, framework, gpu, options.precision));
  const MemoryOptions memory{.precision = options.precision,
                             .keeps_gradients = options.keeps_gradients};
  step->lives = framework.compiler ? find_lives(graph_in_memory(graph, framework, gpu, lowering),
                                                framework, gpu, memory)
                                   : find_lives(graph, framework, gpu, memory);
  return step;
}

std::shared_ptr<const PreparedStep> with_algorithms_of(const GpuSpec& gpu, const CostProfile& cost,
                                                       const PreparedStep& step) {
  auto lowered = std::make_shared<LoweredStep>(*step.lowered);
  const cost::SustainedBoard board(gpu, cost);
  for (std::size_t i = 0; i < lowered->ops.size(); ++i) {
    std::vector<Candidate>& candidates = lowered->ops[i].candidates;
    if (candidates.size() < 2) continue;
    const std::size_t first = lowered->first_alike.empty() ? i : lowered->first_alike[i];
    if (first != i) {
      candidates = lowered->ops[first].candidates;
      continue;
    }
    const Candidate& taken = *cost::choose(lowered->ops[i], board).candidate;
    const std::size_t most = taken.kernels.size();
    const Bytes workspace = taken.workspace;
    // Those of less workspace stay for where there is no more.
    std::erase_if(candidates, [&](const Candidate& c) {
      return c.kernels.size() > most && c.workspace >= workspace;
    });
  }
  auto held = std::make_shared<PreparedStep>(step);
  held->lowered = std::move(lowered);
  return held;
}

std::shared_ptr<const PreparedStep> PreparedSteps::find(const NetworkGraph* graph,
                                                        const FrameworkProfile& framework,
                                                        const GpuTraits& gpu,
                                                        const PrepareOptions& options) const {
  const auto known = by_graph_.find(graph);
  if (known == by_graph_.end()) return nullptr;
  for (const Known& one : known->second.steps) {
    if (one.gpu == gpu && one.options == options &&
        differ_in_host_alone(one.framework, framework)) {
      return one.step;
    }
  }
  return nullptr;
}

std::shared_ptr<const PreparedStep> PreparedSteps::of(
    const std::shared_ptr<const NetworkGraph>& graph, const FrameworkProfile& framework,
    const GpuTraits& gpu, const PrepareOptions& options) {
  {
    const std::lock_guard lock(mutex_);
    if (auto known = find(graph.get(), framework, gpu, options)) return known;
  }
  auto step = prepare_step(*graph, framework, gpu, options);
  const std::lock_guard lock(mutex_);
  if (auto known = find(graph.get(), framework, gpu, options)) return known;
  if (by_graph_.size() >= most_) by_graph_.clear();
  OfGraph& of_graph = by_graph_[graph.get()];
  of_graph.graph = graph;
  of_graph.steps.push_back({gpu, options, framework, step});
  return step;
}

}  // namespace tracecast
