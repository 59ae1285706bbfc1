#pragma once
#include "hwspecs/software/framework_profile.hpp"

namespace tracecast {

/// A framework whose training step was captured as CUDA graphs: the host launches it whole, so that
/// ops and library calls cost it nothing and no op waits for another on the host; between kernels
/// that depend on each other passes about a microsecond on the GPU (a guess). What the host does
/// once a step stays. Source: CUDA C++ Programming Guide, "CUDA Graphs".
[[nodiscard]] FrameworkProfile with_captured_step(FrameworkProfile framework);

}  // namespace tracecast
