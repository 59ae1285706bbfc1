#include "models/ops.hpp"

#include <algorithm>
#include <utility>

#include "models/shape_checks.hpp"

namespace tracecast {

using namespace shape_checks;

TensorId GraphBuilder::pool(OpKind kind, std::string name, TensorId x, const Window& window,
                            bool ceil_mode, bool count_include_pad) {
  const Image image = image_of(name, shape(x));
  const std::size_t rank = shape(x).size();
  const std::int64_t p =
      window_count(name, image.h, window.kernel_h, window.stride_h, window.pads.top,
                   window.pads.bottom, window.dilation_h, ceil_mode);
  const std::int64_t q =
      window_count(name, image.w, window.kernel_w, window.stride_w, window.pads.left,
                   window.pads.right, window.dilation_w, ceil_mode);
  Op op{.name = std::move(name),
        .kind = kind,
        .attributes = PoolAttributes{.kernel_h = static_cast<int>(window.kernel_h),
                                     .kernel_w = static_cast<int>(window.kernel_w),
                                     .stride_h = static_cast<int>(window.stride_h),
                                     .stride_w = static_cast<int>(window.stride_w),
                                     .pad_top = static_cast<int>(window.pads.top),
                                     .pad_left = static_cast<int>(window.pads.left),
                                     .pad_bottom = static_cast<int>(window.pads.bottom),
                                     .pad_right = static_cast<int>(window.pads.right),
                                     .ceil_mode = ceil_mode,
                                     .count_include_pad = count_include_pad},
        .inputs = {x}};
  return append(std::move(op), image_shape(rank, image.n, image.c, p, q));
}

TensorId GraphBuilder::max_pool(std::string name, TensorId x, const Window& window,
                                bool ceil_mode) {
  return pool(OpKind::MaxPool, std::move(name), x, window, ceil_mode, false);
}

TensorId GraphBuilder::avg_pool(std::string name, TensorId x, const Window& window, bool ceil_mode,
                                bool count_include_pad) {
  return pool(OpKind::AvgPool, std::move(name), x, window, ceil_mode, count_include_pad);
}

TensorId GraphBuilder::global_avg_pool(std::string name, TensorId x) {
  const Image image = image_of(name, shape(x));
  return pool(OpKind::AvgPool, std::move(name), x, {.kernel_h = image.h, .kernel_w = image.w},
              false, true);
}

TensorId GraphBuilder::global_max_pool(std::string name, TensorId x) {
  const Image image = image_of(name, shape(x));
  return pool(OpKind::MaxPool, std::move(name), x, {.kernel_h = image.h, .kernel_w = image.w},
              false, false);
}

TensorId GraphBuilder::adaptive_avg_pool(std::string name, TensorId x, std::int64_t out_h,
                                         std::int64_t out_w) {
  const Image image = image_of(name, shape(x));
  for (const std::int64_t size : {out_h, out_w, image.h, image.w}) {
    require_range(name, "image size", size, 1, kMostExtent);
  }
  const auto cells = [](std::int64_t in, std::int64_t out) {
    return static_cast<int>((in + out - 1) / out);
  };
  const auto step = [](std::int64_t in, std::int64_t out) {
    return static_cast<int>(std::max<std::int64_t>(in / out, 1));
  };
  Op op{.name = std::move(name),
        .kind = OpKind::AvgPool,
        .attributes = PoolAttributes{.kernel_h = cells(image.h, out_h),
                                     .kernel_w = cells(image.w, out_w),
                                     .stride_h = step(image.h, out_h),
                                     .stride_w = step(image.w, out_w)},
        .inputs = {x}};
  return append(std::move(op), image_shape(shape(x).size(), image.n, image.c, out_h, out_w));
}

}  // namespace tracecast
