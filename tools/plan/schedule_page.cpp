#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/text.hpp"
#include "tools/command/output.hpp"
#include "tools/plan/gpu_numbers.hpp"
#include "tools/plan/schedule_report.hpp"
#include "tools/report/page.hpp"

namespace tracecast {
namespace {

double in_s(plan::Time time) { return time.in_seconds().in_s(); }

PageJson policies_section(const std::vector<ScheduleReport>& reports) {
  PageJson section = new_section({.id = "policies",
                                  .title = "Policies side by side",
                                  .kind = "table",
                                  .text = "Completion is counted from arrival; slowdown against "
                                          "the time alone where a job runs fastest."});
  section["columns"] = {{{"name", "policy"}},
                        {{"name", "jobs"}, {"unit", "count"}},
                        {{"name", "mean completion"}, {"unit", "s"}, {"bar", true}},
                        {{"name", "median"}, {"unit", "s"}},
                        {{"name", "99th of 100"}, {"unit", "s"}},
                        {{"name", "makespan"}, {"unit", "s"}},
                        {{"name", "mean wait"}, {"unit", "s"}},
                        {{"name", "use of GPUs"}, {"unit", "share"}},
                        {{"name", "greatest slowdown"}, {"unit", ""}},
                        {{"name", "fairness"}, {"unit", ""}},
                        {{"name", "moves"}, {"unit", "count"}}};
  section["rows"] = PageJson::array();
  for (const ScheduleReport& report : reports) {
    const plan::Summary& s = report.summary;
    section["rows"].push_back({report.policy, s.jobs, s.mean_jct.in_s(), s.median_jct.in_s(),
                               s.p99_jct.in_s(), s.makespan.in_s(), s.mean_wait.in_s(),
                               s.utilization, s.max_slowdown, s.fairness, s.preemptions});
  }
  return section;
}

/// Share of jobs done within so long, one line per policy; of many jobs every so many-th.
PageJson completion_section(const ScheduleSetting& setting,
                            const std::vector<ScheduleReport>& reports) {
  PageJson section =
      new_section({.id = "completion",
                   .title = "Completion times",
                   .kind = "chart",
                   .text = "Share of jobs that are done within so long of arriving."});
  section["x"] = {{"label", "completion time"}, {"unit", "s"}, {"min", 0}};
  section["y"] = {{"label", "jobs done"}, {"unit", "share"}, {"min", 0}, {"max", 1}};
  section["series"] = PageJson::array();
  for (const ScheduleReport& report : reports) {
    std::vector<double> times;
    for (std::size_t j = 0; j < setting.mix.jobs.size(); ++j) {
      const plan::JobHistory& history = report.schedule.jobs[j];
      if (history.end) times.push_back(in_s(*history.end - setting.mix.jobs[j].submit));
    }
    section["series"].push_back(page_uncertainty(report.policy, std::move(times)));
  }
  return section;
}

PageJson types_section(const ScheduleReport& report) {
  PageJson section = new_section(
      {.id = "types", .title = "Use of each GPU type", .kind = "table", .text = report.policy});
  section["columns"] = {{{"name", "GPU"}},
                        {{"name", "GPUs"}, {"unit", "count"}},
                        {{"name", "use until the makespan"}, {"unit", "share"}, {"bar", true}}};
  section["rows"] = PageJson::array();
  for (const plan::TypeUse& type : report.summary.types)
    section["rows"].push_back({type.id, type.gpus, type.utilization});
  return section;
}

PageJson jobs_section(const ScheduleSetting& setting, const ScheduleReport& report) {
  PageJson section =
      new_section({.id = "jobs", .title = "Job by job", .kind = "table", .text = report.policy});
  section["columns"] = {{{"name", "job"}},
                        {{"name", "program"}},
                        {{"name", "GPUs"}, {"unit", "count"}},
                        {{"name", "on"}},
                        {{"name", "arrives"}, {"unit", "s"}},
                        {{"name", "first runs"}, {"unit", "s"}},
                        {{"name", "ends"}, {"unit", "s"}},
                        {{"name", "completion"}, {"unit", "s"}, {"bar", true}},
                        {{"name", "starts"}, {"unit", "count"}}};
  section["sort"] = 7;
  section["rows"] = PageJson::array();
  constexpr std::size_t kMost = 20'000;
  for (std::uint32_t j = 0; j < std::min(setting.mix.jobs.size(), kMost); ++j) {
    const plan::QueuedJob& job = setting.mix.jobs[j];
    const plan::JobHistory& history = report.schedule.jobs[j];
    if (!history.first_start || !history.end) continue;
    const plan::JobKind& kind = setting.mix.kind_of({j});
    section["rows"].push_back({job.name, kind.model, kind.gpus,
                               setting.fleet.types[history.type.index].id, in_s(job.submit),
                               in_s(*history.first_start), in_s(*history.end),
                               in_s(*history.end - job.submit), history.starts});
  }
  if (setting.mix.jobs.size() > kMost) {
    section["text"] = fmt::format("{}: the first {} of {} jobs; --per-job FILE has all",
                                  report.policy, kMost, setting.mix.jobs.size());
  }
  return section;
}

/// A track per GPU, a slice per allocation; programs are the classes.
class Gantt {
 public:
  Gantt(const ScheduleSetting& setting, const ScheduleReport& report)
      : setting_(setting), numbers_(setting.fleet) {
    std::vector<plan::Residence> residences = report.schedule.residences;
    std::stable_sort(
        residences.begin(), residences.end(),
        [](const plan::Residence& a, const plan::Residence& b) { return a.begin < b.begin; });
    for (const plan::Residence& residence : residences) {
      if (count_ >= kMost) break;
      add(residence);
    }
    is_cut_ = count_ >= kMost;
    all_ = residences.size();
  }
  PageJson section(const std::string& policy) {
    PageJson made =
        new_section({.id = "gantt",
                     .title = "Who runs where",
                     .kind = "timeline",
                     .text = policy + ": a track per GPU, a slice per allocation of a job."});
    made["tick_s"] = 1e-6;
    made["names"] = names_.texts();
    made["classes"] = classes_.texts();
    made["tracks"] = PageJson::array();
    for (const auto& [place, track] : tracks_)
      made["tracks"].push_back(
          track.json(setting_.fleet.types[place.first].id, fmt::format("GPU {}", place.second)));
    if (is_cut_) made["cut"] = fmt::format("The first {} slices of {} allocations.", count_, all_);
    return made;
  }

