#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "models/kernel.hpp"

/// What ran when, in a simulation or a replay: what a trace viewer shows. Writers of trace formats
/// take it (traces/chrome/writer.hpp).
namespace tracecast {

struct TimelineTrack {
  enum class Kind : std::uint8_t { HostThread, Stream, Link };
  Kind kind{};
  std::int64_t device = 0;  ///< of streams
  std::int64_t number =
      0;  ///< of the stream, thread or link; unique among those of its kind and device
  std::string name;
  bool runs_side_by_side = false;  ///< a recorded stream whose work overlapped
};

enum class SliceKind : std::uint8_t {
  Kernel,
  Copy,
  Memset,
  Call,      ///< of the runtime
  HostWork,  ///< of the framework and the program
  Mark,      ///< a step, or loading of data
  Transfer,  ///< over a link
};

struct TimelineSlice {
  SliceKind kind{};
  KernelClass kernel_class{};     ///< of kernels
  std::uint32_t track = 0;        ///< index into Timeline::tracks
  std::uint32_t name = 0;         ///< index into Timeline::names
  std::uint32_t correlation = 0;  ///< of calls and of what they launch; 0 = none
  std::int64_t begin_ps = 0, duration_ps = 0;
  std::uint64_t bytes = 0;  ///< of copies, memsets and transfers; 0 = not known
};

/// An arrow from the slice that launched another to it.
struct TimelineFlow {
  std::uint32_t from = 0, to = 0;  ///< indices into Timeline::slices
};

struct Timeline {
  std::string gpu;  ///< name of every device; empty = not known
  std::vector<std::string> names{""};
  std::vector<TimelineTrack> tracks;
  std::vector<TimelineSlice> slices;
  std::vector<TimelineFlow> flows;
};

/// What is wrong with a timeline, one line each; empty when it is sound: slices name tracks and
/// texts that exist, begin at or after zero and do not end before they begin; on one track every
/// two lie apart or one within the other (unless it runs side by side); tracks are told apart by
/// kind, device and number; arrows join slices that exist, and the second one does not begin before
/// the first. At most ten lines.
[[nodiscard]] std::vector<std::string> find_faults(const Timeline& timeline);

}  // namespace tracecast
