#pragma once
#include <string>
#include <utility>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/plan/fleet.hpp"
#include "sim/plan/job_mix.hpp"
#include "sim/plan/rules.hpp"

namespace tracecast::test {

/// A job as a test writes it down: seconds.
struct SmallJob {
  double submit_s = 0;
  int gpus = 1;
  std::vector<double> alone_s;  ///< on each GPU type; 0: cannot run there
};

inline plan::JobMix mix_of(const std::vector<SmallJob>& jobs) {
  plan::JobMix mix;
  for (const SmallJob& job : jobs) {
    plan::JobKind kind;
    kind.gpus = job.gpus;
    for (const double alone : job.alone_s) kind.rates.push_back(alone > 0 ? 1 / alone : 0);
    plan::QueuedJob queued;
    queued.name = std::to_string(mix.jobs.size());
    queued.kind = {static_cast<std::uint32_t>(mix.kinds.size())};
    queued.submit = engine::to_ticks<plan::Time>(Seconds(job.submit_s));
    queued.steps = 1;
    mix.kinds.push_back(std::move(kind));
    mix.jobs.push_back(std::move(queued));
  }
  return mix;
}

/// Machines of one GPU each, of as many types as there are numbers.
inline plan::Fleet fleet_of(const std::vector<int>& gpus) {
  std::string text;
  int type = 0;
  for (const int count : gpus)
    text +=
        "group { count: " + std::to_string(count) + " gpu: 't" + std::to_string(type++) + "' } ";
  return plan::load_fleet(text, "test");
}

/// A few dozen jobs of all sizes on up to three types.
inline plan::JobMix random_mix(std::uint64_t seed, std::size_t jobs, std::size_t types) {
  Random random(seed);
  std::vector<SmallJob> all;
  double now = 0;
  for (std::size_t j = 0; j < jobs; ++j) {
    SmallJob job;
    now += 200 * random.uniform();
    job.submit_s = now;
    job.gpus = 1 << random.below(3);
    for (std::size_t t = 0; t < types; ++t) job.alone_s.push_back(60 + 3000 * random.uniform());
    all.push_back(std::move(job));
  }
  return mix_of(all);
}

}  // namespace tracecast::test
