#include "traces/ranks/one_job.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "traces/cut.hpp"
#include "traces/kernel_names/kernel_names.hpp"

namespace tracecast::traces {
namespace {

/// Times before are no times since 1970 but since a host was started.
constexpr std::int64_t kAbsoluteSinceNs = 1'000'000'000'000'000'000;  // September 2001
constexpr std::int64_t kMostApartNs = 60'000'000'000;
constexpr std::size_t kFewKernels = 20;  ///< too few to compare
constexpr double kLeastShared = 0.5;

/// `one` and `other` stand together in what was given, and must not.
[[noreturn]] void refuse(const Trace& other, const std::string& what, const Trace& one,
                         const std::string& beside) {
  throw InputError(other.source, what + " beside " + beside + " of " + one.source,
                   "ranks of one job: name its files one by one, or keep them in a folder of "
                   "their own");
}

std::string rank_text(const Trace& trace) {
  if (!trace.rank) return "no rank";
  const std::string rank = "rank " + std::to_string(*trace.rank);
  return trace.world_size ? rank + " of " + std::to_string(*trace.world_size) : rank;
}

/// The profiler: "PyTorch Kineto" of "PyTorch Kineto, from 1s to its end".
std::string profiler(const Trace& trace) { return trace.format.substr(0, trace.format.find(',')); }

void check_ranks(const Trace& first, const Trace& other) {
  if (first.rank.has_value() != other.rank.has_value() ||
      (first.world_size && other.world_size && *first.world_size != *other.world_size))
    refuse(other, rank_text(other), first, rank_text(first));
}

/// No rank twice, and none that the job has not. All say their rank, or none does.
void check_numbers(const std::vector<Trace>& traces) {
  std::map<std::int64_t, const Trace*> seen;
  std::optional<std::int64_t> world;
  for (const Trace& trace : traces) {
    if (trace.world_size) world = trace.world_size;
    if (!trace.rank) continue;
    const auto [same, is_new] = seen.emplace(*trace.rank, &trace);
    if (!is_new) refuse(trace, rank_text(trace), *same->second, rank_text(*same->second));
  }
  if (!world) return;
  if (!seen.empty() && seen.rbegin()->first >= *world) {
    const Trace& beyond = *seen.rbegin()->second;
    const Trace& first = &beyond == &traces.front() ? traces.back() : traces.front();
    refuse(beyond, "rank " + std::to_string(*beyond.rank), first,
           "a job of " + std::to_string(*world));
  }
  if (static_cast<std::int64_t>(traces.size()) > *world)
    refuse(traces.back(), std::to_string(traces.size()) + " recordings", traces.front(),
           "a job of " + std::to_string(*world));
}

/// Ranks of every process group that is named.
std::map<std::string_view, std::int64_t> group_sizes(const Trace& trace) {
  std::map<std::string_view, std::int64_t> sizes;
  for (std::size_t i = 0; i < trace.collectives.size(); ++i) {
    const std::string_view name = trace[trace.collectives.group[i]];
    if (name.empty() || trace.collectives.group_size[i] <= 0) continue;
    sizes.emplace(name, trace.collectives.group_size[i]);
  }
  return sizes;
}

void check_groups(const Trace& first, const Trace& other) {
  const auto theirs = group_sizes(other);
  for (const auto& [name, size] : group_sizes(first)) {
    const auto same = theirs.find(name);
    if (same == theirs.end() || same->second == size) continue;
    const std::string group = "process group \"" + std::string(name) + "\" of ";
    refuse(other, group + std::to_string(same->second), first, "one of " + std::to_string(size));
  }
}

/// When it was recorded, since 1970; nothing where it does not say.
std::optional<Span> absolute_extent(const Trace& trace) {
  std::optional<Span> span = extent(trace);
  if (!span || span->begin_ns < 0 || trace.epoch_ns < 0) return std::nullopt;
  if (span->begin_ns > kAbsoluteSinceNs * 4 || trace.epoch_ns > kAbsoluteSinceNs * 4)
    return std::nullopt;
  span->begin_ns += trace.epoch_ns;
  return span->begin_ns >= kAbsoluteSinceNs ? span : std::nullopt;
}

std::string duration_text(std::int64_t ns) {
  struct Unit {
    std::int64_t ns;
    const char* name;
  };
  constexpr std::int64_t kSecond = 1'000'000'000;
  constexpr std::array<Unit, 3> kUnits{
      Unit{86400 * kSecond, " days"}, {3600 * kSecond, " hours"}, {60 * kSecond, " minutes"}};
  for (const Unit& unit : kUnits) {
    if (ns + unit.ns / 2 >= 2 * unit.ns)
      return std::to_string((ns + unit.ns / 2) / unit.ns) + unit.name;
  }
  return std::to_string((ns + kSecond / 2) / kSecond) + " seconds";
}

void check_times(const Trace& first, const Trace& other) {
  const auto a = absolute_extent(first), b = absolute_extent(other);
  if (!a || !b) return;
  const bool is_later = b->begin_ns > a->begin_ns;
  const std::int64_t apart = is_later ? b->begin_ns - a->begin_ns - a->duration_ns
                                      : a->begin_ns - b->begin_ns - b->duration_ns;
  if (apart > kMostApartNs)
    refuse(other, "a recording " + duration_text(apart) + (is_later ? " later" : " earlier"), first,
           "that");
}

using Counts = std::map<std::string_view, std::size_t>;

/// How many kernels have a name; of an execution graph, how many collectives.
Counts work_counts(const Trace& trace) {
  std::vector<std::size_t> by_name(trace.names.size());
  for (const NameId name : trace.kernels.name) ++by_name[name.index];
  for (std::size_t i = 0; i < trace.nodes.size(); ++i) {
    if (trace.nodes.kind[i] == NodeKind::Collective) ++by_name[trace.nodes.name[i].index];
  }
  Counts counts;
  for (std::uint32_t i = 0; i < by_name.size(); ++i) {
    if (by_name[i] > 0) counts.emplace(trace[NameId{i}], by_name[i]);
  }
  return counts;
}

/// Share of the work of `a` whose names `b` has as well.
double share_in(const Counts& a, const Counts& b) {
  std::size_t all = 0, common = 0;
  for (const auto& [name, count] : a) {
    all += count;
    if (b.contains(name)) common += count;
  }
  return static_cast<double>(common) / static_cast<double>(all);
}

void check_work(const std::vector<Trace>& traces) {
  const Trace* first = nullptr;
  Counts counts;
  for (const Trace& trace : traces) {
    if (trace.kernels.size() > 0 && trace.kernels.size() < kFewKernels) continue;
    Counts its_counts = work_counts(trace);
    if (its_counts.empty()) continue;
    if (first == nullptr) {
      first = &trace;
      counts = std::move(its_counts);
      continue;
    }
    if (std::max(share_in(counts, its_counts), share_in(its_counts, counts)) >= kLeastShared)
      continue;
    const std::string what = trace.kernels.size() > 0 ? "kernels" : "collectives";
    refuse(trace, what + " of other names", *first, "those");
  }
}

bool communicates(const Trace& trace, const KernelNames& names) {
  if (trace.collectives.size() > 0) return true;
  const auto is_message = [](NodeKind kind) {
    return kind == NodeKind::Collective || kind == NodeKind::Send || kind == NodeKind::Receive;
  };
  if (std::any_of(trace.nodes.kind.begin(), trace.nodes.kind.end(), is_message)) return true;
  std::set<std::uint32_t> distinct;
  for (const NameId name : trace.kernels.name) distinct.insert(name.index);
  for (const NameId name : trace.totals.name) distinct.insert(name.index);
  for (const NameId name : trace.ops.name) distinct.insert(name.index);
  for (const NameId name : trace.nodes.name) distinct.insert(name.index);
  return std::any_of(distinct.begin(), distinct.end(), [&](std::uint32_t index) {
    const std::string_view name = trace[NameId{index}];
    return name == "record_param_comms" || name.starts_with("c10d::") ||
           names.find(name).kernel_class == KernelClass::Collective;
  });
}

/// The number after "rank" or "worker" in a file's name: 3 of "run/rank_3.json.gz".
std::optional<long long> number_in_name(const Trace& trace) {
  const std::string name = to_lower(trace.source.substr(trace.source.find_last_of("/ ") + 1));
  for (const std::string_view word : {"rank", "worker"}) {
    const std::size_t at = name.find(word);
    if (at == std::string::npos) continue;
    const std::size_t begin = name.find_first_not_of("-_.", at + word.size());
    if (begin == std::string::npos) continue;
    const std::size_t end = std::min(name.find_first_not_of("0123456789", begin), name.size());
    if (const auto number = parse_integer(name.substr(begin, end - begin))) return number;
  }
  return std::nullopt;
}

/// All files are named as ranks, each as another one.
bool names_number_ranks(const std::vector<Trace>& traces) {
  std::set<long long> numbers;
  for (const Trace& trace : traces) {
    const auto number = number_in_name(trace);
    if (!number || !numbers.insert(*number).second) return false;
  }
  return true;
}

}  // namespace

void check_one_job(const std::vector<Trace>& traces) {
  if (traces.size() < 2) return;
  const Trace& first = traces.front();
  for (const Trace& other : traces) {
    if (profiler(other) != profiler(first))
      refuse(other, "a recording of " + profiler(other), first, "one of " + profiler(first));
    check_ranks(first, other);
  }
  check_numbers(traces);
  for (const Trace& other : traces) {
    check_groups(first, other);
    check_times(first, other);
  }
  check_work(traces);
  if (first.rank) return;
  // Recorded at the same time is as good: check_times has passed.
  if (std::all_of(traces.begin(), traces.end(),
                  [](const Trace& t) { return absolute_extent(t).has_value(); }))
    return;
  if (names_number_ranks(traces)) return;
  const KernelNames names = KernelNames::builtin();
  for (const Trace& other : traces) {
    if (communicates(other, names)) continue;
    const Trace& beside = &other == &first ? traces[1] : first;
    refuse(other, "no rank and no collective", beside, "the recording");
  }
}

}  // namespace tracecast::traces
