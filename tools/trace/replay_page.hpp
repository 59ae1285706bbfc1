#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/timeline.hpp"

namespace tracecast {

/// The page of a replay, from what `--format json` says of it: recorded beside replayed, step by
/// step, by class of kernel and by way of moving to another GPU. `timeline`: of the replay; null:
/// none was made.
void write_replay_page(const nlohmann::ordered_json& report, const Timeline* timeline,
                       const std::string& file);

}  // namespace tracecast
