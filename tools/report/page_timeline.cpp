#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/base/text.hpp"
#include "tools/report/page.hpp"

namespace tracecast {
namespace {

std::string class_of(const TimelineSlice& slice) {
  switch (slice.kind) {
    case SliceKind::Kernel:
      return std::string(to_string(slice.kernel_class));
    case SliceKind::Copy:
      return "copy";
    case SliceKind::Memset:
      return "memset";
    case SliceKind::Call:
      return "call";
    case SliceKind::HostWork:
      return "host work";
    case SliceKind::Mark:
      return "mark";
    case SliceKind::Transfer:
      return "transfer";
  }
  return "?";
}

std::string group_of(const TimelineTrack& track, const std::string& gpu) {
  switch (track.kind) {
    case TimelineTrack::Kind::HostThread:
      return "Host";
    case TimelineTrack::Kind::Link:
      return "Links";
    case TimelineTrack::Kind::Stream:
      break;
  }
  return fmt::format("GPU {}{}", track.device, gpu.empty() ? "" : ": " + gpu);
}

/// Whole nanoseconds, begin and end rounded down alike, so that neighbours stay neighbours.
constexpr std::int64_t in_ns(std::int64_t picoseconds) { return picoseconds / 1000; }

/// Slices of one track, in order of their begin, outer ones before those within.
void add_slices(PageJson& track, const Timeline& timeline, std::vector<std::uint32_t> order,
                std::map<std::string, std::size_t>& classes) {
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const TimelineSlice &left = timeline.slices[a], &right = timeline.slices[b];
    return left.begin_ps != right.begin_ps ? left.begin_ps < right.begin_ps
                                           : left.duration_ps > right.duration_ps;
  });
  for (const char* list : {"begin", "length", "name_of", "class_of"})
    track[list] = PageJson::array();
  std::int64_t before = 0;
  for (const std::uint32_t index : order) {
    const TimelineSlice& slice = timeline.slices[index];
    const std::int64_t begin = in_ns(slice.begin_ps);
    track["begin"].push_back(begin - before);
    track["length"].push_back(in_ns(slice.begin_ps + slice.duration_ps) - begin);
    track["name_of"].push_back(slice.name);
    track["class_of"].push_back(classes.emplace(class_of(slice), classes.size()).first->second);
    before = begin;
  }
}

}  // namespace

PageJson page_timeline(const SectionHead& head, const Timeline& timeline, std::size_t most) {
  PageJson section = new_section(head);
  section["tick_s"] = 1e-9;
  section["names"] = timeline.names;
  std::vector<std::uint32_t> shown(timeline.slices.size());
  std::iota(shown.begin(), shown.end(), 0u);
  if (shown.size() > most) {
    std::stable_sort(shown.begin(), shown.end(), [&](std::uint32_t a, std::uint32_t b) {
      return timeline.slices[a].begin_ps < timeline.slices[b].begin_ps;
    });
    const double until = static_cast<double>(timeline.slices[shown[most]].begin_ps) * 1e-9;
    section["cut"] =
        fmt::format("Shown are the first {} of {} slices, up to {} ms; --trace FILE has all.", most,
                    shown.size(), three_digits(until));
    shown.resize(most);
  }
  std::vector<std::vector<std::uint32_t>> by_track(timeline.tracks.size());
  for (const std::uint32_t index : shown) {
    by_track[timeline.slices[index].track].push_back(index);
  }
  std::vector<std::uint32_t> tracks(timeline.tracks.size());
  std::iota(tracks.begin(), tracks.end(), 0u);
  std::stable_sort(tracks.begin(), tracks.end(), [&](std::uint32_t a, std::uint32_t b) {
    const TimelineTrack &left = timeline.tracks[a], &right = timeline.tracks[b];
    return std::pair(left.kind, left.device) < std::pair(right.kind, right.device);
  });
  std::map<std::string, std::size_t> classes;
  section["tracks"] = PageJson::array();
  for (const std::uint32_t index : tracks) {
    if (by_track[index].empty()) continue;
    const TimelineTrack& track = timeline.tracks[index];
    PageJson entry{
        {"name", track.name.empty() ? fmt::format("{}", track.number) : track.name},
        {"group", group_of(track, timeline.gpu)},
    };
    add_slices(entry, timeline, std::move(by_track[index]), classes);
    section["tracks"].push_back(std::move(entry));
  }
  std::vector<std::string> names(classes.size());
  for (const auto& [name, index] : classes) names[index] = name;
  section["classes"] = names;
  return section;
}

}  // namespace tracecast
