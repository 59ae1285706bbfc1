#pragma once
#include <string_view>

#include "sim/job/resolved_job.hpp"

namespace tracecast {

/// What the program behind a published table does that its columns do not say, as read in the program itself:
/// ryujaehun/pytorch-gpu-benchmark sets torch.backends.cudnn.benchmark, and its "train" is zero_grad, forward, loss and
/// backward: no optimizer. Other sources, and what is stated otherwise, stay as they are.
void follow_published_script(std::string_view source, PlacedJob& job);

}  // namespace tracecast
