#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/replay/replay_ranks.hpp"
#include "traces/ranks/job.hpp"

namespace tracecast {

/// A name with what it takes of the critical path.
struct PathName {
  std::string name;
  PathItem item;
};
/// What a recording says of how its ranks work together, and what decides how long it takes.
struct RankFindings {
  std::vector<std::optional<std::int64_t>> ranks;  ///< by trace
  std::optional<traces::CollectiveWaiting> waiting;
  std::optional<traces::SingleCollectives> single;
  std::optional<CriticalPath> path;
  std::vector<PathName> path_names;  ///< longest first, at most 10
  std::string no_path;               ///< why there is none
};

/// Never throws for what a recording holds: what cannot be found is missing, with the reason in
/// words.
[[nodiscard]] RankFindings find_rank_behaviour(const std::vector<traces::Trace>& traces,
                                               const traces::KernelNames& names);

/// Sections of `trace summary`, 80 columns; empty where there is nothing to say.
[[nodiscard]] std::string waiting_text(const RankFindings& findings);
[[nodiscard]] std::string critical_path_text(const RankFindings& findings);
/// `ranks_together` and `critical_path`; null where not known.
[[nodiscard]] nlohmann::ordered_json waiting_json(const RankFindings& findings);
[[nodiscard]] nlohmann::ordered_json critical_path_json(const RankFindings& findings);

}  // namespace tracecast
