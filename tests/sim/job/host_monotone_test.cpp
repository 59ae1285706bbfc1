#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "hwspecs/library.hpp"
#include "sim/base/random.hpp"
#include "sim/job/predictor.hpp"

// Random jobs that load their input: better hosts are never slower, and what waits is reported
// once.
namespace tracecast {
namespace {

constexpr int kJobs = 500;
/// Of steps. Workers take samples in turn, so that a loader at its limit is up to 3 % off its mean.
constexpr double kTolerance = 1.03, kMost = 1.05;
/// Comparisons between the two: jobs 43 and 120, whose workers' turns leave the step 4 and 5 %
/// above what their slowest stage takes.
constexpr int kBeyond = 2;

struct LoadedJob {
  Job job;
  Place place;
};

class DrawnJobs {
 public:
  explicit DrawnJobs(std::uint64_t seed) : random_(seed) {}
  LoadedJob next() {
    static constexpr std::array kNetworks{"alexnet", "resnet18", "mobilenet_v2", "resnet50"};
    static constexpr std::array kGpus{"k40m", "v100_sxm2_16gb", "t4", "a100_sxm4_80gb", "rtx3090"};
    static constexpr std::array kFrameworks{"pytorch", "tensorflow", "caffe", "mxnet"};
    static constexpr std::array kPipelines{
        "", "", "", "dali_cpu", "tensorpack", "keras", "tf_cnn_benchmarks"};
    static constexpr std::array kHosts{"2xe5_2698_v4", "2xplatinum_8175m", "2xepyc_7742"};
    static constexpr std::array kDisks{"hdd", "sata_ssd", "aws_s3", "nfs_10g"};
    LoadedJob drawn;
    drawn.job.network = pick(kNetworks);
    drawn.job.batch = std::int64_t{1} << random_.below(7);
    drawn.job.phase = random_.below(3) == 0 ? "infer" : "train";
    drawn.job.software.framework = pick(kFrameworks);
    drawn.job.data = "imagenet";
    drawn.job.pipeline = pick(kPipelines);
    drawn.place.gpu = pick(kGpus);
    drawn.place.host_cpu = pick(kHosts);
    drawn.place.cpu_threads = 1 + static_cast<std::int64_t>(random_.below(40));
    if (random_.below(2) == 0) drawn.job.workers = static_cast<std::int64_t>(random_.below(17));
    if (random_.below(3) == 0) drawn.place.disk = pick(kDisks);
    if (random_.below(4) == 0 && drawn.job.phase == "train")
      drawn.place.gpus = std::int64_t{2} << random_.below(2);
    return drawn;
  }
  std::int64_t more() { return std::int64_t{1} << random_.below(4); }

 private:
  template <std::size_t n>
  const char* pick(const std::array<const char*, n>& from) {
    return from[random_.below(n)];
  }
  Random random_;
};

TEST_SUITE_BEGIN("sim/job/host_monotone");

TEST_CASE("more threads, workers and quota, a faster disk and processor: never slower") {
  const Predictor predictor(Hardware::embedded());
  DrawnJobs draw(22);
  int compared = 0, beyond = 0;
  for (int i = 0; i < kJobs; ++i) {
    const LoadedJob drawn = draw.next();
    const Forecast before = predictor.predict(drawn.job, drawn.place);
    // Waiting that is reported is what the critical path says.
    double input = 0;
    for (const StepPart& part : before.by_cause)
      if (part.name == "input" || part.name == "waiting for input") input += part.time.in_s();
    const double step = before.step_time_s.value;
    CHECK(input <= step * 1.001);
    std::vector<std::pair<std::string, LoadedJob>> better;
    LoadedJob more = drawn;
    *more.place.cpu_threads += draw.more();
    better.emplace_back("threads", more);
    if (drawn.job.workers && *drawn.job.workers > 0) {
      more = drawn;
      *more.job.workers += draw.more();
      better.emplace_back("workers", more);
    }
    if (!drawn.place.disk.empty()) {
      more = drawn;
      more.place.disk = "nvme_ssd";
      better.emplace_back("disk", more);
    }
    LoadedJob less = drawn;
    less.place.cpu_quota = 1 + 0.5 * static_cast<double>(draw.more());
    const bool has_quota = *less.place.cpu_quota <= 32;
    for (const auto& [what, other] : better) {
      CAPTURE(i);
      CAPTURE(what);
      CAPTURE(drawn.job.network);
      CAPTURE(drawn.job.software.framework);
      CAPTURE(drawn.job.pipeline);
      CAPTURE(drawn.job.batch);
      CAPTURE(*drawn.place.cpu_threads);
      CAPTURE(drawn.job.workers.value_or(-1));
      CAPTURE(drawn.place.gpus.value_or(1));
      CAPTURE(drawn.place.disk);
      const double now = predictor.predict(other.job, other.place).step_time_s.value;
      CHECK(now <= step * kMost);
      beyond += now > step * kTolerance ? 1 : 0;
      ++compared;
    }
    if (has_quota && i % 4 == 0) {
      CAPTURE(i);
      const double now = predictor.predict(less.job, less.place).step_time_s.value;
      CHECK(now * kMost >= step);
      beyond += now * kTolerance < step ? 1 : 0;
    }
  }
  CHECK(compared > kJobs);
  CHECK(beyond <= kBeyond);
}

TEST_CASE("half of a step that waits on guessed loader costs is guessed") {
  const Predictor predictor(Hardware::embedded());
  const Job job{.network = "alexnet", .batch = 128, .data = "imagenet"};
  const auto guessed = [&](const Place& place) {
    const Forecast f = predictor.predict(job, place);
    double sum = 0;
    for (const StepPart& part : f.by_basis)
      if (part.name == "guessed") sum += part.time.in_s();
    return sum / f.step_time_s.value;
  };
  // Nobody named the host; one that is named; several GPUs.
  CHECK(guessed({.gpu = "v100", .cpu_threads = 4}) > 0.5);
  const double known = guessed({.gpu = "v100", .host_cpu = "2xe5_2698_v4", .cpu_threads = 4});
  CHECK(known > 0);
  CHECK(known < 0.5);
  CHECK(guessed({.gpu = "v100", .gpus = 2, .cpu_threads = 4}) > 0.5);
  const std::vector<Job> jobs{job, {.network = "alexnet", .batch = 128}};
  const std::vector<Place> places{{.gpu = "v100"}};
  CHECK(predictor.throughput({jobs.data(), 1}, places).at(0, 0).is_guessed);
  CHECK_FALSE(predictor.throughput({jobs.data() + 1, 1}, places).at(0, 0).is_guessed);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
