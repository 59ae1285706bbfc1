#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/job/predictor.hpp"
#include "sim/plan/linear_program.hpp"
#include "sim/plan/schedule.hpp"
#include "sim/plan/summary.hpp"
#include "tools/command/output.hpp"
#include "tools/study/study.hpp"

// Which jobs deserve the new GPUs: jobs assigned to machines with one GPU each, and what a faster
// GPU gains each of them.
namespace tracecast {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

double number_in(const std::string& text, std::string_view key) {
  const auto value = parse_double(text);
  if (!value) throw InputError("study", fmt::format("{}: \"{}\"", key, text), "a number");
  return *value;
}

/// A kind of job with its measured times on the new and the old GPU.
struct TimedJob {
  double fast_s = 0, slow_s = 0;
};
/// "times=FAST:SLOW,...", seconds.
std::vector<TimedJob> timed_jobs(const StudyArguments& args) {
  std::vector<TimedJob> jobs;
  for (const std::string& pair : split(args.text("times"), ',')) {
    const std::vector<std::string> both = split(pair, ':');
    if (both.size() != 2) throw InputError("study", "times: \"" + pair + "\"", "FAST:SLOW");
    jobs.push_back({number_in(both[0], "times"), number_in(both[1], "times")});
  }
  return jobs;
}

/// So many jobs, the kinds in turn, all there at the start.
plan::JobMix mix_of(const std::vector<TimedJob>& kinds, std::int64_t jobs) {
  plan::JobMix mix;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    plan::JobKind kind;
    kind.model = std::to_string(k);
    kind.rates = {1 / kinds[k].fast_s, 1 / kinds[k].slow_s};
    mix.kinds.push_back(std::move(kind));
  }
  for (std::int64_t j = 0; j < jobs; ++j) {
    plan::QueuedJob job;
    job.name = std::to_string(j);
    job.kind = {static_cast<std::uint32_t>(static_cast<std::size_t>(j) % kinds.size())};
    job.steps = 1;
    mix.jobs.push_back(std::move(job));
  }
  return mix;
}

plan::Fleet fleet_of(std::int64_t fast, std::int64_t slow) {
  plan::Fleet fleet = plan::load_fleet(
      fmt::format("group {{ count: {} gpu: 'fast' }} group {{ count: {} gpu: 'slow' }}", fast,
                  slow),
      "study");
  return fleet;
}

/// Hours until the last of `jobs` jobs is done under a policy.
double simulated_h(const std::vector<TimedJob>& kinds, std::int64_t jobs, std::int64_t fast,
                   std::int64_t slow, const std::string& policy) {
  const plan::JobMix mix = mix_of(kinds, jobs);
  const plan::Fleet fleet = fleet_of(fast, slow);
  plan::ScheduleOptions options;
  options.policy = policy;
  const plan::Rules& rules = plan::find_rules("ideal");
  const plan::Schedule schedule = plan::simulate(mix, fleet, rules, options);
  return plan::summarize(mix, fleet, schedule, rules, options).makespan.in_s() / 3600;
}

/// The least time in which machines can do the work when every job may go to either type, hours:
/// whole jobs per type, work within a type spread without remainder; no assignment is faster.
double optimum_h(const std::vector<TimedJob>& kinds, std::int64_t jobs, std::int64_t fast,
                 std::int64_t slow) {
  plan::LinearProgram program;
  const std::size_t end = program.add_variable(-1);
  std::vector<plan::LinearProgram::Term> on_fast{{end, -static_cast<double>(fast)}},
      on_slow{{end, -static_cast<double>(slow)}};
  double all_slow = 0;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const auto n = static_cast<double>(
        jobs / static_cast<std::int64_t>(kinds.size()) +
        (static_cast<std::int64_t>(k) < jobs % static_cast<std::int64_t>(kinds.size()) ? 1 : 0));
    const std::size_t x = program.add_variable(0, 0, n, true);
    on_fast.push_back({x, kinds[k].fast_s});
    on_slow.push_back({x, -kinds[k].slow_s});
    all_slow += n * kinds[k].slow_s;
  }
  program.add_row(std::move(on_fast), -plan::LinearProgram::kInfinity, 0);
  program.add_row(std::move(on_slow), -plan::LinearProgram::kInfinity, -all_slow);
  const auto solution = program.maximize(20);
  TRACECAST_CHECK(solution.has_value(), "an assignment always exists");
  return -solution->value / 3600;
}

