#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tracecast::traces::cupti {

/// What the stream file of one recorded process holds.
struct RecordedProcess {
  /// A call that recorded a CUDA event: what a wait for that event waits for.
  struct EventUse {
    std::uint32_t correlation, stream;
  };

  std::filesystem::path stream_file;
  std::uint32_t pid = 0, cupti_version = 0;
  std::optional<std::int64_t> rank, world_size;
  std::uint64_t begin_ns = 0;  ///< when the recording began, by CUPTI's clock
  std::string refusal;         ///< why nothing was recorded; empty = it was
  bool is_by_events = false;   ///< kernels were timed by CUDA events
  bool is_cut_short = false;   ///< the recorder's last record is missing
  std::uint64_t kernels = 0, copies = 0, memsets = 0, calls = 0;
  std::map<std::string, std::uint64_t> losses;  ///< what is missing, in words, and how often
  std::unordered_map<std::uint32_t, std::vector<EventUse>> event_uses;  ///< by event, in order

  [[nodiscard]] bool has_gpu_work() const { return kernels + copies + memsets > 0; }
};

/// Looks a stream file over. One that ends early, since the program was killed,
/// holds up to its end. Throws InputError when it cannot be read or is damaged.
[[nodiscard]] RecordedProcess scan_stream(const std::filesystem::path& stream_file);

/// Writes the recording as Chrome-trace JSON in the schema of PyTorch's
/// profiler, gzip where the name ends in ".gz"; beside, then renamed. Ranges of
/// the program whose names begin with `step_prefix`, unless that is empty,
/// become "ProfilerStep#0" and so on; returns how many steps there are by that
/// name. Memory: names, open ranges and one entry for each recorded event.
/// Throws InputError when the place cannot be written or the stream is damaged.
std::uint64_t write_trace(const RecordedProcess& process, const std::filesystem::path& out,
                          std::string_view step_prefix);

/// Packs files into a gzip tar archive, in this order; beside, then renamed.
/// Throws InputError.
void write_archive(const std::vector<std::filesystem::path>& files,
                   const std::filesystem::path& out);

}  // namespace tracecast::traces::cupti
