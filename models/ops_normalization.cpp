#include "models/ops.hpp"

#include <algorithm>
#include <utility>

#include "models/shape_checks.hpp"

namespace tracecast {

using namespace shape_checks;

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

TensorId GraphBuilder::instance_norm(std::string name, TensorId x, std::optional<TensorId> scale,
                                     std::optional<TensorId> bias) {
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

TensorId GraphBuilder::softmax(std::string name, TensorId x, std::int64_t axis) {
  const std::size_t along = checked_axis(name, axis, shape(x).size());
  const std::int64_t cols = shape(x)[along];
  const std::int64_t rows =
      count_between(shape(x), 0, along) * count_between(shape(x), along + 1, shape(x).size());
  return norm(OpKind::Softmax, std::move(name), {x}, rows, cols);
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

}  // namespace tracecast
