#pragma once
#include <string>

#include "models/graph.hpp"
#include "models/timeline.hpp"
#include "sim/step/step_program.hpp"

namespace tracecast {

/// What ran when in `num_steps` simulated steps of one GPU, for trace viewers: the dispatch thread
/// (work of each op, then its launches), loader threads, the copy engine, the compute stream with
/// an arrow to every kernel from its launch, and a track of steps from the end of one step's last
/// kernel to the end of the next one's. `gpu`: its name.
[[nodiscard]] Timeline step_timeline(const StepProgram& program, const PricedStep& priced,
                                     const NetworkGraph& graph, int num_steps,
                                     const std::string& gpu);

}  // namespace tracecast
