// Attention that a module computes step by step where its framework has no kernel for it, and as
// one kernel where it has one.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "models/canonical/formula.hpp"
#include "models/canonical/stages.hpp"

namespace tracecast::canonical {
namespace {

using OpIndex = Draft::OpIndex;

/// Heads that are wider no fused kernel takes (PyTorch, aten/src/ATen/native/transformers/cuda/
/// sdp_utils.cpp).
constexpr std::int64_t kWidestHead = 256;
/// Ops between queries and a mask that are followed to see whether it depends on them.
constexpr std::size_t kMostAncestors = 64;

bool is_scale(const Draft& draft, const Op& op) {
  const std::string_view name = function_of(op);
  return (op.kind == OpKind::Activation || op.kind == OpKind::Binary) &&
         (name == "mul" || name == "div") && draft.operands(op).size() == 1;
}

/// A number in the places that a mask says.
bool is_masked_fill(const Draft& draft, const Op& op) {
  return op.kind == OpKind::Binary && function_of(op) == "where" && draft.operands(op).size() == 2;
}

/// The whole tensor, row by row: what a kernel of another kind does not need.
bool is_copy(const Draft& draft, const Op& op) {
  return op.kind == OpKind::Slice && op.inputs.size() == 1 &&
         draft.shape(op.inputs.front()) == draft.shape(op.outputs.front());
}

std::int64_t leading(const Shape& shape, std::size_t inner) {
  std::int64_t count = 1;
  for (std::size_t d = 0; d + inner < shape.size(); ++d) count *= shape[d];
  return count;
}

/// The steps of one attention, found from its softmax.
class Steps {
 public:
  Steps(const Draft& draft, OpIndex softmax) : draft_(draft), softmax_(softmax) {}

  bool find() { return find_context() && find_scores() && fits(); }

  std::vector<OpIndex> ops{};
  TensorId query{}, key{}, value{}, context{};
  bool key_is_transposed = true;  ///< tokens are its last dimension
  OpIndex transposed_by = 0;      ///< where key_is_transposed is false: by this op
  std::vector<TensorId> masks{};  ///< added to the scores, in the order of the sums
  Shape scores{};

 private:
  [[nodiscard]] std::optional<OpIndex> only_reader(TensorId id) const {
    const auto readers = draft_.readers(id);
    if (readers.size() != 1 || draft_.is_output(id) || draft_.is_gone(readers[0])) return {};
    return readers[0];
  }
  /// The producer of a tensor that nobody else reads.
  [[nodiscard]] std::optional<OpIndex> own_producer(TensorId id) const {
    const auto producer = draft_.producer(id);
    if (!producer || draft_.is_gone(*producer) || !only_reader(id)) return std::nullopt;
    return producer;
  }

  bool find_context() {
    const Op& softmax = draft_.op(softmax_);
    const Shape& shape = draft_.shape(softmax.inputs.front());
    const auto* norm = std::get_if<NormAttributes>(&softmax.attributes);
    if (shape.size() < 3 || norm == nullptr || norm->cols != shape.back()) return false;
    ops.push_back(softmax_);
    TensorId probabilities = softmax.outputs.front();
    auto reader = only_reader(probabilities);
    while (reader && draft_.op(*reader).kind == OpKind::Dropout) {
      ops.push_back(*reader);
      probabilities = draft_.op(*reader).outputs.front();
      reader = only_reader(probabilities);
    }
    if (!reader) return false;
    const Op& op = draft_.op(*reader);
    if (op.kind != OpKind::MatMul || op.inputs[0] != probabilities) return false;
    const auto& gemm = std::get<MatMulAttributes>(op.attributes);
    if (gemm.transpose_a || gemm.transpose_b) return false;
    context = op.outputs.front();
    ops.push_back(*reader);
    value = uncopied(op.inputs[1]);
    return draft_.shape(value).size() == shape.size();
  }

  /// Through scales, sums with masks and views to the GEMM of queries and keys.
  bool find_scores() {
    TensorId x = draft_.op(softmax_).inputs.front();
    scores = draft_.shape(x);
    while (true) {
      const auto index = own_producer(x);
      if (!index) return false;
      const Op& op = draft_.op(*index);
      ops.push_back(*index);
      if (op.kind == OpKind::MatMul) return find_operands(op);
      if (op.kind == OpKind::Reshape || is_scale(draft_, op) || is_copy(draft_, op)) {
        x = draft_.operands(op).front();
      } else if (is_sum(op) || is_masked_fill(draft_, op)) {
        const std::vector<TensorId> operands = draft_.operands(op);
        if (operands.size() != 2) return false;
        const bool first = is_sum(op) && leads_to_scores(operands[0]);
        x = operands[first ? 0 : 1];
        masks.push_back(operands[first ? 1 : 0]);
        if (draft_.shape(x) != draft_.shape(op.outputs.front())) return false;
      } else {
        return false;
      }
    }
  }
  [[nodiscard]] static bool is_sum(const Op& op) {
    return op.kind == OpKind::Binary && function_of(op) == "add" && op.inputs.size() == 2;
  }
  [[nodiscard]] bool leads_to_scores(TensorId x) const {
    while (const auto index = own_producer(x)) {
      const Op& op = draft_.op(*index);
      if (op.kind == OpKind::MatMul) return true;
      const bool fills = is_masked_fill(draft_, op);
      const bool passes = op.kind == OpKind::Reshape || is_scale(draft_, op) ||
                          is_copy(draft_, op) || fills ||
                          (op.kind == OpKind::Binary && function_of(op) == "add");
      if (!passes) return false;
      x = draft_.operands(op)[fills ? 1 : 0];
    }
    return false;
  }

