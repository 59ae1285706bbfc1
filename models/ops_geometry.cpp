#include "models/ops.hpp"

#include <algorithm>

#include "models/shape_checks.hpp"

namespace tracecast {

using namespace shape_checks;

std::optional<std::int64_t> checked_element_count(const Shape& shape) {
  // The product of the dimensions that are not 0 is what must fit, so that no order of
  // multiplication overflows.
  std::int64_t count = 1;
  bool is_empty = false;
  for (const std::int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    if (dim == 0) {
      is_empty = true;
    } else if (count > kMostElements / dim) {
      return std::nullopt;
    } else {
      count *= dim;
    }
  }
  return is_empty ? 0 : count;
}

Window Window::square(std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                      std::int64_t dilation) {
  return {.kernel_h = kernel,
          .kernel_w = kernel,
          .stride_h = stride,
          .stride_w = stride,
          .dilation_h = dilation,
          .dilation_w = dilation,
          .pads = {pad, pad, pad, pad}};
}

std::int64_t window_count(std::string_view where, std::int64_t size, std::int64_t kernel,
                          std::int64_t stride, std::int64_t pad_before, std::int64_t pad_after,
                          std::int64_t dilation, bool ceil_mode) {
  require_range(where, "kernel size", kernel, 1, kMostExtent);
  require_range(where, "stride", stride, 1, kMostExtent);
  require_range(where, "dilation", dilation, 1, kMostExtent);
  require_range(where, "pad", pad_before, 0, kMostExtent);
  require_range(where, "pad", pad_after, 0, kMostExtent);
  const std::int64_t padded = size + pad_before + pad_after;
  const std::int64_t extent = dilation * (kernel - 1) + 1;
  // Rounding up lets one window reach beyond the image by less than a stride.
  const std::int64_t slack = padded - extent + (ceil_mode ? stride - 1 : 0);
  if (size < 1 || slack < 0) {
    throw InputError(
        where, "a window of " + number(extent) + " on " + number(padded) + " cells (pads included)",
        "an image at least as large as the window; a larger image size");
  }
  const std::int64_t count = slack / stride + 1;
  return ceil_mode && (count - 1) * stride >= size + pad_before ? count - 1 : count;
}

Pads same_padding(std::int64_t height, std::int64_t width, const Window& window, bool extra_first) {
  const auto total = [](std::int64_t size, std::int64_t kernel, std::int64_t stride,
                        std::int64_t dilation) {
    require_range("padding \"same\"", "kernel size", kernel, 1, kMostExtent);
    require_range("padding \"same\"", "stride", stride, 1, kMostExtent);
    require_range("padding \"same\"", "dilation", dilation, 1, kMostExtent);
    require_range("padding \"same\"", "image size", size, 1, kMostExtent);
    const std::int64_t output = (size + stride - 1) / stride;
    return std::max<std::int64_t>((output - 1) * stride + dilation * (kernel - 1) + 1 - size, 0);
  };
  const std::int64_t rows = total(height, window.kernel_h, window.stride_h, window.dilation_h);
  const std::int64_t cols = total(width, window.kernel_w, window.stride_w, window.dilation_w);
  const std::int64_t less_h = rows / 2, less_w = cols / 2;
  const std::int64_t more_h = rows - less_h, more_w = cols - less_w;
  if (extra_first) return {.top = more_h, .left = more_w, .bottom = less_h, .right = less_w};
  return {.top = less_h, .left = less_w, .bottom = more_h, .right = more_w};
}

Shape broadcast_shape(std::string_view where, const Shape& a, const Shape& b) {
  const Shape& longer = a.size() < b.size() ? b : a;
  const Shape& shorter = a.size() < b.size() ? a : b;
  Shape result = longer;
  const std::size_t offset = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    std::int64_t& dim = result[offset + i];
    if (dim == 1) {
      dim = shorter[i];
    } else if (shorter[i] != 1 && shorter[i] != dim) {
      throw InputError(where, "shapes " + to_string(a) + " and " + to_string(b),
                       "dimensions that are equal or 1");
    }
  }
  return result;
}

}  // namespace tracecast
