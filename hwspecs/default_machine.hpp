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

/// The machine assumed for `gpus` of a kind in one box: the usual machine that comes with it, else a host of PCIe cards
/// of its years. A guess, hwspecs/host/machines.textproto.
[[nodiscard]] DefaultMachine default_machine(const GpuSpec& gpu, int gpus,
                                             const MachineCatalog& machines);

/// The machine in which a table's rows of a GPU were measured, where a spec says so (MachineSpec::measured_tables); else the
/// one that is assumed. `table`: the file's name without ending.
[[nodiscard]] DefaultMachine measured_machine(const GpuSpec& gpu, int gpus, std::string_view table,
                                              const MachineCatalog& machines);

/// Reads such a file; `where` names it in errors. Throws InputError: syntax, a machine that is not known, no host from
/// year 0, years that do not ascend.
[[nodiscard]] DefaultMachine parse_default_machine(std::string_view text, std::string_view where,
                                                   const GpuSpec& gpu, int gpus,
                                                   const MachineCatalog& machines);

}  // namespace tracecast