/// "assignment figure=even|priority|optimum|saving jobs= fast= slow= times=": hours, or per cent.
StudyReport assignment(const StudyArguments& args, StudyContext&) {
  const std::vector<TimedJob> kinds = timed_jobs(args);
  const std::int64_t jobs = args.integer("jobs"), fast = args.integer("fast"),
                     slow = args.integer("slow");
  const std::string figure = args.text("figure");
  if (figure == "even" || figure == "priority") {
    const double hours = simulated_h(kinds, jobs, fast, slow, figure);
    return {hours, fmt::format("simulated on {} + {} machines; the optimum is {:.2f} h", fast, slow,
                               optimum_h(kinds, jobs, fast, slow))};
  }
  if (figure == "optimum") {
    return {optimum_h(kinds, jobs, fast, slow), "integer program over jobs of each kind per type"};
  }
  const double even = simulated_h(kinds, jobs, fast, slow, "even");
  const double priority = simulated_h(kinds, jobs, fast, slow, "priority");
  return {100 * (1 - priority / even),
          fmt::format("{:.2f} h against {:.2f} h simulated; the optimum saves {:.2f} %", priority,
                      even, 100 * (1 - optimum_h(kinds, jobs, fast, slow) / even))};
}

/// What a pair of machine counts and a reading of "even" and "priority" come to, per job, seconds.
struct Reading {
  std::int64_t fast = 0, slow = 0;
  std::string even_means, priority_means;
  double even_s = 0, priority_s = 0;
};

/// Kinds by falling gain, in equal parts, and what they take per job on either type.
class SortedKinds {
 public:
  explicit SortedKinds(std::vector<TimedJob> kinds) : kinds_(std::move(kinds)) {
    std::sort(kinds_.begin(), kinds_.end(), [](const TimedJob& a, const TimedJob& b) {
      return a.fast_s / a.slow_s < b.fast_s / b.slow_s;
    });
    for (TimedJob& kind : kinds_) {
      kind.fast_s /= static_cast<double>(kinds_.size());
      kind.slow_s /= static_cast<double>(kinds_.size());
    }
  }
  /// Of the first k kinds on the fast type.
  [[nodiscard]] double fast_s(std::size_t k) const {
    double sum = 0;
    for (std::size_t i = 0; i < k; ++i) sum += kinds_[i].fast_s;
    return sum;
  }
  /// Of all but the first k kinds on the slow type.
  [[nodiscard]] double slow_s(std::size_t k) const {
    double sum = 0;
    for (std::size_t i = k; i < kinds_.size(); ++i) sum += kinds_[i].slow_s;
    return sum;
  }
  /// Every kind where it is faster.
  [[nodiscard]] double faster_s() const {
    double sum = 0;
    for (const TimedJob& kind : kinds_) sum += std::min(kind.fast_s, kind.slow_s);
    return sum;
  }
  /// The least end when the first so many kinds go to the fast machines.
  [[nodiscard]] double end_of_whole_kinds(double fast, double slow) const {
    double least = 1e300;
    for (std::size_t k = 0; k <= size(); ++k)
      least = std::min(least, std::max(fast_s(k) / fast, slow_s(k) / slow));
    return least;
  }
  /// The same when the last of them is shared so that all machines end together.
  [[nodiscard]] double end_of_shared_kind(double fast, double slow) const {
    for (std::size_t k = 1; k <= size(); ++k) {
      if (fast_s(k) / fast < slow_s(k) / slow) continue;
      const TimedJob& kind = kinds_[k - 1];
      const double part =
          (slow_s(k - 1) / slow - fast_s(k - 1) / fast) / (kind.fast_s / fast + kind.slow_s / slow);
      return (fast_s(k - 1) + part * kind.fast_s) / fast;
    }
    return fast_s(size()) / fast;
  }
  [[nodiscard]] std::size_t size() const { return kinds_.size(); }

