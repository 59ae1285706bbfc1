#include "models/ops.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

constexpr std::int64_t kMostElements = (std::int64_t{1} << 62) - 1;
/// Windows, strides and pads beyond this are refused: they must fit into the `int` of the
/// attributes and the output formula must not overflow.
constexpr std::int64_t kMostExtent = std::int64_t{1} << 30;

std::string number(std::int64_t value) { return std::to_string(value); }

void require_range(std::string_view where, std::string_view what, std::int64_t value,
                   std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  throw InputError(where, std::string(what) + " " + number(value),
                   "a value from " + number(least) + " to " + number(most));
}

/// Axis counted from the end when negative, checked against the rank.
std::size_t checked_axis(std::string_view where, std::int64_t axis, std::size_t rank) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) {
    throw InputError(where, "axis " + number(axis),
                     "an axis of a rank " + number(signed_rank) + " tensor");
  }
  return static_cast<std::size_t>(axis < 0 ? axis + signed_rank : axis);
}

/// Product of the dimensions [first, last); the shape is that of an existing tensor, so it fits.
std::int64_t count_between(const Shape& shape, std::size_t first, std::size_t last) {
  std::int64_t count = 1;
  for (std::size_t i = first; i < last; ++i) count *= shape[i];
  return count;
}

/// The four image dimensions of N,C,H,W or N,C,W (height 1).
struct Image {
  std::int64_t n, c, h, w;
};

Image image_of(std::string_view where, const Shape& shape) {
  if (shape.size() == 4) return {shape[0], shape[1], shape[2], shape[3]};
  if (shape.size() == 3) return {shape[0], shape[1], 1, shape[2]};
  throw InputError(where, "an input of shape " + to_string(shape), "rank 4 (N,C,H,W) or 3 (N,C,W)");
}

Shape image_shape(std::size_t rank, std::int64_t n, std::int64_t c, std::int64_t h,
                  std::int64_t w) {
  return rank == 3 ? Shape{n, c, w} : Shape{n, c, h, w};
}

/// Channels of an N,C,... tensor.
std::int64_t channels_of(std::string_view where, const Shape& shape) {
  if (shape.size() < 2) {
    throw InputError(where, "an input of shape " + to_string(shape), "N,C and more dimensions");
  }
  return shape[1];
}

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

std::vector<TensorId> with_optional(std::vector<TensorId> inputs, std::optional<TensorId> last) {
  if (last) inputs.push_back(*last);
  return inputs;
}

}  // namespace

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

bool shares_memory_with_input(const Op& op) {
  if (op.kind == OpKind::Reshape) return true;
  const auto* elementwise = std::get_if<ElementwiseAttributes>(&op.attributes);
  return elementwise != nullptr && elementwise->in_place;
}

GraphBuilder::GraphBuilder(std::string name, std::int64_t batch) {
  require_range("network " + name, "batch", batch, 1, kMostExtent);
  graph_.name = std::move(name);
  graph_.batch = batch;
}

TensorId GraphBuilder::tensor(Tensor tensor) {
  if (!checked_element_count(tensor.shape)) {
    throw InputError("tensor '" + tensor.name + "'", "shape " + to_string(tensor.shape),
                     "dimensions of at least 0 with fewer than 2^62 elements");
  }
  return graph_.add_tensor(std::move(tensor));
}

TensorId GraphBuilder::input(std::string name, Shape shape, bool is_integer) {
  return tensor({.name = std::move(name),
                 .shape = std::move(shape),
                 .role = TensorRole::Input,
                 .is_integer = is_integer});
}

TensorId GraphBuilder::weight(std::string name, Shape shape) {
  return tensor({.name = std::move(name), .shape = std::move(shape), .role = TensorRole::Weight});
}

TensorId GraphBuilder::buffer(std::string name, Shape shape) {
  return tensor({.name = std::move(name), .shape = std::move(shape), .role = TensorRole::Buffer});
}