  bool find_operands(const Op& gemm) {
    if (draft_.shape(gemm.outputs.front()).size() != scores.size() &&
        leading(draft_.shape(gemm.outputs.front()), 2) != leading(scores, 2)) {
      return false;
    }
    const auto& attributes = std::get<MatMulAttributes>(gemm.attributes);
    if (attributes.transpose_a) return false;
    query = uncopied(unscaled(uncopied(gemm.inputs[0])));
    key = uncopied(unscaled(uncopied(gemm.inputs[1])));
    key_is_transposed = !attributes.transpose_b;
    return draft_.shape(query).size() == draft_.shape(key).size() &&
           draft_.shape(key).size() == draft_.shape(value).size();
  }
  /// What the scale of queries or keys is taken of: the kernel has it inside.
  TensorId unscaled(TensorId x) {
    const auto index = own_producer(x);
    if (!index || !is_scale(draft_, draft_.op(*index))) return x;
    ops.push_back(*index);
    return draft_.operands(draft_.op(*index)).front();
  }

  /// What was copied for the GEMM alone: kernels read heads as they lie.
  TensorId uncopied(TensorId x) {
    const auto index = own_producer(x);
    if (!index || !is_copy(draft_, draft_.op(*index))) return x;
    ops.push_back(*index);
    return draft_.op(*index).inputs.front();
  }

  [[nodiscard]] bool fits() const {
    const Shape& q = draft_.shape(query);
    if (q.size() < 3 || q.back() > kWidestHead || draft_.shape(value).back() > kWidestHead)
      return false;
    const Shape& k = draft_.shape(key);
    const std::int64_t width = key_is_transposed ? k[k.size() - 2] : k.back();
    if (width != q.back()) return false;
    if (leading(draft_.shape(value), 2) != leading(k, 2)) return false;
    if (leading(q, 2) % std::max<std::int64_t>(1, leading(k, 2)) != 0) return false;
    if (!is_closed(draft_, closed())) return false;
    return std::none_of(masks.begin(), masks.end(),
                        [&](TensorId mask) { return depends_on_query(mask); });
  }
  /// The same ops, the one first whose result others read.
  [[nodiscard]] std::vector<OpIndex> closed() const {
    std::vector<OpIndex> all = ops;
    const auto last = std::find_if(
        all.begin(), all.end(), [&](OpIndex i) { return draft_.op(i).outputs.front() == context; });
    std::iter_swap(all.begin(), last);
    return all;
  }
  /// A sum that the queries decide is no mask that code hands to a kernel.
  [[nodiscard]] bool depends_on_query(TensorId mask) const {
    std::vector<TensorId> open{mask};
    for (std::size_t seen = 0; seen < open.size() && seen < kMostAncestors; ++seen) {
      if (open[seen] == query) return true;
      if (const auto index = draft_.producer(open[seen])) {
        const std::vector<TensorId>& inputs = draft_.op(*index).inputs;
        open.insert(open.end(), inputs.begin(), inputs.end());
      }
    }
    return false;
  }

