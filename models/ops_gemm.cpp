#include "models/ops.hpp"

#include <utility>

#include "models/shape_checks.hpp"

namespace tracecast {

using namespace shape_checks;

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
  // One matrix on the right serves every row on the left: a single GEMM, as libraries fold it.
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

}  // namespace tracecast
