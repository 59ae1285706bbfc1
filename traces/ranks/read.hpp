#pragma once
#include <filesystem>
#include <vector>

#include "traces/cut.hpp"
#include "traces/trace.hpp"

namespace tracecast::traces {

/// The files that paths mean: a folder stands for the files in it, by name, without those of its
/// own folders. Throws InputError: a folder without files, or one that cannot be listed.
[[nodiscard]] std::vector<std::filesystem::path> recorded_files(
    const std::vector<std::filesystem::path>& paths);

/// The ranks of a job from a file, several or a folder, each as read_recording reads it; of several
/// files in order of rank, where all say it. Files of a folder that cannot be read are counted in
/// the first trace. Throws InputError: as read_recording (of a folder only when none can be read),
/// and as check_one_job. With a window: of each rank what lies within it in part or whole, counted
/// from the rank's own begin since clocks differ, and all that has no time. Of a file of our own
/// form that holds one rank only the blocks in question are read. Throws InputError when nothing is
/// left.
[[nodiscard]] Recording read_ranks(const std::vector<std::filesystem::path>& paths,
                                   const Window& window = {});

}  // namespace tracecast::traces
