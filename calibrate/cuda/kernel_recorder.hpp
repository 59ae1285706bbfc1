#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/cuda/library.hpp"
#include "sim/base/units.hpp"

namespace tracecast::calibrate::cuda {

/// One kernel, fill or copy as CUPTI's activity record tells it; nanoseconds of the GPU's clock.
struct RecordedKernel {
  std::uint64_t start_ns = 0, end_ns = 0;
  std::size_t name = 0;  ///< index into `KernelRecording::names`
};
struct KernelRecording {
  std::vector<RecordedKernel> kernels;  ///< by start
  std::vector<std::string> names;       ///< without argument lists; "memset", "memcpy"
};

/// A repetition's time: its kernels' own durations added up.
struct KernelTimes {
  std::vector<Seconds> durations;  ///< one per repetition
  int kernels = 0;                 ///< per repetition
  std::string longest;             ///< name of the kernel that takes most
};
/// Divides a recording among `repetitions` that launch the same kernels each. Nothing when the
/// records do not divide evenly or lack their times: some were lost, or repetitions differ.
[[nodiscard]] std::optional<KernelTimes> divide(const KernelRecording& recording, int repetitions);

/// Records every kernel, fill and copy of the process through CUPTI while it is switched on.
/// CUPTI's callbacks carry no context of the caller, so there is one recorder at a time.
class KernelRecorder {
 public:
  /// Nothing, with `why`, when CUPTI is not to be used: missing, another tool is attached,
  /// privileges.
  static std::unique_ptr<KernelRecorder> open(Library library, std::string& why);
  ~KernelRecorder();
  KernelRecorder(const KernelRecorder&) = delete;
  KernelRecorder& operator=(const KernelRecorder&) = delete;

  /// False, with `why`, when CUPTI refuses.
  bool start(std::string& why);
  /// All kernels since `start`; the caller has waited for them.
  [[nodiscard]] KernelRecording stop();

 private:
  struct State;
  explicit KernelRecorder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tracecast::calibrate::cuda
