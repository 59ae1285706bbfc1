#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "hwspecs/software/framework_profile.hpp"
#include "models/graph.hpp"
#include "models/kernel.hpp"
#include "models/lowering/gpu_traits.hpp"
#include "sim/base/units.hpp"
#include "sim/step/memory/tensor_lives.hpp"

namespace tracecast {

/// A step before any GPU has priced it: what its graph, its framework apart from the host's costs,
/// its precision and the traits of a GPU decide. It never changes: one serves every GPU of these
/// traits, in several threads at once.
struct PreparedStep {
  std::shared_ptr<const LoweredStep> lowered;
  StepLives lives;  ///< of what a compiler leaves in memory
  /// Of every op: the scratch of what a library tries before it settles; empty where it goes by
  /// rules.
  std::vector<std::vector<Bytes>> tried_workspaces;
  Bytes input{};  ///< of all tensors that a step reads from outside
};

struct PrepareOptions {
  PrecisionMode precision = PrecisionMode::Fp32;
  bool keeps_gradients = false;  ///< as MemoryOptions
  friend bool operator==(const PrepareOptions&, const PrepareOptions&) = default;
};

/// Pure. The graph is not kept.
[[nodiscard]] std::shared_ptr<const PreparedStep> prepare_step(const NetworkGraph& graph,
                                                               const FrameworkProfile& framework,
                                                               const GpuTraits& gpu,
                                                               const PrepareOptions& options);

/// The step with the algorithms that a library offers on a GPU of other rates: those that it takes
/// on `gpu` at the prices of `cost`, and ones of no more kernels or of less workspace. A question
/// what a GPU would do if its memory were faster then never takes more launches than the GPU that
/// is sold does: all it changes is how long kernels run. Pure.
[[nodiscard]] std::shared_ptr<const PreparedStep> with_algorithms_of(const GpuSpec& gpu,
                                                                     const CostProfile& cost,
                                                                     const PreparedStep& step);

/// Prepared steps, made once and remembered with their graphs. Safe from several threads; two that
/// ask for the same one at the same time may both make it, and get equal ones.
class PreparedSteps {
 public:
  /// `most`: graphs remembered; then all are forgotten.
  explicit PreparedSteps(std::size_t most = 256) : most_(most) {}
  [[nodiscard]] std::shared_ptr<const PreparedStep> of(
      const std::shared_ptr<const NetworkGraph>& graph, const FrameworkProfile& framework,
      const GpuTraits& gpu, const PrepareOptions& options);

 private:
  struct Known {
    GpuTraits gpu;
    PrepareOptions options;
    FrameworkProfile framework;
    std::shared_ptr<const PreparedStep> step;
  };
  struct OfGraph {
    std::shared_ptr<const NetworkGraph> graph;  ///< lives as long as its address is a key
    std::vector<Known> steps;
  };
  [[nodiscard]] std::shared_ptr<const PreparedStep> find(const NetworkGraph* graph,
                                                         const FrameworkProfile& framework,
                                                         const GpuTraits& gpu,
                                                         const PrepareOptions& options) const;

  std::size_t most_;
  std::mutex mutex_;
  std::map<const NetworkGraph*, OfGraph> by_graph_;
};

}  // namespace tracecast
