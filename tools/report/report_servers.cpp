#include "tools/report/report_servers.hpp"
#include "tools/command/cell.hpp"
#include "tools/report/memory_headline.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/command/amounts.hpp"
#include "tools/command/csv.hpp"
#include "tools/command/interval_json.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/report/common_json.hpp"
#include "tools/report/report.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

/// How busy the busiest server is with what.
std::vector<std::pair<std::string_view, double>> loads(const ParameterServerStep& s) {
  return {{"threads that send", s.send_busy},
          {"threads that receive", s.receive_busy},
          {"updates", s.update_busy},
          {"wire in", s.wire_in},
          {"wire out", s.wire_out}};
}

void add_parts(std::string& page, const ServerPrediction& p) {
  page += fmt::format("{}{:>8}  share\n", fit("Critical path of a step", 32), "ms");
  for (std::size_t i = 0; i < kServerPartCount; ++i) {
    const Seconds time = p.step.critical[i];
    if (!(time > Seconds(0))) continue;
    const double share = time / p.step.step_time;
    const std::string row =
        fmt::format("  {}{:>8}  {:>5}  {}", fit(to_string(static_cast<ServerPart>(i)), 30, 2),
                    three_digits(time.in_ms()), percent(share), bar(share, 31));
    page.append(row, 0, row.find_last_not_of(' ') + 1) += '\n';
  }
}

/// Of synchronous steps: asynchronous ones have no path of their own.
std::vector<TimeShare> critical_parts(const ServerPrediction& p) {
  std::vector<TimeShare> parts;
  for (std::size_t i = 0; i < kServerPartCount; ++i) {
    if (!(p.step.critical[i] > Seconds(0))) continue;
    parts.push_back({to_string(static_cast<ServerPart>(i)), p.step.critical[i]});
  }
  return parts;
}

Json servers_json(const ServerPrediction& p) {
  const Json parts = shares_json(critical_parts(p), "part", p.step.step_time, true);
  return {{"servers", *p.options.servers},
          {"workers", p.step.workers},
          {"channel", p.channel.channel.id},
          {"link", p.channel.link},
          {"device", p.options.device},
          {"synchronous", !p.options.asynchronous},
          {"staleness_updates", p.step.staleness},
          {"efficiency", p.efficiency},
          {"one_gpu_samples_per_s", p.one_gpu.throughput_samples_per_s.value},
          {"variables", p.step.variables},
          {"pulled_bytes_per_worker", p.step.pulled.in_bytes()},
          {"critical_path", parts},
          {"busiest_server",
           {{"send_threads", p.step.send_busy},
            {"receive_threads", p.step.receive_busy},
            {"updates", p.step.update_busy},
            {"wire_in", p.step.wire_in},
            {"wire_out", p.step.wire_out}}}};
}

}  // namespace

