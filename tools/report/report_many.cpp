#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "tools/command/amounts.hpp"
#include "tools/command/cell.hpp"
#include "tools/command/csv.hpp"
#include "tools/command/interval_json.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/report/common_json.hpp"
#include "tools/report/memory_headline.hpp"
#include "tools/report/nics.hpp"
#include "tools/report/report.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

std::string groups_text(const ManyGpus& many) {
  std::string text;
  for (const RankGroup& group : many.groups) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} x {}", group.count, group.gpu);
    if (group.compute_time_factor != 1) {
      text += fmt::format(" ({} times slower)", three_digits(group.compute_time_factor));
    }
  }
  return text;
}

void add_parts(std::string& page, const ManyGpus& many) {
  const double step = many.step_time_s.value;
  page += fmt::format("{}{:>8}  share\n", fit("Critical path of a step", 32), "ms");
  for (const TimeShare& part : parts_of(many.step)) {
    const double share = part.time.in_s() / step;
    std::string row = fmt::format("  {}{:>8}  {:>5}  {}", fit(part.name, 30, 2),
                                  three_digits(part.time.in_ms()), percent(share), bar(share, 31));
    page.append(row, 0, row.find_last_not_of(' ') + 1) += '\n';
  }
}

void add_links(std::string& page, const ManyGpus& many) {
  if (many.step.busiest.empty()) return;
  page += "Busiest links\n";
  constexpr std::size_t kMost = 4;
  for (std::size_t i = 0; i < std::min(kMost, many.step.busiest.size()); ++i) {
    const LinkLoad& load = many.step.busiest[i];
    const FabricLink& link = many.fabric.link(load.link);
    page += fmt::format("  {}{:>8} GB/s {:>5}\n", fit(many.fabric.name_of(load.link), 30, 2),
                        three_digits(link.bandwidth.in_gb_per_s()), percent(load.share));
  }
}

Json scaling_json(const ManyGpus& many) {
  Json groups = Json::array();
  for (std::size_t k = 0; k < many.groups.size(); ++k) {
    groups.push_back({{"gpu", many.groups[k].gpu},
                      {"count", many.groups[k].count},
                      {"compute_time_factor", many.groups[k].compute_time_factor},
                      {"gpu_utilization", range_json(many.step.utilization[k])}});
  }
  Json links = Json::array();
  for (const LinkLoad& load : many.step.busiest) {
    links.push_back({{"link", many.fabric.name_of(load.link)},
                     {"bandwidth_gb_per_s", many.fabric.link(load.link).bandwidth.in_gb_per_s()},
                     {"share", load.share}});
  }
  Json parts = Json::array();
  for (const TimeShare& part : parts_of(many.step)) {
    parts.push_back({{"part", part.name},
                     {"time_s", part.time.in_s()},
                     {"share", part.time.in_s() / many.step_time_s.value}});
  }
  return {{"strategy", many.strategy->id},
          {"efficiency", many.efficiency},
          {"one_gpu_samples_per_s", many.one_gpu.throughput_samples_per_s.value},
          {"parts", parts},
          {"buckets", many.step.num_buckets},
          {"ranks_simulated", many.step.ranks_simulated},
          {"communicated_bytes", many.step.communicated.in_bytes()},
          {"communication_time_s", many.step.communication_busy.in_s()},
          {"exposed_share", many.step.exposed},
          {"slowed_by_collectives_s", many.step.slowed.in_s()},
          {"ranks", groups},
          {"busiest_links", links}};
}

}  // namespace

void add_rates(std::string& page, const Interval& samples_per_s, const Interval& step_time_s,
               const Prediction& one_gpu, double efficiency) {
  add_line(
      page, "Throughput",
      fmt::format("{} samples/s    (90 % interval: {} to {})", three_digits(samples_per_s.value),
                  three_digits(samples_per_s.low), three_digits(samples_per_s.high)));
  add_line(page, "Step time",
           fmt::format("{} ms; one GPU alone {} ms", three_digits(step_time_s.value * 1e3),
                       three_digits(one_gpu.step_time_s.value * 1e3)));
  add_line(page, "Efficiency", fmt::format("{} of so many GPUs alone", percent(efficiency)));
}

