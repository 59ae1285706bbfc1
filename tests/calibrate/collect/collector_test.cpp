#include "calibrate/collect/collector.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "calibrate/collect/scheduler.hpp"
#include "calibrate/collect/tables.hpp"
#include "calibrate/device/experiment_kernels.hpp"
#include "calibrate/device/fake_device.hpp"
#include "hwspecs/loaders/gpu_loader.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "tests/calibrate/collect/scripted_device.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast::calibrate {
namespace {

const GpuSpec& v100() {
  static const GpuCatalog catalog = GpuCatalog::embedded();
  return catalog.find("v100_sxm2_16gb");
}
FakeDevice fake(FakeFaults faults = {}) {
  return FakeDevice(rehearsal_truth(v100(), default_cost_profile()), faults, 7);
}

/// One calibration in a folder of its own; each call opens device and journal anew, as a new
/// process would.
class Calibration {
 public:
  CollectResult call(CollectOptions options = {}) {
    FakeDevice device = fake();
    const Plan plan = make_plan(device, PlanSize::Quick);
    Journal journal(path(), header(plan));
    options.rules = rules_for(PlanSize::Quick);
    return collect(device, plan, v100(), default_cost_profile(), journal, options);
  }
  /// Until complete, stopped after every `slice` measurements. Returns how often it was called.
  int call_in_slices(std::size_t slice) {
    for (int calls = 1;; ++calls) {
      std::size_t asked = 0;
      if (call({.should_stop = [&] { return asked++ == slice; }}).end == CollectEnd::Complete)
        return calls;
    }
  }
  [[nodiscard]] std::string tables() const {
    FakeDevice device = fake();
    const Plan plan = make_plan(device, PlanSize::Quick);
    const Journal journal(path(), header(plan));
    std::string all;
    for (const CollectedTable& table : collected_tables(plan, journal, "v100", device.identity()))
      all += table.name + '\n' + table.content;
    return all;
  }
  [[nodiscard]] CollectCounts counts() const {
    FakeDevice device = fake();
    const Plan plan = make_plan(device, PlanSize::Quick);
    const Journal journal(path(), header(plan));
    return count(plan, journal);
  }
  [[nodiscard]] std::filesystem::path path() const { return folder_.path() / "j"; }

