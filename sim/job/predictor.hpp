#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/job/forecast.hpp"
#include "sim/job/hardware.hpp"
#include "sim/job/job.hpp"
#include "sim/job/largest_batch.hpp"
#include "sim/job/parallelism.hpp"

namespace tracecast {

/// One job at one place, in brief.
struct Cell {
  Interval samples_per_s;
  Interval step_time_s;
  Bytes memory_needed{}, memory_capacity{};  ///< of the fullest rank
  bool fits = true;
  double fit_probability = 1;  ///< that it fits
  std::optional<Watts> power;  ///< of all boards; nothing: not predicted
  bool is_guessed = false;     ///< half or more of the step rests on guesses
  std::string refused;         ///< why there is no answer; empty: there is one
};

/// Throughput of every job at every place.
struct Matrix {
  std::size_t jobs = 0, places = 0;
  std::vector<Cell> cells;  ///< job by job
  [[nodiscard]] const Cell& at(std::size_t job, std::size_t place) const {
    return cells.at(job * places + place);
  }
};

/// Answers for jobs at places, the same as the command's. Remembers graphs, lowered steps and
/// cells. Safe from several threads, which get the same answers as one.
class Predictor {
 public:
  explicit Predictor(Hardware hardware);
  [[nodiscard]] const Hardware& hardware() const { return hardware_; }
  /// One for other hardware, which shares what is remembered of graphs and lowered steps: what if
  /// questions about the same jobs build them once.
  [[nodiscard]] Predictor for_hardware(Hardware hardware) const;

  /// `Usual`: one GPU where the place has one, else what users of the framework take. Throws
  /// InputError naming the flag of the command that says the same.
  [[nodiscard]] Forecast predict(const Job& job, const Place& place,
                                 const Parallelism& parallelism = Usual{}) const;

  /// Every job at every place as `Usual` has it. What cannot be predicted is a cell with its
  /// reason.
  [[nodiscard]] Matrix throughput(std::span<const Job> jobs, std::span<const Place> places) const;

  /// Throws InputError, naming the flag, where a job is wrong whatever the place: what throughput()
  /// refuses everywhere.
  void check(const Job& job) const;

  /// The largest batch per GPU that fits the device of a forecast; of sharded transformers nothing
  /// is reported.
  [[nodiscard]] MemoryAdvice advise_on_batch(const Forecast& forecast) const;
  /// For a job on one GPU that does not fit: what a person can do.
  [[nodiscard]] MemoryAdvice advise_on_memory(const Forecast& forecast) const;

  /// What predict() would run, with everything looked up: its graphs can be printed without running
  /// them.
  [[nodiscard]] ResolvedJob resolve(const Job& job, const Place& place) const;

 private:
  struct Memory;
  Predictor(Hardware hardware, std::shared_ptr<Memory> memory);
  Hardware hardware_;
  std::shared_ptr<Memory> memory_;
};

/// What kind of answer a job at a place gets.
enum class ReportKind {
  OneGpu,
  Cpu,
  ManyGpus,          ///< data parallel
  ParameterServers,  ///< on nodes of their own
  Sharded,           ///< a transformer's layers, stages or states
};
/// `nodes`: of the cluster that the place is; only counts where several GPUs are asked for.
[[nodiscard]] bool asks_for_many(const Place& place, const Parallelism& parallelism);
[[nodiscard]] ReportKind kind_of_report(const Place& place, const Parallelism& parallelism,
                                        std::int64_t nodes, const SpecLibrary& specs);

}  // namespace tracecast
