#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/table/csv_reader.hpp"
#include "calibrate/table/row_fields.hpp"
#include "sim/plan/schedule.hpp"
#include "sim/plan/summary.hpp"
#include "tests/support/data.hpp"
#include "tools/plan/schedule_jobs.hpp"

// Runs of published simulators, and of one cluster, against ours under their rules (data/cluster).
// Prints a line per figure.
namespace tracecast::test {
namespace {

/// A run as the command line would have it.
struct Case {
  std::filesystem::path jobs;
  std::string rules, policy;
  std::vector<std::string> only{};
  std::optional<double> jobs_per_hour{};
  std::filesystem::path start_costs{}, throughputs{};
  std::optional<std::pair<std::uint32_t, std::uint32_t>> measured{};
};

plan::Summary run(const Case& c) {
  const plan::Rules& rules = plan::find_rules(c.rules);
  RateTables tables;
  if (!c.throughputs.empty()) tables.add(c.throughputs);
  const JobFileOptions file{c.jobs, c.only, c.jobs_per_hour, c.start_costs, {}};
  const plan::JobMix mix =
      read_job_mix(file, *rules.fleet, rules, tables,
                   [](const RateTables::Program&, const std::string&) -> std::optional<double> {
                     return std::nullopt;
                   });
  plan::ScheduleOptions options;
  options.policy = c.policy;
  options.measured = c.measured;
  const plan::Schedule schedule = plan::simulate(mix, *rules.fleet, rules, options);
  return plan::summarize(mix, *rules.fleet, schedule, rules, options);
}

double print(const std::string& what, double ours, double published) {
  const double error = ours / published - 1;
  std::puts(
      fmt::format("  {:<44} {:>14.2f} {:>14.2f} {:>+10.4f} %", what, ours, published, 100 * error)
          .c_str());
  return error;
}

}  // namespace

TEST_SUITE("validation/schedule") {
  TEST_CASE("Muri's simulator is met on 64 GPUs under its rules") {
    // Bars: srtf and srsf within 0.1 %, las within 2 %. The data's own replay meets the first two
    // to all printed digits.
    const auto results = find_data("cluster/muri_results.csv");
    if (!results) return;
    const std::filesystem::path folder = results->parent_path();
    std::puts("Muri, 64 GPUs: ours, published, error");
    CsvReader reader(*results);
    const RowFields row(reader);
    double worst = 0;
    int figures = 0;
    while (reader.next()) {
      const std::string policy(row.text("policy")), trace(row.text("trace"));
      if (policy != "srtf" && policy != "srsf" && policy != "tiresias_l") continue;
      const plan::Summary ours = run({.jobs = folder / ("muri_jobs_" + trace + ".csv"),
                                      .rules = "muri",
                                      .policy = policy,
                                      .start_costs = folder / "muri_start_s.csv"});
      const std::string what = fmt::format("{} {}", trace, policy);
      for (const double error :
           {print(what + " mean completion, s", ours.mean_jct.in_s(), row.positive("avg_jct_s")),
            print(what + " makespan, s", ours.makespan.in_s(), row.positive("makespan_s")),
            print(what + " p99, s", ours.p99_jct.in_s(), row.positive("p99_jct_s"))}) {
        worst = std::max(worst, std::abs(error));
        ++figures;
      }
    }
    CHECK(figures == 36);
    CHECK(worst < 1e-7);
  }

  TEST_CASE("Gavel's cells below 60 h: fifo_perf within 0.5 %, the others within 5 %") {
    const auto results = find_data("cluster/gavel_jct.csv");
    if (!results) return;
    const std::filesystem::path folder = results->parent_path();
    std::puts("Gavel, 36 V100 + 36 P100 + 36 K80, hours: ours, published, error");
    CsvReader reader(*results);
    const RowFields row(reader);
    struct Group {
      int cells = 0;
      double worst = 0, sum = 0;
    };
    std::map<std::string, Group> groups;
    int cell = 0;
    while (reader.next()) {
      const std::string policy(row.text("policy")), set(row.text("jobs"));
      const double hours = row.positive("avg_jct_h");
      if (hours >= 60) continue;      // overload: depends on when arrivals stop
      if (cell++ % 3 != 0) continue;  // one of three: all 113 take 80 s
      const plan::Summary ours = run({.jobs = folder / "gavel_jobs.csv.gz",
                                      .rules = "gavel",
                                      .policy = policy,
                                      .only = {"jobs=" + set},
                                      .jobs_per_hour = row.positive("jobs_per_hour"),
                                      .throughputs = folder / "gavel_sim_throughputs.csv",
                                      .measured = std::pair{4000U, 4999U}});
      const double error =
          std::abs(print(fmt::format("{} {} {}/h", set, policy, row.text("jobs_per_hour")),
                         ours.mean_jct.in_s() / 3600, hours));
      Group& group = groups[set + " " + policy];
      ++group.cells;
      group.worst = std::max(group.worst, error);
      group.sum += error;
    }
    int cells = 0;
    for (const auto& [name, group] : groups) {
      CAPTURE(name);
      std::puts(fmt::format("  {:<32} {:>2} cells, worst {:.2f} %, mean {:.2f} %", name,
                            group.cells, 100 * group.worst, 100 * group.sum / group.cells)
                    .c_str());
      CHECK(group.worst < (name.ends_with("fifo_perf") ? 0.005 : 0.05));
      cells += group.cells;
    }
    CHECK(cells == 38);
  }

  // Known miss: 5.60 %; sim/plan/notes/0001-scheduling-and-buying.md.
  TEST_CASE("Shockwave's run on 32 GPUs: the mean of six figures" *
            doctest::should_fail("the completion time of the shortest makespan is 11.2 % long")) {
    constexpr double kOwnSimulator = 0.051;
    const auto results = find_data("cluster/shockwave_results.csv");
    if (!results) return;
    std::puts("Shockwave, 32 GPUs: ours, measured, error");
    CsvReader reader(*results);
    const RowFields row(reader);
    double sum = 0;
    int figures = 0;
    while (reader.next()) {
      const std::string policy(row.text("policy"));
      const plan::Summary ours = run({.jobs = results->parent_path() / "shockwave_jobs.csv",
                                      .rules = "shockwave",
                                      .policy = policy});
      for (const double error : {print(policy + " makespan, s", ours.makespan.in_s(),
                                       row.positive("physical_makespan_s")),
                                 print(policy + " mean completion, s", ours.mean_jct.in_s(),
                                       row.positive("physical_avg_jct_s"))}) {
        sum += std::abs(error);
        ++figures;
      }
    }
    CHECK(figures == 6);
    std::puts(fmt::format("  mean {:.2f} %", 100 * sum / figures).c_str());
    CHECK(sum / figures < kOwnSimulator);
  }
}

}  // namespace tracecast::test
