#pragma once
#include <cstddef>
#include <optional>

#include "models/graph.hpp"
#include "models/kernel.hpp"
#include "sim/base/units.hpp"
#include "sim/step/prediction.hpp"

namespace tracecast {

/// Ops whose fastest algorithm finds no room for its scratch, since memory is nearly full.
struct ScratchShortage {
  std::size_t ops = 0;
  Seconds longer{};             ///< all of them, than with their fastest algorithms
  OpId op{};                    ///< that loses most
  Algorithm runs{}, fastest{};  ///< of that op
  Bytes wanted{};               ///< scratch of its fastest algorithm
};

/// Of the step that `prediction` tells (prediction.hpp, plan_step_memory); nothing: all ops run
/// their fastest algorithms. A step that does not fit at all is reported as on a device whose
/// memory just holds its tensors, with algorithms that find room there. Pure.
[[nodiscard]] std::optional<ScratchShortage> find_shortage(const PredictRequest& request,
                                                           const Prediction& prediction);

}  // namespace tracecast
