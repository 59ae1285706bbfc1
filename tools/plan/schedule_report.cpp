#include "tools/plan/schedule_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/file.hpp"
#include "sim/base/new_file.hpp"
#include "tools/command/csv.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/command/version.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

double hours(Seconds time) { return time.in_s() / 3600; }

Json common_json(const ScheduleSetting& setting, const ScheduleReport& report) {
  const plan::Summary& s = report.summary;
  Json doc{{"policy", report.policy},
           {"rules", setting.rules.id},
           {"jobs", s.jobs},
           {"avg_jct_s", s.mean_jct.in_s()},
           {"median_jct_s", s.median_jct.in_s()},
           {"p99_jct_s", s.p99_jct.in_s()},
           {"makespan_s", s.makespan.in_s()},
           {"utilization", s.utilization},
           {"avg_wait_s", s.mean_wait.in_s()},
           {"avg_slowdown", s.mean_slowdown},
           {"max_slowdown", s.max_slowdown},
           {"fairness", s.fairness},
           {"starts", s.starts},
           {"preemptions", s.preemptions},
           {"resizes", s.resizes},
           {"stagger_starts", s.uncertainty},
           {"overhead_s", s.overhead.in_s()},
           {"failures", report.schedule.failures},
           {"decisions", report.schedule.decisions},
           {"allocations", report.schedule.allocations},
           {"energy_kwh", s.energy_kwh ? Json(*s.energy_kwh) : Json()},
           {"cost_usd", s.cost_usd ? Json(*s.cost_usd) : Json()}};
  doc["gpu_types"] = Json::array();
  for (const plan::TypeUse& type : s.types) {
    doc["gpu_types"].push_back({{"gpu", type.id},
                                {"gpus", type.gpus},
                                {"busy_gpu_s", type.busy_gpu_s},
                                {"utilization", type.utilization}});
  }
  return doc;
}

Json envelope(const ScheduleSetting& setting, std::string_view schema) {
  Json doc{{"schema", fmt::format("tracecast.{}/{}", schema, kSchema)}, {"version", kVersion}};
  doc["inputs"] = Json::array();
  for (const InputRecord& input : setting.inputs)
    doc["inputs"].push_back(
        {{"kind", input.kind}, {"name", input.name}, {"sha256", input.sha256.text()}});
  doc["seed"] = setting.seed;
  return doc;
}

std::string fleet_text(const plan::Fleet& fleet) {
  std::string text;
  for (const plan::GpuType& type : fleet.types)
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", type.gpus, type.id);
  return text;
}

}  // namespace

