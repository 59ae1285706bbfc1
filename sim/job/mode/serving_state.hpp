#pragma once
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/job/mode/serving_job.hpp"
#include "sim/serve/step_price.hpp"

/// What a `Served` keeps. Private to sim/job.
namespace tracecast {

/// One kind of GPU with its replicas.
struct Side {
  std::int64_t gpus = 1, replicas = 1;
  ServedNetwork served;
  std::unique_ptr<Cluster> cluster;
  std::unique_ptr<serve::StepPrice> price;
  std::string gpu, machine;
};

struct Served::State {
  State(const ServingJob& j, const Place& p, const Hardware& h) : job(j), place(p), hardware(h) {}
  ServingJob job;
  Place place;
  Hardware hardware;
  EngineProfile engine;
  LanguageNetwork network;
  std::vector<InputRecord> inputs;
  std::vector<std::string> assumptions;
  Side main, prefill;
  std::string disaggregated;
  double draft_seconds = 0;
  std::optional<ServedCorrection> correction;
  double correction_share = 0;  ///< of errors there, what is the same here
  double fixed_ln_factor = 0;   ///< on all steps
  bool is_searching = false;    ///< for a rate: answers are not looked at further
  serve::WorkerLimits factors;  ///< of steps; its other fields are not read

  /// Spread of ln(measured / predicted) after the correction, and the factors that go with it.
  double correct_uncertainty(double log_sd) {
    factors.prompt_factor = factors.token_factor = std::exp(fixed_ln_factor);
    if (!correction) return log_sd;
    const double v = log_sd * log_sd, known = v / (v + std::pow(correction->log_sd, 2));
    const double c = correction_share;
    factors.prompt_factor *= std::pow(correction->prompt_factor, c * known);
    factors.token_factor *= std::pow(correction->token_factor, c * known);
    return log_sd * std::sqrt(std::max(0.0, 1 - c * c * known));
  }
  /// Bytes of a second to or from the host, of a rank.
  [[nodiscard]] double host_bytes_per_s() const {
    return 0.8 * main.price->gpu().pcie_bandwidth.in_si();
  }

  /// What the words mean on a board and to an engine.
  [[nodiscard]] ServedFormats formats_on(const GpuSpec& gpu);
  /// The engine with its host's times on the CPU of a machine.
  [[nodiscard]] EngineProfile engine_in(const std::string& machine);
  [[nodiscard]] Side make_side(const std::string& gpu_word, std::int64_t gpus);
  [[nodiscard]] serve::MemoryOptions memory_options() const {
    return {job.memory_share, job.tokens_per_step, job.sequences};
  }
  [[nodiscard]] serve::ServedMemory memory_of(const Side& side, std::int64_t tokens) const {
    return serve::served_memory(side.served, engine, side.price->gpu(), memory_options(), tokens);
  }
  /// A worker is a stage's or a data rank's batch: it has a share of the replica's cache.
  [[nodiscard]] serve::Pool pool_of(const Side& side, const serve::ServedMemory& memory,
                                    double time_factor) const;
  void check_load(const ServingLoad& load) const;
  void add_hardware(std::vector<InputRecord>& records, const ServingLoad& load) const;
  ServingReport begin_report(const ServingLoad& load) const;
  void add_static(ServingReport& report, const ServingLoad& load);
  void add_simulated(ServingReport& report, const ServingLoad& load, bool keeps);
  serve::RunResult simulate(const ServingLoad& load, double factor,
                            std::vector<serve::Request>* kept) const;
  /// Requests a second that are completed while all wait at once, between the first and the last
  /// tenth of ten rounds of what may run at once: a higher rate is not borne for long, whatever a
  /// thousand requests meet. Steps are those of the answer before.
  [[nodiscard]] double saturated_rate(ServingLoad load) const;
  void use_disaggregation(const std::string& spec);
};

}  // namespace tracecast
