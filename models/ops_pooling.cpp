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
  const Image out = slide(name, image, window, image.c, ceil_mode);
  // Rows of all planes of a volume together, see ConvAttributes.
  require_range(name, "kernel", window.kernel_d * window.kernel_h, 1, kMostExtent);
  require_range(name, "stride", window.stride_d * window.stride_h, 1, kMostExtent);
  Op op{
      .name = std::move(name),
      .kind = kind,
      .attributes = PoolAttributes{.kernel_h = static_cast<int>(window.kernel_d * window.kernel_h),
                                   .kernel_w = static_cast<int>(window.kernel_w),
                                   .stride_h = static_cast<int>(window.stride_d * window.stride_h),
                                   .stride_w = static_cast<int>(window.stride_w),
                                   .pad_top = static_cast<int>(window.pads.top),
                                   .pad_left = static_cast<int>(window.pads.left),
                                   .pad_bottom = static_cast<int>(window.pads.bottom),
                                   .pad_right = static_cast<int>(window.pads.right),
                                   .ceil_mode = ceil_mode,
                                   .count_include_pad = count_include_pad},
      .inputs = {x}};
  return append(std::move(op), image_shape(rank, out));
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
  return pool(OpKind::AvgPool, std::move(name), x,
              {.kernel_h = image.h, .kernel_w = image.w, .kernel_d = image.d}, false, true);
}

TensorId GraphBuilder::global_max_pool(std::string name, TensorId x) {
  const Image image = image_of(name, shape(x));
  return pool(OpKind::MaxPool, std::move(name), x,
              {.kernel_h = image.h, .kernel_w = image.w, .kernel_d = image.d}, false, false);
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
  return append(std::move(op),
                image_shape(shape(x).size(), {image.n, image.c, out_h, out_w, image.d}));
}

}  // namespace tracecast
