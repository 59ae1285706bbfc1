#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "sim/serve/request.hpp"
#include "sim/serve/samples.hpp"
#include "sim/serve/worker.hpp"

namespace tracecast::serve {

enum class Router {
  RoundRobin,
  LeastLoaded,
  /// To the least loaded of the workers that a request with the same beginning went to, unless
  /// loads differ by more than 64 requests and by more than a half; without such a worker to the
  /// least loaded of all. Source: sgl-project/sglang, router of 2025, policy cache_aware:
  /// balance_abs_threshold 64, balance_rel_threshold 1.5.
  PrefixAware,
  /// To the worker whose cache holds most of the request's beginning, of those the least loaded
  /// one, unless its load is above the least of all by more than 64 requests and by more than a
  /// half; then, or if none holds any of it, to the least loaded of all. Source: docs.vllm.ai,
  /// production-stack, "KV cache aware routing" (the instance that still has most of the prompt,
  /// evictions counted); the margin as above.
  Prefix,
};

/// Alike workers behind a router: replicas, and in each of them the batches of its pipeline's
/// stages and of its data ranks.
struct Pool {
  StepPrice* price = nullptr;
  WorkerLimits limits;
  std::uint32_t workers = 1;
  Router router = Router::RoundRobin;
};

struct RunOptions {
  /// In flight at once, each completion begins another; nothing: the source's arrivals count.
  std::optional<std::uint64_t> concurrency;
  std::uint64_t first_measured = 0;  ///< requests before it warm up
  /// Prompts are computed in this pool and their caches sent to the other.
  std::optional<Pool> prefill;
  double transfer_seconds_per_token = 0, transfer_latency = 0;
  std::function<void(const Request&)> on_request{};  ///< each one that ended
};

/// What happened to the requests measured.
struct RunResult {
  Samples ttft_ms;  ///< from arrival to the first token
  Samples tpot_ms;  ///< per request, mean time of a token after the first
  Samples itl_ms;   ///< between two tokens, over all of them
  Samples e2e_ms;
  Samples queue_ms;  ///< from arrival to the first step
  std::uint64_t requests = 0, turned_away = 0;
  double output_tokens = 0, input_tokens = 0;  ///< of all requests, warm-up included
  double span_s = 0;                           ///< from time 0 to the last completion
  WorkerTotals totals;                         ///< of all workers
  WorkerTotals prefill_totals;
  double system_s = 0;  ///< time in the system of all requests, by their own stamps
};

/// Requests of closed loops stay with their worker, whatever the router. Requests whose cache can
/// never fit are turned away and counted. Throws InputError: a closed loop of two pools.
[[nodiscard]] RunResult run(const Pool& pool, RequestSource& source, const RunOptions& options);

/// A batch of alike prompts, computed together, then one token of each after the other: what
/// benchmarks of one batch do. The first token comes from the prompts.
struct StaticBatch {
  std::vector<std::int64_t> inputs;
  std::int64_t output = 1;
};
struct StaticResult {
  double ttft_ms = 0, tpot_ms = 0, e2e_ms = 0;
  double token_p50_ms = 0, token_p90_ms = 0, token_p99_ms = 0;  ///< of the steps after the first
  double first_log_sd = 0, token_log_sd = 0, whole_log_sd = 0;
  StepTime first, middle;  ///< the prompts' step, and that of the middle token
};
/// `tokens_per_step`: prompts are computed in steps of at most so many tokens, whole ones; nothing:
/// all at once.
[[nodiscard]] StaticResult run_static(StepPrice& price, const StaticBatch& batch,
                                      std::optional<std::int64_t> tokens_per_step = {});

}  // namespace tracecast::serve
