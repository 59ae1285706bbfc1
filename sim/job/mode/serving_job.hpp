#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/job/cluster.hpp"
#include "sim/job/hardware.hpp"
#include "sim/serve/memory.hpp"
#include "sim/serve/simulation.hpp"
#include "sim/step/interval.hpp"

namespace tracecast {

/// A language model that answers requests, in the words of the command line.
struct ServingJob {
  std::string network;  ///< zoo name or path of a config.json
  std::string engine = "vllm", engine_version{};
  std::string precision = "bf16", kv_precision{};                ///< empty: 16 bits
  std::int64_t tensor = 0, pipeline = 1, experts = 1, data = 1;  ///< tensor 0: all GPUs, at most 8
  std::optional<std::int64_t> tokens_per_step{}, sequences{};
  std::optional<std::int64_t>
      graph_tokens{};  ///< steps with prompts of up to so many tokens run in graphs
  std::optional<double> memory_share{};
  /// Most tokens of a request, input and output; else those of the network's published
  /// configuration (an engine's max_model_len).
  std::optional<std::int64_t> context{};
  std::string router = "round_robin";  ///< or least_loaded, prefix_aware, prefix
  std::string preemption =
      "recompute";      ///< or swap: caches of those who have to go wait in the host
  double swap_gib = 4;  ///< of the host, per GPU. vLLM's --swap-space as long as it had it
  // What drafts: tokens a step, share of them kept, and the network that proposes them.
  std::int64_t drafted = 0;
  double accepted = 0.7;
  std::string draft_network{};
};

/// Who asks. One of batch, concurrency, per_second and trace is set.
struct ServingLoad {
  std::int64_t input = 1, output = 1;
  double least_share = 1;  ///< lengths are drawn evenly from this share of them to the whole
  std::int64_t shared_prefix = 0;  ///< tokens that prompts begin with
  std::int64_t prefixes = 1;       ///< different ones, drawn evenly
  std::optional<std::int64_t> batch{}, concurrency{};
  std::optional<double> per_second{};
  std::optional<std::vector<serve::Request>> trace{};
  std::string arrivals = "poisson";  ///< or bursty, even
  std::uint64_t requests = 1000, seed = 1;
  double warm_up = 0.1;   ///< share of the requests that is not measured; of a trace none
  bool intervals = true;  ///< simulates twice more, slower and faster
  /// "prefill=2xh100,decode=4xh200": phases on GPUs of their own; empty: one engine does both.
  std::string disaggregate{};
};

/// Requests that show what so many in flight meet: twenty rounds of them and a thousand at least,
/// but no more than 400,000 where those are one round. Fewer are mostly the start, when all prompts
/// stand in one queue.
[[nodiscard]] std::uint64_t steady_requests(std::int64_t in_flight);

/// A latency in ms: value and interval of the cost model, and half the 90 % confidence interval of
/// the simulated figure.
struct ServedFigure {
  Interval interval;
  double half_width = 0;
};
struct ServedLatency {
  ServedFigure mean, p50, p90, p99;
};

struct ServingReport {
  std::string network, gpu, machine, engine;
  std::int64_t gpus = 1, replicas = 1, tensor = 1, pipeline = 1, experts = 1, data = 1;
  serve::ServedMemory memory;
  std::int64_t replica_cache_tokens = 0;  ///< of a replica's data ranks together
  bool fits = true;
  std::string change;  ///< what would make it fit
  ServedLatency ttft_ms, tpot_ms, itl_ms, e2e_ms, queue_ms;
  double requests_per_s = 0, tokens_per_s = 0, tokens_per_s_per_gpu = 0, tokens_per_s_per_user = 0;
  std::uint64_t requests = 0, turned_away = 0, preemptions = 0, steps = 0;
  std::uint64_t swapped = 0;    ///< of the preemptions, those that kept their cache in the host
  double recomputed_share = 0;  ///< of prompt tokens computed, those computed again
  double cache_use = 0;         ///< of the pages, while busy
  double utilization = 0;       ///< share of the time in which a step runs
  double mfu = 0;               ///< of that time, what arithmetic takes at the peaks of its formats
  double power_w = 0, idle_power_w = 0, energy_j_per_token = 0;
  std::vector<std::pair<std::string, double>> shares{};  ///< of busy time, by part
  double guessed_share = 0;
  double log_sd = 0;
  double frontend_ms = 0;  ///< in times to the first token and to the end of simulated loads
  std::string limited_by;
  /// Requests a second that are completed at most, where more come: latencies are those of the
  /// requests simulated and grow on.
  std::optional<double> overloaded_at{};
  std::vector<std::string> assumptions{};
  std::vector<InputRecord> inputs{};
  std::vector<serve::Request> served{};  ///< where asked for
};

/// What somebody measured of a load: means.
struct ServedMeasurement {
  ServingLoad load;
  std::optional<double> ttft_ms{}, tpot_ms{};
  /// Of ln(true / measured). Runs repeated differ by 2.7 % in the median (data/serving/README.md),
  /// so one is off by about 0.02.
  double log_sd = 0.02;
};
/// What a measurement says of steps.
struct ServedCorrection {
  /// On times of steps, of prompts and of single tokens, that make the answer the measured one.
  double prompt_factor = 1, token_factor = 1;
  double log_sd = 0.02;
  bool is_met = true;  ///< else no factor from 1/5 to 5 does; the nearest is reported
};

/// Throws InputError: `network` is no language model, or `where` has more tokens than its context.
void check_served_lengths(const std::string& network, std::int64_t input, std::int64_t output,
                          const std::string& where);

/// A job on its GPUs, ready to answer several loads: prices are kept from one to the next.
class Served {
 public:
  /// Throws InputError: an unknown word, sizes that contradict each other.
  Served(const ServingJob& job, const Place& place, const Hardware& hardware);
  ~Served();
  Served(Served&&) noexcept;

