#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "models/onnx/program.hpp"
#include "models/onnx/value.hpp"

namespace tracecast::onnx {

/// The result of a one-output node whose inputs all have known contents: the arithmetic that
/// exporters do on shapes. Nothing when the operator is not one of those, an input has no contents,
/// the result has more than kMostValues elements, or the arithmetic overflows or divides by zero;
/// the caller then follows the shape alone.
///   inputs: by position; null where an optional one was left out
[[nodiscard]] std::optional<Value> fold_constants(const Node& node,
                                                  std::span<const Value* const> inputs);

/// `from` to `to` (exclusive) in steps: how ONNX Slice clamps them to a dimension of `size`.
struct SliceRange {
  std::int64_t start = 0, step = 1, count = 0;
};
/// Needs step != 0.
[[nodiscard]] SliceRange slice_range(std::int64_t size, std::int64_t start, std::int64_t end,
                                     std::int64_t step);

}  // namespace tracecast::onnx
