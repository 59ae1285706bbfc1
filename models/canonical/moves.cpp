// What PyTorch makes of moves: transposes, slices, splits and most reshapes rename elements; a
// kernel that wants them side by side copies them first.
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "models/canonical/stages.hpp"
#include "models/canonical/strides.hpp"

namespace tracecast::canonical {
namespace {

using OpIndex = Draft::OpIndex;

/// A permutation as notes of Transpose hold it: "0,2,1".
std::vector<std::size_t> permutation_of(const Op& op) {
  std::vector<std::size_t> permutation;
  const char* at = op.note.data();
  const char* const end = at + op.note.size();
  while (at < end) {
    std::size_t axis = 0;
    const auto read = std::from_chars(at, end, axis);
    if (read.ec != std::errc()) return {};
    permutation.push_back(axis);
    at = read.ptr + 1;
  }
  return permutation;
}

class Mover {
 public:
  Mover(Draft& draft, bool images_last) : draft_(draft), images_last_(images_last) {
    const std::size_t num_ops = draft.num_ops();
    for (std::size_t i = 0; i < num_ops; ++i) {
      for (const TensorId id : draft.op(static_cast<OpIndex>(i)).inputs) note_source(id);
    }
  }

  void run() {
    for (OpIndex i = 0; i < draft_.num_ops(); ++i) visit(i);
    draft_.settle();
  }

  int num_views = 0, num_copies = 0;

 private:
  /// Inputs lie as the job hands them over, weights as they were made.
  void note_source(TensorId id) {
    if (draft_.producer(id)) return;
    const Shape& shape = draft_.shape(id);
    const bool is_image = draft_.tensor(id).role == TensorRole::Input && shape.size() == 4;
    set(id, is_image && images_last_ ? channels_last(shape) : contiguous(shape));
  }
  void set(TensorId id, Strides strides) {
    if (strides_.size() <= id.index) strides_.resize(id.index + 1);
    strides_[id.index] = std::move(strides);
  }
  [[nodiscard]] const Strides& strides(TensorId id) const { return strides_[id.index]; }
  [[nodiscard]] const Shape& shape(TensorId id) const { return draft_.shape(id); }
  [[nodiscard]] bool is_made(TensorId id) const {
    return draft_.tensor(id).role == TensorRole::Activation ||
           draft_.tensor(id).role == TensorRole::Input;
  }

  void set_contiguous(const Op& op) {
    for (const TensorId id : op.outputs) set(id, contiguous(shape(id)));
  }

  void visit(OpIndex i) {
    Op& op = draft_.op(i);
    if (op.inputs.empty() || op.outputs.empty()) return set_contiguous(op);
    const TensorId x = op.inputs.front(), y = op.outputs.front();
    switch (op.kind) {
      case OpKind::Transpose:
        return transpose(op);
      case OpKind::Reshape:
        return reshape(i);
      case OpKind::Slice:
      case OpKind::Split:
        return take(op);
      case OpKind::Gather:
        return gather(i);
      case OpKind::Activation:
      case OpKind::Dropout:
      case OpKind::BatchNorm:
        set_contiguous(op);
        return set(y, dense_like(shape(y), of_rank(x, shape(y).size())));
      case OpKind::Binary:
        return binary(op);
      case OpKind::Reduce:
        if (shape(x).size() != shape(y).size()) return set_contiguous(op);
        return set(y, dense_like(shape(y), strides(x)));
      case OpKind::LayerNorm:
      case OpKind::GroupNorm:
      case OpKind::InstanceNorm:
      case OpKind::Softmax:
      case OpKind::Lrn:
      case OpKind::Recurrent:
      case OpKind::Scan:
        if (!is_contiguous(shape(x), strides(x))) copy(i, 0, contiguous(shape(x)));
        return set_contiguous(draft_.op(i));
      case OpKind::Linear:
        if (!as_matrix(x)) copy(i, 0, contiguous(shape(x)));
        return set_contiguous(draft_.op(i));
      case OpKind::MatMul:
        for (const std::size_t operand : {std::size_t{0}, std::size_t{1}}) {
          const TensorId id = draft_.op(i).inputs[operand];
          if (!as_matrices(id)) copy(i, operand, contiguous(shape(id)));
        }
        return set_contiguous(draft_.op(i));
      case OpKind::Attention:
        for (std::size_t operand = 0; operand < std::min<std::size_t>(3, op.inputs.size());
             ++operand) {
          const TensorId id = draft_.op(i).inputs[operand];
          if (shape(id).back() > 1 && strides(id).back() != 1) {
            copy(i, operand, contiguous(shape(id)));
          }
        }
        return set_contiguous(draft_.op(i));
      case OpKind::Conv:
      case OpKind::ConvTranspose:
      case OpKind::MaxPool:
      case OpKind::AvgPool:
        return image(i);
      case OpKind::Resize:
      case OpKind::Pad:
        set_contiguous(op);
        if (is_channels_last(shape(x), strides(x))) set(y, channels_last(shape(y)));
        return;
      case OpKind::Concat:
        return concat(op);
      default:
        return set_contiguous(op);
    }
  }

