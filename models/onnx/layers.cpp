// Layers with weights, GEMMs, pooling, normalisation.
#include "models/onnx/layers.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <string>
#include <tuple>
#include <utility>

#include "sim/base/error.hpp"

namespace tracecast::onnx {
namespace {

using Use = Interpreter::Use;

/// One value per spatial dimension; the default where the attribute is absent.
std::vector<std::int64_t> per_dimension(const Call& call, std::string_view attribute,
                                        std::size_t count, std::int64_t otherwise) {
  std::vector<std::int64_t> values = call.node.integers(attribute);
  if (values.empty()) values.assign(count, otherwise);
  if (values.size() != count) {
    throw InputError(attribute, std::to_string(values.size()) + " values",
                     std::to_string(count) + " values");
  }
  return values;
}

/// Stride, dilation, kernel and pads of a convolution or pooling over the image behind N and C.
/// `kernel`: height and width (width alone for N,C,W).
Window window_of(const Call& call, const Shape& x, std::span<const std::int64_t> kernel) {
  const std::size_t dims = x.size() - 2;
  const auto strides = per_dimension(call, "strides", dims, 1);
  const auto dilations = per_dimension(call, "dilations", dims, 1);
  const auto pads = per_dimension(call, "pads", 2 * dims, 0);
  const std::size_t w = dims - 1;
  Window window{.kernel_w = kernel[w],
                .stride_w = strides[w],
                .dilation_w = dilations[w],
                .pads = {.left = pads[w], .right = pads[dims + w]}};
  if (dims >= 2) {
    const std::size_t h = dims - 2;
    window.kernel_h = kernel[h];
    window.stride_h = strides[h];
    window.dilation_h = dilations[h];
    window.pads.top = pads[h];
    window.pads.bottom = pads[dims + h];
  }
  if (dims == 3) {
    window.kernel_d = kernel[0];
    window.stride_d = strides[0];
    window.dilation_d = dilations[0];
    window.pads.front = pads[0];
    window.pads.back = pads[3];
  }
  return window;
}

/// Pads of auto_pad SAME_UPPER, SAME_LOWER, VALID.
void apply_auto_pad(const Call& call, const Shape& x, Window& window) {
  const std::string_view mode = call.node.text("auto_pad", "NOTSET");
  if (mode == "NOTSET" || mode.empty()) return;
  if (mode == "VALID") {
    window.pads = {};
  } else if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    const bool is_lower = mode == "SAME_LOWER";
    window.pads = same_padding(x.size() >= 4 ? x[x.size() - 2] : 1, x.back(), window, is_lower);
    if (x.size() == 5) {
      const Window depth{.kernel_w = window.kernel_d,
                         .stride_w = window.stride_d,
                         .dilation_w = window.dilation_d};
      const Pads pads = same_padding(1, x[2], depth, is_lower);
      window.pads.front = pads.left;
      window.pads.back = pads.right;
    }
  } else {
    throw InputError("auto_pad", mode, "NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  }
}

/// N,C,W, N,C,H,W and N,C,D,H,W, which the network graph knows.
bool is_image(const Shape& x) {
  if (x.size() < 3) throw InputError("input", "shape " + to_string(x), "N,C and an image");
  return x.size() <= 5;
}

void check_kernel_shape(const Call& call, const Shape& filter) {
  const std::vector<std::int64_t> kernel = call.node.integers("kernel_shape");
  if (kernel.empty()) return;
  if (filter.size() < 2 ||
      !std::equal(kernel.begin(), kernel.end(), filter.begin() + 2, filter.end())) {
    throw InputError("kernel_shape", to_string(kernel),
                     "the last dimensions of the weight " + to_string(filter));
  }
}

bool conv(const Call& call) { return conv_from(call, {.x = 0, .weight = 1, .bias = 2}); }

bool conv_transpose(const Call& call) {
  const Shape x = call.shape(0), filter = call.shape(1);
  if (!is_image(x)) return false;
  if (filter.size() != x.size()) {
    throw InputError("weight", to_string(filter), "rank " + std::to_string(x.size()));
  }
  check_kernel_shape(call, filter);
  const std::size_t dims = x.size() - 2;
  Window window = window_of(call, x, std::span(filter).subspan(2));
  auto extra = per_dimension(call, "output_padding", dims, 0);
  const std::string_view mode = call.node.text("auto_pad", "NOTSET");
  const std::vector<std::int64_t> target = call.node.integers("output_shape");
  if (!target.empty() || mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    // Pads follow from the output: total = stride * (in - 1) + extra + extent - out, see the ONNX
    // operator.
    if (!target.empty() && target.size() != dims) {
      throw InputError("output_shape", std::to_string(target.size()) + " values",
                       std::to_string(dims) + " values");
    }
    const auto total = [&](std::size_t d, std::int64_t stride, std::int64_t extent) {
      std::int64_t grown = 0, asked = 0;
      if (__builtin_mul_overflow(stride, x[2 + d] - 1, &grown) ||
          __builtin_mul_overflow(stride, x[2 + d], &asked) ||
          __builtin_add_overflow(grown, extent, &grown) ||
          __builtin_add_overflow(grown, extra[d], &grown) ||
          __builtin_sub_overflow(grown, target.empty() ? asked : target[d], &grown)) {
        throw InputError("output size", "a number beyond 2^63", "a smaller stride");
      }
      if (grown < 0) {
        extra[d] -= grown;
        grown = 0;
      }
      return grown;
    };
    const auto halves = [&](std::int64_t sum) {
      const std::int64_t less = sum / 2, more = sum - less;
      return mode == "SAME_UPPER" ? std::pair(less, more) : std::pair(more, less);
    };
    const auto extent = [](std::int64_t dilation, std::int64_t kernel) {
      std::int64_t cells = 0;
      if (kernel < 1 || __builtin_mul_overflow(dilation, kernel - 1, &cells)) {
        throw InputError("kernel size", std::to_string(kernel), "at least 1");
      }
      return cells + 1;
    };
    if (dims == 3) {
      std::tie(window.pads.front, window.pads.back) =
          halves(total(0, window.stride_d, extent(window.dilation_d, window.kernel_d)));
    }
    if (dims >= 2) {
      std::tie(window.pads.top, window.pads.bottom) =
          halves(total(dims - 2, window.stride_h, extent(window.dilation_h, window.kernel_h)));
    }
    std::tie(window.pads.left, window.pads.right) =
        halves(total(dims - 1, window.stride_w, extent(window.dilation_w, window.kernel_w)));
  } else {
    apply_auto_pad(call, x, window);
  }
  call.set(0, call.build().conv_transpose(
                  call.name(), call.tensor(0), call.parameter(1), call.optional_parameter(2),
                  window, call.node.integer("group", 1), dims >= 2 ? extra[dims - 2] : 0,
                  extra[dims - 1], dims == 3 ? extra[0] : 0));
  return true;
}

/// Throws InputError that names the sizes that fit when a GEMM's inner dimensions disagree.
void check_features(const Call& call, std::size_t input, std::int64_t found,
                    std::int64_t expected) {
  if (found == expected) return;
  std::string fits = std::to_string(expected) + " features, as its weight says";
  const Value* own = call.reference_input(input);
  if (own && own->shape != call.shape(input)) {
    fits += "; with the file's own input sizes it gets " + to_string(own->shape);
  }
  throw InputError("input " + to_string(call.shape(input)), std::to_string(found) + " features",
                   fits);
}

/// The Add that reads nothing but this GEMM and a constant vector of its width: the bias of the
/// layer, which exporters write as an operator of its own.
struct BiasAdd {
  std::uint32_t node;
  ValueIndex bias;
};
std::optional<BiasAdd> find_bias_add(const Call& call, std::int64_t width) {
  const Program& program = call.run.program();
  if (call.node.outputs.empty() || call.node.outputs[0] == kAbsent) return std::nullopt;
  const NamedValue& output = program.values[call.node.outputs[0]];
  if (output.is_output || output.readers.size() != 1) return std::nullopt;
  const Node& reader = program.nodes[output.readers[0]];
  if (reader.op_type() != "Add" || !reader.is_standard || reader.inputs.size() != 2)
    return std::nullopt;
  const ValueIndex other =
      reader.inputs[0] == call.node.outputs[0] ? reader.inputs[1] : reader.inputs[0];
  if (other == kAbsent || !call.run.is_known(other)) return std::nullopt;
  const Value& bias = call.run.value(other);
  if (!bias.is_constant() || bias.type.is_integer || bias.shape != Shape{width})
    return std::nullopt;
  return BiasAdd{output.readers[0], other};
}

bool gemm(const Call& call) { return gemm_from(call, {.x = 0, .weight = 1, .bias = 2}); }
bool matmul(const Call& call) { return matmul_from(call, {.x = 0, .weight = 1}); }

constexpr std::string_view kLabels = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The labels of an einsum's operands and result, dots replaced by labels of their own (counted
/// from the last dimension) and a result that is left out written out: dots, then labels that occur
/// once, in order.
struct EinsumTerms {
  std::vector<std::string> operands;
  std::string result;
};
std::optional<EinsumTerms> read_equation(const Call& call) {
  std::string equation(call.node.text("equation", ""));
  std::erase(equation, ' ');
  const std::size_t arrow = equation.find("->");
  std::string left = equation.substr(0, arrow);
  std::string dots, unused;
  for (const char label : kLabels) {
    if (equation.find(label) == std::string::npos) unused += label;
  }
  EinsumTerms terms;
  for (std::size_t i = 0; i < call.node.inputs.size(); ++i) {
    const std::size_t comma = std::min(left.find(','), left.size());
    std::string labels = left.substr(0, comma);
    left.erase(0, comma + 1);
    if (const std::size_t at = labels.find("..."); at != std::string::npos) {
      const std::size_t rank = call.shape(i).size(), named = labels.size() - 3;
      if (rank < named || rank - named > unused.size()) return std::nullopt;
      const std::string own = unused.substr(0, rank - named);
      if (!dots.empty() && !own.empty() && own != dots) return std::nullopt;  // broadcasting
      if (!own.empty()) dots = own;
      labels.replace(at, 3, own);
    }
    terms.operands.push_back(std::move(labels));
  }
  if (!left.empty()) return std::nullopt;
  if (arrow == std::string::npos) {
    std::string all;
    for (const std::string& labels : terms.operands) all += labels;
    terms.result = dots;
    for (const char label : kLabels) {
      if (std::count(all.begin(), all.end(), label) == 1 && dots.find(label) == std::string::npos) {
        terms.result += label;
      }
    }
  } else {
    terms.result = equation.substr(arrow + 2);
    if (const std::size_t at = terms.result.find("..."); at != std::string::npos) {
      terms.result.replace(at, 3, dots);
    }
  }
  return terms;
}

/// One operand: a sum over labels that the result lacks, then an order of the others.
bool einsum_of_one(const Call& call, const std::string& from, const std::string& to) {
  std::vector<std::int64_t> sums, order;
  std::string left;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (to.find(from[i]) == std::string::npos) {
      sums.push_back(static_cast<std::int64_t>(i));
    } else {
      left += from[i];
    }
  }
  for (const char label : to) {
    const std::size_t at = left.find(label);
    if (at == std::string::npos) return false;
    order.push_back(static_cast<std::int64_t>(at));
  }
  TensorId y = call.tensor(0);
  GraphBuilder& build = call.build();
  const bool is_ordered = std::is_sorted(order.begin(), order.end());
  if (!sums.empty()) {
    y = build.reduce(is_ordered ? call.name() : call.name() + ".sum", y, sums, false, "sum");
  }
  if (!is_ordered) y = build.transpose(call.name(), y, order);
  call.set(0, y);
  return true;
}

/// GEMMs of two operands: labels of both and the result are stacked, labels of both but not the
/// result are summed over, labels of one are its rows or columns. Anything else (a trace, a sum
/// over one operand's own label, broadcasting dots) is bounded like an unknown operator.
bool einsum(const Call& call) {
  const std::string equation(call.node.text("equation", ""));
  const std::optional<EinsumTerms> terms = read_equation(call);
  if (!terms || terms->operands.empty() || terms->operands.size() > 2) return false;
  const std::string& a = terms->operands.front();
  const std::string& b = terms->operands.back();
  const std::string& out = terms->result;
  const auto is_simple = [](const std::string& labels) {
    std::string sorted = labels;
    std::sort(sorted.begin(), sorted.end());
    return sorted.find_first_not_of(kLabels) == std::string::npos &&
           std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  };
  if (!is_simple(a) || !is_simple(b) || !is_simple(out)) return false;
  if (terms->operands.size() == 1) {
    return a.size() == call.shape(0).size() && einsum_of_one(call, a, out);
  }
  const Shape x = call.shape(0), y = call.shape(1);
  if (!is_simple(a) || !is_simple(b) || !is_simple(out) || a.size() != x.size() ||
      b.size() != y.size()) {
    return false;
  }
  std::array<std::int64_t, 256> size{};
  for (std::size_t i = 0; i < a.size(); ++i) size[static_cast<unsigned char>(a[i])] = x[i];
  for (std::size_t i = 0; i < b.size(); ++i) {
    std::int64_t& dim = size[static_cast<unsigned char>(b[i])];
    if (a.find(b[i]) != std::string::npos && dim != y[i]) {
      throw InputError("equation '" + equation + "'",
                       "shapes " + to_string(x) + " and " + to_string(y),
                       std::string("one size for ") + b[i]);
    }
    dim = y[i];
  }
  MatMulAttributes gemm;
  const auto has = [](const std::string& labels, char label) {
    return labels.find(label) != std::string::npos;
  };
  for (const char label : a) {
    const std::int64_t dim = size[static_cast<unsigned char>(label)];
    if (has(b, label)) {
      (has(out, label) ? gemm.batch : gemm.k) *= dim;
    } else if (has(out, label)) {
      gemm.m *= dim;
    } else {
      return false;
    }
  }
  for (const char label : b) {
    if (has(a, label)) continue;
    if (!has(out, label)) return false;
    gemm.n *= size[static_cast<unsigned char>(label)];
  }
  Shape result;
  for (const char label : out) {
    if (!has(a, label) && !has(b, label)) return false;
    result.push_back(size[static_cast<unsigned char>(label)]);
  }
  const bool is_layer = gemm.batch == 1 && call.input(1).is_constant();
  Op op{.name = call.name(),
        .kind = is_layer ? OpKind::Linear : OpKind::MatMul,
        .attributes = gemm,
        .inputs = {call.tensor(0), is_layer ? call.parameter(1) : call.tensor(1)}};
  call.set(0, call.build().append(std::move(op), std::move(result)));
  return true;
}

bool pool(const Call& call, bool is_max) {
  const Shape x = call.shape(0);
  if (!is_image(x)) return false;
  const std::vector<std::int64_t> kernel = call.node.integers("kernel_shape");
  if (kernel.size() != x.size() - 2) {
    throw InputError("kernel_shape", std::to_string(kernel.size()) + " values",
                     std::to_string(x.size() - 2) + " values");
  }
  Window window = window_of(call, x, kernel);
  apply_auto_pad(call, x, window);
  const bool ceil_mode = call.node.integer("ceil_mode", 0) != 0;
  GraphBuilder& build = call.build();
  const TensorId y = is_max ? build.max_pool(call.name(), call.tensor(0), window, ceil_mode)
                            : build.avg_pool(call.name(), call.tensor(0), window, ceil_mode,
                                             call.node.integer("count_include_pad", 0) != 0);
  call.set(0, y);
  // Where the maxima stood: written beside them.
  if (is_max && call.wants_output(1)) {
    call.set(1, build.activation(call.name() + ".indices", y, "indices"), kInt64);
  }
  return true;
}
bool max_pool(const Call& call) { return pool(call, true); }
bool average_pool(const Call& call) { return pool(call, false); }

bool global_pool(const Call& call, bool is_max) {
  if (!is_image(call.shape(0))) return false;
  call.set(0, is_max ? call.build().global_max_pool(call.name(), call.tensor(0))
                     : call.build().global_avg_pool(call.name(), call.tensor(0)));
  return true;
}
bool global_max_pool(const Call& call) { return global_pool(call, true); }
bool global_average_pool(const Call& call) { return global_pool(call, false); }

bool batch_normalization(const Call& call) {
  // Outputs beyond the first are statistics of training mode, one value per channel.
  for (std::size_t i = 1; i < call.node.outputs.size(); ++i) {
    if (!call.wants_output(i)) continue;
    const std::string name = call.name() + ".statistics" + std::to_string(i);
    call.set(i, call.build().activation(name, call.tensor(3, Use::Buffer), "update"), kReal);
  }
  // Scale and bias first: a file may hold equal contents once, as scale and variance, and then they
  // are trained.
  const TensorId scale = call.parameter(1), bias = call.parameter(2);
  call.set(0, call.build().batch_norm(call.name(), call.tensor(0), scale, bias,
                                      call.tensor(3, Use::Buffer), call.tensor(4, Use::Buffer)));
  return true;
}

bool layer_normalization(const Call& call) {
  const std::size_t rank = call.shape(0).size();
  std::vector<std::int64_t> axes;
  for (std::size_t d = call.axis(call.node.integer("axis", -1), rank); d < rank; ++d) {
    axes.push_back(static_cast<std::int64_t>(d));
  }
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {  // mean and deviation of each row
    if (!call.wants_output(i)) continue;
    const std::string name = call.name() + ".statistics" + std::to_string(i);
    call.set(i, call.build().reduce(name, call.tensor(0), axes, true, "mean"), kReal);
  }
  call.set(0, call.build().layer_norm(call.name(), call.tensor(0), call.node.integer("axis", -1),
                                      call.optional_parameter(1), call.optional_parameter(2)));
  return true;
}

bool instance_normalization(const Call& call) {
  call.set(0, call.build().instance_norm(call.name(), call.tensor(0), call.parameter(1),
                                         call.parameter(2)));
  return true;
}

bool group_normalization(const Call& call) {
  call.set(0,
           call.build().group_norm(call.name(), call.tensor(0), call.node.integer("num_groups", 1),
                                   call.parameter(1), call.parameter(2)));
  return true;
}

bool lrn(const Call& call) {
  call.set(0, call.build().lrn(call.name(), call.tensor(0), call.node.integer("size", 1)));
  return true;
}

/// Up to opset 12 everything from `axis` on is one row; later only the dimension `axis` is.
bool softmax(const Call& call) {
  const Shape x = call.shape(0);
  if (x.empty()) throw InputError("input", "a scalar", "at least one dimension");
  const bool is_flat = call.node.opset < 13;
  const std::size_t axis = call.axis(call.node.integer("axis", is_flat ? 1 : -1), x.size());
  const NamedValue& output = call.run.program().values[call.node.outputs[0]];
  if (call.run.training() && output.is_output && output.readers.empty()) {
    // The loss of training takes logits and has the softmax inside.
    call.assume("the loss contains this softmax: left out of training");
    call.pass_through();
    return true;
  }
  GraphBuilder& build = call.build();
  const bool is_last = std::all_of(x.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.end(),
                                   [](std::int64_t dim) { return dim == 1; });
  if (!is_flat || is_last) {
    call.set(0, build.softmax(call.name(), call.tensor(0), static_cast<std::int64_t>(axis)));
    return true;
  }
  const TensorId rows =
      build.flatten(call.name() + ".rows", call.tensor(0), static_cast<std::int64_t>(axis));
  const TensorId y = build.softmax(call.name(), rows, 1);
  call.set(0, build.reshape(call.name() + ".shape", y, x));
  return true;
}

/// Nothing at inference. In training y and a mask, unless the ratio is 0.
bool dropout(const Call& call) {
  double ratio = call.node.real("ratio", 0.5);
  if (call.has_input(1)) {
    if (const Reals* known = call.input(1).reals(); known && known->size() == 1)
      ratio = known->front();
  }
  if (call.wants_output(1)) {
    call.set_value(1, {.shape = call.shape(0), .type = kBool});
  }
  if (call.run.training() && ratio > 0 && !call.input(0).is_constant()) {
    call.set(0, call.build().dropout(call.name(), call.tensor(0)));
  } else {
    call.pass_through();
  }
  return true;
}

constexpr NamedHandler kLayerHandlers[] = {
    {"Conv", conv},
    {"ConvTranspose", conv_transpose},
    {"Gemm", gemm},
    {"MatMul", matmul},
    {"Einsum", einsum},
    {"MaxPool", max_pool},
    {"AveragePool", average_pool},
    {"GlobalAveragePool", global_average_pool},
    {"GlobalMaxPool", global_max_pool},
    {"BatchNormalization", batch_normalization},
    {"LayerNormalization", layer_normalization},
    {"InstanceNormalization", instance_normalization},
    {"GroupNormalization", group_normalization},
    {"LRN", lrn},
    {"Softmax", softmax},
    {"LogSoftmax", softmax},
    {"Dropout", dropout},
};

}  // namespace

bool conv_from(const Call& call, const LayerInputs& at) {
  const Shape x = call.shape(at.x), filter = call.shape(at.weight);
  if (!is_image(x)) return false;
  if (filter.size() != x.size()) {
    throw InputError("weight", to_string(filter), "rank " + std::to_string(x.size()));
  }
  check_kernel_shape(call, filter);
  Window window = window_of(call, x, std::span(filter).subspan(2));
  apply_auto_pad(call, x, window);
  call.set(
      0,
      call.build().conv(call.name(), call.tensor(at.x), call.parameter(at.weight),
                        call.optional_parameter(at.bias), window, call.node.integer("group", 1)),
      kReal);
  return true;
}

bool gemm_from(const Call& call, const LayerInputs& at) {
  const Shape a = call.shape(at.x), b = call.shape(at.weight);
  if (a.size() != 2 || b.size() != 2) {
    throw InputError("inputs", to_string(a) + " and " + to_string(b), "two matrices");
  }
  const bool transpose_a = call.node.integer("transA", 0) != 0;
  const bool transpose_b = call.node.integer("transB", 0) != 0;
  const std::int64_t k = a[transpose_a ? 0 : 1], n = b[transpose_b ? 0 : 1];
  check_features(call, at.x, k, b[transpose_b ? 1 : 0]);
  const bool has_c = call.has_input(at.bias);
  GraphBuilder& build = call.build();
  if (call.input(at.weight).is_constant() && !transpose_a) {
    const bool is_bias =
        has_c && call.input(at.bias).is_constant() && element_count(call.shape(at.bias)) == n;
    const auto layout =
        transpose_b ? GraphBuilder::WeightLayout::OutIn : GraphBuilder::WeightLayout::InOut;
    const std::optional<TensorId> bias =
        is_bias ? std::optional(call.parameter(at.bias)) : std::nullopt;
    TensorId y =
        build.linear(call.name(), call.tensor(at.x), call.parameter(at.weight), bias, layout);
    if (has_c && !is_bias) y = build.add(call.name() + ".add", y, call.tensor(at.bias));
    call.set(0, y, kReal);
    return true;
  }
  TensorId y = build.matmul(call.name(), call.tensor(at.x), call.tensor(at.weight), transpose_a,
                            transpose_b);
  if (has_c) y = build.add(call.name() + ".add", y, call.tensor(at.bias));
  call.set(0, y, kReal);
  return true;
}

bool matmul_from(const Call& call, const LayerInputs& at) {
  const Value& a = call.input(at.x);
  const Value& b = call.input(at.weight);
  GraphBuilder& build = call.build();
  const bool is_weight = b.is_constant() && !b.follows_input;
  if (is_weight && b.shape.size() == 2 && !a.shape.empty() && !a.is_constant()) {
    check_features(call, at.x, a.shape.back(), b.shape[0]);
    const std::optional<BiasAdd> add = find_bias_add(call, b.shape[1]);
    const std::optional<TensorId> bias =
        add ? std::optional(call.run.tensor(add->bias, Use::Parameter)) : std::nullopt;
    if (add) call.run.mark_merged(add->node);
    call.set(0,
             build.linear(call.name(), call.tensor(at.x), call.parameter(at.weight), bias,
                          GraphBuilder::WeightLayout::InOut),
             kReal);
    return true;
  }
  // Vectors count as one row or one column, which the result then lacks.
  TensorId left = call.tensor(at.x), right = call.tensor(at.weight);
  const bool is_row = a.shape.size() == 1, is_column = b.shape.size() == 1;
  if (a.shape.empty() || b.shape.empty()) {
    throw InputError("inputs", to_string(a.shape) + " and " + to_string(b.shape), "matrices");
  }
  if (is_row) left = build.reshape(call.name() + ".row", left, {1, a.shape[0]});
  if (is_column) right = build.reshape(call.name() + ".column", right, {b.shape[0], 1});
  TensorId y = build.matmul(call.name(), left, right);
  if (is_row || is_column) {
    Shape shape = build.shape(y);
    if (is_column) shape.pop_back();
    if (is_row) shape.erase(shape.end() - (is_column ? 1 : 2));
    y = build.reshape(call.name() + ".vector", y, std::move(shape));
  }
  call.set(0, y, kReal);
  return true;
}

std::span<const NamedHandler> layer_handlers() { return kLayerHandlers; }

}  // namespace tracecast::onnx
