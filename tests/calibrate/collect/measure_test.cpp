#include "calibrate/collect/measure.hpp"

#include <doctest/doctest.h>

#include "tests/calibrate/collect/scripted_device.hpp"

namespace tracecast::calibrate {
namespace {

const Experiment kExperiment{GemmShape{.m = 64, .n = 64, .k = 64}, Precision::Fp32};
const Hertz kUsual(1500e6);

TEST_SUITE_BEGIN("calibrate/collect/measure");

TEST_CASE("repetitions fill the busy time, within bounds") {
  struct Row {
    const char* what;
    double duration_us;
    int expected;
  };
  const SamplingRules rules;  // busy 20 ms, 10 to 400 repetitions, at most 1 s
  const Row rows[] = {
      {"1 ms each: 20 of them", 1000, 20},
      {"10 us each: 2000 would be needed, 400 is the most", 10, 400},
      {"30 ms each: one would do, 10 is the least", 30000, 10},
      {"200 ms each: 10 would take 2 s, 5 fit into the most time of 1 s", 200000, 5},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    ScriptedDevice device([&](int, int count) { return even_run(count, row.duration_us); });
    const TimedExperiment t = measure(device, kExperiment, false, rules, kUsual);
    CHECK(t.outcome == TimedOutcome::Accepted);
    CHECK(t.repetitions == row.expected);
    CHECK(t.time.in_us() == doctest::Approx(row.duration_us));
    CHECK(t.experiment == describe(kExperiment));
  }
}

TEST_CASE("noisy durations are repeated until the median is known to 1 percent") {
  // Alternating 80 and 120 us: the middle values stay apart however many there are, so the most is
  // taken.
  ScriptedDevice noisy([](int, int count) {
    DeviceRun run = even_run(count, 100);
    for (std::size_t i = 0; i < run.durations.size(); ++i)
      run.durations[i] = Seconds(i % 2 == 0 ? 80e-6 : 120e-6);
    return run;
  });
  const TimedExperiment t = measure(noisy, kExperiment, false, {.busy = Seconds(1e-3)}, kUsual);
  CHECK(t.repetitions == 400);
  CHECK(t.relative_error > 0.01);
}

TEST_CASE("a sustained experiment runs under load first and keeps its burst apart") {
  // Burst 100 us, then throttled by the power limit to 140 us.
  ScriptedDevice device([](int call, int count) {
    return call == 0 ? even_run(count, 100) : even_run(count, 140, 1100, {.power_cap = true});
  });
  const SamplingRules rules;
  const TimedExperiment t = measure(device, kExperiment, true, rules, kUsual);
  CHECK(t.outcome ==
        TimedOutcome::Accepted);  // a power cap is how the board is, no fault of the sample
  CHECK(t.attempts == 1);
  CHECK(t.burst.in_us() == doctest::Approx(100));
  CHECK(t.time.in_us() == doctest::Approx(140));
  CHECK(t.sensors.throttle.power_cap);
  CHECK(device.warm_ups == 1 + 10000);  // 1 s of load at 100 us each
  CHECK(device.rested == rules.pause);
}

TEST_CASE("what spoils a sample has it repeated after a rest, and rejected in the end") {
  struct Row {
    const char* what;
    ThrottleReasons reasons;
    int bad_attempts;  ///< each attempt is two calls: burst and steady
    TimedOutcome outcome;
    int attempts;
  };
  const Row rows[] = {
      {"hot once", {.thermal = true}, 1, TimedOutcome::Accepted, 2},
      {"power brake twice", {.power_brake = true}, 2, TimedOutcome::Accepted, 3},
      {"slowed down for good", {.other_slowdown = true}, 9, TimedOutcome::Rejected, 3},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    ScriptedDevice device([&](int call, int count) {
      return call / 2 < row.bad_attempts ? even_run(count, 160, 900, row.reasons)
                                         : even_run(count, 100);
    });
    const TimedExperiment t = measure(device, kExperiment, false, {}, kUsual);
    CHECK(t.outcome == row.outcome);
    CHECK(t.attempts == row.attempts);
    CHECK(device.rested > Seconds(0));
    if (row.outcome == TimedOutcome::Accepted) CHECK(t.time.in_us() == doctest::Approx(100));
    if (row.outcome == TimedOutcome::Rejected) CHECK(t.reason.find("throttled") == 0);
  }
}

TEST_CASE("a clock below nine tenths of the usual one spoils unless the power cap explains it") {
  const auto attempts = [](double mhz, ThrottleReasons reasons) {
    ScriptedDevice device([=](int, int count) { return even_run(count, 100, mhz, reasons); });
    return measure(device, kExperiment, false, {}, kUsual).attempts;
  };
  CHECK(attempts(1400, {}) == 1);
  CHECK(attempts(1300, {}) == 3);
  CHECK(attempts(1300, {.power_cap = true}) == 1);
}

TEST_CASE("while the usual clock is unknown, none is too low") {
  ScriptedDevice device([](int, int count) { return even_run(count, 100, 300); });
  CHECK(measure(device, kExperiment, false, {}, std::nullopt).outcome == TimedOutcome::Accepted);
}

TEST_CASE("what the device cannot do says why and costs nothing more") {
  ScriptedDevice device([](int, int) -> RunResult { return Unsupported{"no int8 on this card"}; });
  const TimedExperiment t = measure(device, kExperiment, false, {}, kUsual);
  CHECK(t.outcome == TimedOutcome::Unsupported);
  CHECK(t.reason == "no int8 on this card");
  CHECK(device.calls == 1);
}

}  // namespace
}  // namespace tracecast::calibrate
