#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/loaders/gpu_loader.hpp"
#include "sim/base/units.hpp"
#include "sim/job/job.hpp"

namespace tracecast::plan {

/// A throughput that somebody measured.
struct MeasuredRate {
  std::string gpu;  ///< id
  int gpus = 1;
  double samples_per_s = 0;
  double log_sd = 0.02;  ///< of ln(true / measured)
};

/// Work stated as time on a GPU: samples follow from the rate there.
struct HoursOn {
  Seconds time{};
  std::string gpu;  ///< id
  int gpus = 1;
};

/// Requests that are answered as they come.
struct ServingDemand {
  double requests_per_s = 0;
  std::int64_t input = 1, output = 1;      ///< tokens
  std::optional<double> ttft_ms, tpot_ms;  ///< limits of the 90th percentile; one at least
  Seconds time{};                          ///< from the arrival on
  std::string engine = "vllm", kv_precision;
  double certainty = 0.5;  ///< probability that the replicas bear the rate
};

/// Work that a purchase has to do. One that was made here is valid.
struct PlanJob {
  std::string id;
  Job job;
  Place place{};       ///< host, disk and links; GPUs and their number are the offers'
  double samples = 0;  ///< of each; 0: see hours_on
  std::optional<HoursOn> hours_on;
  int count = 1;           ///< alike
  std::vector<int> gangs;  ///< numbers of GPUs that it may take, rising
  Seconds arrival{};
  std::optional<Seconds> deadline;  ///< from time 0
  double priority = 1;
  std::vector<std::size_t> after;               ///< jobs that end before it starts; no cycles
  std::vector<std::string> allowed, forbidden;  ///< ids of GPUs; allowed empty: any
  std::vector<MeasuredRate> measured;
  std::optional<std::int64_t> global_batch;  ///< of a transformer that is divided over its gang
  std::optional<ServingDemand> serving;      ///< gangs are replicas then, and samples requests
};

/// Reads and checks jobs in text format (sim/plan/proto/jobs.proto). `where` names it in errors.
/// Throws InputError with line: bad syntax, no job, an id twice or none, no work or two kinds of
/// it, numbers out of range, GPUs that nobody knows, `after` in a cycle or of nobody, a deadline
/// before the arrival, serving with work beside it, without a rate, lengths, hours or a limit.
[[nodiscard]] std::vector<PlanJob> load_jobs(std::string_view text, std::string_view where,
                                             const GpuCatalog& gpus);

}  // namespace tracecast::plan
