#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "calibrate/device/device.hpp"
#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"

namespace tracecast::calibrate {

/// What is really so on a rehearsal device, hidden from who measures it.
struct FakeTruth {
  GpuSpec gpu;
  CostProfile profile;  ///< durations of kernels follow from both
  /// Left out of the cost model: duration of an empty kernel, host time of a launch, share of the
  /// spec's PCIe rate.
  Seconds empty_kernel = Seconds(2e-6), launch = Seconds(6e-6);
  double copy_efficiency = 0.8;
};
/// What spoils measurements on it.
struct FakeFaults {
  double noise_log_sd = 0.01;   ///< of ln(duration), every repetition
  double outlier_share = 0.01;  ///< of repetitions that take 3 to 10 times as long
  double throttle_share =
      0.05;  ///< of runs that fall into a thermal episode: 0.6 of the clock, 1.6 of the time
  double quiet_throttle_share =
      0.01;  ///< of runs as slow, with no reason shown by the sensors but the clock
};

/// A GPU that is none: durations from the cost model under hidden parameters, with noise,
/// throttling and outliers. What it answers depends on seed, experiment and how often the
/// experiment was run before on this device, not on the order of experiments; so an interrupted
/// calibration can be compared with an uninterrupted one. Time passes as it would on the GPU, at
/// once.
class FakeDevice final : public Device {
 public:
  FakeDevice(FakeTruth truth, FakeFaults faults, std::uint64_t seed);
  ~FakeDevice() override;
  const DeviceIdentity& identity() const override;
  OfferedAlgorithms offered(const ConvolutionShape& shape, Precision precision) override;
  RunResult run(const Experiment& experiment, int warm_up, int repetitions) override;
  void rest(Seconds time) override;
  Seconds elapsed() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What a rehearsal hides: sustained clock and DRAM bandwidth are these times what profile and spec
/// say.
inline constexpr double kRehearsalCeiling = 0.85, kRehearsalMemory = 0.93;
/// A rehearsal of `gpu`, its truth profile and spec but for the two factors above.
[[nodiscard]] FakeTruth rehearsal_truth(const GpuSpec& gpu, const CostProfile& profile);

}  // namespace tracecast::calibrate
