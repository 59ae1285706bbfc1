#include "tools/report/common_json.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "sim/base/text.hpp"
#include "tools/command/interval_json.hpp"
#include "tools/command/output.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

Json recomputation_json(const MemoryAdvice& advice) {
  if (!advice.recomputed) return {};
  const MemoryPlan& memory = advice.recomputed->memory;
  return {{"needed_bytes", memory.needed.in_bytes()},
          {"fits", memory.fits},
          {"step_time_s", advice.recomputed->step_time_s.value}};
}

}  // namespace

Json shares_json(std::span<const TimeShare> shares, const char* key, Seconds step, bool with_time) {
  Json list = Json::array();
  for (const TimeShare& share : shares) {
    Json entry{{key, share.name}};
    if (with_time) entry["time_s"] = share.time.in_s();
    entry["share"] = share.time / step;
    list.push_back(std::move(entry));
  }
  return list;
}

Json input_json(const ResolvedJob& job, const InputUse& use) {
  return {{"data_set", job.input->data.id},
          {"pipeline", job.input->pipeline.id},
          {"workers", use.workers},
          {"cpu_threads", use.cpu_threads},
          {"cpu_quota", use.cpu_quota > 0 ? Json(use.cpu_quota) : Json()},
          {"host_is_assumed", job.input->host_is_assumed},
          {"waiting_share", use.waiting},
          {"busy_threads", use.busy_threads},
          {"thread_speed", use.cpu_speed},
          {"slowest_stage", use.slowest},
          {"supply_samples_per_s", static_cast<double>(job.options.batch) / use.supply.in_s()},
          {"sample_cpu_s", use.sample_cpu_time.in_s()},
          {"step_without_input_s", use.step_without.in_s()},
          {"read_bytes_per_step", use.read_per_step.in_bytes()},
          {"page_cache_share", use.cached},
          {"workers_needed", use.workers_needed ? Json(*use.workers_needed) : Json()}};
}

std::string utilization_of(const InputUse& use) {
  return use.cpu_limit < use.cpu_threads
             ? fmt::format("a quota of {} CPUs", three_digits(use.cpu_quota))
             : fmt::format("{} threads", use.cpu_threads);
}

std::string processors_text(const InputUse& use) {
  std::string text = fmt::format("{} CPU threads", use.cpu_threads);
  if (use.cpu_quota > 0) text += fmt::format(" with {}", utilization_of(use));
  return text;
}

Json memory_json(const MemoryPlan& memory, const MemoryAdvice& advice) {
  const MemoryByClass& c = memory.by_class;
  return {{"peak_live_bytes", memory.peak_live.in_bytes()},
          {"needed_bytes", memory.needed.in_bytes()},
          {"device_used_bytes", memory.device_used.in_bytes()},
          {"capacity_bytes", memory.capacity.in_bytes()},
          {"headroom_bytes", memory.headroom().in_bytes()},
          {"fits", memory.fits},
          {"fit_probability", memory.fit().probability},
          {"fit", fit_words(memory.fit().probability)},
          {"needed_interval_bytes", interval_json(memory.fit().needed)},
          {"least_needed_bytes", memory.least.in_bytes()},
          {"peak_allocated_bytes", memory.peak_allocated.in_bytes()},
          {"largest_batch", advice.largest_batch ? Json(*advice.largest_batch) : Json()},
          {"largest_batch_at_95_percent", advice.sure_batch ? Json(*advice.sure_batch) : Json()},
          {"with_full_recomputation", recomputation_json(advice)},
          {"by_class_bytes",
           {{"weights", c.weights.in_bytes()},
            {"gradients", c.gradients.in_bytes()},
            {"optimizer", c.optimizer.in_bytes()},
            {"activations", c.activations.in_bytes()},
            {"workspace", c.workspace.in_bytes()},
            {"pool", c.pool.in_bytes()},
            {"context", c.context.in_bytes()}}}};
}

void set_power(Json& doc, const ResolvedJob& job, const PowerRange& power, double boards,
               double samples_per_s) {
  const double total_w = power.avg.in_w() * boards;
  const double energy_j = samples_per_s > 0 ? total_w / samples_per_s : 0.0;
  doc["power_w"] = {{"idle", power.idle.in_w()},
                    {"min", power.min.in_w()},
                    {"avg", power.avg.in_w()},
                    {"max", power.max.in_w()},
                    {"limit", power.limit.in_w()},
                    {"demand", power.demand.in_w()},
                    {"basis", power.is_guess ? "guess" : "transferred"}};
  doc["board_power_total_w"] = total_w;
  doc["power_limit_throttles"] = power.throttles;
  doc["power_limit_held"] = power.holds_limit;
  doc["sm_clock_mhz"] = power.clock.in_mhz();
  doc["lowest_sm_clock_mhz"] = power.lowest_clock.in_mhz();
  doc["energy_j_per_sample"] = energy_j;
  const auto samples = epoch_samples(job);
  doc["epoch_samples"] = samples ? Json(*samples) : Json();
  doc["energy_j_per_epoch"] = samples ? Json(energy_j * static_cast<double>(*samples)) : Json();
}

void set_step(Json& doc, const StepAccount& account, std::span<const TimeShare> critical,
              Seconds step) {
  doc["breakdown"] = shares_json(account.by_class(), "class", step, true);
  doc["basis"] = shares_json(account.by_basis(), "basis", step, false);
  doc["critical_path"] = shares_json(critical, "cause", step, true);
  for (const char* list : {"convolution_algorithms", "greatest_costs"}) {
    for (Json& part : doc[list]) part["share"] = part["time_s"].get<double>() / step.in_s();
  }
}

}  // namespace tracecast
