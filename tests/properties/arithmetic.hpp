#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/job/forecast.hpp"
#include "sim/job/mode/serving_job.hpp"

namespace tracecast::test {

/// What does not add up in an answer, one line each:
///   low <= value <= high;  parts by cause, class and basis sum to the step, none is negative;
///   throughput x step = samples of a step;  power of a board x boards = power of all boards;
///   energy of a sample x throughput = power of all boards;  least <= mean <= greatest power and
///   utilisation
[[nodiscard]] std::vector<std::string> faults_of(const Forecast& forecast, bool has_common_path);
///   tokens/s of a GPU x GPUs = tokens/s;  energy of a token x tokens/s = power;  shares sum to 1;
///   p50 <= p90 <= p99
[[nodiscard]] std::vector<std::string> faults_of(const ServingReport& report);
/// Of any JSON answer: every interval is in order, and every list of shares that says to be whole
/// sums to 1.
[[nodiscard]] std::vector<std::string> faults_of(const nlohmann::json& document);

}  // namespace tracecast::test
