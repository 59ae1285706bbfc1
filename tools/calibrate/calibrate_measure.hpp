#pragma once
#include <optional>
#include <string>

#include "calibrate/device/device.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "hwspecs/loaders/gpu_loader.hpp"
#include "sim/base/units.hpp"
#include "sim/job/resolved_job.hpp"

namespace tracecast {

/// What `tracecast calibrate` measures and where it puts it.
struct MeasureOptions {
  bool quick = false;
  std::string budget;    ///< "8m", "90s"; empty: until done
  std::string out;       ///< folder, or a file *.textproto
  int gpu = 0;           ///< index among the machine's GPUs
  std::string spec;      ///< id of the spec, where the device's name does not say it
  std::string rehearse;  ///< id of a GPU to play instead of measuring one
  long long seed = 1;    ///< of the rehearsal
  SourceOptions sources;
};

/// Measures, resumes, writes tables and profile; prints a summary. Returns the exit code: 0 done,
/// or the budget is over and the next call goes on; 3 no usable GPU; 130 interrupted. Throws
/// InputError.
int run_measure(const MeasureOptions& options);

/// "8m", "90s", "1h", "0.5m". Throws InputError naming `flag`.
[[nodiscard]] Seconds parse_duration(const std::string& text, const std::string& flag);

/// The spec of a device: by `id` where given, else by its name with and without the maker's and
/// family's words, memory size last ("Tesla P100-PCIE-16GB", "NVIDIA A100-SXM4-40GB", "Tesla K80").
/// Throws InputError: no spec, or one whose compute capability, SM count or memory (15 %) is not
/// the device's (a slice of a GPU, a board sold under one name with two chips).
[[nodiscard]] const GpuSpec& find_spec(const GpuCatalog& gpus,
                                       const calibrate::DeviceIdentity& device,
                                       const std::string& id);

}  // namespace tracecast
