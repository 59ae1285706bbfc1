#include "tests/properties/changes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "hwspecs/library.hpp"
#include "sim/base/text.hpp"

namespace tracecast::test {
namespace {

using Must = Change::Must;

class Changes {
 public:
  Changes(const Command& job, Draw& draw) : job_(job), draw_(draw) {}

  void faster(const char* what, const char* path, const char* factor) {
    add(what, Must::NotSlow, job_.with_setting(fmt::format("{}={}", path, factor)));
  }
  /// More of what a flag limits.
  void raised(const char* what, const char* flag, double factor, double most) {
    const auto value = parse_double(job_.value(flag));
    if (!value) return;
    const double more = std::min(*value * factor, most);
    if (more > *value) add(what, Must::NotSlow, job_.with(flag, fmt::format("{:.0f}", more)));
  }
  void grown(const char* what, Must must, const char* flag, std::int64_t step = 1,
             std::int64_t most = 1'000'000'000) {
    const auto value = parse_integer(job_.value(flag));
    if (!value) return;
    const std::int64_t more = std::min(draw_.next_size(*value / step) * step, most);
    if (more > *value) add(what, must, job_.with(flag, std::to_string(more)), flag);
  }
  void add(std::string what, Must must, Command after, std::string flag = {}) {
    changes_.push_back({std::move(what), must, job_, std::move(after), std::move(flag)});
  }
  [[nodiscard]] const Command& job() const { return job_; }
  [[nodiscard]] Draw& draw() { return draw_; }
  [[nodiscard]] std::vector<Change> take() { return std::move(changes_); }

 private:
  const Command& job_;
  Draw& draw_;
  std::vector<Change> changes_;
};

constexpr std::array kFactors{"1.1x", "1.5x", "2x"};
constexpr double kNoMost = 1e12;

void add_gpu(Changes& changes) {
  changes.faster("more memory bandwidth", "gpu.memory_bandwidth", changes.draw().pick(kFactors));
  changes.faster("more peak", "gpu.compute", changes.draw().pick(kFactors));
}

void add_links(Changes& changes) {
  struct Link {
    const char *what, *path, *factor;
  };
  static constexpr std::array<Link, 5> kLinks{{{"faster links", "link.bandwidth", "2x"},
                                               {"faster NVLink", "nvlink.bandwidth", "2x"},
                                               {"faster PCIe", "pcie.bandwidth", "2x"},
                                               {"a faster network", "network.bandwidth", "2x"},
                                               {"less latency", "link.latency", "0.5x"}}};
  const Link& link = changes.draw().pick(kLinks);
  changes.faster(link.what, link.path, link.factor);
}

void add_board(Changes& changes) {
  const Command& job = changes.job();
  const std::string& gpu_id = job.value("--gpu");
  const GpuSpec& gpu = SpecLibrary::embedded().gpus().find(gpu_id);
  changes.raised("a higher clock", "--clock", 1.25, gpu.boost_clock.in_mhz());
  changes.raised("a higher power limit", "--power-limit", 1.2,
                 gpu.max_power_limit.value_or(gpu.tdp).in_w());
  changes.raised("more CPU threads", "--cpu-threads", 2, 4096);
}

void add_micro_batch(Changes& changes) {
  const Command& job = changes.job();
  const auto micro_batch = parse_integer(job.value("--micro-batch")).value_or(1);
  const auto global_batch = parse_integer(job.value("--global-batch")).value_or(1);
  const std::int64_t more = changes.draw().next_size(micro_batch);
  changes.add("a greater micro-batch", Must::Grow,
              job.with("--micro-batch", std::to_string(more))
                  .with("--global-batch", std::to_string(global_batch / micro_batch * more)),
              "--micro-batch");
}

/// As many rounds of requests: at the end of a run there are ever fewer in flight.
void add_in_flight(Changes& changes) {
  const Command& job = changes.job();
  const auto in_flight = parse_integer(job.value("--concurrency"));
  const auto requests = parse_integer(job.value("--requests"));
  if (!in_flight || !requests) return;
  const std::int64_t more = changes.draw().next_size(*in_flight);
  changes.add("more in flight", Must::Grow,
              job.with("--concurrency", std::to_string(more))
                  .with("--requests", std::to_string(*requests / *in_flight * more)));
}

void add_plan(Changes& changes) {
  const Command& job = changes.job();
  if (job.has("--budget")) return changes.raised("a greater budget", "--budget", 1.5, kNoMost);
  const auto days =
      parse_integer(job.value("--deadline").substr(0, job.value("--deadline").size() - 1));
  changes.add("a later deadline", Must::NotSlow,
              job.with("--deadline", std::to_string(days.value_or(1) * 2) + "d"));
}

}  // namespace

std::vector<Change> changes_of(const Command& job, Kind kind, Draw& draw) {
  Changes changes(job, draw);
  add_gpu(changes);
  switch (kind) {
    case Kind::OneGpu:
    case Kind::DataParallel:
      if (kind == Kind::DataParallel || job.has("--data")) add_links(changes);
      add_board(changes);
      changes.grown("a greater batch", Must::Grow, "--batch");
      changes.grown("longer sequences", Must::Lengthen, "--seq-len");
      break;
    case Kind::Sharded:
      add_links(changes);
      add_board(changes);
      add_micro_batch(changes);
      changes.grown("longer sequences", Must::Lengthen, "--seq-len", 8);
      break;
    case Kind::Serve:
      if (job.value("--gpus") != "1") add_links(changes);
      changes.grown("a greater batch", Must::Grow, "--batch");
      add_in_flight(changes);
      changes.grown("longer prompts", Must::Lengthen, "--input");
      changes.grown("longer outputs", Must::Lengthen, "--output");
      break;
    case Kind::Compare:
      changes.grown("a greater batch", Must::Grow, "--batch");
      changes.grown("longer sequences", Must::Lengthen, "--seq-len");
      break;
    case Kind::Plan:
      add_plan(changes);
      break;
    case Kind::Schedule:
      break;
  }
  return changes.take();
}

}  // namespace tracecast::test
