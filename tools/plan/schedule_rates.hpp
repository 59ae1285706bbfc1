#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/plan/fleet.hpp"

namespace tracecast {

/// Measured steps per second of programs on GPU types, alone and two to a GPU, as tables state
/// them:
/// - wide: `model, batch, gpus`, and a column `TYPE_steps_per_s` per GPU type, or `steps_per_s` for
/// any (data/cluster);
/// - long: `gpu, job, batch, gpus, steps_per_s` (data/jobs), or `model` for `job`; of several rows
/// for one the first counts,
///   rows of `placement` unconsolidated are of gangs in more machines than they need, others than
///   those, single and consolidated are passed over;
/// - pairs: `gpu, job_a, batch_a, job_b, batch_b, steps_per_s_a, steps_per_s_b` (data/jobs).
/// A step is one of `batch` samples, so that steps per second of several GPUs are those of all of
/// them; or of `global_batch` samples, where a table has that column instead: the batch of all GPUs
/// together.
class RateTables {
 public:
  struct Program {
    std::string model;
    std::int64_t batch = 0;
    int gpus = 1;
    std::int64_t global_batch = 0;  ///< of all GPUs, instead of `batch` of each; 0: not stated
    /// Flags of `predict` and their values, of jobs whose rates are predicted: "data", "imagenet".
    std::vector<std::pair<std::string, std::string>> flags{};
    friend auto operator<=>(const Program&, const Program&) = default;
  };
  struct Pair {
    Program a, b;
    std::string gpu;
    double rate_a = 0, rate_b = 0;
  };

  /// Throws InputError: no such table, a row that is wrong.
  void add(const std::filesystem::path& file);

  [[nodiscard]] bool empty() const { return rates_.empty(); }
  /// Steps per second of the program on a GPU type of the fleet; nothing: the tables do not say; 0:
  /// it cannot run there.
  [[nodiscard]] std::optional<double> find(const Program& program, std::string_view type) const;
  [[nodiscard]] const std::vector<Pair>& pairs() const { return pairs_; }
  /// The same in more machines than needed (`placement` unconsolidated).
  [[nodiscard]] std::optional<double> find_uncertainty(const Program& program,
                                                       std::string_view type) const;
  /// Numbers of GPUs on which the tables know a program, rising.
  [[nodiscard]] std::vector<int> sizes_of(Program program) const;
  /// Whether any table speaks of the type.
  [[nodiscard]] bool knows_type(std::string_view type) const;
  /// In the order of their names.
  [[nodiscard]] std::vector<Program> programs() const;

  /// Whether a table's word for a GPU ("V100") means a type of the fleet ("v100",
  /// "v100_sxm2_16gb").
  [[nodiscard]] static bool means(std::string_view word, std::string_view type);

 private:
  using Rates = std::map<Program, std::map<std::string, double>>;  ///< by lower-case word; "" = any
  [[nodiscard]] static std::optional<double> find_in(const Rates& rates, const Program& program,
                                                     std::string_view type);
  Rates rates_, uncertainty_;
  std::vector<Pair> pairs_;
};

}  // namespace tracecast
