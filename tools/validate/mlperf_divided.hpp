#pragma once
#include <map>
#include <string>

#include "hwspecs/software/mlperf_round.hpp"
#include "sim/job/hardware.hpp"
#include "tools/validate/validation.hpp"

namespace tracecast {

/// Rows of published/mlperf.csv whose networks are divided by layers and tensors (GPT-3, Llama): sequences per second, 8-bit
/// products where tensor cores have them, the optimizer's states shared, tensor parallelism with sequence parallelism.
class DividedMlperf {
 public:
  explicit DividedMlperf(const Hardware& hardware) : hardware_(hardware) {}
  /// Throws InputError: a malformed row. A row that states no division is skipped.
  [[nodiscard]] RowAnswer predict(const RowFields& row, const MlperfBenchmark& benchmark,
                                  const MlperfRound& round);

 private:
  const Hardware& hardware_;
  std::map<std::string, RowAnswer> answers_;  ///< by all that a prediction is made from
};

}  // namespace tracecast
