#pragma once
#include <vector>

#include "models/zoo/zoo.hpp"

namespace tracecast::zoo_builders {

/// The networks of all families, in no particular order. CMake writes the definition: for every
/// models/zoo/STEM.cpp it appends the entries of STEM_networks().
[[nodiscard]] std::vector<ZooEntry> all_networks();

}  // namespace tracecast::zoo_builders