 private:
  static JournalHeader header(const Plan& plan) {
    return {.plan = plan.hash, .gpu = "v100", .device = "fake", .date = "2026-11-21"};
  }
  test::TemporaryFolder folder_;
};

TEST_SUITE_BEGIN("calibrate/collect/collector");

TEST_CASE("every experiment of the plan is done once, and throttled samples are made again") {
  Calibration calibration;
  const CollectResult result = calibration.call();
  const CollectCounts counts = calibration.counts();
  CHECK(result.end == CollectEnd::Complete);
  CHECK(counts.done == counts.planned);
  CHECK(result.measured == counts.planned);
  CHECK(counts.repeated > 0);
  CHECK(counts.outliers > 0);
}

TEST_CASE("interrupted at every tenth measurement, the tables are those of an uninterrupted run") {
  Calibration whole, sliced;
  REQUIRE(whole.call().end == CollectEnd::Complete);
  CHECK(sliced.call_in_slices(10) > 5);
  CHECK(sliced.tables() == whole.tables());
}

TEST_CASE("killed within a write at every tenth measurement, the tables are the same") {
  Calibration whole, torn;
  REQUIRE(whole.call().end == CollectEnd::Complete);
  for (std::size_t round = 1;; ++round) {
    std::size_t asked = 0;
    const CollectEnd end = torn.call({.should_stop = [&] { return asked++ == 11; }}).end;
    if (end == CollectEnd::Complete) break;
    const std::string journal = read_file(torn.path(), 1 << 24);
    write_file(torn.path(), journal.substr(0, journal.size() - 5 * round));
  }
  CHECK(torn.tables() == whole.tables());
}

TEST_CASE("a budget ends the call in time and the next one goes on") {
  Calibration calibration;
  const CollectResult first = calibration.call({.budget = Seconds(4)});
  CHECK(first.end == CollectEnd::Budget);
  CHECK(first.elapsed <= Seconds(4));
  CHECK(first.measured > 0);
  const CollectResult second = calibration.call();
  CHECK(second.end == CollectEnd::Complete);
  CHECK(first.measured + second.measured == calibration.counts().planned);
}

TEST_CASE("a device that fails ends the call; what was measured stands") {
  FakeDevice planner = fake();
  const Plan plan = make_plan(planner, PlanSize::Quick);
  ScriptedDevice device([](int call, int count) -> RunResult {
    if (call == 20) throw DeviceLost("fell off the bus");
    return even_run(count, 100);
  });
  const test::TemporaryFolder folder;
  Journal journal(folder.path() / "j", {});
  const CollectResult result = collect(device, plan, v100(), default_cost_profile(), journal, {});
  CHECK(result.end == CollectEnd::DeviceLost);
  CHECK(result.loss.find("fell off the bus") != std::string::npos);
  CHECK(journal.measurements().size() == 10);  // two calls each
}

TEST_CASE(
    "medians of what was accepted are the hidden truth, whatever noise, throttling and outliers") {
  const FakeTruth truth = rehearsal_truth(v100(), default_cost_profile());
  FakeDevice device(truth, {.noise_log_sd = 0.02, .outlier_share = 0.05, .throttle_share = 0.2}, 3);
  const Plan plan = make_plan(device, PlanSize::Quick);
  const test::TemporaryFolder folder;
  Journal journal(folder.path() / "j", {});
  REQUIRE(collect(device, plan, v100(), default_cost_profile(), journal, {}).end ==
          CollectEnd::Complete);
  std::size_t judged = 0;
  for (const PlannedExperiment& planned : plan.experiments) {
    const auto expected = expected_time(planned.experiment, truth.gpu, truth.profile);
    const TimedExperiment& t = journal.measurements().find(describe(planned.experiment))->second;
    if (!expected || t.outcome != TimedOutcome::Accepted) continue;
    ++judged;
    CAPTURE(t.experiment);
    // Five standard errors: one of some hundred would fall outside with probability 1e-4.
    CHECK(std::abs(std::log(t.time / *expected)) < 5 * std::max(t.relative_error, 0.002));
  }
  CHECK(judged > 80);
}

TEST_SUITE_END();
TEST_SUITE_BEGIN("calibrate/collect/scheduler");

TimedExperiment report(const Experiment& experiment, Seconds time, Seconds spent = Seconds(0.1)) {
  TimedExperiment t;
  t.experiment = describe(experiment);
  t.time = time;
  t.spent = spent;
  return t;
}

TEST_CASE("sustained rates and launches come first, and every experiment comes once") {
  FakeDevice device = fake();
  const Plan plan = make_plan(device, PlanSize::Quick);
  Scheduler scheduler(plan, v100(), default_cost_profile());
  std::set<std::size_t> seen;
  bool others_began = false;
  while (const auto index = scheduler.next()) {
    const PlannedExperiment& planned = plan.experiments[*index];
    const bool first = planned.sustained || class_of(planned.experiment) == ExperimentClass::Launch;
    CHECK_FALSE((first && others_began));
    others_began = others_began || !first;
    CHECK(seen.insert(*index).second);
    scheduler.record(*index, report(planned.experiment, Seconds(1e-4)));
  }
  CHECK(seen.size() == plan.experiments.size());
}

/// How often each class is asked for among the first `count` after the plan's anchors.
std::map<ExperimentClass, int> shares(double gemm_noise, double conv_cost_s, int count) {
  Plan plan;
  for (std::int64_t i = 0; i < 200; ++i) {
    plan.experiments.push_back({.experiment = {GemmShape{.m = 64 + 8 * i, .n = 64, .k = 64}}});
    ConvAttributes a{.n = 1, .c = 8 + i, .h = 14, .w = 14, .k = 8, .p = 14, .q = 14};
    plan.experiments.push_back({.experiment = {ConvolutionShape{.shape = a}}});
  }
  CostProfile profile = default_cost_profile();
  for (ErrorSd& uncertainty : profile.error) uncertainty.spec = 0.2;
  Scheduler scheduler(plan, v100(), profile);
  std::map<ExperimentClass, int> result;
  for (int i = 0; i < count; ++i) {
    const std::size_t index = *scheduler.next();
    const Experiment& experiment = plan.experiments[index].experiment;
    const ExperimentClass kind = class_of(experiment);
    ++result[kind];
    const bool is_gemm = kind == ExperimentClass::Gemm;
    const double residual = is_gemm ? gemm_noise * (result[kind] % 2 == 0 ? 1 : -1) : 0.0;
    const Seconds expected = *expected_time(experiment, v100(), profile);
    scheduler.record(index, report(experiment, expected * std::exp(residual),
                                   Seconds(is_gemm ? 0.1 : conv_cost_s)));
  }
  return result;
}

TEST_CASE("a class that strays more, or costs less, gets more of the time") {
  const auto uncertain = shares(1.0, 0.1, 60);
  CHECK(uncertain.at(ExperimentClass::Gemm) > 2 * uncertain.at(ExperimentClass::Convolution));
  const auto costly = shares(0.0, 1.0, 60);
  CHECK(costly.at(ExperimentClass::Gemm) > 2 * costly.at(ExperimentClass::Convolution));
}

TEST_CASE("the second of a class is the one farthest from the first") {
  Plan plan;
  for (const std::int64_t m : {64, 65, 128, 8192, 66}) {
    plan.experiments.push_back({.experiment = {GemmShape{.m = m, .n = 64, .k = 64}}});
  }
  Scheduler scheduler(plan, v100(), default_cost_profile());
  CHECK(scheduler.next() == 0);
  scheduler.record(0, report(plan.experiments[0].experiment, Seconds(1e-4)));
  CHECK(scheduler.next() == 3);
}

TEST_SUITE_END();
TEST_SUITE_BEGIN("calibrate/collect/plan");

TEST_CASE("a plan is the same every time and none of its experiments comes twice") {
  FakeDevice one = fake(), two = fake();
  const Plan plan = make_plan(one, PlanSize::Full);
  CHECK(plan.hash == make_plan(two, PlanSize::Full).hash);
  CHECK(plan.hash != make_plan(one, PlanSize::Quick).hash);
  std::set<std::string> names;
  for (const PlannedExperiment& planned : plan.experiments) {
    CHECK(names.insert(describe(planned.experiment)).second);
    CHECK(work_of(planned.experiment).bytes <= v100().memory * 0.25);
  }
}

TEST_CASE("choices do not follow sizes: each format and function gets small and big shapes") {
  FakeDevice device = fake();
  std::map<std::string, std::pair<double, double>> range;  // bytes, least and most
  for (const PlannedExperiment& planned : make_plan(device, PlanSize::Full).experiments) {
    const Experiment& experiment = planned.experiment;
    const auto* shape = std::get_if<ElementwiseShape>(&experiment.shape);
    if (shape == nullptr) continue;
    const double bytes = work_of(experiment).bytes.in_bytes();
    for (const std::string& choice :
         {shape->function, std::string(to_string(experiment.precision))}) {
      const auto [at, is_new] = range.emplace(choice, std::pair(bytes, bytes));
      at->second = {std::min(at->second.first, bytes), std::max(at->second.second, bytes)};
    }
  }
  CHECK(range.size() == 7);  // relu gelu tanh add mul, fp32 fp16
  for (const auto& row : range) {
    CAPTURE(row.first);
    const auto& bytes = row.second;
    CHECK(bytes.first < 1e6);
    CHECK(bytes.second > 5e7);
  }
}

TEST_CASE("formats that a generation lacks are not planned") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  const auto formats = [&](const char* gpu) {
    FakeDevice device(rehearsal_truth(catalog.find(gpu), default_cost_profile()), {}, 1);
    std::set<Precision> found;
    for (const PlannedExperiment& p : make_plan(device, PlanSize::Quick).experiments)
      found.insert(p.experiment.precision);
    return found;
  };
  CHECK(formats("k80") == std::set{Precision::Fp32});
  CHECK(formats("v100_sxm2_16gb") == std::set{Precision::Fp32, Precision::Fp16, Precision::Int8});
  CHECK(formats("h200").count(Precision::Bf16) == 1);
  CHECK(formats("h200").count(Precision::Tf32) == 1);
}

TEST_CASE("every GPU of the catalog has a plan") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  for (const GpuSpec& gpu : catalog.all()) {
    CAPTURE(gpu.id);
    FakeDevice device(rehearsal_truth(gpu, default_cost_profile()), {}, 1);
    CHECK(make_plan(device, PlanSize::Quick).experiments.size() > 40);
  }
}

}  // namespace
}  // namespace tracecast::calibrate
