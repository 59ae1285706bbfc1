#pragma once
#include <string>
#include <vector>

#include "hwspecs/gpu_spec.hpp"

namespace tracecast {

/// What a prediction read, with the hash that says which version of it.
struct InputRecord {
  std::string kind;    ///< "network", "gpu", "cost_profile", "framework"
  std::string name;    ///< file name or id
  std::string sha256;  ///< of the file's bytes; of a zoo network: of its text form
};

/// The hash of a spec or profile by its values, whatever the layout of the file they came from.
[[nodiscard]] std::string hash_of(const std::vector<SpecValue>& values);

}  // namespace tracecast
