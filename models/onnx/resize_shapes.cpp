#include "models/onnx/resize_shapes.hpp"

#include <cstddef>
#include <vector>

#include "models/ops.hpp"

namespace tracecast::onnx {
namespace {

/// Dimensions [in_first, in_last) of the input and [out_first, out_last) of the output with equal
/// GEMMs.
struct Group {
  std::size_t in_first, in_last, out_first, out_last;
};

std::vector<Group> match_groups(const Shape& in, const Shape& out) {
  std::vector<Group> groups;
  std::size_t i = 0, j = 0;
  while (i < in.size() && j < out.size()) {
    Group group{i, i + 1, j, j + 1};
    std::int64_t left = in[i], right = out[j];
    while (left != right) {
      if (left < right) {
        if (group.in_last == in.size()) return {};
        left *= in[group.in_last++];
      } else {
        if (group.out_last == out.size()) return {};
        right *= out[group.out_last++];
      }
    }
    // A 1 after them is one of theirs (samples behind the steps of a sequence), unless the input
    // has it too.
    if (group.in_last == in.size() || in[group.in_last] != 1) {
      while (group.out_last < out.size() && out[group.out_last] == 1) ++group.out_last;
    }
    i = group.in_last;
    j = group.out_last;
    groups.push_back(group);
  }
  // What is left over on either side are ones.
  if (!groups.empty()) {
    groups.back().in_last = in.size();
    groups.back().out_last = out.size();
  }
  return groups;
}

std::int64_t gemm(const Shape& shape, std::size_t first, std::size_t last) {
  std::int64_t count = 1;
  for (std::size_t i = first; i < last; ++i) count *= shape[i];
  return count;
}

/// Changes one dimension of out[first, last) so that the GEMM becomes `wanted`: `preferred` if it
/// can, else the first that can.
bool grow_one(Shape& out, std::size_t first, std::size_t last, std::int64_t wanted,
              std::optional<std::size_t> preferred) {
  const std::int64_t now = gemm(out, first, last);
  if (now == wanted) return true;
  const auto grow = [&](std::size_t k) {
    const std::int64_t others = now / out[k];
    if (wanted % others != 0) return false;
    out[k] = wanted / others;
    return true;
  };
  if (preferred && *preferred >= first && *preferred < last && grow(*preferred)) return true;
  for (std::size_t k = first; k < last; ++k) {
    if (grow(k)) return true;
  }
  return false;
}

/// The dimension of a group's output that is the file's batch.
std::optional<std::size_t> find_samples(const Shape& own_out, const Group& group,
                                        std::int64_t own_batch) {
  for (std::size_t k = group.out_first; k < group.out_last; ++k) {
    if (own_out[k] == own_batch) return k;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Shape> follow_reshape(const Shape& own_in, const Shape& own_out, const Shape& in,
                                    std::int64_t own_batch, std::int64_t batch,
                                    std::optional<std::size_t> open) {
  if (own_in.size() != in.size() || element_count(own_in) != element_count(own_out) ||
      element_count(own_in) == 0 || element_count(in) == 0) {
    return std::nullopt;
  }
  Shape out = own_out;
  const std::vector<Group> groups = match_groups(own_in, own_out);
  if (groups.empty()) return std::nullopt;
  for (const Group& group : groups) {
    const std::int64_t wanted = gemm(in, group.in_first, group.in_last);
    const std::int64_t own = gemm(own_in, group.in_first, group.in_last);
    if (wanted == own) continue;
    std::size_t first = group.out_first;
    std::int64_t rest = wanted;
    const bool grows_as_batch =
        wanted % batch == 0 && own % own_batch == 0 && wanted / batch == own / own_batch;
    if (first == 0 && group.out_last > 1 && own_out[0] == own_batch && wanted % batch == 0) {
      out[0] = batch;
      rest = wanted / batch;
      first = 1;
    }
    // Heads of all samples merged into features at the end: the samples go to the rows before
    // (steps x samples).
    const bool merges_features = first > 0 && group.out_last == out.size() &&
                                 group.out_last - first == 1 && group.in_last - group.in_first > 1;
    if (merges_features && grows_as_batch && own_out[first] != own_batch && wanted % own == 0 &&
        first == group.out_first) {
      out[first - 1] *= wanted / own;
      continue;
    }
    const bool is_open = open && *open >= first && *open < group.out_last;
    const std::optional<std::size_t> preferred =
        is_open || !grows_as_batch ? open : find_samples(own_out, group, own_batch);
    if (!grow_one(out, first, group.out_last, rest, preferred)) return std::nullopt;
  }
  return out;
}

Shape follow_input(const Shape& own_out, const Shape& own_in, const Shape& in,
                   std::int64_t own_batch, std::int64_t batch) {
  Shape out = own_out;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const bool has_twin = own_in.size() == in.size() && i < in.size();
    if (has_twin && own_in[i] == own_out[i]) {
      out[i] = in[i];
    } else if (i == 0 && own_out[0] == own_batch) {
      out[0] = batch;
    }
  }
  return out;
}

}  // namespace tracecast::onnx