  /// An operand's strides where it has the result's rank, else those of a contiguous tensor.
  [[nodiscard]] Strides of_rank(TensorId id, std::size_t rank) const {
    return shape(id).size() == rank ? strides(id) : contiguous(shape(id));
  }

  void view_as(Op& op, Strides as) {
    op.kind = OpKind::Reshape;
    op.attributes = NoAttributes{};
    op.note.clear();
    set(op.outputs.front(), std::move(as));
  }

  void transpose(Op& op) {
    const TensorId x = op.inputs.front();
    const std::vector<std::size_t> permutation = permutation_of(op);
    if (permutation.size() != shape(x).size()) return set_contiguous(op);
    Strides as(permutation.size());
    for (std::size_t d = 0; d < permutation.size(); ++d) as[d] = strides(x)[permutation[d]];
    ++num_views;
    view_as(op, std::move(as));
  }

  void reshape(OpIndex i) {
    const TensorId x = draft_.op(i).inputs.front(), y = draft_.op(i).outputs.front();
    auto as = view(shape(x), strides(x), shape(y));
    if (!as && element_count(shape(x)) == element_count(shape(y))) {
      copy(i, 0, contiguous(shape(x)));
      as = contiguous(shape(y));
    }
    set(y, as ? std::move(*as) : contiguous(shape(y)));
  }

  /// Parts of a tensor lie in it. What takes all of it (a flip, a roll) is a copy.
  void take(Op& op) {
    const TensorId x = op.inputs.front();
    const bool is_part = std::any_of(op.outputs.begin(), op.outputs.end(),
                                     [&](TensorId y) { return shape(y) != shape(x); });
    if (!is_part || shape(op.outputs.front()).size() != shape(x).size()) return set_contiguous(op);
    for (const TensorId y : op.outputs) set(y, strides(x));
    op.note = kViewNote;
    ++num_views;
  }

  /// One row by its number is a view, as is what a dimension of one element is repeated to.
  void gather(OpIndex i) {
    Op& op = draft_.op(i);
    const TensorId x = op.inputs.front(), y = op.outputs.front();
    const bool is_selected = op.inputs.size() == 2 && draft_.tensor(op.inputs[1]).is_integer &&
                             shape(op.inputs[1]).empty() && is_made(x) &&
                             shape(y).size() + 1 == shape(x).size();
    if (!is_selected) return set_contiguous(op);
    std::size_t axis = 0;
    while (axis < shape(y).size() && shape(y)[axis] == shape(x)[axis]) ++axis;
    Shape part = shape(x);
    part[axis] = 1;
    Strides as = strides(x);
    const TensorId row = draft_.add_tensor({.name = op.name + ".row", .shape = std::move(part)});
    set(row, as);
    as.erase(as.begin() + static_cast<std::ptrdiff_t>(axis));
    draft_.insert(i, {{.name = op.name + ".row",
                       .kind = OpKind::Slice,
                       .inputs = {x},
                       .outputs = {row},
                       .note = std::string(kViewNote)}});
    op.inputs = {row};
    view_as(op, std::move(as));
    ++num_views;
  }

  void binary(Op& op) {
    const TensorId y = op.outputs.front();
    set_contiguous(op);
    for (const TensorId id : op.inputs) {
      if (shape(id) != shape(y) || !is_made(id)) continue;
      return set(y, dense_like(shape(y), strides(id)));
    }
  }

