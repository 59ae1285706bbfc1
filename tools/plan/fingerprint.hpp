#pragma once
#include <string>

#include "sim/job/hardware.hpp"

namespace tracecast {

/// A hash of all that decides a prediction but the question: this program, with the specs and
/// profiles in it, and the files and settings that were given. Throws InputError.
[[nodiscard]] std::string fingerprint_of(const SourceOptions& sources);

}  // namespace tracecast
