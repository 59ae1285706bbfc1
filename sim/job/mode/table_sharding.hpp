#pragma once
#include "hwspecs/software/strategy_profile.hpp"
#include "sim/job/resolved_job.hpp"
#include "sim/parallel/data_parallel.hpp"
#include "sim/parallel/sharded_tables.hpp"

namespace tracecast {

/// Gives the job the step of one of `ranks` GPUs among which the strategy divides the tables: that
/// of the fullest. Adds to the job's assumptions where they lie. A rank has the strategy's share of
/// its memory for tables and what the optimizer keeps of them. Throws InputError: as divide_tables;
/// a phase other than training and inference, micro-batches, recomputing.
void divide_tables_of(ResolvedJob& job, const StrategyProfile& strategy, std::uint32_t ranks);

/// Where the rows and edges of a job's data set lie, added to its assumptions: with a strategy that
/// divides them, in parts on all GPUs if every GPU has room for its part beside the step; else in
/// pinned host memory, as they do on one GPU.
void place_stores_of(ResolvedJob& job, const StrategyProfile& strategy, std::uint32_t ranks,
                     const Hardware& hardware);

/// Of a job that was divided: what its ranks send each other. `one_gpu`: its prediction.
[[nodiscard]] TableCrossings crossings_of(const ResolvedJob& job, const StrategyProfile& strategy,
                                          const Prediction& one_gpu);

}  // namespace tracecast