namespace {

constexpr std::size_t kPolicyWidth = 25;

/// Times of every policy, side by side.
void add_times(std::string& page, const std::vector<ScheduleReport>& reports) {
  page += fmt::format("\n{:<{}} {:>9} {:>9} {:>9} {:>9} {:>8} {:>5}\n", "", kPolicyWidth, "mean",
                      "median", "p99", "makespan", "wait", "used");
  page += fmt::format("{:<{}} {:>9} {:>9} {:>9} {:>9} {:>8} {:>5}\n", "policy", kPolicyWidth, "h",
                      "h", "h", "h", "h", "");
  for (const ScheduleReport& report : reports) {
    const plan::Summary& s = report.summary;
    page +=
        fmt::format("{} {:>9} {:>9} {:>9} {:>9} {:>8} {:>5}\n", fit(report.policy, kPolicyWidth),
                    low_precision(hours(s.mean_jct), 9), low_precision(hours(s.median_jct), 9),
                    low_precision(hours(s.p99_jct), 9), low_precision(hours(s.makespan), 9),
                    low_precision(hours(s.mean_wait), 8), percent(s.utilization));
  }
}

/// How jobs were treated, and what it took.
void add_treatment(std::string& page, const std::vector<ScheduleReport>& reports) {
  page += fmt::format("\n{:<{}} {:>8} {:>8} {:>8} {:>9} {:>8} {:>8}\n", "", kPolicyWidth,
                      "fairness", "slowdown", "slowdown", "preempted", "energy", "cost");
  page += fmt::format("{:<{}} {:>8} {:>8} {:>8} {:>9} {:>8} {:>8}\n", "policy", kPolicyWidth,
                      "Jain", "mean", "largest", "times", "kWh", "USD");
  const auto if_known = [](const std::optional<double>& value) {
    return value ? low_precision(*value, 8) : std::string("-");
  };
  for (const ScheduleReport& report : reports) {
    const plan::Summary& s = report.summary;
    page +=
        fmt::format("{} {:>8.3f} {:>8} {:>8} {:>9} {:>8} {:>8}\n", fit(report.policy, kPolicyWidth),
                    s.fairness, low_precision(s.mean_slowdown, 8), low_precision(s.max_slowdown, 8),
                    s.preemptions, if_known(s.energy_kwh), if_known(s.cost_usd));
  }
}

/// Use of every GPU type under every policy.
void add_uses(std::string& page, const std::vector<ScheduleReport>& reports) {
  const std::vector<plan::TypeUse>& types = reports.front().summary.types;
  if (types.size() < 2) return;
  std::size_t width = 8;
  for (const plan::TypeUse& type : types) width = std::max(width, columns(printable(type.id)));
  const std::size_t each = std::max<std::size_t>(1, (80 - kPolicyWidth) / (width + 1));
  for (std::size_t first = 0; first < types.size(); first += each) {
    const std::size_t last = std::min(types.size(), first + each);
    page += fmt::format("\n{:<{}}", "used", kPolicyWidth);
    for (std::size_t t = first; t < last; ++t) page += ' ' + fit(types[t].id, width);
    page.erase(page.find_last_not_of(' ') + 1);
    page += '\n';
    for (const ScheduleReport& report : reports) {
      page += fit(report.policy, kPolicyWidth);
      for (std::size_t t = first; t < last; ++t)
        page += fmt::format(" {:<{}}", percent(report.summary.types[t].utilization), width);
      page.erase(page.find_last_not_of(' ') + 1);
      page += '\n';
    }
  }
}

}  // namespace

std::string schedule_text(const ScheduleSetting& setting,
                          const std::vector<ScheduleReport>& reports) {
  std::string page;
  add_line(page, "jobs", fmt::format("{}", reports.front().summary.jobs));
  add_line(page, "fleet", fleet_text(setting.fleet));
  add_line(page, "rules", setting.rules.id + ": " + setting.rules.title);
  add_times(page, reports);
  if (reports.size() > 1) {
    add_treatment(page, reports);
    add_uses(page, reports);
    return page;
  }
  const plan::Summary& s = reports.front().summary;
  page += '\n';
  for (const plan::TypeUse& type : s.types)
    add_line(page, type.id, fmt::format("{} GPUs, {} busy", type.gpus, percent(type.utilization)));
  add_line(page, "slowdown",
           fmt::format("mean {}, largest {} (completion over time alone)",
                       three_digits(s.mean_slowdown), three_digits(s.max_slowdown)));
  add_line(page, "fairness",
           fmt::format("{:.3f} (Jain, of 1 / slowdown; 1 = all alike)", s.fairness));
  add_line(
      page, "starts",
      fmt::format("{}, {} of them after a preemption{}; {} h lost to them", s.starts, s.preemptions,
                  setting.mix.has_elastic()
                      ? fmt::format(", {} with another number of GPUs", s.resizes)
                      : std::string(),
                  three_digits(hours(s.overhead))));
  if (setting.rules.placement == plan::Placement::Nearest)
    add_line(page, "uncertainty",
             fmt::format("{} starts in more machines than the gang needs", s.uncertainty));
  if (setting.fleet.failures)
    add_line(page, "failures", fmt::format("{}", reports.front().schedule.failures));
  if (s.energy_kwh)
    add_line(page, "energy", fmt::format("{} kWh of boards", three_digits(*s.energy_kwh)));
  if (s.cost_usd)
    add_line(page, "cost", fmt::format("{} USD of GPU time held", three_digits(*s.cost_usd)));
  return page;
}

