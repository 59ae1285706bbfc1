#pragma once
#include "hwspecs/software/strategy_profile.hpp"
#include "sim/job/resolved_job.hpp"
#include "sim/parallel/data_parallel.hpp"
#include "sim/parallel/divided_tables.hpp"

namespace tracecast {

/// Gives the job the step of one of `ranks` GPUs among which the strategy divides the tables: that of the fullest. Adds to the
/// job's assumptions where they lie. A rank has the strategy's share of its memory for tables and what the optimizer keeps of them.
/// Throws InputError: as divide_tables; a phase other than training and inference, micro-batches, recomputing.
void divide_tables_of(ResolvedJob& job, const StrategyProfile& strategy, std::uint32_t ranks);

/// Of a job that was divided: what its ranks send each other. `one_gpu`: its prediction.
[[nodiscard]] TableCrossings crossings_of(const ResolvedJob& job, const StrategyProfile& strategy,
                                          const Prediction& one_gpu);

}  // namespace tracecast
