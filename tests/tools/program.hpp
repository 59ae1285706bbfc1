#pragma once
#include <string>
#include <vector>

#include "tests/support/process.hpp"

namespace tracecast::test {

using Words = std::vector<std::string>;

/// Runs `tracecast ARGUMENTS...`, for half a minute at most.
[[nodiscard]] ProcessResult tracecast(Words arguments);

/// " predict resnet50": each word after a blank.
[[nodiscard]] std::string line_of(const Words& words);

}  // namespace tracecast::test
