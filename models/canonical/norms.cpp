// Norms, softmax and broadcasts that exporters write out.
#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "models/canonical/formula.hpp"
#include "models/canonical/stages.hpp"

namespace tracecast::canonical {
namespace {

enum class Into { LayerNorm, GroupNorm, Softmax };

struct Rule {
  std::string_view name;
  Into into;
  std::string_view formula;  ///< x: what goes in; w, b: weights, absent where the formula has none
};

/// Longer formulas go first. Sources: notes/0001.
constexpr std::array<Rule, 13> kRules{{
    {"layer_norm", Into::LayerNorm,
     "add(mul(div(sub(x, mean(x)), sqrt(add(mean(pow(sub(x, mean(x))))))), w), b)"},
    {"layer_norm", Into::LayerNorm,
     "add(mul(div(sub(x, mean(x)), sqrt(add(mean(mul(sub(x, mean(x)), sub(x, mean(x))))))), w), "
     "b)"},
    {"layer_norm", Into::LayerNorm,
     "add(mul(mul(sub(x, mean(x)), reciprocal(sqrt(add(mean(mul(sub(x, mean(x)), sub(x, "
     "mean(x)))))))), w), b)"},
    {"layer_norm", Into::LayerNorm,
     "mul(div(sub(x, mean(x)), sqrt(add(mean(pow(sub(x, mean(x))))))), w)"},
    {"layer_norm", Into::LayerNorm,
     "mul(div(sub(x, mean(x)), sqrt(add(mean(mul(sub(x, mean(x)), sub(x, mean(x))))))), w)"},
    {"layer_norm", Into::LayerNorm, "div(sub(x, mean(x)), sqrt(add(mean(pow(sub(x, mean(x)))))))"},
    {"layer_norm", Into::LayerNorm,
     "div(sub(x, mean(x)), sqrt(add(mean(mul(sub(x, mean(x)), sub(x, mean(x)))))))"},
    {"group_norm", Into::GroupNorm, "add(mul(reshape(instance_norm(reshape(x))), w), b)"},
    {"group_norm", Into::GroupNorm, "reshape(add(mul(instance_norm(reshape(x)), w), b))"},
    {"group_norm", Into::GroupNorm, "mul(reshape(instance_norm(reshape(x))), w)"},
    {"group_norm", Into::GroupNorm, "reshape(instance_norm(reshape(x)))"},
    {"softmax", Into::Softmax, "div(exp(sub(x, max(x))), sum(exp(sub(x, max(x)))))"},
    {"softmax", Into::Softmax, "div(exp(x), sum(exp(x)))"},
}};

std::optional<TensorId> find(const Match& found, std::string_view variable) {
  for (const auto& [name, tensor] : found.variables) {
    if (name == variable) return tensor;
  }
  return std::nullopt;
}

/// A trained vector of so many values.
bool is_weight(const Draft& draft, std::optional<TensorId> id, std::int64_t count) {
  if (!id) return true;
  const Tensor& t = draft.tensor(*id);
  return (t.role == TensorRole::Weight || t.role == TensorRole::Buffer) &&
         element_count(t.shape) == count;
}

/// The mean whose deviations are taken: over the last dimensions alone is it a layer norm's.
std::optional<NormAttributes> rows_of(const Draft& draft, const Match& found, TensorId x,
                                      std::string_view reduction) {
  const Shape& shape = draft.shape(x);
  for (const Draft::OpIndex i : found.ops) {
    const Op& op = draft.op(i);
    if (op.kind != OpKind::Reduce || function_of(op) != reduction) continue;
    const Shape& reduced = draft.shape(op.outputs.front());
    if (reduced.size() != shape.size()) return std::nullopt;
    std::size_t same = 0;
    while (same < shape.size() && reduced[same] == shape[same]) ++same;
    NormAttributes norm;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (d >= same && reduced[d] != 1) return std::nullopt;
      (d < same ? norm.rows : norm.cols) *= shape[d];
    }
    return norm;
  }
  return std::nullopt;
}

std::optional<Op> made(const Draft& draft, const Rule& rule, const Match& found) {
  const TensorId x = found.at("x");
  const auto w = find(found, "w"), b = find(found, "b");
  Op op{.inputs = {x}};
  std::int64_t num_weights = 0;
  if (rule.into == Into::GroupNorm) {
    const auto norm = std::find_if(found.ops.begin(), found.ops.end(), [&](Draft::OpIndex i) {
      return draft.op(i).kind == OpKind::InstanceNorm;
    });
    const Shape& shape = draft.shape(x);
    const Op& root = draft.op(found.ops.front());
    if (shape.size() < 2 || draft.shape(root.outputs.front()) != shape) return std::nullopt;
    op.kind = OpKind::GroupNorm;
    op.attributes = draft.op(*norm).attributes;
    num_weights = shape[1];
  } else {
    const auto norm = rows_of(draft, found, x, rule.into == Into::Softmax ? "sum" : "mean");
    if (!norm) return std::nullopt;
    op.kind = rule.into == Into::Softmax ? OpKind::Softmax : OpKind::LayerNorm;
    op.attributes = *norm;
    num_weights = norm->cols;
  }
  if (!is_weight(draft, w, num_weights) || !is_weight(draft, b, num_weights)) return std::nullopt;
  if (w) op.inputs.push_back(*w);
  if (b) op.inputs.push_back(*b);
  return op;
}

/// Whether a tensor of one shape is broadcast to the other by arithmetic.
bool broadcasts(const Shape& from, const Shape& to) {
  if (from.size() > to.size()) return false;
  for (std::size_t d = 0; d < from.size(); ++d) {
    const std::int64_t dim = from[from.size() - 1 - d];
    if (dim != 1 && dim != to[to.size() - 1 - d]) return false;
  }
  return true;
}

}  // namespace

