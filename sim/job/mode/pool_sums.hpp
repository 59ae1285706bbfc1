#pragma once
#include <algorithm>

#include "sim/job/mode/serving_state.hpp"
#include "sim/serve/worker.hpp"

/// Private to sim/job.
namespace tracecast {

/// What GPUs of one kind did in a run, and all of them together, each GPU counted alike.
class PoolSums {
 public:
  PoolSums(double gpus, double gpus_a_worker, double span_s)
      : gpus_(gpus), gpus_a_worker_(gpus_a_worker), span_s_(span_s) {}

  void add(const Side& side, const serve::WorkerTotals& totals) {
    const ModelSharing& s = side.served.sharing;
    const auto workers = static_cast<double>(side.replicas * s.data * s.pipeline);
    const auto gpus = static_cast<double>(side.gpus);
    const double share = gpus / gpus_;
    const double weight = static_cast<double>(s.tensor) / gpus_a_worker_;
    const double active_idle = side.price->active_idle().in_w();
    const double used = totals.busy_us * 1e-6 / span_s_ / workers;
    utilization += share * used;
    fullest = std::max(fullest, used);
    busy_s += weight * (totals.busy_us * 1e-6);
    idle_w += share * active_idle;
    power_w += share * (active_idle + totals.joules / span_s_ / workers);
    joules += active_idle * span_s_ * gpus + totals.joules * static_cast<double>(s.tensor);
    parts.add(totals.parts, weight);
  }

  double utilization = 0,
         fullest = 0;              ///< share of the time in which a step runs; of the fuller pool
  double idle_w = 0, power_w = 0;  ///< of a GPU
  double joules = 0;               ///< of all
  double busy_s = 0;               ///< of all workers, those of more GPUs with more weight
  serve::PartTimes parts;          ///< likewise

 private:
  double gpus_, gpus_a_worker_, span_s_;
};

}  // namespace tracecast
