#include "tests/properties/arithmetic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tracecast::test {
namespace {

constexpr double kTolerance = 1e-9;

class Faults {
 public:
  void equal(std::string_view what, double a, double b) {
    if (std::abs(a - b) > kTolerance * std::max(std::abs(a), std::abs(b)))
      add(fmt::format("{}: {} is not {}", what, a, b));
  }
  void ordered(std::string_view what, double a, double b) {
    if (!(a <= b + kTolerance * std::max(std::abs(a), std::abs(b))))
      add(fmt::format("{}: {} is above {}", what, a, b));
  }
  void interval(std::string_view what, const Interval& i) {
    ordered(fmt::format("low and value of {}", what), i.low, i.value);
    ordered(fmt::format("value and high of {}", what), i.value, i.high);
  }
  void parts(std::string_view what, const std::vector<StepPart>& parts, double whole) {
    double sum = 0;
    for (const StepPart& part : parts) {
      sum += part.time.in_s();
      ordered(fmt::format("0 and {} {}", what, part.name), 0, part.time.in_s());
    }
    equal(fmt::format("sum {} and the step", what), sum, whole);
  }
  void add(std::string line) { lines_.push_back(std::move(line)); }
  [[nodiscard]] std::vector<std::string> take() { return std::move(lines_); }

 private:
  std::vector<std::string> lines_;
};

void check_power(const Forecast& f, Faults& faults) {
  const PowerRange& board = f.power->board;
  faults.equal("power of all boards and of one times the boards", f.power->boards_total.in_w(),
               board.avg.in_w() * static_cast<double>(f.gpus));
  faults.equal("energy of a sample times throughput, and power of all boards",
               f.power->energy_per_sample.in_j() * f.throughput_samples_per_s.value,
               f.power->boards_total.in_w());
  faults.ordered("power of a board active-idle and on average", board.active_idle.in_w(),
                 board.avg.in_w());
  faults.ordered("least and average power", board.min.in_w(), board.avg.in_w());
  faults.ordered("average and greatest power", board.avg.in_w(), board.max.in_w());
}

/// "low", "value", "high" of one object.
void check_interval(const nlohmann::json& node, const std::string& path, Faults& faults) {
  for (const char* key : {"low", "value", "high"})
    if (!node.contains(key) || !node[key].is_number()) return;
  faults.interval(path, {node["value"], node["low"], node["high"]});
}

/// Lists that hold all of something, by their keys.
bool is_whole(std::string_view key) {
  return key == "breakdown" || key == "basis" || key == "critical_path";
}

void check_node(const nlohmann::json& node, const std::string& key, Faults& faults) {
  if (node.is_object()) check_interval(node, key, faults);
  if (node.is_array() && is_whole(key) && !node.empty() && node[0].contains("share")) {
    double sum = 0;
    for (const nlohmann::json& part : node) sum += part["share"].get<double>();
    faults.equal(fmt::format("sum of shares in {} and", key), sum, 1);
  }
  if (!node.is_structured()) return;
  for (const auto& [name, child] : node.items())
    check_node(child, node.is_array() ? key : name, faults);
}

}  // namespace

std::vector<std::string> faults_of(const Forecast& f, bool has_common_path) {
  Faults faults;
  const double step = f.step_time_s.value;
  faults.interval("the step", f.step_time_s);
  faults.interval("throughput", f.throughput_samples_per_s);
  if (f.throughput_tokens_per_s) faults.interval("tokens/s", *f.throughput_tokens_per_s);
  faults.equal("throughput times step, and samples of a step",
               f.throughput_samples_per_s.value * step, f.samples_per_step);
  faults.parts("by class", f.by_class, step);
  faults.parts("by basis", f.by_basis, step);
  if (has_common_path) faults.parts("by cause", f.by_cause, step);
  if (f.gpu_utilization) {
    faults.ordered("average utilisation and 1", f.gpu_utilization->avg, 1);
    faults.ordered("least and average utilisation", f.gpu_utilization->min, f.gpu_utilization->avg);
    faults.ordered("average and greatest utilisation", f.gpu_utilization->avg,
                   f.gpu_utilization->max);
  }
  if (f.sm_efficiency) faults.ordered("SM efficiency and 1", *f.sm_efficiency, 1);
  if (f.power) check_power(f, faults);
  return faults.take();
}

std::vector<std::string> faults_of(const ServingReport& a) {
  Faults faults;
  if (!a.fits) return {};
  for (const ServedLatency* latency : {&a.ttft_ms, &a.tpot_ms, &a.itl_ms, &a.e2e_ms, &a.queue_ms}) {
    for (const ServedFigure* figure : {&latency->mean, &latency->p50, &latency->p90, &latency->p99})
      faults.interval("a latency", figure->interval);
    faults.ordered("p50 and p90 of a latency", latency->p50.interval.value,
                   latency->p90.interval.value);
    faults.ordered("p90 and p99", latency->p90.interval.value, latency->p99.interval.value);
  }
  faults.equal("tokens/s of a GPU times GPUs, and of all",
               a.tokens_per_s_per_gpu * static_cast<double>(a.gpus), a.tokens_per_s);
  faults.equal("energy of a token times tokens/s, and power of a board times GPUs",
               a.energy_j_per_token * a.tokens_per_s, a.power_w * static_cast<double>(a.gpus));
  faults.ordered("idle and average power", a.idle_power_w, a.power_w);
  double sum = 0;
  for (const auto& [part, share] : a.shares) sum += share;
  if (!a.shares.empty()) faults.equal("sum of shares and", sum, 1);
  faults.ordered("utilisation and 1", a.utilization, 1);
  faults.ordered("use of the cache and 1", a.cache_use, 1);
  return faults.take();
}

std::vector<std::string> faults_of(const nlohmann::json& document) {
  Faults faults;
  check_node(document, "report", faults);
  return faults.take();
}

}  // namespace tracecast::test
