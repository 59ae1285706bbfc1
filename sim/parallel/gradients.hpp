#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "hwspecs/software/strategy_profile.hpp"
#include "models/graph.hpp"
#include "sim/base/units.hpp"
#include "sim/step/step_program.hpp"

namespace tracecast {

/// The gradient of one weight: when it is there, and who needs the weight first.
struct Gradient {
  TensorId weight;
  Bytes bytes{};
  std::uint32_t ready_after = 0;         ///< kernel of the program that completes it
  std::uint32_t first_use = 0;           ///< first kernel of the program that reads the weight
  std::vector<std::uint32_t> updates{};  ///< kernels of the program that apply it
};

struct GradientSchedule {
  std::vector<Gradient> gradients;  ///< in the order in which they are ready
  /// First kernel of the program that belongs to the updates; as many as there are kernels without
  /// one.
  std::uint32_t updates_begin = 0;
};
/// Reads the backward pass: every weight with an update op, in the order of the last kernels of the
/// ops that produce their gradients (an op that a compiler fused away counts with the next kernel).
/// `element_bytes`: by tensor, of one element as computed (element_sizes); a gradient has the
/// elements of its own tensor, so rows of a table are counted and not the table.
[[nodiscard]] GradientSchedule find_gradients(const NetworkGraph& graph, const PricedStep& priced,
                                              const StepProgram& program,
                                              std::span<const Bytes> element_bytes);

/// Gradients that travel together.
struct GradientBucket {
  std::vector<std::uint32_t> gradients;  ///< indices into the schedule
  Bytes bytes{};
  std::uint32_t ready_after = 0;  ///< kernel
  std::uint32_t first_use = 0;    ///< kernel
  Seconds delay{};                ///< from ready until somebody looks
  bool weights_only = false;      ///< no gradient: weights that are copied before each step
};
/// Packs in the order of readiness: a bucket is closed when another gradient would make it larger
/// than the strategy's (at least one each), the first one at its own size. With a cycle time c only
/// gradients that become ready between two multiples of c travel together, and wait for the second
/// of them. `ends`: of the kernels, from the step's begin.
[[nodiscard]] std::vector<GradientBucket> make_buckets(const GradientSchedule& schedule,
                                                       const StrategyProfile& strategy,
                                                       std::span<const Seconds> ends);

}  // namespace tracecast
