#include "tools/predict/measured_throughput.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "sim/plan/purchase/error_model.hpp"
#include "tools/command/interval_json.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/plan/measured_runs.hpp"

namespace tracecast {

namespace {

/// The step of a forecast, as its program adds to it; null: it adds nothing.
struct HostedStep {
  const AddedHost* added = nullptr;
  Interval bare;
};
HostedStep hosted_step(const Forecast& forecast) {
  HostedStep step;
  double log_sd = 0;
  if (const auto* one = std::get_if<OneGpuDetails>(&*forecast.details)) {
    step.added = &one->job.framework.host.added;
    log_sd = one->prediction.log_sd;
  } else if (const auto* many = std::get_if<ManyGpusDetails>(&*forecast.details)) {
    step.added = &many->job.framework.host.added;
    log_sd = many->prediction.one_gpu.log_sd;
  }
  if (step.added == nullptr || !step.added->any()) return {};
  step.bare = without_added(forecast.step_time_s, *step.added, log_sd);
  return step;
}

/// Where a run was timed, as the job's own place has it but for what the run states.
Place place_of(const MeasuredRun& run, const Place& place, const Forecast& forecast) {
  Place other = place;
  if (run.rate.gpu != forecast.gpu) {
    other.machine.clear();
    other.host_cpu.clear();
    other.board = {};
  }
  other.gpu = run.rate.gpu;
  other.nodes.reset();
  other.gpus.reset();
  if (run.rate.gpus > 1) other.gpus = run.rate.gpus;
  return other;
}

/// Of a program that adds a host time of its own: a run at any batch and on any GPU says what it
/// is.
MeasuredThroughput given_runs(const std::string& file, const Job& job, const Place& place,
                              const Parallelism& parallelism, const Predictor& predictor,
                              const Forecast& forecast, const HostedStep& step) {
  MeasuredThroughput result;
  result.predicted = result.corrected = forecast.throughput_samples_per_s;
  std::vector<TimedStep> timed;
  for (const MeasuredRun& run : read_measured_runs(file, predictor.hardware().gpus())) {
    Job own = job;
    if (run.batch) own.batch = *run.batch;
    if (!is_of(run, own)) continue;
    ++result.runs;
    result.is_here = result.is_here || (run.rate.gpu == forecast.gpu &&
                                        run.rate.gpus == forecast.gpus && own.batch == job.batch);
    const Parallelism how = run.rate.gpus > 1 ? parallelism : Parallelism{Usual{}};
    const Forecast there = predictor.predict(own, place_of(run, place, forecast), how);
    timed.push_back({.bare = hosted_step(there).bare,
                     .measured = there.samples_per_step / run.rate.samples_per_s,
                     .log_sd = run.rate.log_sd});
  }
  if (timed.empty()) return result;
  const Interval time = interval90_given(step.bare, *step.added, timed);
  const double samples = forecast.samples_per_step;
  result.corrected = {samples / time.value, samples / time.high, samples / time.low};
  return result;
}

}  // namespace

MeasuredThroughput measured_throughput(const std::string& file, const Job& job, const Place& place,
                                       const Parallelism& parallelism, const Predictor& predictor,
                                       const Forecast& forecast) {
  if (const HostedStep step = hosted_step(forecast); step.added != nullptr)
    return given_runs(file, job, place, parallelism, predictor, forecast, step);
  MeasuredThroughput result;
  result.predicted = result.corrected = forecast.throughput_samples_per_s;
  std::vector<plan::ErrorCell> cells{{0, 0, plan::log_sd_of(result.predicted)}};
  std::vector<plan::MeasuredCell> known;
  std::map<std::string, std::size_t> gpus{{forecast.gpu, 0}};
  for (const MeasuredRun& run : read_measured_runs(file, predictor.hardware().gpus())) {
    if (!is_of(run, job)) continue;
    ++result.runs;
    const bool here = run.rate.gpu == forecast.gpu && run.rate.gpus == forecast.gpus;
    result.is_here = result.is_here || here;
    Interval there = result.predicted;
    std::size_t cell = 0;
    if (!here) {
      const Place other = place_of(run, place, forecast);
      const Parallelism how = run.rate.gpus > 1 ? parallelism : Parallelism{Usual{}};
      there = predictor.predict(job, other, how).throughput_samples_per_s;
      cell = cells.size();
      cells.push_back(
          {0, gpus.try_emplace(run.rate.gpu, gpus.size()).first->second, plan::log_sd_of(there)});
    }
    known.push_back({cell, std::log(run.rate.samples_per_s / there.value), run.rate.log_sd});
  }
  if (known.empty()) return result;
  const plan::ErrorField field = plan::error_field(cells, plan::fitted_error_shares(), known);
  result.corrected = plan::corrected(result.predicted, field, 0);
  return result;
}

std::string measured_text(const MeasuredThroughput& m) {
  std::string page;
  if (m.runs == 0) {
    add_line(page, "Measured", "no run of --measured is of this job");
    return page;
  }
  const Interval& c = m.corrected;
  add_line(page, "Measured",
           fmt::format("{} run{} of this job{}", m.runs, m.runs == 1 ? "" : "s",
                       m.is_here ? ", here" : ", elsewhere"));
  add_line(page, "Corrected",
           fmt::format("{} samples/s    (90 % interval: {} to {})", three_digits(c.value),
                       three_digits(c.low), three_digits(c.high)));
  return page;
}

std::string with_measured(const std::string& forecast_json, const MeasuredThroughput& m) {
  auto doc = nlohmann::ordered_json::parse(forecast_json);
  doc["measured"] = {{"runs", m.runs},
                     {"here", m.is_here},
                     {"throughput_samples_per_s", interval_json(m.corrected)}};
  return json_text(doc) + "\n";
}

}  // namespace tracecast