  /// What fits, and what the load meets. Throws InputError: lengths over the network's context,
  /// contradictions.
  [[nodiscard]] ServingReport report(const ServingLoad& load, bool keeps_requests = false);
  /// The highest rate whose p90 of times stays within both limits (ms; nothing: no limit), to 2 %,
  /// and which the GPUs complete where all requests wait; an answer at that rate. Rate 0: none
  /// does.
  struct Found {
    double per_second = 0;
    ServingReport report;
  };
  [[nodiscard]] Found find_rate(ServingLoad load, std::optional<double> ttft_ms,
                                std::optional<double> tpot_ms);
  /// That rate if every step took `ln_factor` more or less, without an answer.
  [[nodiscard]] double rate_within(ServingLoad load, std::optional<double> ttft_ms,
                                   std::optional<double> tpot_ms, double ln_factor);

  /// The rate that was found, with the 90 % interval that the error of its steps leaves.
  [[nodiscard]] Interval rate_interval(const ServingLoad& load, std::optional<double> ttft_ms,
                                       std::optional<double> tpot_ms, const Found& found);

  /// Factors that make the means of an answer the measured ones. Throws InputError as `report`
  /// does, and where it does not fit.
  [[nodiscard]] ServedCorrection fit(const ServedMeasurement& measured);
  /// Answers from now on are corrected by what was measured of the same network and engine, here
  /// (other loads) or elsewhere:
  ///   ln factor = c s^2 / (s^2 + m^2) ln of the fitted one,  s' = s sqrt(1 - c^2 s^2 / (s^2 +
  ///   m^2))
  /// s: standard deviation of the answer's ln(measured / predicted), m: of the measurement, c: the
  /// engine's load_share or place_share. Source: conditional normal distribution of two errors
  /// whose correlation is c.
  void correct(const ServedCorrection& correction, bool is_same_place);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tracecast
