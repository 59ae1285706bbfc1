#include "models/timeline.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

namespace tracecast {
namespace {

constexpr std::size_t kMostFaults = 10;

std::int64_t end_of(const TimelineSlice& slice) { return slice.begin_ps + slice.duration_ps; }

}  // namespace

std::vector<std::string> find_faults(const Timeline& timeline) {
  std::vector<std::string> faults;
  const auto report = [&faults](const std::string& what) {
    if (faults.size() < kMostFaults) faults.push_back(what);
  };
  std::set<std::tuple<TimelineTrack::Kind, std::int64_t, std::int64_t>> known;
  for (std::size_t i = 0; i < timeline.tracks.size(); ++i) {
    const TimelineTrack& track = timeline.tracks[i];
    if (!known.emplace(track.kind, track.device, track.number).second)
      report("track " + std::to_string(i) + " has the numbers of another one");
  }
  const auto& slices = timeline.slices;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const std::string slice = "slice " + std::to_string(i);
    if (slices[i].track >= timeline.tracks.size()) report(slice + " has no track");
    if (slices[i].name >= timeline.names.size()) report(slice + " has no name");
    if (slices[i].begin_ps < 0) report(slice + " begins before zero");
    if (slices[i].duration_ps < 0) report(slice + " ends before it begins");
  }
  for (std::size_t i = 0; i < timeline.flows.size(); ++i) {
    const TimelineFlow& flow = timeline.flows[i];
    const std::string arrow = "arrow " + std::to_string(i);
    if (flow.from >= slices.size() || flow.to >= slices.size()) {
      report(arrow + " joins a slice that does not exist");
    } else if (slices[flow.to].begin_ps < slices[flow.from].begin_ps) {
      report(arrow + " points back in time");
    }
  }
  if (!faults.empty()) return faults;

  std::vector<std::uint32_t> order(slices.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&slices](std::uint32_t a, std::uint32_t b) {
    return std::tuple(slices[a].track, slices[a].begin_ps, -slices[a].duration_ps, a) <
           std::tuple(slices[b].track, slices[b].begin_ps, -slices[b].duration_ps, b);
  });
  std::vector<std::uint32_t> open;
  for (const std::uint32_t i : order) {
    while (!open.empty() && (slices[open.back()].track != slices[i].track ||
                             end_of(slices[open.back()]) <= slices[i].begin_ps))
      open.pop_back();
    if (!open.empty() && !timeline.tracks[slices[i].track].runs_side_by_side &&
        end_of(slices[open.back()]) < end_of(slices[i])) {
      report("slice " + std::to_string(i) + " ends after slice " + std::to_string(open.back()) +
             ", which it began within");
    }
    open.push_back(i);
  }
  return faults;
}

}  // namespace tracecast
