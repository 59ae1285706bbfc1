#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "sim/job/resolved_job.hpp"
#include "sim/step/prediction.hpp"

namespace tracecast {

/// One op of the step with what runs for it.
struct LayerRow {
  std::string name;
  std::string_view kind, pass;
  std::string shape;      ///< of the first output, or of the first input of ops without outputs
  Flops flops{};          ///< executed by its kernels
  Bytes bytes{};          ///< compulsory traffic of its kernels
  std::string algorithm;  ///< of the chosen candidate; "-" for ops without a choice
  std::size_t num_kernels = 0;
  std::string_view bound;  ///< of the kernel that takes longest
  Seconds time{};          ///< of its kernels
  std::string_view basis;  ///< of the kernel that takes longest
  [[nodiscard]] double intensity() const {
    return bytes > Bytes(0) ? (flops / bytes).in_flop_per_byte() : 0;
  }
};

/// One row per op that runs kernels, in order of execution.
[[nodiscard]] std::vector<LayerRow> layer_table(const ResolvedJob& job,
                                                const Prediction& prediction);

}  // namespace tracecast