  const Draft& draft_;
  OpIndex softmax_;
};

std::string permutation_note(std::size_t rank, std::size_t a, std::size_t b) {
  std::string note;
  for (std::size_t d = 0; d < rank; ++d) {
    const std::size_t from = d == a ? b : d == b ? a : d;
    note += (d == 0 ? "" : ",") + std::to_string(from);
  }
  return note;
}

/// Heads that were copied side by side behind the steps: the kernel writes them so.
void drop_copy_of_heads(Draft& draft, TensorId context) {
  const auto only_reader = [&](TensorId id) -> std::optional<OpIndex> {
    const auto readers = draft.readers(id);
    if (readers.size() != 1 || draft.is_output(id)) return std::nullopt;
    return readers[0];
  };
  const auto view = only_reader(context);
  if (!view || draft.op(*view).kind != OpKind::Reshape) return;
  const auto copy = only_reader(draft.op(*view).outputs.front());
  if (!copy || !is_copy(draft, draft.op(*copy))) return;
  Shape side_by_side = draft.shape(context);
  const std::size_t rank = side_by_side.size();
  if (rank < 4) return;
  std::swap(side_by_side[rank - 3], side_by_side[rank - 2]);
  Op& op = draft.op(*copy);
  if (draft.shape(op.outputs.front()) != side_by_side) return;
  op.kind = OpKind::Reshape;
  op.attributes = NoAttributes{};
  op.note.clear();
}

/// One op and the views around it, in place of the steps. `turn`: Transpose, or Reshape where views
/// are ops of the host already.
void fuse(Draft& draft, OpIndex softmax, const Steps& steps, OpKind turn) {
  const std::string name = draft.op(softmax).name;
  std::vector<Op> ops;
  const auto swapped = [&](TensorId x, std::string_view what, std::size_t a, std::size_t b) {
    Shape shape = draft.shape(x);
    std::swap(shape[a], shape[b]);
    const std::size_t rank = shape.size();
    const std::string of = name + std::string(what);
    const TensorId y = draft.add_tensor({.name = of, .shape = std::move(shape)});
    ops.push_back({.name = of,
                   .kind = turn,
                   .inputs = {x},
                   .outputs = {y},
                   .note = turn == OpKind::Transpose ? permutation_note(rank, a, b) : ""});
    return y;
  };
  const Shape q = draft.shape(steps.query), v = draft.shape(steps.value);
  const std::size_t rank = q.size();
  TensorId key = steps.key;
  if (steps.key_is_transposed) key = swapped(key, ".keys", rank - 2, rank - 1);
  const Shape k = draft.shape(key);
  AttentionAttributes a{.queries = q[rank - 2],
                        .keys = k[rank - 2],
                        .width = q[rank - 1],
                        .value_width = v[rank - 1] == q[rank - 1] ? 0 : v[rank - 1]};
  a.heads = rank == 3 ? 1 : q[rank - 3];
  a.batch = leading(q, 2) / a.heads;
  const std::int64_t kv_heads = leading(k, 2) / std::max<std::int64_t>(1, a.batch);
  a.kv_heads = std::clamp<std::int64_t>(kv_heads, 1, a.heads);
  Op op{.name = name + ".attention",
        .kind = OpKind::Attention,
        .attributes = a,
        .inputs = {steps.query, key, steps.value}};
  if (steps.masks.size() == 1) {
    op.inputs.push_back(steps.masks.front());
  } else if (!steps.masks.empty()) {
    // A kernel takes one: their sum is as large as the scores.
    const TensorId sum = draft.add_tensor({.name = name + ".mask", .shape = steps.scores});
    ops.push_back({.name = name + ".mask",
                   .kind = OpKind::Binary,
                   .attributes = ElementwiseAttributes{.name = "add"},
                   .inputs = steps.masks,
                   .outputs = {sum}});
    op.inputs.push_back(sum);
  }
  // Heads lie side by side in what the kernel writes.
  Shape lies = draft.shape(steps.context);
  const Shape result = lies;
  const TensorId y = draft.add_tensor(
      {.name = name + ".context", .shape = {a.batch, a.queries, a.heads * a.width_of_values()}});
  op.outputs = {
      y, draft.add_tensor({.name = name + ".statistics", .shape = {a.batch, a.heads, a.queries}})};
  ops.push_back(std::move(op));
  if (rank == 3) {
    ops.push_back({.name = name + ".view",
                   .kind = OpKind::Reshape,
                   .inputs = {y},
                   .outputs = {steps.context}});
  } else {
    std::swap(lies[rank - 3], lies[rank - 2]);
    const TensorId heads = draft.add_tensor({.name = name + ".view", .shape = std::move(lies)});
    ops.push_back(
        {.name = name + ".view", .kind = OpKind::Reshape, .inputs = {y}, .outputs = {heads}});
    ops.push_back(
        {.name = name + ".heads",
         .kind = turn,
         .inputs = {heads},
         .outputs = {steps.context},
         .note = turn == OpKind::Transpose ? permutation_note(rank, rank - 3, rank - 2) : ""});
  }
  // Masks are made before the softmax, values perhaps behind it: the last op has all of them.
  draft.replace(steps.ops, std::move(ops));
}

}  // namespace

void restore_attention(Draft& draft, bool has_views, std::vector<Rewrite>& rewrites) {
  const std::size_t num_ops = draft.num_ops();
  for (OpIndex i = 0; i < num_ops; ++i) {
    if (draft.is_gone(i) || draft.op(i).kind != OpKind::Softmax) continue;
    Steps steps(draft, i);
    if (!steps.find()) continue;
    count_rewrite(rewrites, "attention", static_cast<int>(steps.ops.size()));
    if (has_views) drop_copy_of_heads(draft, steps.context);
    fuse(draft, i, steps, has_views ? OpKind::Reshape : OpKind::Transpose);
  }
  draft.settle();
}

}  // namespace tracecast::canonical
