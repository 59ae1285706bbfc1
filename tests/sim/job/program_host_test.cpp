#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "hwspecs/library.hpp"
#include "hwspecs/software/program_hosts.hpp"
#include "sim/job/predictor.hpp"
#include "sim/step/interval.hpp"

namespace tracecast {
namespace {

const Predictor& program_predictor() {
  static const Predictor one(Hardware::embedded());
  return one;
}

/// Rows of data/cluster/sia_step_times.csv.gz, one GPU.
struct Measured {
  const char* program;  ///< of host/programs.textproto
  const char* network;
  const char* precision;
  const char* gpu;
  std::int64_t batch;
  double step_s;
};
constexpr Measured kMeasured[] = {
    {"adaptdl_bert_squad", "bert_base_squad", "fp32", "v100_sxm2_32gb", 4, 0.19173},
    {"adaptdl_bert_squad", "bert_base_squad", "fp32", "v100_sxm2_32gb", 16, 0.439274},
    {"adaptdl_bert_squad", "bert_base_squad", "fp32", "v100_sxm2_32gb", 36, 0.865724},
    {"adaptdl_resnet50_imagenet", "resnet50", "amp", "v100_sxm2_32gb", 40, 0.171377},
    {"adaptdl_resnet50_imagenet", "resnet50", "amp", "v100_sxm2_32gb", 163, 0.311796},
    {"adaptdl_resnet50_imagenet", "resnet50", "amp", "t4", 57, 0.323928},
    {"adaptdl_resnet50_imagenet", "resnet50", "amp", "t4", 163, 0.762422},
    {"adaptdl_resnet18_cifar10", "resnet18_cifar10", "fp32", "v100_sxm2_32gb", 64, 0.101042},
    {"adaptdl_resnet18_cifar10", "resnet18_cifar10", "fp32", "t4", 129, 0.103851},
};

Forecast forecast(const Measured& m, const std::string& program) {
  Job job{.network = m.network, .batch = m.batch, .precision = m.precision};
  job.software.version = "1.7";
  job.software.program = program;
  if (job.network == "bert_base_squad") job.optimizer = "adamw";
  return program_predictor().predict(job, {.gpu = m.gpu});
}
const AddedHost& added_of(const Forecast& f) {
  return std::get<OneGpuDetails>(*f.details).job.framework.host.added;
}
double log_sd_of(const Forecast& f) {
  return std::get<OneGpuDetails>(*f.details).prediction.log_sd;
}

TEST_SUITE_BEGIN("job/program_host");

TEST_CASE("a program that nobody knows has an interval that holds what others add") {
  int inside = 0;
  for (const Measured& m : kMeasured) {
    const Forecast bare = forecast(m, ""), f = forecast(m, "somebody's own");
    CHECK(f.step_time_s.value > bare.step_time_s.value);
    CHECK(f.step_time_s.high - f.step_time_s.value >
          bare.step_time_s.high - bare.step_time_s.value);
    inside += f.step_time_s.low <= m.step_s && m.step_s <= f.step_time_s.high ? 1 : 0;
    double guessed = 0;
    for (const StepPart& part : f.by_basis)
      guessed += part.name == "guessed" ? part.time.in_s() : 0;
    CHECK(guessed > 0);
    bool is_reported = false;
    for (const std::string& line : f.assumptions) {
      is_reported = is_reported || (line.find("is not known") != std::string::npos &&
                                    line.find("--host-from") != std::string::npos);
    }
    CHECK(is_reported);
  }
  CHECK(inside >= 8);
}

TEST_CASE("what was learned of the other programs holds the one that was left out") {
  const ProgramHosts& hosts = program_predictor().hardware().specs().program_hosts();
  int inside = 0;
  for (const Measured& m : kMeasured) {
    const AddedHost others = hosts.added_by("nobody", false, m.program);
    Interval step = forecast(m, "").step_time_s;
    step = interval90(step.value + others.median().in_s(), log_sd_of(forecast(m, "")));
    const Interval held = interval90_with_added(step, others);
    CAPTURE(m.step_s);
    CAPTURE(held.low);
    CAPTURE(held.high);
    inside += held.low <= m.step_s && m.step_s <= held.high ? 1 : 0;
  }
  CHECK(inside >= 8);
}

TEST_CASE("one timed run of a program halves the error of its others") {
  double before = 0, after = 0;
  int count = 0;
  for (const Measured& given : kMeasured) {
    for (const Measured& m : kMeasured) {
      // The same machine: another has another host.
      if (&given == &m || std::string(given.network) != m.network ||
          std::string(given.gpu) != m.gpu)
        continue;
      const Forecast f = forecast(m, "x"), g = forecast(given, "x");
      const TimedStep timed{.bare = without_added(g.step_time_s, added_of(g), log_sd_of(g)),
                            .measured = given.step_s};
      const Interval known = interval90_given(
          without_added(f.step_time_s, added_of(f), log_sd_of(f)), added_of(f), {&timed, 1});
      before += std::abs(std::log(f.step_time_s.value / m.step_s));
      after += std::abs(std::log(known.value / m.step_s));
      ++count;
      CHECK(known.high / known.low < f.step_time_s.high / f.step_time_s.low);
    }
  }
  REQUIRE(count == 10);
  CHECK(after < before / 2);
}

TEST_CASE("a program whose host time is known elsewhere is closer than one that is not") {
  const Measured& m = kMeasured[0];
  const Forecast known = forecast(m, "adaptdl_bert_squad"), unknown = forecast(m, "unknown");
  CHECK(std::abs(std::log(known.step_time_s.value / m.step_s)) <
        std::abs(std::log(unknown.step_time_s.value / m.step_s)));
  CHECK(known.step_time_s.high / known.step_time_s.low <
        unknown.step_time_s.high / unknown.step_time_s.low);
}

TEST_CASE("a framework that nobody knows is one of which nothing is known, in an unknown program") {
  Job job{.network = "resnet50", .batch = 32, .software = {.framework = "unknown"}};
  const Forecast f = program_predictor().predict(job, {.gpu = "v100"});
  CHECK(f.framework == "generic");
  CHECK(added_of(f).any());
}

TEST_CASE("a recorded host's cost per launch is the host's of the job") {
  Job job{.network = "resnet50", .batch = 1};
  const Place place{.gpu = "v100"};
  const Forecast plain = program_predictor().predict(job, place);
  const auto& p = std::get<OneGpuDetails>(*plain.details).prediction;
  const double each = p.timeline.host_busy.in_us() / static_cast<double>(p.num_kernels);
  job.software.host_us_per_launch = 3 * each;
  const Forecast slow = program_predictor().predict(job, place);
  const auto& s = std::get<OneGpuDetails>(*slow.details).prediction;
  CHECK(s.timeline.host_busy / p.timeline.host_busy == doctest::Approx(3).epsilon(0.01));
  // Batch 1 is bound by the host.
  CHECK(slow.step_time_s.value > 2.5 * plain.step_time_s.value);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
