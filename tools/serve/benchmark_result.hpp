#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/job/mode/serving_job.hpp"

namespace tracecast {

/// A latency as a benchmark printed it, ms; nothing: it did not.
struct MeasuredLatency {
  std::optional<double> mean, p50, p90, p99;
};

/// What a benchmark of a running server measured.
struct BenchmarkResult {
  std::string tool;     ///< "vllm bench serve", "genai-perf"
  std::string network;  ///< as it names it; may be empty
  MeasuredLatency ttft_ms, tpot_ms, itl_ms, e2e_ms;
  std::optional<double> tokens_per_s;  ///< of answers
  // The load, as far as it is reported.
  std::optional<double> per_second;
  std::optional<std::int64_t> concurrency;
  std::optional<std::int64_t> requests;
  std::optional<double> input, output;  ///< tokens, means
};

/// Reads the JSON that `vllm bench serve --save-result` writes, or genai-perf's
/// profile_export_genai_perf.json (AIPerf's too), told apart by their keys. Sources:
/// vllm-project/vllm, benchmarks/serve.py of 0.11, "result_json";
/// triton-inference-server/perf_analyzer, genai-perf/docs/tutorial.md and json_exporter.py. Throws
/// InputError: no JSON, none of both, no latency, a figure that is no number above zero.
[[nodiscard]] BenchmarkResult read_benchmark_result(const std::string& text,
                                                    std::string_view where);

/// The load of a result, where no other is asked for. Throws InputError: it tells neither rate nor
/// concurrency, or no lengths.
void use_load_of(const BenchmarkResult& result, std::string_view where, ServingLoad& load);

}  // namespace tracecast
