#include "models/ops.hpp"

#include <utility>

#include "models/shape_checks.hpp"

namespace tracecast {

using namespace shape_checks;

namespace {

/// Window, pads and sizes of a convolution whose image side is `image` (c, h, w) and whose filter
/// side has `k` channels on p x q places.
ConvAttributes conv_attributes(const Image& image, std::int64_t k, std::int64_t p, std::int64_t q,
                               const Window& window, std::int64_t groups, bool has_bias) {
  return {.n = image.n,
          .c = image.c,
          .h = image.h,
          .w = image.w,
          .k = k,
          .r = window.kernel_h,
          .s = window.kernel_w,
          .p = p,
          .q = q,
          .stride_h = static_cast<int>(window.stride_h),
          .stride_w = static_cast<int>(window.stride_w),
          .dilation_h = static_cast<int>(window.dilation_h),
          .dilation_w = static_cast<int>(window.dilation_w),
          .pad_top = static_cast<int>(window.pads.top),
          .pad_left = static_cast<int>(window.pads.left),
          .pad_bottom = static_cast<int>(window.pads.bottom),
          .pad_right = static_cast<int>(window.pads.right),
          .groups = groups,
          .has_bias = has_bias};
}

[[noreturn]] void refuse_filter(const std::string& name, const Shape& filter, const Shape& input,
                                std::int64_t groups, std::string_view expected) {
  throw InputError(name,
                   "weight " + to_string(filter) + " for input " + to_string(input) + " in " +
                       number(groups) + " groups",
                   expected);
}

}  // namespace

TensorId GraphBuilder::conv(std::string name, TensorId x, TensorId weight,
                            std::optional<TensorId> bias, Window window, std::int64_t groups) {
  const Image image = image_of(name, shape(x));
  const std::size_t rank = shape(x).size();
  const Shape& filter = shape(weight);
  if (filter.size() != rank) {
    throw InputError(name, "a weight of shape " + to_string(filter),
                     "rank " + number(static_cast<std::int64_t>(rank)));
  }
  require_range(name, "groups", groups, 1, kMostExtent);
  const std::int64_t k = filter[0];
  if (image.c % groups != 0 || filter[1] != image.c / groups || k % groups != 0 || k < 1) {
    refuse_filter(name, filter, shape(x), groups,
                  "K, C/groups, R, S with K and C divisible by the groups");
  }
  window.kernel_h = rank == 3 ? 1 : filter[2];
  window.kernel_w = filter[rank - 1];
  const std::int64_t p = window_count(name, image.h, window.kernel_h, window.stride_h,
                                      window.pads.top, window.pads.bottom, window.dilation_h);
  const std::int64_t q = window_count(name, image.w, window.kernel_w, window.stride_w,
                                      window.pads.left, window.pads.right, window.dilation_w);
  Op op{.name = std::move(name),
        .kind = OpKind::Conv,
        .attributes = conv_attributes(image, k, p, q, window, groups, bias.has_value()),
        .inputs = with_optional({x, weight}, bias)};
  return append(std::move(op), image_shape(rank, image.n, k, p, q));
}

TensorId GraphBuilder::conv_layer(std::string name, TensorId x, std::int64_t out_channels,
                                  const Window& window, bool with_bias, std::int64_t groups) {
  const Image image = image_of(name, shape(x));
  require_range(name, "groups", groups, 1, kMostExtent);
  const TensorId filter =
      weight(name + ".weight", image_shape(shape(x).size(), out_channels, image.c / groups,
                                           window.kernel_h, window.kernel_w));
  std::optional<TensorId> bias;
  if (with_bias) bias = weight(name + ".bias", {out_channels});
  return conv(std::move(name), x, filter, bias, window, groups);
}

TensorId GraphBuilder::conv_transpose(std::string name, TensorId x, TensorId weight,
                                      std::optional<TensorId> bias, Window window,
                                      std::int64_t groups, std::int64_t output_padding_h,
                                      std::int64_t output_padding_w) {
  const Image image = image_of(name, shape(x));
  const std::size_t rank = shape(x).size();
  const Shape& filter = shape(weight);
  require_range(name, "groups", groups, 1, kMostExtent);
  if (filter.size() != rank || filter[0] != image.c || image.c % groups != 0 || filter[1] < 1 ||
      filter[1] > kMostExtent) {
    refuse_filter(name, filter, shape(x), groups,
                  "C, K/groups, R, S with C divisible by the groups");
  }
  window.kernel_h = rank == 3 ? 1 : filter[2];
  window.kernel_w = filter[rank - 1];
  require_range(name, "output padding", output_padding_h, 0, kMostExtent);
  require_range(name, "output padding", output_padding_w, 0, kMostExtent);
  const auto grown = [&](std::int64_t size, std::int64_t kernel, std::int64_t stride,
                         std::int64_t dilation, std::int64_t before, std::int64_t after,
                         std::int64_t extra) {
    require_range(name, "input size", size, 1, kMostExtent);
    require_range(name, "kernel size", kernel, 1, kMostExtent);
    require_range(name, "stride", stride, 1, kMostExtent);
    require_range(name, "dilation", dilation, 1, kMostExtent);
    require_range(name, "pad", before, 0, kMostExtent);
    require_range(name, "pad", after, 0, kMostExtent);
    const std::int64_t out =
        (size - 1) * stride - before - after + dilation * (kernel - 1) + extra + 1;
    require_range(name, "output size", out, 1, kMostExtent);
    return out;
  };
  const std::int64_t out_h = grown(image.h, window.kernel_h, window.stride_h, window.dilation_h,
                                   window.pads.top, window.pads.bottom, output_padding_h);
  const std::int64_t out_w = grown(image.w, window.kernel_w, window.stride_w, window.dilation_w,
                                   window.pads.left, window.pads.right, output_padding_w);
  const std::int64_t out_c = filter[1] * groups;
  Op op{.name = std::move(name),
        .kind = OpKind::ConvTranspose,
        .attributes = conv_attributes({image.n, out_c, out_h, out_w}, image.c, image.h, image.w,
                                      window, groups, bias.has_value()),
        .inputs = with_optional({x, weight}, bias)};
  return append(std::move(op), image_shape(rank, image.n, out_c, out_h, out_w));
}

}  // namespace tracecast
