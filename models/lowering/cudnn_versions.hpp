#pragma once
#include <vector>

#include "models/kernel.hpp"
#include "models/lowering/convolution.hpp"

namespace tracecast::lowering {

/// Drops candidates that this cuDNN (major.minor) does not have for the pass, and notes the version in the others.
void keep_known_algorithms(std::vector<Candidate>& candidates, Pass pass, double cudnn_version);

}  // namespace tracecast::lowering