void restore_norms(Draft& draft, std::vector<Rewrite>& rewrites) {
  static const auto kTerms = [] {
    std::array<Term, kRules.size()> terms;
    for (std::size_t r = 0; r < kRules.size(); ++r) terms[r] = read_formula(kRules[r].formula);
    return terms;
  }();
  // From the end: what a longer formula takes is not given to a shorter one.
  for (auto i = static_cast<Draft::OpIndex>(draft.num_ops()); i-- > 0;) {
    if (draft.is_gone(i) || draft.op(i).outputs.size() != 1) continue;
    for (std::size_t r = 0; r < kRules.size(); ++r) {
      if (function_of(draft.op(i)) != kTerms[r].name) continue;
      const auto found = match(draft, kTerms[r], draft.op(i).outputs.front());
      if (!found) continue;
      std::optional<Op> op = made(draft, kRules[r], *found);
      if (!op) continue;
      op->name = draft.op(i).name;
      op->outputs = draft.op(i).outputs;
      count_rewrite(rewrites, kRules[r].name, static_cast<int>(found->ops.size()));
      draft.replace(found->ops, {std::move(*op)});
      break;
    }
  }
  draft.settle();
}

void restore_broadcasts(Draft& draft, std::vector<Rewrite>& rewrites) {
  for (Draft::OpIndex i = 0; i < draft.num_ops(); ++i) {
    const Op& op = draft.op(i);
    if (op.kind != OpKind::Gather || function_of(op) != "expand" || op.inputs.size() != 1) continue;
    const TensorId repeated = op.outputs.front(), once = op.inputs.front();
    if (draft.is_output(repeated) || draft.readers(repeated).empty() ||
        !broadcasts(draft.shape(once), draft.shape(repeated))) {
      continue;
    }
    const auto readers = draft.readers(repeated);
    const bool by_themselves =
        std::all_of(readers.begin(), readers.end(), [&](Draft::OpIndex reader) {
          const Op& r = draft.op(reader);
          return r.kind == OpKind::Binary &&
                 std::any_of(r.inputs.begin(), r.inputs.end(), [&](TensorId other) {
                   return other != repeated && draft.shape(other) == draft.shape(r.outputs.front());
                 });
        });
    if (!by_themselves) continue;
    count_rewrite(rewrites, "broadcast", 1);
    draft.reroute(repeated, once);
    const Draft::OpIndex gone[] = {i};
    draft.replace(gone, {});
  }
  draft.settle();
}

}  // namespace tracecast::canonical
