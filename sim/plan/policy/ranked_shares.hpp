#pragma once
#include <memory>
#include <span>

#include "sim/plan/ranking.hpp"
#include "sim/plan/sharing.hpp"

namespace tracecast::plan {

/// A ranking policy where the rules have rounds: it is asked at the start of each, and whoever gets
/// GPUs in its order has a whole share of their type for that round. Without preemption a job keeps
/// its type.
[[nodiscard]] std::unique_ptr<Sharing> make_ranked_shares(std::unique_ptr<Ranking> ranking);

}  // namespace tracecast::plan