 private:
  std::vector<TimedJob> kinds_;  ///< a part of 1 / kinds of one job each
};

/// Total time as the end of the last machine, or as the mean over machines of how long each works.
std::vector<Reading> readings(const SortedKinds& kinds, std::int64_t most, bool is_mean) {
  using Times = std::vector<std::pair<const char*, double>>;
  const double fast = kinds.fast_s(kinds.size()), slow = kinds.slow_s(0);
  std::vector<Reading> all;
  for (std::int64_t f = 1; f <= most; ++f) {
    for (std::int64_t s = 1; s <= most; ++s) {
      const auto a = static_cast<double>(f), b = static_cast<double>(s);
      Times evens, priorities;
      if (is_mean) {
        evens = {{"as many jobs on every machine", (a * fast + b * slow) / (a + b) / (a + b)}};
        priorities = {{"every kind where it is faster", kinds.faster_s() / (a + b)}};
      } else {
        evens = {{"as many jobs on every machine", std::max(fast, slow) / (a + b)},
                 {"half of every kind on each type", std::max(fast / 2 / a, slow / 2 / b)},
                 {"whoever is free takes the next", 1 / (a / fast + b / slow)}};
        priorities = {{"the last kind shared so that all machines end together",
                       kinds.end_of_shared_kind(a, b)},
                      {"whole kinds", kinds.end_of_whole_kinds(a, b)}};
      }
      for (const auto& [even_means, even_s] : evens) {
        for (const auto& [priority_means, priority_s] : priorities)
          all.push_back({f, s, even_means, priority_means, even_s, priority_s});
      }
    }
  }
  return all;
}

/// "assignment_search figure=error|saving total=end|mean even_s= priority_s= most= times=": of all
/// machine counts up to `most` of each type and all readings, the one whose worse time is nearest
/// to the printed ones, seconds per job. Error in per cent.
StudyReport assignment_search(const StudyArguments& args, StudyContext&) {
  const double even = args.number("even_s"), priority = args.number("priority_s");
  const std::vector<Reading> all =
      readings(SortedKinds(timed_jobs(args)), args.integer("most"), args.text("total") == "mean");
  const auto error = [&](const Reading& r) {
    return std::max(std::abs(r.even_s / even - 1), std::abs(r.priority_s / priority - 1));
  };
  const Reading& best =
      *std::min_element(all.begin(), all.end(),
                        [&](const Reading& a, const Reading& b) { return error(a) < error(b); });
  const double saving = 100 * (1 - best.priority_s / best.even_s);
  const std::string why = fmt::format(
      "{} fast and {} slow machines; even: {} ({:+.2f} %); priority: {} ({:+.2f} %); saving {:.2f} "
      "%; "
      "{} readings tried",
      best.fast, best.slow, best.even_means, 100 * (best.even_s / even - 1), best.priority_means,
      100 * (best.priority_s / priority - 1), saving, all.size());
  return {args.text("figure") == "saving" ? saving : 100 * error(best), why};
}

/// A job of the study as we predict it.
struct PredictedJob {
  std::string id;
  double published_ratio = 0, published_utilization = 0;
  double ratio = 0, utilization = 0;
};

/// "jobs=ID:NETWORK:FRAMEWORK:BATCH:DATA:PUBLISHED_RATIO:PUBLISHED_UTILIZATION,... machine= fast=
/// slow="; DATA may name its loader: coco@pytorch_ssd.
std::vector<PredictedJob> predicted_jobs(const StudyArguments& args, StudyContext& context) {
  const Predictor predictor(context.hardware);
  const std::string machine = args.text("machine");
  std::vector<PredictedJob> jobs;
  for (const std::string& text : split(args.text("jobs"), ',')) {
    const std::vector<std::string> words = split(text, ':');
    if (words.size() != 7) throw InputError("study", "jobs: \"" + text + "\"", "seven words");
    Job job;
    job.network = words[1];
    job.software.framework = words[2];
    job.batch = static_cast<std::int64_t>(number_in(words[3], "batch"));
    const std::vector<std::string> data = split(words[4], '@');
    job.data = data.front();
    if (data.size() > 1) job.pipeline = data[1];
    const auto predict = [&](const std::string& gpu, const char* what) {
      double& known = context.known[fmt::format("{} {} {} {}", text, machine, gpu, what)];
      if (known > 0) return known;
      Place place;
      place.gpu = gpu;
      place.machine = machine;
      const Forecast forecast = predictor.predict(job, place);
      known = std::string_view(what) == "time"
                  ? forecast.step_time_s.value
                  : (forecast.gpu_utilization ? forecast.gpu_utilization->avg : 0);
      return known;
    };
    jobs.push_back({words[0], number_in(words[5], "ratio"), number_in(words[6], "utilization"),
                    predict(args.text("fast"), "time") / predict(args.text("slow"), "time"),
                    predict(args.text("fast"), "utilization")});
  }
  return jobs;
}

