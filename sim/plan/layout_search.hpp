#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "sim/job/predictor.hpp"

namespace tracecast::plan {

/// One way to divide a transformer's training step, and what comes of it.
struct ParallelLayout {
  std::int64_t tensor = 1, pipeline = 1, data = 1, expert = 1;
  int zero = 0;
  std::int64_t micro_batch = 1;
  std::string recompute, schedule;
  Interval samples_per_s, step_time_s;
  Bytes memory{}, capacity{};
  bool fits = true;
  std::string bottleneck;  ///< the largest part of the step beside compute
  double bottleneck_share = 0;
};

struct LayoutSearch {
  std::vector<ParallelLayout>
      parallel_layouts;  ///< those that fit, fastest first; behind them those that do not
  std::vector<std::size_t>
      front;  ///< into `parallel_layouts`: none that fits is faster with less memory; fastest first
  std::size_t predicted = 0, left_out = 0;  ///< left out: provably no better (see below)
};

/// The fastest parallel layout of the job over the place's GPUs with `base.plan.global_batch`
/// sequences a step. What `base` names stays; otherwise tensor 1 to the GPUs of a machine and
/// stages in powers of two (also other divisors of the layers), ZeRO 0 to 3, experts, micro-batches
/// 1 to 16, recomputation none, selective, full, schedules 1f1b and interleaved.
/// Left out unless `exhaustive`: more recomputation where less fits, larger micro-batches where
/// full recomputation does not fit. Asked in `threads` threads; the same answer for any number.
/// Throws InputError: no global batch, no transformer, no parallel layout that counts up.
[[nodiscard]] LayoutSearch search_layouts(const Predictor& predictor, const Job& job,
                                          const Place& place, const Sharded& base,
                                          bool exhaustive = false, unsigned threads = 0);

}  // namespace tracecast::plan
