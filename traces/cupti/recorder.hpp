#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tracecast::traces::cupti {

struct RecorderSettings {
  std::string folder;                  ///< of the stream files: FOLDER/PID.stream
  std::vector<std::string> libraries;  ///< CUPTI by path or soname, best first,
                                       ///< where the program has none loaded
  int num_buffers = 64;  ///< of kBufferBytes each: the most memory that CUPTI may fill
  double delay_s = 0,
         duration_s = -1;          ///< from the first CUDA call; negative duration = to the end
  int rank = -1, world_size = -1;  ///< of a distributed job; -1 = not told
};

inline constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

/// Starts to record this process, once; further calls do nothing. CUPTI fills a
/// fixed number of buffers, a thread of ours writes them to the stream file
/// once a second or when they are full, and the end of the program writes the
/// rest. Where there is no buffer left CUPTI drops records and counts them.
/// What prevents recording is written to the stream, never said: the program's
/// output is its own.
void start_recording(const RecorderSettings& settings);

/// A function that the process's CUPTI exports, the one that records; null when
/// there is none.
[[nodiscard]] void* find_cupti_function(const RecorderSettings& settings, const char* name);

}  // namespace tracecast::traces::cupti