 private:
  static constexpr std::size_t kMost = 150'000;
  void add(const plan::Residence& residence) {
    const plan::JobKind& kind = setting_.mix.kind_of(residence.job);
    std::string name = setting_.mix.jobs[residence.job.index].name;
    if (residence.partner) name += " + " + setting_.mix.jobs[residence.partner->index].name;
    const std::string program =
        kind.model.empty() ? fmt::format("{} GPUs", residence.gpus) : kind.model;
    for (const std::uint32_t gpu : numbers_.take(residence, residence.gpus)) {
      tracks_[{residence.type.index, gpu}].add(residence.begin.count(),
                                               (residence.end - residence.begin).count(),
                                               names_.number_of(name), classes_.number_of(program));
      ++count_;
    }
  }

  const ScheduleSetting& setting_;
  GpuNumbers numbers_;
  PageWords names_, classes_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, PageTrack> tracks_;
  std::size_t count_ = 0, all_ = 0;
  bool is_cut_ = false;
};

}  // namespace

PageJson schedule_page(const ScheduleSetting& setting, const std::vector<ScheduleReport>& reports) {
  const ScheduleReport& first = reports.front();
  const auto best = std::min_element(reports.begin(), reports.end(),
                                     [](const ScheduleReport& a, const ScheduleReport& b) {
                                       return a.summary.mean_jct < b.summary.mean_jct;
                                     });
  int gpus = 0;
  for (const plan::TypeUse& type : first.summary.types) gpus += type.gpus;
  const double hour = 3600;
  std::string report = fmt::format(
      "Jobs are done {} hours after they arrive on average; the last one {} hours after the "
      "first.",
      three_digits(best->summary.mean_jct.in_s() / hour),
      three_digits(best->summary.makespan.in_s() / hour));
  if (reports.size() > 1) report = "Of the policies, " + best->policy + " is quickest. " + report;
  PageJson page =
      new_page({.subcommand = "schedule",
                .title = fmt::format("{} jobs on {} GPUs", setting.mix.jobs.size(), gpus),
                .subtitle = fmt::format("rules {}, {} {}", setting.rules.id, reports.size(),
                                        reports.size() == 1 ? "policy" : "policies"),
                .report = report});
  const plan::Summary& s = best->summary;
  page["headline"] = {page_words("Policy", best->policy),
                      page_fact("Mean completion", s.mean_jct.in_s(), "s"),
                      page_fact("Makespan", s.makespan.in_s(), "s"),
                      page_fact("Mean wait", s.mean_wait.in_s(), "s"),
                      page_fact("Use of GPUs", s.utilization, "share"),
                      page_fact("Greatest slowdown", s.max_slowdown, "")};
  if (s.cost_usd) page["headline"].push_back(page_fact("Cost", *s.cost_usd, "USD"));
  if (s.energy_kwh) page["headline"].push_back(page_fact("Energy", *s.energy_kwh, "kWh"));
  PageJson& sections = page["sections"];
  if (reports.size() > 1) sections.push_back(policies_section(reports));
  sections.push_back(completion_section(setting, reports));
  if (!best->schedule.residences.empty())
    sections.push_back(Gantt(setting, *best).section(best->policy));
  sections.push_back(types_section(*best));
  sections.push_back(jobs_section(setting, *best));
  add_inputs(page, setting.inputs);
  return page;
}

}  // namespace tracecast
