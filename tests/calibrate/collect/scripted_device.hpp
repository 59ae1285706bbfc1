#pragma once
#include <functional>
#include <utility>

#include "calibrate/device/device.hpp"

namespace tracecast::calibrate {

/// A device that does what a test says: each call of `run` asks the script, time passes by the
/// durations and rests.
class ScriptedDevice final : public Device {
 public:
  /// (number of the call from 0, repetitions)
  using Script = std::function<RunResult(int call, int repetitions)>;
  explicit ScriptedDevice(Script script) : script_(std::move(script)) {
    identity_.name = "scripted";
    identity_.compute_capability = 70;
    identity_.memory = Bytes(16e9);
  }
  const DeviceIdentity& identity() const override { return identity_; }
  OfferedAlgorithms offered(const ConvolutionShape&, Precision) override {
    return {{Algorithm::ImplicitGemm}, Algorithm::ImplicitGemm};
  }
  RunResult run(const Experiment&, int warm_up, int repetitions) override {
    warm_ups += warm_up;
    RunResult result = script_(calls++, repetitions);
    if (const auto* run = std::get_if<DeviceRun>(&result)) {
      for (const Seconds duration : run->durations) clock_ += duration;
    }
    return result;
  }
  void rest(Seconds time) override {
    rested += time;
    clock_ += time;
  }
  Seconds elapsed() const override { return clock_; }

  int calls = 0, warm_ups = 0;
  Seconds rested{};

 private:
  Script script_;
  DeviceIdentity identity_;
  Seconds clock_{};
};

/// A run of equal durations at an SM clock.
inline DeviceRun even_run(int repetitions, double duration_us, double sm_mhz = 1500,
                          ThrottleReasons throttle = {}) {
  DeviceRun run;
  run.durations.assign(static_cast<std::size_t>(repetitions), Seconds(duration_us * 1e-6));
  run.before = {.sm_clock = Hertz(sm_mhz * 1e6), .throttle = throttle};
  run.after = run.before;
  return run;
}

}  // namespace tracecast::calibrate
