#pragma once
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "calibrate/device/experiment.hpp"
#include "sim/base/units.hpp"

namespace tracecast::calibrate {

/// Who a GPU says it is. Texts are empty and numbers zero where the device does not tell.
struct DeviceIdentity {
  std::string name;                 ///< as the driver calls it: "Tesla V100-SXM2-16GB"
  std::string serial;               ///< tells two boards of one name apart: the device's UUID
  std::string driver;               ///< "535.104.05"
  std::string cuda, cudnn, cublas;  ///< versions of the libraries: "12.2", "8.9.2", "12.2.5"
  int compute_capability = 0;       ///< major * 10 + minor
  int sm_count = 0;
  Hertz sm_clock{}, memory_clock{};  ///< highest
  /// The user holds the SM clock here (application clocks, locked clocks); zero: free to boost.
  Hertz pinned_clock{};
  Bytes memory{}, l2{};
  Watts power_limit{};
  bool ecc = false;
  int gpus = 1;  ///< that this process can use together
  /// Names of what was opened and what could not be, with why; for people.
  std::vector<std::string> remarks;
  /// The parts that say what was measured, on one line: name, serial, driver, libraries.
  [[nodiscard]] std::string fingerprint() const;
};

/// Why clocks are below what the board would like. Names follow NVML's throttle reasons.
struct ThrottleReasons {
  bool power_cap =
      false;  ///< the board's power limit: how the card is in the long run, no fault of the sample
  bool thermal = false;         ///< software or hardware slowdown for temperature
  bool power_brake = false;     ///< external power brake
  bool other_slowdown = false;  ///< hardware slowdown without further reason
  /// The sample does not show what this board sustains.
  [[nodiscard]] bool spoils() const { return thermal || power_brake || other_slowdown; }
  [[nodiscard]] std::string text() const;  ///< "power_cap+thermal"; "none"
};
/// Sensors at one moment; absent where the device has none.
struct SensorSample {
  std::optional<Hertz> sm_clock{}, memory_clock{};
  std::optional<double> temperature_c{};
  std::optional<Watts> power{};
  ThrottleReasons throttle{};
};

/// How a duration came about.
enum class TimingMethod {
  Kernels,  ///< sum of the kernels' own times, gaps and launches excluded (CUPTI records)
  Events,   ///< between two events round the call, host kept ahead
  Host,     ///< host clock round a synchronous call
};
[[nodiscard]] std::string_view to_string(TimingMethod method);

/// One call of `Device::run`.
struct DeviceRun {
  std::vector<Seconds> durations;  ///< one per repetition, in order
  SensorSample before, after;      ///< the latter right at the end, still under load
  TimingMethod method = TimingMethod::Kernels;
  std::string kernel_name;  ///< of the longest kernel; may be empty
  int kernels = 0;          ///< per repetition; 0 = not known
  Bytes workspace{};
};
/// This device or its libraries cannot do the experiment; why, in one line.
struct Unsupported {
  std::string reason;
};
using RunResult = std::variant<DeviceRun, Unsupported>;

/// The ways a library offers to compute one convolution pass.
struct OfferedAlgorithms {
  std::vector<Algorithm> algorithms;
  Algorithm heuristic = Algorithm::None;  ///< the library's own first choice
};

/// The device cannot be used any more: gone, faulted. What was measured before stands.
class DeviceLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A GPU that can be measured. No CUDA type is seen from here.
class Device {
 public:
  virtual ~Device() = default;
  [[nodiscard]] virtual const DeviceIdentity& identity() const = 0;
  /// What the library offers for the convolution; its own `algorithm` is not looked at. Empty where
  /// it offers none.
  [[nodiscard]] virtual OfferedAlgorithms offered(const ConvolutionShape& shape,
                                                  Precision precision) = 0;
  /// Runs the experiment `warm_up` times, then `repetitions` times timed, one by one. Throws
  /// DeviceLost.
  [[nodiscard]] virtual RunResult run(const Experiment& experiment, int warm_up,
                                      int repetitions) = 0;
  /// Leaves the GPU idle, to cool down or to get back its boost.
  virtual void rest(Seconds time) = 0;
  /// Time spent on this device since it was opened.
  [[nodiscard]] virtual Seconds elapsed() const = 0;
};

}  // namespace tracecast::calibrate
