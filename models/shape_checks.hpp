#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/graph.hpp"
#include "models/ops.hpp"
#include "sim/base/error.hpp"

/// Checks of shapes and axes that the sources of GraphBuilder (ops*.cpp) share.
namespace tracecast::shape_checks {

inline constexpr std::int64_t kMostElements = (std::int64_t{1} << 62) - 1;
/// Windows, strides and pads beyond this are refused: they must fit into the `int` of the
/// attributes and the output formula must not overflow.
inline constexpr std::int64_t kMostExtent = std::int64_t{1} << 30;

/// For messages.
inline std::string number(std::int64_t value) { return std::to_string(value); }

/// Throws InputError unless `value` lies in [least, most].
inline void require_range(std::string_view where, std::string_view what, std::int64_t value,
                          std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  throw InputError(where, std::string(what) + " " + number(value),
                   "a value from " + number(least) + " to " + number(most));
}

/// Axis counted from the end when negative, checked against the rank.
inline std::size_t checked_axis(std::string_view where, std::int64_t axis, std::size_t rank) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) {
    throw InputError(where, "axis " + number(axis),
                     "an axis of a rank " + number(signed_rank) + " tensor");
  }
  return static_cast<std::size_t>(axis < 0 ? axis + signed_rank : axis);
}

/// Product of the dimensions [first, last); the shape is that of an existing tensor, so it fits.
inline std::int64_t count_between(const Shape& shape, std::size_t first, std::size_t last) {
  std::int64_t count = 1;
  for (std::size_t i = first; i < last; ++i) count *= shape[i];
  return count;
}

/// The dimensions of N,C,D,H,W, N,C,H,W (depth 1) or N,C,W (height 1).
struct Image {
  std::int64_t n, c, h, w, d = 1;
};

/// The image or volume in a tensor. Throws InputError for other ranks than 3, 4 and 5.
inline Image image_of(std::string_view where, const Shape& shape) {
  if (shape.size() == 5) return {shape[0], shape[1], shape[3], shape[4], shape[2]};
  if (shape.size() == 4) return {shape[0], shape[1], shape[2], shape[3]};
  if (shape.size() == 3) return {shape[0], shape[1], 1, shape[2]};
  throw InputError(where, "an input of shape " + to_string(shape),
                   "rank 4 (N,C,H,W), 3 (N,C,W) or 5 (N,C,D,H,W)");
}

/// The shape of an image in a tensor of that rank.
inline Shape image_shape(std::size_t rank, const Image& image) {
  const auto& [n, c, h, w, d] = image;
  return rank == 3 ? Shape{n, c, w} : rank == 5 ? Shape{n, c, d, h, w} : Shape{n, c, h, w};
}

/// What a window leaves of an image, with `channels` channels. Throws InputError naming `where`:
/// see window_count.
inline Image slide(std::string_view where, const Image& image, const Window& window,
                   std::int64_t channels, bool ceil_mode = false) {
  const Pads& pads = window.pads;
  return {.n = image.n,
          .c = channels,
          .h = window_count(where, image.h, window.kernel_h, window.stride_h, pads.top, pads.bottom,
                            window.dilation_h, ceil_mode),
          .w = window_count(where, image.w, window.kernel_w, window.stride_w, pads.left, pads.right,
                            window.dilation_w, ceil_mode),
          .d = window_count(where, image.d, window.kernel_d, window.stride_d, pads.front, pads.back,
                            window.dilation_d, ceil_mode)};
}

/// Channels of an N,C,... tensor.
inline std::int64_t channels_of(std::string_view where, const Shape& shape) {
  if (shape.size() < 2) {
    throw InputError(where, "an input of shape " + to_string(shape), "N,C and more dimensions");
  }
  return shape[1];
}

/// The inputs of an op whose last one (a bias) may be absent.
inline std::vector<TensorId> with_optional(std::vector<TensorId> inputs,
                                           std::optional<TensorId> last) {
  if (last) inputs.push_back(*last);
  return inputs;
}

}  // namespace tracecast::shape_checks
