// Parts of a tensor that exporters take out one by one: chunk, split, roll.
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <utility>

#include "models/canonical/stages.hpp"

namespace tracecast {

std::string part_note(std::size_t axis, std::int64_t start) {
  return "part " + std::to_string(axis) + ' ' + std::to_string(start);
}

namespace canonical {
namespace {

using OpIndex = Draft::OpIndex;

struct Part {
  OpIndex op = 0;
  std::size_t axis = 0;
  std::int64_t start = 0, size = 0;
};

/// What part_note says.
std::optional<Part> part_of(const Draft& draft, OpIndex i) {
  constexpr std::string_view kOpening = "part ";
  const Op& op = draft.op(i);
  if (draft.is_gone(i) || op.kind != OpKind::Slice || !op.note.starts_with(kOpening))
    return std::nullopt;
  Part part{.op = i};
  const char* const end = op.note.data() + op.note.size();
  const auto axis = std::from_chars(op.note.data() + kOpening.size(), end, part.axis);
  if (axis.ec != std::errc() || axis.ptr == end) return std::nullopt;
  if (std::from_chars(axis.ptr + 1, end, part.start).ec != std::errc()) return std::nullopt;
  const Shape& shape = draft.shape(op.outputs.front());
  if (part.axis >= shape.size()) return std::nullopt;
  part.size = shape[part.axis];
  return part;
}

/// The parts of a tensor along one dimension, in order; empty where they are not all of it, or
/// overlap.
std::vector<Part> parts_of(const Draft& draft, TensorId x, std::size_t axis) {
  std::vector<Part> parts;
  for (const OpIndex reader : draft.readers(x)) {
    const std::optional<Part> part = part_of(draft, reader);
    if (part && part->axis == axis) parts.push_back(*part);
  }
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.start < b.start; });
  std::int64_t next = 0;
  for (const Part& part : parts) {
    if (part.start != next || part.size == 0) return {};
    next += part.size;
  }
  if (parts.size() < 2 || next != draft.shape(x)[axis]) return {};
  return parts;
}

/// The one op that puts all parts together again along the same dimension.
std::optional<OpIndex> joined_by(const Draft& draft, const std::vector<Part>& parts, TensorId x) {
  std::optional<OpIndex> joint;
  for (const Part& part : parts) {
    const TensorId id = draft.op(part.op).outputs.front();
    const auto readers = draft.readers(id);
    if (readers.size() != 1 || draft.is_output(id) || (joint && *joint != readers[0]))
      return std::nullopt;
    joint = readers[0];
  }
  const Op& op = draft.op(*joint);
  const bool is_whole = op.kind == OpKind::Concat && op.inputs.size() == parts.size() &&
                        draft.shape(op.outputs.front()) == draft.shape(x);
  return is_whole ? joint : std::nullopt;
}

}  // namespace

void restore_parts(Draft& draft, std::vector<Rewrite>& rewrites) {
  const std::size_t num_ops = draft.num_ops();
  for (OpIndex i = 0; i < num_ops; ++i) {
    const std::optional<Part> first = part_of(draft, i);
    if (!first) continue;
    const TensorId x = draft.op(i).inputs.front();
    const std::vector<Part> parts = parts_of(draft, x, first->axis);
    if (parts.empty()) continue;
    std::vector<OpIndex> gone;
    for (const Part& part : parts) gone.push_back(part.op);
    if (const auto joint = joined_by(draft, parts, x)) {
      gone.push_back(*joint);
      const Op& op = draft.op(*joint);
      count_rewrite(rewrites, "roll", static_cast<int>(gone.size()));
      // A Slice would count as a view: of one part a Concat is a copy.
      draft.replace(
          gone, {{.name = op.name, .kind = OpKind::Concat, .inputs = {x}, .outputs = op.outputs}});
      continue;
    }
    Op split{.name = draft.op(i).name, .kind = OpKind::Split, .inputs = {x}};
    for (const Part& part : parts) split.outputs.push_back(draft.op(part.op).outputs.front());
    count_rewrite(rewrites, "split", static_cast<int>(gone.size()));
    draft.replace(gone, {});
    draft.insert(i, {std::move(split)});
  }
  draft.settle();
}

}  // namespace canonical
}  // namespace tracecast
