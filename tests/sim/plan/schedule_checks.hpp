#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "sim/plan/schedule.hpp"

namespace tracecast::test {

inline plan::Schedule run(const plan::JobMix& mix, const plan::Fleet& fleet,
                          const plan::Rules& rules, const std::string& policy) {
  plan::ScheduleOptions options;
  options.policy = policy;
  options.records_residences = true;
  return plan::simulate(mix, fleet, rules, options);
}

inline std::vector<double> ends_s(const plan::Schedule& schedule) {
  std::vector<double> ends;
  for (const plan::JobHistory& job : schedule.jobs) ends.push_back(job.end->in_seconds().in_s());
  return ends;
}

/// Policies that a mix without deadlines, prices and pairs can have.
inline std::vector<std::string> usual_policies() {
  std::vector<std::string> names = plan::policy_names();
  std::erase(names, "deadline");
  std::erase(names, "cost");
  return names;
}

/// GPUs of each type in use at every moment never exceed what there are.
inline void check_capacity(const plan::Fleet& fleet, const plan::Schedule& schedule) {
  for (std::uint32_t t = 0; t < fleet.types.size(); ++t) {
    std::map<plan::Time, int> change;
    for (const plan::Residence& residence : schedule.residences) {
      if (residence.type.index != t) continue;
      change[residence.begin] += residence.gpus;
      change[residence.end] -= residence.gpus;
    }
    int used = 0;
    for (const auto& [time, by] : change) {
      used += by;
      CHECK(used <= fleet.types[t].gpus);
    }
    CHECK(used == 0);
  }
}

/// The same of every machine, where machines count.
inline void check_machines(const plan::Fleet& fleet, const plan::Schedule& schedule) {
  std::map<std::size_t, std::map<plan::Time, int>> change;
  for (const plan::Residence& residence : schedule.residences) {
    for (const plan::HeldGpus& part : residence.held) {
      change[part.machine][residence.begin] += part.gpus;
      change[part.machine][residence.end] -= part.gpus;
    }
  }
  for (const auto& [machine, changes] : change) {
    int used = 0;
    for (const auto& [time, by] : changes) {
      used += by;
      CHECK(used <= fleet.machines[machine].gpus);
    }
    CHECK(used == 0);
  }
}

/// Stays of one job do not overlap.
inline void check_no_job_twice(const plan::Schedule& schedule) {
  std::vector<plan::Residence> residences = schedule.residences;
  std::sort(residences.begin(), residences.end(),
            [](const plan::Residence& a, const plan::Residence& b) {
              return a.job != b.job ? a.job < b.job : a.begin < b.begin;
            });
  for (std::size_t i = 1; i < residences.size(); ++i) {
    if (residences[i].job == residences[i - 1].job)
      CHECK(residences[i].begin >= residences[i - 1].end);
  }
}

}  // namespace tracecast::test