std::string schedule_json(const ScheduleSetting& setting,
                          const std::vector<ScheduleReport>& reports) {
  if (reports.size() == 1) {
    Json doc = envelope(setting, "schedule");
    doc.update(common_json(setting, reports.front()));
    return json_text(doc) + '\n';
  }
  Json doc = envelope(setting, "schedules");
  doc["policies"] = Json::array();
  for (const ScheduleReport& report : reports)
    doc["policies"].push_back(common_json(setting, report));
  return json_text(doc) + '\n';
}

std::string schedule_csv(const ScheduleSetting& setting,
                         const std::vector<ScheduleReport>& reports) {
  std::string text =
      "policy,rules,jobs,avg_jct_s,median_jct_s,p99_jct_s,makespan_s,utilization,avg_wait_s,"
      "avg_slowdown,fairness,preemptions,energy_kwh,cost_usd\n";
  for (const ScheduleReport& report : reports) {
    const plan::Summary& s = report.summary;
    text +=
        csv_line(report.policy, setting.rules.id, s.jobs, s.mean_jct.in_s(), s.median_jct.in_s(),
                 s.p99_jct.in_s(), s.makespan.in_s(), s.utilization, s.mean_wait.in_s(),
                 s.mean_slowdown, s.fairness, s.preemptions, s.energy_kwh, s.cost_usd);
  }
  return text;
}

void write_jobs_csv(const std::filesystem::path& path, const ScheduleSetting& setting,
                    const ScheduleReport& report) {
  NewFile file(path);
  file.write(
      "job_id,model,gpus,gpu,submit_s,start_s,end_s,jct_s,wait_s,run_s,overhead_s,starts,"
      "preemptions,resizes,last_gpus\n");
  const auto in_s = [](plan::Time time) { return time.in_seconds().in_s(); };
  for (std::uint32_t j = 0; j < setting.mix.jobs.size(); ++j) {
    const plan::QueuedJob& job = setting.mix.jobs[j];
    const plan::JobHistory& history = report.schedule.jobs[j];
    if (!history.first_start || !history.end) continue;
    const plan::JobKind& kind = setting.mix.kind_of({j});
    const double took = in_s(*history.end - job.submit);
    file.write(csv_line(job.name, kind.model, kind.gpus, setting.fleet.types[history.type.index].id,
                        in_s(job.submit), in_s(*history.first_start), in_s(*history.end), took,
                        took - in_s(history.served), in_s(history.served), history.overhead.in_s(),
                        history.starts, history.preemptions, history.resizes, history.gpus));
  }
  file.put_in_place();
}

void write_gavel_rates(const std::filesystem::path& path, const ScheduleSetting& setting) {
  const auto sized = [&](const plan::JobKind& kind, int gpus) {
    return fmt::format("('{} (batch size {})', {})", kind.model, kind.batch, gpus);
  };
  const auto word = [&](const plan::JobKind& kind) { return sized(kind, kind.gpus); };
  Json doc = Json::object();
  for (std::uint32_t t = 0; t < setting.fleet.types.size(); ++t) {
    Json& type = doc[setting.fleet.types[t].id] = Json::object();
    for (const plan::JobKind& kind : setting.mix.kinds) {
      type[word(kind)]["null"] = kind.rates[t];
      for (const plan::GangSize& size : kind.sizes)
        type[sized(kind, size.gpus)]["null"] = size.rates[t];
    }
    for (const plan::SharedRate& pair : setting.mix.shared) {
      if (pair.type.index != t) continue;
      const std::string a = word(setting.mix.kinds[pair.a.index]);
      const std::string b = word(setting.mix.kinds[pair.b.index]);
      type[a][b] = {pair.rate_a, pair.rate_b};
      type[b][a] = {pair.rate_b, pair.rate_a};
    }
  }
  write_file(path, json_text(doc) + '\n');
}

}  // namespace tracecast
