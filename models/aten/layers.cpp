// Convolutions, pooling, normalisation, dropout, recurrent layers, embeddings.
#include <algorithm>
#include <utility>

#include "models/aten/walk.hpp"
#include "models/zoo/parts/attention.hpp"
#include "sim/base/error.hpp"

namespace tracecast::aten {
namespace {

/// A value per dimension of the image: one for all, or one for each.
Integers per_dimension(const Call& call, std::string_view parameter, std::size_t dims,
                       std::int64_t otherwise) {
  Integers values = call.integers(parameter);
  if (values.empty()) values.assign(dims, otherwise);
  if (values.size() == 1) values.assign(dims, values.front());
  if (values.size() != dims) {
    throw InputError(call.node.target,
                     std::to_string(values.size()) + " values for " + std::string(parameter),
                     std::to_string(dims) + ", one for each dimension of the image");
  }
  return values;
}

struct Geometry {
  Integers kernel{}, stride{}, padding{}, dilation{};
};

Window window_of(const Geometry& g) {
  const std::size_t w = g.stride.size() - 1;
  Window window{.kernel_w = g.kernel[w],
                .stride_w = g.stride[w],
                .dilation_w = g.dilation[w],
                .pads = {.left = g.padding[w], .right = g.padding[w]}};
  if (w >= 1) {
    window.kernel_h = g.kernel[w - 1];
    window.stride_h = g.stride[w - 1];
    window.dilation_h = g.dilation[w - 1];
    window.pads.top = window.pads.bottom = g.padding[w - 1];
  }
  if (w >= 2) {
    window.kernel_d = g.kernel[0];
    window.stride_d = g.stride[0];
    window.dilation_d = g.dilation[0];
    window.pads.front = window.pads.back = g.padding[0];
  }
  return window;
}

std::size_t image_dims(const Call& call, TensorIndex x) {
  const std::size_t rank = call.shape(x).size();
  if (rank < 3 || rank > 5) {
    throw InputError(call.node.target, "an input of shape " + to_string(call.shape(x)),
                     "N,C and an image of one to three dimensions");
  }
  return rank - 2;
}

/// Whether an image's channels are innermost in memory.
bool lies_channels_last(const TensorInfo& image) {
  if (image.strides.size() < 4 || image.shape[1] < 2) return false;
  return image.strides[1] == 1;
}

/// What libraries take as it lies: row by row, or channels last; else they copy it (ATen/native:
/// ConvUtils.h, cudnn_conv_suggest_memory_format; cuda/DilatedMaxPool2d.cu).
TensorId image_of(const Call& call, TensorIndex x) {
  return lies_channels_last(call.own(x)) ? call.whole(x) : call.contiguous(x);
}

bool convolve(Call& call, bool is_transposed) {
  const TensorIndex x = call.x(), weight = call.tensor("weight");
  if (call.shape(x).size() == 2) return false;  // one sample without a batch
  const std::size_t dims = image_dims(call, x);
  Geometry g{.stride = per_dimension(call, "stride", dims, 1),
             .dilation = per_dimension(call, "dilation", dims, 1)};
  const Shape filter = call.shape(weight);
  if (filter.size() != dims + 2) {
    throw InputError(call.node.target, "a weight of shape " + to_string(filter),
                     "rank " + std::to_string(dims + 2));
  }
  g.kernel = {filter.begin() + 2, filter.end()};
  const std::string_view word = call.text("padding");
  Window window;
  if (word.empty() || word == "valid") {
    g.padding = word.empty() ? per_dimension(call, "padding", dims, 0) : Integers(dims, 0);
    window = window_of(g);
  } else if (word == "same") {
    g.padding.assign(dims, 0);
    window = window_of(g);
    // Stride 1: as many cells as before; an odd one after the image.
    const Shape& image = call.shape(x);
    window.pads = same_padding(dims >= 2 ? image[image.size() - 2] : 1, image.back(), window);
  } else {
    throw InputError(call.node.target, '"' + std::string(word) + '"', "padding same or valid");
  }
  const std::int64_t groups = call.integer("groups", 1);
  const TensorId image = image_of(call, x), filter_id = call.whole(weight);
  const std::optional<TensorId> bias = call.optional("bias");
  if (is_transposed) {
    const Integers extra = per_dimension(call, "output_padding", dims, 0);
    call.set(0, call.build().conv_transpose(call.name, image, filter_id, bias, window, groups,
                                            dims >= 2 ? extra[dims - 2] : 0, extra[dims - 1],
                                            dims == 3 ? extra[0] : 0));
    return true;
  }
  const TensorId y = call.build().conv(call.name, image, filter_id, bias, window, groups);
  if (lies_channels_last(call.own(x))) call.build().lay_channels_last(y);
  call.set(0, y);
  return true;
}
bool convolution(Call& call) { return convolve(call, call.flag("transposed", false)); }
bool conv_transpose(Call& call) { return convolve(call, true); }

Geometry pool_geometry(const Call& call, std::size_t dims) {
  Geometry g{.kernel = per_dimension(call, "kernel_size", dims, 1),
             .padding = per_dimension(call, "padding", dims, 0),
             .dilation = per_dimension(call, "dilation", dims, 1)};
  g.stride = call.integers("stride").empty() ? g.kernel : per_dimension(call, "stride", dims, 1);
  return g;
}

bool pool(Call& call, std::size_t dims, bool is_max) {
  const TensorIndex x = call.x();
  if (call.shape(x).size() != dims + 2) return false;
  const Window window = window_of(pool_geometry(call, dims));
  const bool ceil_mode = call.flag("ceil_mode", false);
  const TensorId image = image_of(call, x);
  call.set(0, is_max ? call.build().max_pool(call.name, image, window, ceil_mode)
                     : call.build().avg_pool(call.name, image, window, ceil_mode,
                                             call.flag("count_include_pad", true)));
  return true;
}
bool max_pool1d(Call& call) { return pool(call, 1, true); }
bool max_pool2d(Call& call) { return pool(call, 2, true); }
bool max_pool3d(Call& call) { return pool(call, 3, true); }
bool avg_pool1d(Call& call) { return pool(call, 1, false); }
bool avg_pool2d(Call& call) { return pool(call, 2, false); }
bool avg_pool3d(Call& call) { return pool(call, 3, false); }

bool adaptive_avg_pool(Call& call) {
  const TensorIndex x = call.x();
  const Integers size = call.integers("output_size");
  const std::size_t rank = call.shape(x).size();
  if (rank < 3 || rank > 4 || size.empty() || size.size() > 2) return false;
  const std::int64_t height = size.size() == 2 ? size[0] : rank == 4 ? size[0] : 1;
  call.set(0, call.build().adaptive_avg_pool(call.name, call.whole(x), height, size.back()));
  return true;
}

/// Statistics of the batch or kept ones; a norm without weights keeps none.
bool batch_norm(Call& call) {
  const TensorIndex x = call.x();
  const Shape& image = call.shape(x);
  if (image.size() < 2) return false;
  const auto part = [&](std::string_view parameter) {
    const std::optional<TensorId> given = call.optional(parameter);
    return given ? *given
                 : call.build().buffer(call.name + '.' + std::string(parameter), {image[1]});
  };
  const TensorId scale = part("weight"), bias = part("bias"), mean = part("running_mean"),
                 variance = part("running_var");
  call.set(0, call.build().batch_norm(call.name, image_of(call, x), scale, bias, mean, variance));
  return true;
}

bool layer_norm(Call& call) {
  const auto dims = static_cast<std::int64_t>(call.integers("normalized_shape").size());
  if (dims == 0) return false;
  const TensorId x = call.contiguous(call.x());
  call.set(0, call.build().layer_norm(call.name, x, -dims, call.optional("weight"),
                                      call.optional("bias")));
  return true;
}

/// PyTorch runs it step by step (torch/nn/functional.py, rms_norm; ATen/native/layer_norm.cpp).
bool rms_norm(Call& call) {
  if (call.integers("normalized_shape").size() != 1) return false;
  GraphBuilder& b = call.build();
  const TensorId x = call.whole(call.x());
  const TensorId constant = zoo_builders::scalar(b, call.name + ".epsilon");
  const bool is_weighted = call.find_tensor("weight") != kNoTensor;
  TensorId y = zoo_builders::rms_scaled(
      b, call.name, is_weighted ? call.name + ".normalize" : call.name, x, constant);
  if (is_weighted) y = b.mul(call.name, y, call.whole(call.tensor("weight")));
  call.set(0, y);
  return true;
}

bool group_norm(Call& call) {
  const std::int64_t groups = call.integer("group", call.integer("num_groups", 1));
  GraphBuilder& b = call.build();
  const TensorIndex index = call.x();
  if (call.shape(index).size() < 3) return false;
  const TensorId x = image_of(call, index);
  const Shape channels = {call.shape(index)[1]};
  const std::optional<TensorId> weight = call.optional("weight"), bias = call.optional("bias");
  call.set(0, b.group_norm(call.name, x, groups,
                           weight ? *weight : b.buffer(call.name + ".weight", channels),
                           bias ? *bias : b.buffer(call.name + ".bias", channels)));
  return true;
}

bool softmax(Call& call) {
  const TensorIndex x = call.x();
  if (call.shape(x).empty()) return false;
  call.set(0, call.build().softmax(call.name, call.contiguous(x), call.integer("dim", -1)));
  return true;
}

bool dropout(Call& call) {
  const bool works =
      call.run.options().training && call.flag("train", true) && call.real("p", 0.5) > 0;
  if (!works) {
    call.pass_through();
    return true;
  }
  call.set(0, call.build().dropout(call.name, call.whole(call.x()), call.in_place));
  return true;
}

bool embedding(Call& call) {
  const TensorIndex table = call.tensor("weight"), ids = call.tensor("indices");
  call.set(0, call.build().embedding(call.name, call.whole(ids), call.whole(table)));
  return true;
}

bool embedding_bag(Call& call) {
  const TensorIndex table = call.tensor("weight"), ids = call.tensor("indices"),
                    offsets = call.tensor("offsets");
  const Shape flat = call.shape(ids);
  const std::int64_t bags = call.shape(offsets).empty() ? 0 : call.shape(offsets)[0];
  if (flat.size() == 1 && bags > 0 && flat[0] % bags == 0) {
    const TensorId rows =
        call.run.view(call.name + ".bags", call.whole(ids), {bags, flat[0] / bags});
    call.build().graph().set_integer(rows, call.own(ids).type.bytes);
    call.set(0, call.build().embedding_bag(call.name, rows, call.whole(table)));
    return true;
  }
  return false;
}

/// Weights of all layers side by side; states at the beginning.
bool recurrent(Call& call, CellKind cell) {
  const TensorIndex index = call.tensor("input");
  const std::vector<TensorIndex> weights = call.tensors("params");
  const bool is_bidirectional = call.flag("bidirectional", false);
  const std::int64_t layers = call.integer("num_layers", 1);
  if (call.shape(index).size() != 3 || weights.size() < 2 || layers < 1 || layers > 1000)
    return false;
  const bool has_biases = call.flag("has_biases", true);
  const std::size_t per_layer =
      weights.size() / static_cast<std::size_t>(layers) / (is_bidirectional ? 2 : 1);
  const bool is_projected = per_layer == (has_biases ? 5U : 3U);
  const Shape& recurrent_weight = call.shape(weights[1]);
  const std::int64_t gates = cell == CellKind::Lstm ? 4 : cell == CellKind::Gru ? 3 : 1;
  if (recurrent_weight.size() != 2 || recurrent_weight[0] < gates) return false;
  const std::int64_t hidden = recurrent_weight[0] / gates;
  const GraphBuilder::RecurrentLayers stack{
      .cell = cell,
      .hidden = hidden,
      .layers = static_cast<int>(layers),
      .bidirectional = is_bidirectional,
      .biases = has_biases ? 2 : 0,
      .projection = is_projected ? recurrent_weight[1] : 0,
      .dropout = call.run.options().training && call.real("dropout", 0) > 0};
  const bool is_batch_first = call.flag("batch_first", false);
  TensorId x = call.whole(index);
  const auto turned = [&](const Shape& shape) { return Shape{shape[1], shape[0], shape[2]}; };
  if (is_batch_first) {
    x = call.run.view(call.name + ".steps_first", x, turned(call.shape(index)));
    x = call.build().slice(call.name + ".contiguous", x, call.build().shape(x));
  }
  std::vector<TensorId> ids;
  for (const TensorIndex weight : weights) ids.push_back(call.whole(weight));
  const GraphBuilder::RecurrentResult result = call.build().recurrent(call.name, x, stack, ids);
  TensorId y = result.y;
  if (is_batch_first)
    y = call.run.view(call.name + ".samples_first", y, turned(call.build().shape(y)));
  call.set(0, y);
  call.set(1, result.last_h);
  if (result.last_c) call.set(2, *result.last_c);
  return true;
}
bool lstm(Call& call) { return recurrent(call, CellKind::Lstm); }
bool gru(Call& call) { return recurrent(call, CellKind::Gru); }
bool rnn_tanh(Call& call) { return recurrent(call, CellKind::RnnTanh); }
bool rnn_relu(Call& call) { return recurrent(call, CellKind::RnnRelu); }

constexpr Row kLayerRows[] = {
    {"aten.convolution", convolution},
    {"aten._convolution", convolution},
    {"aten.conv1d", convolution},
    {"aten.conv2d", convolution},
    {"aten.conv3d", convolution},
    {"aten.conv_transpose1d", conv_transpose},
    {"aten.conv_transpose2d", conv_transpose},
    {"aten.conv_transpose3d", conv_transpose},
    {"aten.max_pool1d", max_pool1d},
    {"aten.max_pool2d", max_pool2d},
    {"aten.max_pool3d", max_pool3d},
    {"aten.max_pool2d_with_indices", max_pool2d},
    {"aten.max_pool3d_with_indices", max_pool3d},
    {"aten.avg_pool1d", avg_pool1d},
    {"aten.avg_pool2d", avg_pool2d},
    {"aten.avg_pool3d", avg_pool3d},
    {"aten.adaptive_avg_pool1d", adaptive_avg_pool},
    {"aten.adaptive_avg_pool2d", adaptive_avg_pool},
    {"aten._adaptive_avg_pool2d", adaptive_avg_pool},
    {"aten.batch_norm", batch_norm},
    {"aten.native_batch_norm", batch_norm},
    {"aten.cudnn_batch_norm", batch_norm},
    {"aten._native_batch_norm_legit", batch_norm},
    {"aten._native_batch_norm_legit_functional", batch_norm},
    {"aten._native_batch_norm_legit_no_training", batch_norm},
    {"aten._batch_norm_with_update", batch_norm},
    {"aten._batch_norm_with_update_functional", batch_norm},
    {"aten._batch_norm_no_update", batch_norm},
    {"aten.layer_norm", layer_norm},
    {"aten.native_layer_norm", layer_norm},
    {"aten.rms_norm", rms_norm},
    {"aten._fused_rms_norm", rms_norm},
    {"aten.group_norm", group_norm},
    {"aten.native_group_norm", group_norm},
    {"aten.softmax", softmax},
    {"aten._softmax", softmax},
    {"aten._safe_softmax", softmax},
    {"aten.log_softmax", softmax},
    {"aten._log_softmax", softmax},
    {"aten.dropout", dropout},
    {"aten.feature_dropout", dropout},
    {"aten.native_dropout", dropout},
    {"aten.embedding", embedding},
    {"aten.embedding_bag", embedding_bag},
    {"aten._embedding_bag", embedding_bag},
    {"aten._embedding_bag_forward_only", embedding_bag},
    {"aten.lstm", lstm},
    {"aten.gru", gru},
    {"aten.rnn_tanh", rnn_tanh},
    {"aten.rnn_relu", rnn_relu},
};

}  // namespace

std::span<const Row> layer_rows() { return kLayerRows; }

}  // namespace tracecast::aten
