// GEMMs and attention.
#include <algorithm>
#include <array>
#include <utility>

#include "models/aten/walk.hpp"
#include "models/zoo/parts/attention.hpp"
#include "sim/base/error.hpp"

namespace tracecast::aten {
namespace {

using Layout = GraphBuilder::WeightLayout;

/// Whether the matrices of a stack lie row by row or column by column, as cuBLAS takes them.
bool are_matrices(const TensorInfo& x) {
  const std::size_t rank = x.shape.size();
  if (x.is_contiguous() || rank < 2) return true;
  const std::int64_t rows = x.shape[rank - 2], cols = x.shape[rank - 1];
  const std::int64_t down = x.strides[rank - 2], right = x.strides[rank - 1];
  return (right == 1 && down >= std::max<std::int64_t>(cols, 1)) ||
         (down == 1 && right >= std::max<std::int64_t>(rows, 1));
}

/// Whether the dimensions before the last two can be counted as one without a copy.
bool is_one_stack(const TensorInfo& x) {
  if (x.is_contiguous()) return true;
  for (std::size_t i = 0; i + 3 < x.shape.size(); ++i) {
    if (x.shape[i] != 1 && x.strides[i] != x.strides[i + 1] * x.shape[i + 1]) return false;
  }
  return true;
}

/// An operand of a stack of GEMMs: copied where its matrices do not lie as cuBLAS takes them
/// (ATen/native/cuda/Blas.cpp, prepare_batch_matrix_for_cublas) or do not follow each other
/// (ATen/native/LinearAlgebra.cpp, matmul reshapes to one stack).
struct Operand {
  TensorId id;
  bool is_swapped;
};
Operand operand(const Call& call, TensorIndex index, const char* part) {
  const TensorInfo& own = call.own(index);
  const Value& value = call.run.value(index);
  if (own.shape.size() >= 3 && !(are_matrices(own) && is_one_stack(own)) && !value.is_expanded) {
    const TensorId whole = call.whole(index);
    return {call.build().slice(call.name + part, whole, call.build().shape(whole)), false};
  }
  const bool is_swapped = value.is_swapped && value.id.has_value();
  if (is_swapped && !value.is_expanded) return {*value.id, true};
  return {call.run.plain(index), false};
}

bool is_weight(const Call& call, TensorIndex index) {
  const Value& value = call.run.value(index);
  const bool is_leaf = call.own(index).source != Source::Result;
  if (is_leaf) return call.own(index).source != Source::Input && value.shape.size() == 2;
  if (!value.id || value.shape.size() != 2 || value.is_expanded) return false;
  const TensorRole role = call.build().graph().tensor(*value.id).role;
  return role == TensorRole::Weight || role == TensorRole::Buffer;
}

/// x times a weight that is stored in x out (or turned), with a bias in the GEMM's kernel.
TensorId linear_of(const Call& call, TensorId x, TensorIndex weight, bool is_out_in,
                   std::optional<TensorId> bias, const std::string& name) {
  const bool is_swapped = call.run.value(weight).is_swapped;
  const TensorId id = is_swapped ? *call.run.value(weight).id : call.whole(weight);
  return call.build().linear(name, x, id, bias,
                             is_out_in != is_swapped ? Layout::OutIn : Layout::InOut);
}

/// Rows that follow each other go through one GEMM with the bias in its kernel; else they are
/// copied, and the bias is a sum of its own (ATen/native/Linear.cpp).
bool linear(Call& call) {
  const TensorIndex x = call.x(), weight = call.tensor("weight");
  if (call.shape(weight).size() != 2 || call.shape(x).empty()) return false;
  const std::optional<TensorId> bias = call.optional("bias");
  const bool is_one_gemm = call.own(x).is_contiguous() || call.shape(x).size() <= 2;
  if (is_one_gemm) {
    call.set(0, linear_of(call, call.whole(x), weight, true, bias, call.name));
    return true;
  }
  TensorId y = linear_of(call, call.contiguous(x), weight, true, {}, call.name);
  if (bias) y = call.build().add(call.name + ".add", y, *bias);
  call.set(0, y);
  return true;
}

bool multiply(Call& call, TensorIndex left, TensorIndex right, std::optional<TensorId> bias) {
  const Shape a = call.shape(left), b = call.shape(right);
  if (a.empty() || b.empty()) return false;
  GraphBuilder& build = call.build();
  if (is_weight(call, right) && !is_weight(call, left) && a.size() >= 2) {
    const bool bias_fits =
        bias && build.shape(*bias).size() == 1 && build.shape(*bias)[0] == b.back();
    const TensorId x = a.size() == 2 ? call.whole(left) : call.contiguous(left);
    TensorId y = linear_of(call, x, right, false, bias_fits ? bias : std::nullopt, call.name);
    if (bias && !bias_fits) y = build.add(call.name + ".add", y, *bias);
    call.set(0, y);
    return true;
  }
  if (a.size() == 1 || b.size() == 1) {
    // Vectors count as one row or one column, which the result then lacks.
    TensorId x = call.whole(left), y = call.whole(right);
    if (a.size() == 1) x = build.reshape(call.name + ".row", x, {1, a[0]});
    if (b.size() == 1) y = build.reshape(call.name + ".column", y, {b[0], 1});
    const TensorId result = build.matmul(call.name, x, y);
    Shape shape = build.shape(result);
    if (b.size() == 1) shape.pop_back();
    if (a.size() == 1) shape.erase(shape.end() - (b.size() == 1 ? 1 : 2));
    call.set(0, build.reshape(call.name + ".vector", result, std::move(shape)));
    return true;
  }
  const Operand x = operand(call, left, ".left"), y = operand(call, right, ".right");
  TensorId result = build.matmul(call.name, x.id, y.id, x.is_swapped, y.is_swapped);
  if (bias) result = build.add(call.name + ".add", result, *bias);
  call.set(0, result);
  return true;
}

bool mm(Call& call) {
  const TensorIndex right = call.find_tensor("mat2");
  return multiply(call, call.x(), right != kNoTensor ? right : call.tensor("other"), {});
}
bool mv(Call& call) {
  const TensorIndex right = call.find_tensor("vec");
  return multiply(call, call.x(), right != kNoTensor ? right : call.tensor("tensor"), {});
}
bool addmm(Call& call) {
  return multiply(call, call.tensor("mat1"), call.tensor("mat2"), call.run.plain(call.x()));
}
bool baddbmm(Call& call) {
  return multiply(call, call.tensor("batch1"), call.tensor("batch2"), call.run.plain(call.x()));
}

/// A head of keys or values for each head of queries, by a copy.
TensorId repeated(const Call& call, const char* what, TensorId x, std::int64_t heads) {
  Shape shape = call.build().shape(x);
  if (shape[1] == heads) return x;
  shape[1] = heads;
  return call.build().append({.name = call.name + what,
                              .kind = OpKind::Gather,
                              .attributes = ElementwiseAttributes{.name = "expand"},
                              .inputs = {x}},
                             std::move(shape));
}

/// batch x heads x tokens x width; a stack of rank 3 is one head each.
TensorId as_heads(const Call& call, const char* part, TensorIndex index) {
  const TensorId x = call.whole(index);
  const Shape shape = call.build().shape(x);
  if (shape.size() != 3) return x;
  return call.build().reshape(call.name + part, x, {shape[0], 1, shape[1], shape[2]});
}

/// One kernel, or steps where the framework has none. Kernels take heads as they lie.
bool attention(Call& call) {
  const TensorIndex q_index = call.tensor("query"), k_index = call.tensor("key"),
                    v_index = call.tensor("value");
  for (const TensorIndex index : {q_index, k_index, v_index}) {
    const std::size_t rank = call.shape(index).size();
    if (rank != 3 && rank != 4) return false;
  }
  if (call.shape(q_index).size() != call.shape(k_index).size()) return false;
  GraphBuilder& b = call.build();
  const std::string& name = call.name;
  const TensorId query = as_heads(call, ".query", q_index), key = as_heads(call, ".key", k_index),
                 value = as_heads(call, ".value", v_index);
  const Shape q = b.shape(query), k = b.shape(key), v = b.shape(value);
  if (k[3] != q[3] || k[1] != v[1] || k[2] != v[2] || k[1] == 0 || q[1] % k[1] != 0 ||
      k[0] != q[0] || v[0] != q[0]) {
    throw InputError(
        call.node.target, to_string(q) + ", " + to_string(k) + " and " + to_string(v),
        "keys as wide as queries, and heads of queries that share those of keys evenly");
  }
  const bool causal = call.flag("is_causal", false);
  const Argument* mask_given = call.find("attn_mask");
  if (!mask_given) mask_given = call.find("attn_bias");
  const auto* reference = mask_given ? std::get_if<TensorReference>(&mask_given->value) : nullptr;
  std::optional<TensorId> mask;
  if (reference) mask = call.plain(reference->index);
  const AttentionKernels kernels = call.run.options().attention;
  const bool drops = call.run.options().training && call.real("dropout_p", 0) > 0;
  TensorId y{};
  if (kernels == AttentionKernels::Steps || kernels == AttentionKernels::Composed) {
    zoo_builders::ScoreOptions options{
        .scale = zoo_builders::scalar(b, name + ".scale_factor"), .mask = mask, .dropout = drops};
    if (causal && !options.mask) options.mask = b.buffer(name + ".causal_mask", {1, 1, q[2], k[2]});
    const auto copied = [&](const char* part, TensorIndex index, TensorId x) {
      return call.own(index).is_contiguous() ? x : b.slice(name + part, x, b.shape(x));
    };
    y = zoo_builders::attend(
        b, name, copied(".query.contiguous", q_index, query),
        repeated(call, ".repeat_k", copied(".key.contiguous", k_index, key), q[1]),
        repeated(call, ".repeat_v", copied(".value.contiguous", v_index, value), q[1]), options,
        true);
  } else {
    std::vector<TensorId> inputs{query, key, value};
    if (mask) inputs.push_back(*mask);
    // One query sees all that came before it: the kernel leaves nothing out.
    y = zoo_builders::attend_fused(b, name, std::move(inputs),
                                   {.batch = q[0],
                                    .heads = q[1],
                                    .kv_heads = k[1],
                                    .queries = q[2],
                                    .keys = k[2],
                                    .width = q[3],
                                    .causal = causal && q[2] == k[2],
                                    .value_width = v[3]});
    y = call.run.view(name + ".heads", y, {q[0], q[1], q[2], v[3]});
  }
  if (call.shape(q_index).size() == 3) y = b.reshape(name + ".stack", y, {q[0], q[2], v[3]});
  call.set(0, y);
  return true;
}

/// nn.MultiheadAttention without gradients: both projections and the attention between them.
bool native_multi_head_attention(Call& call) {
  const TensorIndex x = call.tensor("query");
  const std::int64_t heads = call.integer("num_head", 0);
  const Shape shape = call.shape(x);
  if (shape.size() != 3 || heads < 1 || shape[2] % heads != 0 || call.tensor("key") != x ||
      call.tensor("value") != x) {
    return false;
  }
  GraphBuilder& b = call.build();
  const TensorId packed = linear_of(call, call.contiguous(x), call.tensor("qkv_weight"), true,
                                    call.optional("qkv_bias"), call.name + ".in_proj");
  if (b.shape(packed).back() != 3 * shape[2]) return false;
  const AttentionAttributes attributes{.batch = shape[0],
                                       .heads = heads,
                                       .kv_heads = heads,
                                       .queries = shape[1],
                                       .keys = shape[1],
                                       .width = shape[2] / heads};
  const TensorId y = zoo_builders::attend_fused(b, call.name, packed, attributes);
  call.set(0, linear_of(call, y, call.tensor("proj_weight"), true, call.optional("proj_bias"),
                        call.name + ".out_proj"));
  return true;
}

constexpr Row kGemmRows[] = {
    {"aten.linear", linear},
    {"aten.mm", mm},
    {"aten.bmm", mm},
    {"aten.matmul", mm},
    {"aten.mv", mv},
    {"aten.dot", mv},
    {"aten.addmm", addmm},
    {"aten._addmm_activation", addmm},
    {"aten.baddbmm", baddbmm},
    {"aten.scaled_dot_product_attention", attention},
    {"aten._scaled_dot_product_flash_attention", attention},
    {"aten._scaled_dot_product_flash_attention_for_cpu", attention},
    {"aten._scaled_dot_product_efficient_attention", attention},
    {"aten._scaled_dot_product_cudnn_attention", attention},
    {"aten._native_multi_head_attention", native_multi_head_attention},
};

}  // namespace

std::span<const Row> gemm_rows() { return kGemmRows; }

}  // namespace tracecast::aten
