#pragma once
#include <optional>
#include <string>
#include <vector>

#include "sim/job/mode/serving_job.hpp"
#include "sim/plan/purchase/catalogue.hpp"

namespace tracecast {

/// What `compare --serve` asks of every GPU: the load in flight, or the rate within limits.
struct ServingComparison {
  ServingJob job;
  Place place{};  ///< machine and links
  std::int64_t input = 1024, output = 128;
  std::vector<std::int64_t> in_flight;     ///< one row for each; empty where there are limits
  std::optional<double> ttft_ms, tpot_ms;  ///< of nine requests in ten
  std::int64_t gpus = 1;                   ///< of each kind
};

/// One GPU and load.
struct ServingRow {
  std::string gpu;
  std::int64_t in_flight = 0;                   ///< 0: a rate that was found
  std::optional<double> rate;                   ///< requests/s within the limits
  Interval tokens_per_s;                        ///< of answers, all GPUs
  Interval ttft_ms, tpot_ms;                    ///< means
  double power_w = 0;                           ///< of all GPUs
  std::int64_t cache_tokens = 0;                ///< of a replica
  std::optional<double> owned_usd, rented_usd;  ///< per million tokens of answers
  std::string refused;                          ///< why there is no answer
};

/// Rows in the order of `gpus`, then of the loads. Money: the GPUs' hours at the catalogue's
/// prices, with energy where they are owned, over the tokens of answers. Throws InputError: an
/// unknown GPU, network, engine or precision.
[[nodiscard]] std::vector<ServingRow> compare_serving(const ServingComparison& asked,
                                                      const std::vector<std::string>& gpus,
                                                      const Hardware& hardware,
                                                      const plan::Catalogue& catalogue);

[[nodiscard]] std::string serving_rows_text(const ServingComparison& asked,
                                            const std::vector<ServingRow>& rows,
                                            const std::string& prices);
[[nodiscard]] std::string serving_rows_json(const ServingComparison& asked,
                                            const std::vector<ServingRow>& rows,
                                            const plan::Catalogue& catalogue, bool is_embedded);
[[nodiscard]] std::string serving_rows_csv(const std::vector<ServingRow>& rows);

}  // namespace tracecast