std::string report_many_text(const ResolvedJob& job, const ManyGpus& many,
                             const MemoryAdvice& advice) {
  std::string page;
  add_line(page, "Memory", memory_headline(many.memory, advice));
  add_line(page, "Network",
           fmt::format("{}: {} parameters, {}B of gradients to communicate", job.forward->name,
                       short_count(static_cast<double>(job.forward->parameter_count())),
                       short_count(many.step.communicated.in_bytes())));
  add_line(page, "GPUs",
           fmt::format("{} on {} node{}: {}{}", many.fabric.num_ranks(), many.fabric.num_nodes(),
                       many.fabric.num_nodes() == 1 ? "" : "s", groups_text(many),
                       chosen_for(job.options.gpu, job.gpu)));
  add_line(page, "Machine", many.fabric.machine_of(FabricNodeId{0}).name);
  if (const std::string nics = nics_text(many.fabric.nics()); !nics.empty()) {
    add_line(page, "NICs", nics);
  }
  add_line(page, "Job",
           fmt::format("{}, batch {} per GPU, {}, {}, {}", job.options.phase, job.options.batch,
                       job.options.precision, job.framework.name, many.strategy->name));
  for (const std::string& assumption : job.assumptions) add_line(page, "", assumption);
  for (const std::string& warning : job.warnings) add_line(page, "Warning", warning);
  page += '\n';
  add_rates(page, many.throughput_samples_per_s, many.step_time_s, many.one_gpu, many.efficiency);
  page += '\n';
  add_parts(page, many);
  page += '\n';
  if (many.step.communication_busy > Seconds(0)) {
    add_line(page, "Communication",
             fmt::format("{} buckets, {} ms on the way, {} of it hidden by nothing",
                         many.step.num_buckets, three_digits(many.step.communication_busy.in_ms()),
                         percent(many.step.exposed)));
  }
  if (many.input) {
    add_line(page, "Input",
             fmt::format(
                 "GPUs wait {} of the time; the loaders of a node, {} on {}, "
                 "could supply {} samples/s to each GPU",
                 percent(many.input->waiting),
                 many.input->workers == 0   ? "the dispatch threads"
                 : many.input->workers == 1 ? "1 worker"
                                            : fmt::format("{} workers", many.input->workers),
                 processors_text(*many.input),
                 three_digits(static_cast<double>(job.options.batch) / many.input->supply.in_s())));
  }
  for (std::size_t k = 0; k < many.groups.size(); ++k) {
    const Range& busy = many.step.utilization[k];
    add_line(page, k == 0 ? "GPU utilisation" : "",
             fmt::format("{}: {} (nvidia-smi: {} to {})", many.groups[k].gpu, percent(busy.avg),
                         percent(busy.min), percent(busy.max)));
  }
  add_line(page, "Power",
           fmt::format("{:.0f} W of a board on average, {} W of all", many.step.power.avg.in_w(),
                       three_digits(many.step.power.avg.in_w() * many.fabric.num_ranks())));
  add_links(page, many);
  add_line(page, "Simulated",
           many.step.ranks_simulated == many.fabric.num_ranks()
               ? fmt::format("all {} ranks", many.fabric.num_ranks())
               : fmt::format("{} of {} ranks; the others do the same", many.step.ranks_simulated,
                             many.fabric.num_ranks()));
  page += '\n';
  for (const std::string& memory : memory_lines(job, many.one_gpu, many.memory, advice)) {
    page.append(memory, 0, memory.find_last_not_of(' ') + 1) += '\n';
  }
  return page;
}

std::string report_many_json(const ResolvedJob& job, const ManyGpus& many,
                             const MemoryAdvice& advice) {
  Json doc = Json::parse(report_json(job, many.one_gpu, advice, false));
  doc["gpus"] = many.fabric.num_ranks();
  doc["nodes"] = many.fabric.num_nodes();
  doc["machine"] = many.fabric.machine_of(FabricNodeId{0}).id;
  set_nics(doc, many.fabric.nics());
  doc["throughput_samples_per_s"] = interval_json(many.throughput_samples_per_s);
  doc["step_time_s"] = interval_json(many.step_time_s);
  doc["gpu_utilization"] = range_json(utilization_of_all(many));
  const double longer = many.one_gpu.step_time_s.value / many.step_time_s.value;
  doc["sm_efficiency"] = many.one_gpu.sm_efficiency * longer;
  doc["memory"] = memory_json(many.memory, advice);
  const Seconds step(many.step_time_s.value);
  set_power(doc, job, many.step.power, many.fabric.num_ranks(),
            many.throughput_samples_per_s.value);
  set_step(doc, many.step.account, parts_of(many.step), step);
  if (many.input) {
    doc["input"] = input_json(job, *many.input);
    doc["cpu_utilization"] = many.input->busy_threads / many.input->cpu_limit;
    doc["cpu_utilization_of"] = utilization_of(*many.input);
  }
  doc["bottleneck"] = bottleneck_of(many);
  doc["scaling"] = scaling_json(many);
  return json_text(doc) + '\n';
}

std::string report_many_csv(const ResolvedJob& job, const ManyGpus& many,
                            const MemoryAdvice& advice) {
  const StepParts& parts = many.step.parts;
  const Interval& rate = many.throughput_samples_per_s;
  CsvRecord record;
  record.add("network", job.forward->name);
  record.add("gpu", many.groups.front().gpu);
  record.add("gpus", many.fabric.num_ranks());
  record.add("nodes", many.fabric.num_nodes());
  record.add("batch_per_gpu", job.options.batch);
  record.add("phase", to_string(job.phase));
  record.add("precision", to_string(job.precision));
  record.add("framework", job.framework.id);
  record.add("strategy", many.strategy->id);
  record.add_interval("throughput", "samples_per_s", rate.value, rate.low, rate.high);
  record.add("step_time_s", many.step_time_s.value);
  record.add("efficiency", many.efficiency);
  record.add("compute_s", parts.compute.in_s());
  record.add("communication_s", parts.communication.in_s());
  record.add("host_update_s", parts.host_update.in_s());
  record.add("stragglers_s", parts.stragglers.in_s());
  record.add("input_s", parts.input.in_s());
  if (advice.largest_batch) record.add("largest_batch", *advice.largest_batch);
  return record.text();
}

std::string dump_many_program(const ManyGpus& many) {
  std::string text = fmt::format("{:>12}  {:>12}  who            what\n", "start_us", "end_us");
  for (const RankSpan& span : many.step.timeline) {
    text += fmt::format(
        "{:>12.3f}  {:>12.3f}  {}  {}\n", span.start.in_us(), span.end.in_us(),
        fit(span.kind ? many.groups[*span.kind].gpu : "communication", 13, 28),
        span.kind ? fmt::format("segment {}", span.index) : fmt::format("bucket {}", span.index));
  }
  return text;
}

}  // namespace tracecast
