#include <vector>

#include "tools/command/csv.hpp"
#include "tools/command/output.hpp"
#include "tools/report/report.hpp"

namespace tracecast {

std::string report_csv(const ResolvedJob& job, const Prediction& p,
                       std::optional<std::int64_t> largest_batch) {
  const auto number = [](double value) { return csv_cell(value); };
  // What only a GPU has stays empty without one.
  const auto of_gpu = [&](double value) { return job.cpu ? std::string() : number(value); };
  // As JSON has it, to the last digit.
  const double per_s = p.throughput_samples_per_s.value;
  const double energy_j = per_s > 0 ? p.power.avg.in_w() / per_s : 0.0;
  std::vector<std::pair<std::string_view, std::string>> columns = {
      {"network", job.forward->name},
      {"gpu", job.gpu.id},
      {"gpus", "1"},
      {"nodes", "1"},
      {"batch_per_gpu", std::to_string(job.options.batch)},
      {"phase", std::string(to_string(job.phase))},
      {"precision", std::string(to_string(job.precision))},
      {"framework", job.framework.id},
      {"data", job.options.data},
      {"parameters", std::to_string(job.forward->parameter_count())},
      {"forward_macs_per_sample",
       number(job.forward->forward_macs() / static_cast<double>(job.forward->batch))},
      {"throughput_samples_per_s", number(p.throughput_samples_per_s.value)},
      {"throughput_low_samples_per_s", number(p.throughput_samples_per_s.low)},
      {"throughput_high_samples_per_s", number(p.throughput_samples_per_s.high)},
      {"step_time_s", number(p.step_time_s.value)},
      {"kernel_time_s", number(p.timeline.kernel_busy.in_s())},
      {"gpu_utilization_min", of_gpu(p.gpu_utilization.min)},
      {"gpu_utilization_avg", of_gpu(p.gpu_utilization.avg)},
      {"gpu_utilization_max", of_gpu(p.gpu_utilization.max)},
      {"sm_efficiency", number(p.sm_efficiency)},
      {"cpu_utilization", number(p.cpu_utilization)},
      {"peak_live_bytes", number(p.memory.peak_live.in_bytes())},
      {"device_used_bytes", number(p.memory.device_used.in_bytes())},
      {"fits", p.memory.fits ? "yes" : "no"},
      {"fit_probability", number(p.memory.fit().probability)},
      {"power_avg_w", of_gpu(p.power.avg.in_w())},
      {"power_limit_w", of_gpu(p.power.limit.in_w())},
      {"sm_clock_mhz", of_gpu(p.power.clock.in_mhz())},
      {"energy_j_per_sample", of_gpu(energy_j)},
      {"bottleneck", std::string(to_string(p.bottleneck))},
  };
  // Columns of what was asked for.
  if (job.options.epoch_samples) {
    columns.emplace_back("energy_j_per_epoch",
                         of_gpu(energy_j * static_cast<double>(*job.options.epoch_samples)));
  }
  if (largest_batch) columns.emplace_back("largest_batch", std::to_string(*largest_batch));
  CsvRecord record;
  for (const auto& [name, value] : columns) record.add(name, value);
  return record.text();
}

}  // namespace tracecast
