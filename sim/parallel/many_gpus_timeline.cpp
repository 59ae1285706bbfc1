#include "sim/parallel/many_gpus_timeline.hpp"

#include <algorithm>
#include <map>

#include "sim/engine/time.hpp"

namespace tracecast {
namespace {

using Kind = TimelineTrack::Kind;

/// Numbers as PyTorch's profiler shows them: 7 is the default stream, NCCL has one of its own.
constexpr std::int64_t kComputeStream = 7, kCommunicationStream = 20;

class Drawer {
 public:
  Drawer(const DataParallelStep& step, std::span<const std::uint32_t> kind_of)
      : step_(step), kind_of_(kind_of) {}

  Timeline draw(const std::string& gpu) {
    timeline_.gpu = gpu;
    for (std::size_t rank = 0; rank < kind_of_.size(); ++rank) draw_rank(rank);
    if (communications(false)) {
      timeline_.tracks.push_back({Kind::Link, 0, 0, "communication of gradients", true});
      draw_communication(false);
    }
    const auto steps = static_cast<std::int64_t>(timeline_.tracks.size());
    timeline_.tracks.push_back({Kind::HostThread, 0, steps, "steps"});
    add(SliceKind::Mark, KernelClass::Other, "ProfilerStep#0", 0, ticks(step_.step_time));
    return std::move(timeline_);
  }

 private:
  static std::int64_t ticks(Seconds time) {
    return engine::to_ticks<engine::Picoseconds>(time).count();
  }

  void draw_rank(std::size_t rank) {
    const auto device = static_cast<std::int64_t>(rank);
    timeline_.tracks.push_back({Kind::Stream, device, kComputeStream, "compute", true});
    const std::uint32_t kind = kind_of_[rank];
    std::uint32_t parts = 0;
    for (const RankSpan& span : step_.timeline) {
      if (span.kind == kind) parts = std::max(parts, span.index);
    }
    for (const RankSpan& span : step_.timeline) {
      if (span.kind != kind) continue;
      // What ends a rank's step has the number behind its last segment.
      const bool is_last = span.index == parts && step_.num_buckets > 0;
      add(SliceKind::Kernel, KernelClass::Other,
          is_last ? "update" : "compute, part " + std::to_string(span.index + 1), span);
    }
    if (!communications(true)) return;
    timeline_.tracks.push_back({Kind::Stream, device, kCommunicationStream, "communication", true});
    draw_communication(true);
  }

  [[nodiscard]] bool communications(bool on_gpus) const {
    return std::any_of(step_.timeline.begin(), step_.timeline.end(),
                       [on_gpus](const RankSpan& s) { return !s.kind && s.on_gpus == on_gpus; });
  }
  void draw_communication(bool on_gpus) {
    for (const RankSpan& span : step_.timeline) {
      if (span.kind || span.on_gpus != on_gpus) continue;
      const bool crosses = span.index >= step_.num_buckets;
      const std::string bucket = (crosses ? "tables " : "gradients ") +
                                 std::to_string(span.index + 1 - (crosses ? step_.num_buckets : 0));
      // Named so that readers take it for what it is.
      if (on_gpus)
        add(SliceKind::Kernel, KernelClass::Collective, "nccl: " + bucket, span);
      else
        add(SliceKind::Transfer, KernelClass::Other, bucket, span);
    }
  }

  void add(SliceKind slice, KernelClass what, const std::string& text, const RankSpan& span) {
    add(slice, what, text, ticks(span.start), ticks(span.end));
  }
  /// On the newest track.
  void add(SliceKind slice, KernelClass what, const std::string& text, std::int64_t begin,
           std::int64_t end) {
    if (end <= begin) return;
    const auto [at, is_new] =
        names_.try_emplace(text, static_cast<std::uint32_t>(timeline_.names.size()));
    if (is_new) timeline_.names.push_back(text);
    const auto track = static_cast<std::uint32_t>(timeline_.tracks.size() - 1);
    timeline_.slices.push_back({slice, what, track, at->second, 0, begin, end - begin, 0});
  }

  const DataParallelStep& step_;
  std::span<const std::uint32_t> kind_of_;
  Timeline timeline_;
  std::map<std::string, std::uint32_t> names_;
};

}  // namespace

Timeline many_gpus_timeline(const DataParallelStep& step, std::span<const std::uint32_t> kind_of,
                            const std::string& gpu) {
  return Drawer(step, kind_of).draw(gpu);
}

}  // namespace tracecast
