#include "sim/job/job_key.hpp"

#include <doctest/doctest.h>

#include <set>

namespace tracecast {
namespace {

std::string key_of(const Job& job, const Place& place) { return KeyText().add(job, place).text(); }

void change(std::string& value) { value += 'x'; }
void change(std::int64_t& value) { ++value; }
void change(double& value) { value = value / 2 + 1; }
void change(bool& value) { value = !value; }
void change(std::vector<std::int64_t>& value) { value.push_back(0); }
template <class T>
void change(std::optional<T>& value) {
  if (value) {
    change(*value);
  } else {
    value.emplace();
  }
}

/// What the test is about, and the keys that were seen.
struct Keys {
  Job job{};
  Place place{};
  std::set<std::string> seen{};

  /// Each of the members changed alone gives a key that nothing gave before; as it was, the old
  /// one.
  template <class... Members>
  void check_each(Members&... members) {
    (check_one(members), ...);
  }
  template <class Member>
  void check_one(Member& member) {
    const std::string before = key_of(job, place);
    const Member was = member;
    for (int times = 0; times < 2; ++times) {  // of an optional: something, something else
      change(member);
      CHECK(seen.insert(key_of(job, place)).second);
    }
    member = was;
    CHECK(key_of(job, place) == before);
  }
};

TEST_SUITE_BEGIN("job/job_key");

TEST_CASE("whatever is changed of a job or its place changes the key") {
  Keys keys;
  keys.seen.insert(key_of(keys.job, keys.place));
  // These bindings compile only while they name every member.
  {
    auto& [network, batch, phase, precision, software, optimizer, recompute, lora_rank,
           lora_targets, base_precision, accumulate, data, pipeline, workers, epoch_samples,
           image_size, seq_len, classes, fan_out, as_written] = keys.job;
    keys.check_each(network, batch, phase, precision, optimizer, recompute, lora_rank, lora_targets,
                    base_precision, accumulate, data, pipeline, workers, epoch_samples, image_size,
                    seq_len, classes, fan_out);
    auto& [framework, version, date, xla, cuda_graphs, cudnn_benchmark, channels_last, attention,
           program, host_us_per_launch, host_waits] = software;
    keys.check_each(framework, version, date, cudnn_benchmark, channels_last, attention, program,
                    host_us_per_launch);
    for (bool* is_set :
         {&as_written, &xla, &cuda_graphs, &host_waits}) {  // twice changed they are as they were
      *is_set = true;
      CHECK(keys.seen.insert(key_of(keys.job, keys.place)).second);
      *is_set = false;
    }
  }
  {
    auto& [gpu, machine, gpus, nodes, cluster, host_cpu, disk, cpu_threads, cpu_quota, nic, no_p2p,
           board] = keys.place;
    keys.check_each(gpu, machine, gpus, nodes, cluster, host_cpu, disk, cpu_threads, cpu_quota,
                    nic);
    no_p2p = true;
    CHECK(keys.seen.insert(key_of(keys.job, keys.place)).second);
    no_p2p = false;
    auto& [power_limit_w, clock_mhz, memory_clock_mhz] = board;
    keys.check_each(power_limit_w, clock_mhz, memory_clock_mhz);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
