#pragma once
#include <string>
#include <vector>

#include "tests/support/process.hpp"

namespace tracecast::test {

using Words = std::vector<std::string>;

/// Does what `tracecast ARGUMENTS...` does, in a process of its own, for two minutes at most.
[[nodiscard]] ProcessResult tracecast(Words arguments);

/// " predict resnet50": each word after a blank.
[[nodiscard]] std::string line_of(const Words& words);

}  // namespace tracecast::test
