#include "sim/plan/purchase/served_cell.hpp"

#include <fmt/format.h>

#include <string>

#include "sim/base/error.hpp"
#include "sim/job/mode/serving_job.hpp"

namespace tracecast::plan {
namespace {

std::string limits_of(const ServingDemand& demand) {
  std::string text;
  if (demand.ttft_ms) text += fmt::format("{:.4g} ms to the first token", *demand.ttft_ms);
  if (demand.tpot_ms)
    text += fmt::format("{}{:.4g} ms a token", text.empty() ? "" : " and ", *demand.tpot_ms);
  return text;
}

Cell report(const Job& job, const ServingDemand& demand, const Place& place,
            const Hardware& hardware) {
  ServingJob served_job;
  served_job.network = job.network;
  served_job.engine = demand.engine;
  if (!job.precision.empty()) served_job.precision = job.precision;
  served_job.kv_precision = demand.kv_precision;
  Served served(served_job, place, hardware);
  ServingLoad load;
  load.input = demand.input;
  load.output = demand.output;
  const Served::Found found = served.find_rate(load, demand.ttft_ms, demand.tpot_ms);
  const ServingReport& a = found.report;
  Cell cell;
  cell.memory_capacity = a.memory.budget;
  cell.memory_needed = a.memory.budget - a.memory.cache +
                       a.memory.cache_token * static_cast<double>(demand.input + demand.output);
  cell.fits = a.fits;
  if (!a.fits) return cell;
  if (!(found.per_second > 0)) {
    cell.refused = "no load keeps to " + limits_of(demand);
    return cell;
  }
  cell.samples_per_s = served.rate_interval(load, demand.ttft_ms, demand.tpot_ms, found);
  cell.step_time_s = {1 / cell.samples_per_s.value, 1 / cell.samples_per_s.high,
                      1 / cell.samples_per_s.low};
  cell.power = Watts(a.power_w * static_cast<double>(a.gpus));
  return cell;
}

}  // namespace

Cell served_cell(const Job& job, const ServingDemand& demand, const Place& place,
                 const Hardware& hardware) {
  try {
    return report(job, demand, place, hardware);
  } catch (const InputError& error) {
    Cell cell;
    cell.refused = error.what();
    return cell;
  }
}

}  // namespace tracecast::plan