  void image(OpIndex i) {
    const TensorId x = draft_.op(i).inputs.front(), y = draft_.op(i).outputs.front();
    if (shape(x).size() != 4 || shape(y).size() != 4) {
      if (!is_contiguous(shape(x), strides(x))) copy(i, 0, contiguous(shape(x)));
      return set_contiguous(draft_.op(i));
    }
    const bool convolves =
        draft_.op(i).kind == OpKind::Conv || draft_.op(i).kind == OpKind::ConvTranspose;
    const bool lies_last = is_channels_last(shape(x), strides(x));
    const bool last = lies_last || (convolves && images_last_);
    const Strides wanted = last ? channels_last(shape(x)) : contiguous(shape(x));
    const bool is_mean = draft_.op(i).kind == OpKind::AvgPool && shape(y)[2] * shape(y)[3] == 1;
    const bool is_so =
        last ? lies_last && is_dense(shape(x), strides(x)) : is_contiguous(shape(x), strides(x));
    if (!is_so && !is_mean && !is_one_pixel(x)) copy(i, 0, wanted);
    Op& op = draft_.op(i);
    if (auto* conv = std::get_if<ConvAttributes>(&op.attributes)) {
      if (op.kind == OpKind::Conv && last && !images_last_) conv->channels_last = true;
    }
    set_contiguous(op);
    if (last) set(y, channels_last(shape(y)));
  }
  /// Either order is the same then.
  [[nodiscard]] bool is_one_pixel(TensorId x) const {
    return shape(x)[2] * shape(x)[3] == 1 && is_dense(shape(x), strides(x));
  }

  void concat(Op& op) {
    set_contiguous(op);
    const bool all_last = std::all_of(op.inputs.begin(), op.inputs.end(), [&](TensorId id) {
      return is_channels_last(shape(id), strides(id));
    });
    if (all_last) set(op.outputs.front(), channels_last(shape(op.outputs.front())));
  }

  /// Rows of the last dimension as one matrix, either way round.
  [[nodiscard]] bool as_matrix(TensorId id) const {
    const Shape& s = shape(id);
    if (s.size() < 2) return true;
    std::int64_t rows = 1;
    for (std::size_t d = 0; d + 1 < s.size(); ++d) rows *= s[d];
    const auto as = view(s, strides(id), {rows, s.back()});
    return as && is_matrix({rows, s.back()}, *as);
  }
  /// One matrix after the other, all with the same step.
  [[nodiscard]] bool as_matrices(TensorId id) const {
    const Shape& s = shape(id);
    if (s.size() < 3) return true;
    std::int64_t count = 1;
    for (std::size_t d = 0; d + 2 < s.size(); ++d) count *= s[d];
    const Shape matrices = {count, s[s.size() - 2], s.back()};
    const auto as = view(s, strides(id), matrices);
    return as && is_matrix({matrices[1], matrices[2]}, {(*as)[1], (*as)[2]});
  }
  /// BLAS takes a matrix whose rows or columns lie in one piece each.
  static bool is_matrix(const Shape& s, const Strides& strides) {
    const auto fits = [&](std::size_t inner, std::size_t outer) {
      return (strides[inner] == 1 || s[inner] == 1) &&
             (s[outer] == 1 || strides[outer] >= std::max<std::int64_t>(1, s[inner]));
    };
    return fits(1, 0) || fits(0, 1);
  }

  /// Lays an operand side by side in front of the op that reads it.
  void copy(OpIndex i, std::size_t operand, Strides wanted) {
    const TensorId x = draft_.op(i).inputs[operand];
    std::string name = draft_.op(i).name + ".contiguous";
    if (operand > 0) name += std::to_string(operand);
    Tensor made = draft_.tensor(x);
    made.name = name;
    made.role = TensorRole::Activation;
    const TensorId y = draft_.add_tensor(std::move(made));
    // Rows that stay whole are copied as they are.
    const bool same_rows = innermost(shape(x), strides(x)) == innermost(shape(x), wanted);
    draft_.insert(i, {{.name = std::move(name),
                       .kind = same_rows ? OpKind::Slice : OpKind::Transpose,
                       .inputs = {x},
                       .outputs = {y}}});
    set(y, std::move(wanted));
    draft_.op(i).inputs[operand] = y;
    ++num_copies;
  }
  static std::size_t innermost(const Shape& s, const Strides& strides) {
    std::size_t found = s.size();
    for (std::size_t d = 0; d < s.size(); ++d) {
      if (s[d] > 1 && (found == s.size() || strides[d] <= strides[found])) found = d;
    }
    return found;
  }

  Draft& draft_;
  bool images_last_;
  std::vector<Strides> strides_{};
};

}  // namespace

void moves_as_views(Draft& draft, bool channels_last, std::vector<Rewrite>& rewrites) {
  Mover mover(draft, channels_last);
  mover.run();
  for (int i = 0; i < mover.num_views; ++i) count_rewrite(rewrites, "view", 1);
  for (int i = 0; i < mover.num_copies; ++i) count_rewrite(rewrites, "copy", 0);
}

}  // namespace tracecast::canonical