std::string report_servers_text(const ResolvedJob& job, const ServerPrediction& p,
                                const MemoryAdvice& advice) {
  std::string page;
  add_line(page, "Memory", memory_headline(p.one_gpu.memory, advice));
  add_line(page, "Network",
           fmt::format("{}: {} parameters in {} variables, {}B", job.forward->name,
                       short_count(static_cast<double>(job.forward->parameter_count())),
                       p.step.variables, short_count(p.step.pulled.in_bytes())));
  add_line(
      page, "Nodes",
      fmt::format("{} server{}, {} worker{} with a {} each{}", *p.options.servers,
                  p.options.servers == 1 ? "" : "s", p.step.workers, p.step.workers == 1 ? "" : "s",
                  job.gpu.id, chosen_for(job.options.gpu, job.gpu)));
  add_line(page, "Machine", p.fabric.machine_of(FabricNodeId{0}).name);
  add_line(page, "Channel", fmt::format("{} on {}", p.channel.channel.name, p.channel.link));
  add_line(page, "Job",
           fmt::format("{}, batch {} per GPU, {}, {}, {}", job.options.phase, job.options.batch,
                       job.options.precision, job.framework.name,
                       p.options.asynchronous ? "asynchronous" : "synchronous"));
  for (const std::string& assumption : job.assumptions) add_line(page, "", assumption);
  for (const std::string& warning : job.warnings) add_line(page, "Warning", warning);
  page += '\n';
  add_rates(page, p.throughput_samples_per_s, p.step_time_s, p.one_gpu, p.efficiency);
  if (p.options.asynchronous) {
    add_line(page, "Staleness",
             fmt::format("{} updates by others between reading a variable and updating it",
                         three_digits(p.step.staleness)));
  } else {
    page += '\n';
    add_parts(page, p);
  }
  page += "\nBusiest server                   busy\n";
  for (const auto& [name, share] : loads(p.step)) {
    const std::string row =
        fmt::format("  {}{:>5}  {}", fit(name, 30, 2), percent(share), bar(share, 41));
    page.append(row, 0, row.find_last_not_of(' ') + 1) += '\n';
  }
  page += '\n';
  add_line(page, "GPU utilisation", percent(computing_share(p)) + " of each worker's, on average");
  add_line(page, "Power",
           fmt::format("{:.0f} W of a worker's board on average, {} W of all", p.power.avg.in_w(),
                       three_digits(p.power.avg.in_w() * p.step.workers)));
  for (const std::string& memory : memory_lines(job, p.one_gpu, p.one_gpu.memory, advice)) {
    page.append(memory, 0, memory.find_last_not_of(' ') + 1) += '\n';
  }
  return page;
}

std::string report_servers_json(const ResolvedJob& job, const ServerPrediction& p,
                                const MemoryAdvice& advice) {
  Json doc = Json::parse(report_json(job, p.one_gpu, advice, false));
  doc["gpus"] = p.step.workers;
  doc["nodes"] = p.fabric.num_nodes();
  doc["machine"] = p.fabric.machine_of(FabricNodeId{0}).id;
  doc["throughput_samples_per_s"] = interval_json(p.throughput_samples_per_s);
  doc["step_time_s"] = interval_json(p.step_time_s);
  const double longer = p.one_gpu.step_time_s.value / p.step_time_s.value;
  doc["gpu_utilization"] = {{"min", 0}, {"avg", computing_share(p)}, {"max", 1}};
  doc["sm_efficiency"] = p.one_gpu.sm_efficiency * longer;
  set_power(doc, job, p.power, p.step.workers, p.throughput_samples_per_s.value);
  set_step(doc, p.step.account, critical_parts(p), Seconds(p.step_time_s.value));
  doc["parameter_servers"] = servers_json(p);
  return json_text(doc) + '\n';
}

std::string report_servers_csv(const ResolvedJob& job, const ServerPrediction& p,
                               const MemoryAdvice& advice) {
  const Interval& rate = p.throughput_samples_per_s;
  CsvRecord record;
  record.add("network", job.forward->name);
  record.add("gpu", job.gpu.id);
  record.add("gpus", p.step.workers);
  record.add("nodes", p.fabric.num_nodes());
  record.add("servers", *p.options.servers);
  record.add("channel", p.channel.channel.id);
  record.add("link", p.channel.link);
  record.add("synchronous", p.options.asynchronous ? "no" : "yes");
  record.add("batch_per_gpu", job.options.batch);
  record.add("phase", to_string(job.phase));
  record.add("precision", to_string(job.precision));
  record.add("framework", job.framework.id);
  record.add_interval("throughput", "samples_per_s", rate.value, rate.low, rate.high);
  record.add("step_time_s", p.step_time_s.value);
  record.add("efficiency", p.efficiency);
  record.add("staleness_updates", p.step.staleness);
  if (advice.largest_batch) record.add("largest_batch", *advice.largest_batch);
  return record.text();
}

}  // namespace tracecast