/// Of equals the mean rank.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<double> rank(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (const double other : values)
      rank[i] += other < values[i] ? 1 : other == values[i] ? 0.5 : 0;
  }
  return rank;
}
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = ranks(a), y = ranks(b);
  const auto n = static_cast<double>(x.size());
  const double mx = std::accumulate(x.begin(), x.end(), 0.0) / n;
  const double my = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mx) * (y[i] - my);
    xx += (x[i] - mx) * (x[i] - mx);
    yy += (y[i] - my) * (y[i] - my);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

/// The three with the least ratio.
std::vector<std::string> three_that_gain(std::vector<PredictedJob> jobs,
                                         double PredictedJob::*ratio) {
  std::sort(jobs.begin(), jobs.end(),
            [&](const PredictedJob& a, const PredictedJob& b) { return a.*ratio < b.*ratio; });
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, jobs.size()); ++i) ids.push_back(jobs[i].id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

/// "gpu_gain figure=within|three|utilization [points=]": how many ratios are within so much; how
/// many of the three that gain most are right; the rank correlation of GPU utilisation. "gpu_gain
/// figure=ratio job=": one ratio.
StudyReport gpu_gain(const StudyArguments& args, StudyContext& context) {
  const std::vector<PredictedJob> jobs = predicted_jobs(args, context);
  const std::string figure = args.text("figure");
  std::string list;
  for (const PredictedJob& job : jobs)
    list += fmt::format("{}{} {:.2f} ({:.2f})", list.empty() ? "" : ", ", job.id, job.ratio,
                        job.published_ratio);
  if (figure == "ratio") {
    const std::string id = args.text("job");
    for (const PredictedJob& job : jobs) {
      if (job.id == id)
        return {job.ratio, fmt::format("GPU busy {} of the time (study: {:.0f} %)",
                                       percent(job.utilization), job.published_utilization)};
    }
    throw InputError("study", "job " + id, "one of the jobs");
  }
  if (figure == "within") {
    const double points = args.number("points");
    const auto hits = std::count_if(jobs.begin(), jobs.end(), [&](const PredictedJob& job) {
      return std::abs(job.ratio - job.published_ratio) <= points;
    });
    return {static_cast<double>(hits), "ours (study's): " + list};
  }
  if (figure == "three") {
    const std::vector<std::string> ours = three_that_gain(jobs, &PredictedJob::ratio);
    const std::vector<std::string> theirs = three_that_gain(jobs, &PredictedJob::published_ratio);
    const auto right = std::count_if(ours.begin(), ours.end(), [&](const std::string& id) {
      return std::find(theirs.begin(), theirs.end(), id) != theirs.end();
    });
    return {static_cast<double>(right),
            fmt::format("ours {}, {}, {}; {}", ours[0], ours[1], ours[2], list)};
  }
  std::vector<double> ours, theirs;
  std::string busy;
  for (const PredictedJob& job : jobs) {
    ours.push_back(job.utilization);
    theirs.push_back(job.published_utilization);
    busy += fmt::format("{}{} {} ({:.0f} %)", busy.empty() ? "" : ", ", job.id,
                        percent(job.utilization), job.published_utilization);
  }
  return {rank_correlation(ours, theirs), "ours (study's): " + busy};
}

}  // namespace

std::vector<StudyExperiment> schedule_experiments() {
  return {
      {"assignment", assignment}, {"assignment_search", assignment_search}, {"gpu_gain", gpu_gain}};
}

}  // namespace tracecast
