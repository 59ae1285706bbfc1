#pragma once
#include <map>
#include <string>

#include "hwspecs/software/mlperf_round.hpp"
#include "sim/job/hardware.hpp"
#include "tools/validate/validation.hpp"

namespace tracecast {

/// Rows of published/mlperf.csv whose networks are divided by layers and tensors (GPT-3, Llama):
/// sequences per second, 8-bit GEMMs where tensor cores have them, the optimizer's states shared,
/// tensor parallelism with sequence parallelism.
class ShardedMlperf {
 public:
  explicit ShardedMlperf(const Hardware& hardware) : hardware_(hardware) {}
  /// Throws InputError: a malformed row. A row that states no parallel layout is skipped.
  [[nodiscard]] RowResult predict(const RowFields& row, const MlperfBenchmark& benchmark,
                                  const MlperfRound& round);

 private:
  const Hardware& hardware_;
  std::map<std::string, RowResult> reports_;  ///< by all that a prediction is made from
};

}  // namespace tracecast
