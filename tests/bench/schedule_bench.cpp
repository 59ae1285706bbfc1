#include <sys/resource.h>

#include <cmath>
#include <string>

#include "sim/base/random.hpp"
#include "sim/plan/schedule.hpp"
#include "tests/bench/bench.hpp"

// Simulator speed: 100,000 jobs of 26 kinds and four sizes on 10,000 GPUs of three types, 80 % load
// over 30 days; first come first served, and max-min fairness in rounds of six minutes.
using namespace tracecast;
using namespace tracecast::plan;

namespace {

JobMix make_mix(std::uint32_t jobs, const Fleet& fleet) {
  constexpr double kDays = 30, kLoad = 0.8;
  Random random(1);
  JobMix mix;
  const int sizes[] = {1, 2, 4, 8};
  for (int k = 0; k < 104; ++k) {
    JobKind kind;
    kind.gpus = sizes[k % 4];
    // The new GPU is 1 to 4 times as fast as the middle one, that as much as the old one.
    const double middle = 1 + 3 * random.uniform(), fast = middle * (1 + 3 * random.uniform());
    kind.rates = {fast, middle, 1};
    mix.kinds.push_back(std::move(kind));
  }
  const double span_s = kDays * 86400;
  double work = 0, now_s = 0;
  for (std::uint32_t j = 0; j < jobs; ++j) {
    QueuedJob job;
    job.name = std::to_string(j);
    const double size = random.uniform();
    const std::uint32_t which = size < 0.7 ? 0 : size < 0.8 ? 1 : size < 0.95 ? 2 : 3;
    job.kind = {4 * static_cast<std::uint32_t>(random.below(26)) + which};
    now_s += -std::log(1 - random.uniform()) * span_s / jobs;
    job.submit = engine::to_ticks<Time>(Seconds(now_s));
    const double exponent =
        random.uniform() < 0.8 ? 1.5 + 1.5 * random.uniform() : 3 + random.uniform();
    const JobKind& kind = mix.kinds[job.kind.index];
    const double seconds = 60 * std::pow(10, exponent);
    job.steps = seconds * (kind.rates[0] + kind.rates[1] + kind.rates[2]) / 3;
    work += seconds * kind.gpus;
    mix.jobs.push_back(std::move(job));
  }
  const double factor = kLoad * fleet.total_gpus() * span_s / work;
  for (QueuedJob& job : mix.jobs) job.steps *= factor;
  return mix;
}

void measure(const char* name, const char* policy, const JobMix& mix, const Fleet& fleet,
             int repeats) {
  bench::Stopwatch watch;
  ScheduleOptions options;
  options.policy = policy;
  for (int i = 0; i < repeats; ++i) {
    watch.start();
    const Schedule schedule = simulate(mix, fleet, find_rules("ideal"), options);
    watch.stop();
    for (const JobHistory& job : schedule.jobs) bench::check(job.end.has_value(), "every job ends");
  }
  watch.print(name, "job", static_cast<double>(mix.jobs.size()));
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = bench::is_smoke(argc, argv);
  const std::uint32_t jobs = smoke ? 1000 : 100'000;
  const Fleet fleet = load_fleet(smoke ? "group { count: 13 gpus: 8 gpu: 'a' } group { count: 13 "
                                         "gpus: 8 gpu: 'b' } group { count: 13 "
                                         "gpus: 8 gpu: 'c' }"
                                       : "group { count: 417 gpus: 8 gpu: 'a' } group { count: 417 "
                                         "gpus: 8 gpu: 'b' } group { count: "
                                         "416 gpus: 8 gpu: 'c' }",
                                 "bench");
  const JobMix mix = make_mix(jobs, fleet);
  measure("schedule_fifo", "fifo", mix, fleet, smoke ? 1 : 5);
  measure("schedule_max_min", "max_min", mix, fleet, smoke ? 1 : 5);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  bench::check(usage.ru_maxrss < (1 << 20), "less than 1 GiB");
}
