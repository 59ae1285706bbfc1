#pragma once
#include <string>
#include <string_view>

#include "hwspecs/gpu_spec.hpp"
#include "hwspecs/machine_spec.hpp"

namespace tracecast {

/// A machine with several GPUs: an assumption until somebody names one.
struct DefaultMachine {
  std::string machine;  ///< id of a MachineSpec
  std::string reason;
};

/// Reads such a file; `where` names it in errors. Throws InputError: syntax, a machine that is not
/// known, no host from year 0, years that descend.
[[nodiscard]] DefaultMachine parse_default_machine(std::string_view text, std::string_view where,
                                                   const GpuSpec& gpu, int gpus,
                                                   const MachineCatalog& machines);

}  // namespace tracecast
