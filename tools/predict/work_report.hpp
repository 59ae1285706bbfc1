#pragma once
#include <optional>
#include <string>
#include <vector>

#include "sim/job/predictor.hpp"
#include "sim/plan/purchase/work_cost.hpp"

namespace CLI {
class App;
}

namespace tracecast {

/// What the flags of work, time and money say.
struct WorkOptions {
  std::optional<double> tokens, samples, epochs, kwh_price;
  std::vector<std::string> prices;  ///< "h100=2.5"
  std::string within;               ///< "60d"

  [[nodiscard]] bool is_asked() const { return tokens || samples || epochs; }
};
/// --tokens, --samples, --epochs, --within, --price and --kwh-price.
void add_work_options(CLI::App& app, WorkOptions& options);

/// Refuses prices or a time limit without work, as `predict` without an amount of it would ignore
/// them. Throws InputError.
void check_work(const WorkOptions& options);

/// Refuses all of them, for who predicts a job alone. Throws InputError.
void refuse_work(const WorkOptions& options);

/// What work takes: of the forecast, and the number of GPUs that it takes within a time.
struct WorkReport {
  plan::WorkCost cost;
  std::int64_t gpus = 1;
  std::string prices;  ///< where they are from
  std::optional<Seconds> within;
  std::optional<plan::GpusWithin> gpus_within;  ///< nothing with `within`: none is in time
};
/// Of options that are asked for. Prices are those of the program, and over them those of --price.
/// Throws InputError: a price that names no GPU, a time without unit, tokens of a network without.
[[nodiscard]] WorkReport report_work(const WorkOptions& options, const Predictor& predictor,
                                     const Job& job, const Place& place,
                                     const Parallelism& parallelism, const Forecast& forecast);

/// Lines to stand below a forecast's text; the forecast's JSON with the key "work"; its CSV with
/// columns more.
[[nodiscard]] std::string work_text(const WorkReport& report);
[[nodiscard]] std::string with_work(const std::string& forecast_json, const WorkReport& report);
[[nodiscard]] std::string csv_with_work(const std::string& forecast_csv, const WorkReport& report);

}  // namespace tracecast
