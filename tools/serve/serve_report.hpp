#pragma once
#include <optional>
#include <string>
#include <vector>

#include "sim/job/mode/serving_job.hpp"
#include "tools/serve/benchmark_result.hpp"

namespace tracecast {

/// A measured run beside its prediction, and what it says of steps.
struct MeasuredRunReport {
  BenchmarkResult result;
  ServingLoad load;
  ServingReport predicted;  ///< of the run itself, from specs and profiles alone
  ServedCorrection correction;
  bool is_same_place = true;
};

/// What was asked, as far as answers repeat it.
struct ServeQuestion {
  ServingJob job;
  ServingLoad load;
  std::optional<double> price_per_hour;    ///< USD, of a GPU
  std::optional<double> ttft_ms, tpot_ms;  ///< limits of --find
  std::optional<double> found_rate;
  std::vector<InputRecord> inputs{};
  std::optional<MeasuredRunReport> measured{};
};

/// USD per million output tokens; nothing without a price or without tokens.
[[nodiscard]] std::optional<double> cost_per_million(const ServeQuestion& question,
                                                     const ServingReport& report);
[[nodiscard]] std::string serve_text(const ServeQuestion& question, const ServingReport& report);
[[nodiscard]] std::string serve_json(const ServeQuestion& question, const ServingReport& report);
[[nodiscard]] std::string serve_csv(const ServeQuestion& question, const ServingReport& report);

/// One point of a sweep.
struct FrontPoint {
  std::int64_t gpus = 1, tensor = 1, load = 1;  ///< load: in flight, of all replicas
  ServingReport report;
  bool is_best = false;  ///< no other point has more tokens/s of both a GPU and a user
};
/// Marks the points that no other beats.
void mark_front(std::vector<FrontPoint>& points);
[[nodiscard]] std::string front_text(const ServeQuestion& question,
                                     const std::vector<FrontPoint>& points);
[[nodiscard]] std::string front_json(const ServeQuestion& question,
                                     const std::vector<FrontPoint>& points);
[[nodiscard]] std::string front_csv(const std::vector<FrontPoint>& points);

/// One row per request: arrival_s, input_tokens, output_tokens, queue_ms, ttft_ms, tpot_ms, e2e_ms,
/// preemptions.
void write_requests_csv(const std::string& path, const ServingReport& report);

}  // namespace tracecast
