#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/loaders/gpu_loader.hpp"
#include "hwspecs/machine_spec.hpp"

namespace tracecast {

/// What the slots of a machine take: the form that its file states, or those of the boards that it
/// comes with. Empty: no file says, and they take any.
[[nodiscard]] std::vector<FormFactor> slot_forms(const MachineSpec& machine,
                                                 const GpuCatalog& gpus);

/// Whether the board, or one that it is a variant of, comes with the machine.
[[nodiscard]] bool comes_with(const MachineSpec& machine, const GpuSpec& gpu);

/// Throws InputError(where, ...), which names the boards that the machine comes with, where `gpu`
/// neither comes with it nor has the form of its slots. A superchip is soldered: it is only where
/// it comes from.
void check_fits(const GpuSpec& gpu, const MachineSpec& machine, const GpuCatalog& gpus,
                std::string_view where);

/// A board, and what was chosen about it for the user; empty: nothing.
struct TakenBoard {
  const GpuSpec* gpu = nullptr;
  std::string note;
};

/// The GPU that `word` means in `machine`: the one of that id; else, of the boards that the machine
/// comes with, the first whose id has the word's parts in order ("a100", "a100-80gb", "v100 sxm");
/// else what the catalog finds. Throws InputError as GpuCatalog::find and check_fits do, the latter
/// with `where`.
[[nodiscard]] TakenBoard take_board(std::string_view word, const MachineSpec& machine,
                                    const GpuCatalog& gpus, std::string_view where);

}  // namespace tracecast
