#include "models/ops.hpp"

#include <utility>

#include "models/shape_checks.hpp"

namespace tracecast {

using namespace shape_checks;

namespace {

/// Window, pads and sizes of a convolution whose image side is `image` and whose filter side has
/// `small.c` channels on as many places as `small` has.
ConvAttributes conv_attributes(std::string_view name, std::size_t rank, const Image& image,
                               const Image& small, const Window& window, std::int64_t groups,
                               bool has_bias) {
  // Rows of all planes together, see ConvAttributes.
  const auto rows = [&](std::int64_t depth, std::int64_t height) {
    if (depth > 0 && height > kMostExtent / depth) {
      throw InputError(name, "depth times height " + number(depth) + " x " + number(height),
                       "at most " + number(kMostExtent));
    }
    return depth * height;
  };
  return {.n = image.n,
          .c = image.c,
          .h = rows(image.d, image.h),
          .w = image.w,
          .k = small.c,
          .r = rows(window.kernel_d, window.kernel_h),
          .s = window.kernel_w,
          .p = rows(small.d, small.h),
          .q = small.w,
          .stride_h = static_cast<int>(rows(window.stride_d, window.stride_h)),
          .stride_w = static_cast<int>(window.stride_w),
          .dilation_h = static_cast<int>(window.dilation_h),
          .dilation_w = static_cast<int>(window.dilation_w),
          .pad_top = static_cast<int>(window.pads.top),
          .pad_left = static_cast<int>(window.pads.left),
          .pad_bottom = static_cast<int>(window.pads.bottom),
          .pad_right = static_cast<int>(window.pads.right),
          .groups = groups,
          .has_bias = has_bias,
          .is_volume = rank == 5};
}

void take_kernel(Window& window, const Shape& filter) {
  const std::size_t rank = filter.size();
  window.kernel_d = rank == 5 ? filter[2] : 1;
  window.kernel_h = rank == 3 ? 1 : filter[rank - 2];
  window.kernel_w = filter[rank - 1];
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
  take_kernel(window, filter);
  const Image out = slide(name, image, window, k);
  const ConvAttributes attributes =
      conv_attributes(name, rank, image, out, window, groups, bias.has_value());
  Op op{.name = std::move(name),
        .kind = OpKind::Conv,
        .attributes = attributes,
        .inputs = with_optional({x, weight}, bias)};
  return append(std::move(op), image_shape(rank, out));
}

TensorId GraphBuilder::conv_layer(std::string name, TensorId x, std::int64_t out_channels,
                                  const Window& window, bool with_bias, std::int64_t groups) {
  const Image image = image_of(name, shape(x));
  require_range(name, "groups", groups, 1, kMostExtent);
  const TensorId filter =
      weight(name + ".weight",
             image_shape(shape(x).size(), {out_channels, image.c / groups, window.kernel_h,
                                           window.kernel_w, window.kernel_d}));
  std::optional<TensorId> bias;
  if (with_bias) bias = weight(name + ".bias", {out_channels});
  return conv(std::move(name), x, filter, bias, window, groups);
}

void GraphBuilder::lay_channels_last(TensorId y) {
  const std::optional<OpId> made = graph_.producer(y);
  TRACECAST_CHECK(made.has_value(), "a convolution made the tensor");
  graph_.set_channels_last(*made);
}

TensorId GraphBuilder::conv_transpose(std::string name, TensorId x, TensorId weight,
                                      std::optional<TensorId> bias, Window window,
                                      std::int64_t groups, std::int64_t output_padding_h,
                                      std::int64_t output_padding_w,
                                      std::int64_t output_padding_d) {
  const Image image = image_of(name, shape(x));
  const std::size_t rank = shape(x).size();
  const Shape& filter = shape(weight);
  require_range(name, "groups", groups, 1, kMostExtent);
  if (filter.size() != rank || filter[0] != image.c || image.c % groups != 0 || filter[1] < 1 ||
      filter[1] > kMostExtent) {
    refuse_filter(name, filter, shape(x), groups,
                  "C, K/groups, R, S with C divisible by the groups");
  }
  take_kernel(window, filter);
  require_range(name, "output padding", output_padding_h, 0, kMostExtent);
  require_range(name, "output padding", output_padding_w, 0, kMostExtent);
  require_range(name, "output padding", output_padding_d, 0, kMostExtent);
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
  const Pads& pads = window.pads;
  const Image out{.n = image.n,
                  .c = filter[1] * groups,
                  .h = grown(image.h, window.kernel_h, window.stride_h, window.dilation_h, pads.top,
                             pads.bottom, output_padding_h),
                  .w = grown(image.w, window.kernel_w, window.stride_w, window.dilation_w,
                             pads.left, pads.right, output_padding_w),
                  .d = grown(image.d, window.kernel_d, window.stride_d, window.dilation_d,
                             pads.front, pads.back, output_padding_d)};
  const ConvAttributes attributes =
      conv_attributes(name, rank, out, image, window, groups, bias.has_value());
  Op op{.name = std::move(name),
        .kind = OpKind::ConvTranspose,
        .attributes = attributes,
        .inputs = with_optional({x, weight}, bias)};
  return append(std::move(op), image_shape(rank, out));
}

}  // namespace tracecast
