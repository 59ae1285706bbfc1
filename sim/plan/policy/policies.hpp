#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "sim/plan/ranking.hpp"
#include "sim/plan/sharing.hpp"

namespace tracecast::plan {

/// What the user may set of a policy.
struct PolicyOptions {
  std::vector<double> queue_limits_gpu_s;  ///< of least attained service, rising
  bool first_come_overcommits = false;     ///< as Rules has it
  std::uint32_t seed = 0;
  bool makespan_by_halving = false;
  double allox_reach = 1;  ///< part of the waiting jobs that AlloX matches
};

/// Policies that rank, one file each.
[[nodiscard]] std::unique_ptr<Ranking> make_fifo(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Ranking> make_fifo_perf(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Ranking> make_srtf(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Ranking> make_srsf(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Ranking> make_las(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Ranking> make_even(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Ranking> make_priority(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Ranking> make_deadline(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Ranking> make_equal_gpus(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Ranking> make_marginal_gain(const PolicyOptions& options);

/// Policies that divide time.
[[nodiscard]] std::unique_ptr<Sharing> make_fifo_shares(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Sharing> make_fifo_perf_shares(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Sharing> make_max_min(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Sharing> make_max_min_blind(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Sharing> make_max_min_packed(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Sharing> make_max_min_blind_packed(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Sharing> make_max_min_sized(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Sharing> make_min_makespan(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Sharing> make_min_makespan_sized(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Sharing> make_max_throughput(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Sharing> make_finish_time_fairness(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Sharing> make_finish_time_fairness_perf(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Sharing> make_allox(const PolicyOptions& options);
[[nodiscard]] std::unique_ptr<Sharing> make_cost(const PolicyOptions& options);

}  // namespace tracecast::plan
