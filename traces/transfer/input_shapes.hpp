#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "models/kernel.hpp"

namespace tracecast::traces {

/// One input of an operator. A list of tensors has one entry for each tensor.
struct InputTensor {
  std::vector<std::int64_t> dims;  ///< empty = a scalar, a list of numbers, nothing
  Precision precision = Precision::Fp32;
  int element_bytes = 4;
  [[nodiscard]] double elements() const;
  [[nodiscard]] double bytes() const { return elements() * element_bytes; }
};

/// The inputs of an operator from the profiler's texts: dims "[[32,3,224,224],[],[[8],[8]]]", types
/// "["float","Int","TensorList"]" (may be empty: fp32). Anything else, a negative size or more than
/// 10,000 inputs gives no inputs at all.
[[nodiscard]] std::vector<InputTensor> read_inputs(std::string_view dims, std::string_view types);

/// The integers of input `index` of the values "["", "[1, 1]", "2"]"; empty when it is not
/// recorded.
[[nodiscard]] std::vector<std::int64_t> read_value(std::string_view values, std::size_t index);

}  // namespace tracecast::traces