TensorId GraphBuilder::append(Op op, Shape output_shape) {
  const TensorId output = tensor({.name = op.name, .shape = std::move(output_shape)});
  op.outputs.insert(op.outputs.begin(), output);
  graph_.add_op(std::move(op));
  return output;
}

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
    throw InputError(name,
                     "weight " + to_string(filter) + " for input " + to_string(shape(x)) + " in " +
                         number(groups) + " groups",
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
    throw InputError(name,
                     "weight " + to_string(filter) + " for input " + to_string(shape(x)) + " in " +
                         number(groups) + " groups",
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

TensorId GraphBuilder::linear(std::string name, TensorId x, TensorId weight,
                              std::optional<TensorId> bias, WeightLayout layout) {
  const Shape& in = shape(x);
  const Shape& matrix = shape(weight);
  const bool out_first = layout == WeightLayout::OutIn;
  if (in.empty() || matrix.size() != 2 || matrix[out_first ? 1 : 0] != in.back()) {
    throw InputError(name, "weight " + to_string(matrix) + " for input " + to_string(in),
                     out_first ? "N x K with K the last dimension of the input"
                               : "K x N with K the last dimension of the input");
  }
  Shape out = in;
  out.back() = matrix[out_first ? 0 : 1];
  Op op{.name = std::move(name),
        .kind = OpKind::Linear,
        .attributes = MatMulAttributes{.m = count_between(in, 0, in.size() - 1),
                                       .n = out.back(),
                                       .k = in.back(),
                                       .transpose_b = out_first,
                                       .has_bias = bias.has_value()},
        .inputs = with_optional({x, weight}, bias)};
  return append(std::move(op), std::move(out));
}

TensorId GraphBuilder::linear_layer(std::string name, TensorId x, std::int64_t out_features,
                                    bool with_bias) {
  if (shape(x).empty()) throw InputError(name, "a scalar input", "at least one dimension");
  const TensorId matrix = weight(name + ".weight", {out_features, shape(x).back()});
  std::optional<TensorId> bias;
  if (with_bias) bias = weight(name + ".bias", {out_features});
  return linear(std::move(name), x, matrix, bias);
}

TensorId GraphBuilder::matmul(std::string name, TensorId a, TensorId b, bool transpose_a,
                              bool transpose_b) {
  const Shape left = shape(a), right = shape(b);
  if (left.size() < 2 || right.size() < 2) {
    throw InputError(name, "shapes " + to_string(left) + " and " + to_string(right),
                     "two matrices or stacks of matrices");
  }
  std::int64_t m = left[left.size() - 2], k = left.back();
  std::int64_t b_k = right[right.size() - 2], n = right.back();
  if (transpose_a) std::swap(m, k);
  if (transpose_b) std::swap(b_k, n);
  if (k != b_k) {
    throw InputError(name, "shapes " + to_string(left) + " and " + to_string(right),
                     "an inner dimension that agrees");
  }
  Shape out = broadcast_shape(name, Shape(left.begin(), left.end() - 2),
                              Shape(right.begin(), right.end() - 2));
  const std::optional<std::int64_t> stack = checked_element_count(out);
  if (!stack) throw InputError(name, "a stack of " + to_string(out), "fewer than 2^62 matrices");
  MatMulAttributes attributes{.batch = *stack,
                              .m = m,
                              .n = n,
                              .k = k,
                              .transpose_a = transpose_a,
                              .transpose_b = transpose_b};
  // One matrix on the right serves every row on the left: a single product, as libraries fold it.
  if (right.size() == 2 && !transpose_a) {
    attributes.batch = 1;
    attributes.m = count_between(left, 0, left.size() - 1);
  }
  out.push_back(m);
  out.push_back(n);
  return append(
      {.name = std::move(name), .kind = OpKind::MatMul, .attributes = attributes, .inputs = {a, b}},
      std::move(out));
}

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

TensorId GraphBuilder::norm(OpKind kind, std::string name,
                            std::initializer_list<std::optional<TensorId>> inputs,
                            std::int64_t rows, std::int64_t cols) {
  Op op{.name = std::move(name),
        .kind = kind,
        .attributes = NormAttributes{.rows = rows, .cols = cols}};
  op.inputs.reserve(inputs.size());
  for (const std::optional<TensorId>& input : inputs) {
    if (input) op.inputs.push_back(*input);
  }
  Shape out = shape(op.inputs.front());
  return append(std::move(op), std::move(out));
}

TensorId GraphBuilder::batch_norm(std::string name, TensorId x, TensorId scale, TensorId bias,
                                  TensorId mean, TensorId variance) {
  const std::int64_t channels = channels_of(name, shape(x));
  for (const TensorId parameter : {scale, bias, mean, variance}) {
    if (element_count(shape(parameter)) != channels) {
      throw InputError(name, "a parameter of shape " + to_string(shape(parameter)),
                       number(channels) + " values, one per channel");
    }
  }
  const std::int64_t cols = shape(x)[0] * count_between(shape(x), 2, shape(x).size());
  return norm(OpKind::BatchNorm, std::move(name), {x, scale, bias, mean, variance}, channels, cols);
}

TensorId GraphBuilder::batch_norm_layer(std::string name, TensorId x) {
  const std::int64_t channels = channels_of(name, shape(x));
  const TensorId scale = weight(name + ".weight", {channels});
  const TensorId bias = weight(name + ".bias", {channels});
  const TensorId mean = buffer(name + ".running_mean", {channels});
  const TensorId variance = buffer(name + ".running_var", {channels});
  return batch_norm(std::move(name), x, scale, bias, mean, variance);
}

TensorId GraphBuilder::layer_norm(std::string name, TensorId x, std::int64_t axis,
                                  std::optional<TensorId> scale, std::optional<TensorId> bias) {
  const Shape& in = shape(x);
  const std::size_t first = checked_axis(name, axis, in.size());
  const std::int64_t rows = count_between(in, 0, first);
  const std::int64_t cols = count_between(in, first, in.size());
  return norm(OpKind::LayerNorm, std::move(name), {x, scale, bias}, rows, cols);
}

TensorId GraphBuilder::layer_norm_layer(std::string name, TensorId x) {
  if (shape(x).empty()) throw InputError(name, "a scalar input", "at least one dimension");
  const std::int64_t width = shape(x).back();
  const TensorId scale = weight(name + ".weight", {width});
  const TensorId bias = weight(name + ".bias", {width});
  return layer_norm(std::move(name), x, -1, scale, bias);
}

TensorId GraphBuilder::instance_norm(std::string name, TensorId x, TensorId scale, TensorId bias) {
  const std::int64_t channels = channels_of(name, shape(x));
  const std::int64_t rows = shape(x)[0] * channels;
  const std::int64_t cols = count_between(shape(x), 2, shape(x).size());
  return norm(OpKind::InstanceNorm, std::move(name), {x, scale, bias}, rows, cols);
}

TensorId GraphBuilder::group_norm(std::string name, TensorId x, std::int64_t groups, TensorId scale,
                                  TensorId bias) {
  const std::int64_t channels = channels_of(name, shape(x));
  require_range(name, "groups", groups, 1, std::max<std::int64_t>(channels, 1));
  if (channels % groups != 0) {
    throw InputError(name, number(groups) + " groups", "a divisor of " + number(channels));
  }
  const std::int64_t cols = channels / groups * count_between(shape(x), 2, shape(x).size());
  const std::int64_t rows = shape(x)[0] * groups;
  return norm(OpKind::GroupNorm, std::move(name), {x, scale, bias}, rows, cols);
}

TensorId GraphBuilder::lrn(std::string name, TensorId x, std::int64_t size) {
  const std::int64_t channels = channels_of(name, shape(x));
  require_range(name, "LRN size", size, 1, kMostExtent);
  const std::int64_t cols = shape(x)[0] * count_between(shape(x), 2, shape(x).size());
  Shape out = shape(x);
  return append(
      {.name = std::move(name),
       .kind = OpKind::Lrn,
       .attributes =
           NormAttributes{.rows = channels, .cols = cols, .lrn_size = static_cast<int>(size)},
       .inputs = {x}},
      std::move(out));
}

TensorId GraphBuilder::activation(std::string name, TensorId x, std::string_view function,
                                  bool in_place, std::span<const TensorId> extra_inputs) {
  Op op{.name = std::move(name),
        .kind = OpKind::Activation,
        .attributes = ElementwiseAttributes{.name = std::string(function), .in_place = in_place},
        .inputs = {x}};
  op.inputs.insert(op.inputs.end(), extra_inputs.begin(), extra_inputs.end());
  Shape out = shape(x);
  return append(std::move(op), std::move(out));
}

TensorId GraphBuilder::binary(std::string name, std::string_view function,
                              std::span<const TensorId> inputs, bool in_place) {
  if (inputs.empty()) throw InputError(name, "no input", "at least one input");
  Shape out = shape(inputs.front());
  for (const TensorId input : inputs.subspan(1)) out = broadcast_shape(name, out, shape(input));
  // What grows by broadcasting cannot be written over its first input.
  const bool fits_in_place = in_place && out == shape(inputs.front());
  return append({.name = std::move(name),
                 .kind = OpKind::Binary,
                 .attributes = ElementwiseAttributes{.name = std::string(function),
                                                     .in_place = fits_in_place},
                 .inputs = {inputs.begin(), inputs.end()}},
                std::move(out));
}

TensorId GraphBuilder::add(std::string name, TensorId a, TensorId b, bool in_place) {
  const TensorId inputs[] = {a, b};
  return binary(std::move(name), "add", inputs, in_place);
}

TensorId GraphBuilder::mul(std::string name, TensorId a, TensorId b) {
  const TensorId inputs[] = {a, b};
  return binary(std::move(name), "mul", inputs);
}

TensorId GraphBuilder::softmax(std::string name, TensorId x, std::int64_t axis) {
  const std::size_t along = checked_axis(name, axis, shape(x).size());
  const std::int64_t cols = shape(x)[along];
  const std::int64_t rows =
      count_between(shape(x), 0, along) * count_between(shape(x), along + 1, shape(x).size());
  return norm(OpKind::Softmax, std::move(name), {x}, rows, cols);
}

TensorId GraphBuilder::dropout(std::string name, TensorId x, bool in_place) {
  const TensorId mask =
      tensor({.name = name + ".mask", .shape = shape(x), .is_integer = true, .integer_bytes = 1});
  Shape out = shape(x);
  return append({.name = std::move(name),
                 .kind = OpKind::Dropout,
                 .attributes = ElementwiseAttributes{.name = "dropout", .in_place = in_place},
                 .inputs = {x},
                 .outputs = {mask}},
                std::move(out));
}

TensorId GraphBuilder::cast(std::string name, TensorId x, bool to_integer, int integer_bytes) {
  const TensorId output = tensor(
      {.name = name, .shape = shape(x), .is_integer = to_integer, .integer_bytes = integer_bytes});
  graph_.add_op({.name = std::move(name),
                 .kind = OpKind::Cast,
                 .attributes = ElementwiseAttributes{.name = "cast"},
                 .inputs = {x},
                 .outputs = {output}});
  return output;
}

TensorId GraphBuilder::concat(std::string name, std::span<const TensorId> inputs,
                              std::int64_t axis) {
  if (inputs.empty()) throw InputError(name, "no input", "at least one input");
  Shape out = shape(inputs.front());
  const std::size_t along = checked_axis(name, axis, out.size());
  for (const TensorId input : inputs.subspan(1)) {
    const Shape& next = shape(input);
    bool agrees = next.size() == out.size();
    for (std::size_t i = 0; agrees && i < out.size(); ++i) agrees = i == along || next[i] == out[i];
    if (!agrees) {
      throw InputError(name,
                       "shapes " + to_string(shape(inputs.front())) + " and " + to_string(next),
                       "dimensions equal but for axis " + number(axis));
    }
    if (next[along] > kMostElements - out[along]) {
      throw InputError(name, "an axis of more than 2^62", "fewer elements");
    }
    out[along] += next[along];
  }
  return append(
      {.name = std::move(name), .kind = OpKind::Concat, .inputs = {inputs.begin(), inputs.end()}},
      std::move(out));
}

std::vector<TensorId> GraphBuilder::split(std::string name, TensorId x, std::int64_t axis,
                                          std::span<const std::int64_t> sizes) {
  const Shape in = shape(x);
  const std::size_t along = checked_axis(name, axis, in.size());
  std::int64_t left = in[along];
  for (const std::int64_t size : sizes) {
    require_range(name, "part of a split", size, 0, left);
    left -= size;
  }
  if (sizes.empty() || left != 0) {
    throw InputError(name, "parts that leave " + number(left) + " of " + number(in[along]),
                     "parts that add up to the axis");
  }
  Op op{.name = std::move(name), .kind = OpKind::Split, .inputs = {x}};
  op.outputs.reserve(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    Shape part = in;
    part[along] = sizes[i];
    op.outputs.push_back(tensor(
        {.name = i == 0 ? op.name : op.name + ":" + std::to_string(i), .shape = std::move(part)}));
  }
  std::vector<TensorId> outputs = op.outputs;
  graph_.add_op(std::move(op));
  return outputs;
}

TensorId GraphBuilder::slice(std::string name, TensorId x, Shape output_shape) {
  const Shape& in = shape(x);
  bool fits = output_shape.size() == in.size();
  for (std::size_t i = 0; fits && i < in.size(); ++i) {
    fits = output_shape[i] >= 0 && output_shape[i] <= in[i];
  }
  if (!fits) {
    throw InputError(name, "a part of shape " + to_string(output_shape),
                     "a part of " + to_string(in));
  }
  return append({.name = std::move(name), .kind = OpKind::Slice, .inputs = {x}},
                std::move(output_shape));
}

TensorId GraphBuilder::pad(std::string name, TensorId x, std::span<const std::int64_t> before,
                           std::span<const std::int64_t> after) {
  Shape out = shape(x);
  if (before.size() != out.size() || after.size() != out.size()) {
    throw InputError(name, number(static_cast<std::int64_t>(before.size())) + " pads",
                     "one at either end of each dimension of " + to_string(out));
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    require_range(name, "pad", before[i], -kMostExtent, kMostExtent);
    require_range(name, "pad", after[i], -kMostExtent, kMostExtent);
    out[i] += before[i] + after[i];
    require_range(name, "padded dimension", out[i], 0, kMostElements);
  }
  return append({.name = std::move(name), .kind = OpKind::Pad, .inputs = {x}}, std::move(out));
}

TensorId GraphBuilder::transpose(std::string name, TensorId x,
                                 std::span<const std::int64_t> permutation) {
  const Shape& in = shape(x);
  Shape out(in.size());
  std::vector<bool> seen(in.size(), false);
  bool is_permutation = permutation.size() == in.size();
  for (std::size_t i = 0; is_permutation && i < in.size(); ++i) {
    const std::size_t from = checked_axis(name, permutation[i], in.size());
    is_permutation = !seen[from];
    seen[from] = true;
    out[i] = in[from];
  }
  if (!is_permutation) {
    throw InputError(name, "a permutation that repeats or misses an axis",
                     "each axis of " + to_string(in) + " once");
  }
  return append({.name = std::move(name), .kind = OpKind::Transpose, .inputs = {x}},
                std::move(out));
}

TensorId GraphBuilder::reshape(std::string name, TensorId x, Shape new_shape) {
  const std::int64_t count = element_count(shape(x));
  std::optional<std::size_t> open;
  Shape known = new_shape;
  bool is_valid = true;
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (known[i] != -1) continue;
    is_valid = is_valid && !open;
    open = i;
    known[i] = 1;
  }
  const std::optional<std::int64_t> rest = checked_element_count(known);
  is_valid = is_valid && rest.has_value();
  if (is_valid && open) {
    is_valid = *rest > 0 && count % *rest == 0;
    if (is_valid) known[*open] = count / *rest;
  } else if (is_valid) {
    is_valid = *rest == count;
  }
  if (!is_valid) {
    throw InputError(name, to_string(shape(x)) + " reshaped to " + to_string(new_shape),
                     "the same number of elements, at most one dimension -1");
  }
  return append({.name = std::move(name), .kind = OpKind::Reshape, .inputs = {x}},
                std::move(known));
}

TensorId GraphBuilder::flatten(std::string name, TensorId x, std::int64_t axis) {
  const Shape& in = shape(x);
  const auto rank = static_cast<std::int64_t>(in.size());
  require_range(name, "axis", axis, -rank, rank);  // the rank itself is allowed: N x 1
  const auto first = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  return reshape(std::move(name), x,
                 {count_between(in, 0, first), count_between(in, first, in.size())});
}

TensorId GraphBuilder::resize(std::string name, TensorId x, Shape output_shape,
                              std::string_view mode) {
  if (output_shape.size() != shape(x).size()) {
    throw InputError(name, "a result of shape " + to_string(output_shape),
                     "the rank of " + to_string(shape(x)));
  }
  return append({.name = std::move(name),
                 .kind = OpKind::Resize,
                 .attributes = ElementwiseAttributes{.name = std::string(mode)},
                 .inputs = {x}},
                std::move(output_shape));
}

TensorId GraphBuilder::embedding(std::string name, TensorId ids, TensorId table) {
  if (shape(table).size() != 2) {
    throw InputError(name, "a table of shape " + to_string(shape(table)), "rows x width");
  }
  Shape out = shape(ids);
  out.push_back(shape(table)[1]);
  return append({.name = std::move(name), .kind = OpKind::Embedding, .inputs = {ids, table}},
                std::move(out));
}

TensorId GraphBuilder::embedding_layer(std::string name, TensorId ids, std::int64_t rows,
                                       std::int64_t width) {
  const TensorId table = weight(name + ".weight", {rows, width});
  return embedding(std::move(name), ids, table);
}

TensorId GraphBuilder::gather(std::string name, TensorId data, TensorId indices,
                              std::int64_t axis) {
  const Shape& in = shape(data);
  const Shape& picked = shape(indices);
  const std::size_t along = checked_axis(name, axis, in.size());
  Shape out(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(along));
  out.insert(out.end(), picked.begin(), picked.end());
  out.insert(out.end(), in.begin() + static_cast<std::ptrdiff_t>(along) + 1, in.end());
  return append({.name = std::move(name),
                 .kind = OpKind::Gather,
                 .attributes = ElementwiseAttributes{.name = "gather"},
                 .inputs = {data, indices}},
                std::move(out));
}

TensorId GraphBuilder::reduce(std::string name, TensorId x, std::span<const std::int64_t> axes,
                              bool keep_dims, std::string_view function) {
  const Shape& in = shape(x);
  std::vector<bool> reduced(in.size(), axes.empty());
  for (const std::int64_t axis : axes) reduced[checked_axis(name, axis, in.size())] = true;
  Shape out;
  ReduceAttributes attributes;
  for (std::size_t i = 0; i < in.size(); ++i) {
    (reduced[i] ? attributes.cols : attributes.rows) *= in[i];
    if (!reduced[i]) {
      out.push_back(in[i]);
    } else if (keep_dims) {
      out.push_back(1);
    }
  }
  return append({.name = std::move(name),
                 .kind = OpKind::Reduce,
                 .attributes = attributes,
                 .inputs = {x},
                 .note = std::string(function)},
                std::move(out));
}

std::vector<TensorId> GraphBuilder::unknown(std::string name, std::string_view operator_name,
                                            std::span<const TensorId> inputs,
                                            std::span<const Shape> outputs) {
  Op op{.name = std::move(name),
        .kind = OpKind::Unknown,
        .inputs = {inputs.begin(), inputs.end()},
        .note = std::string(operator_name)};
  op.outputs.reserve(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    op.outputs.push_back(tensor(
        {.name = i == 0 ? op.name : op.name + ":" + std::to_string(i), .shape = outputs[i]}));
  }
  std::vector<TensorId> ids = op.outputs;
  graph_.add_op(std::move(op));
  return ids;
}

}  // namespace tracecast
