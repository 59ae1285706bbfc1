#include "models/onnx/resize_shapes.hpp"

#include <cstddef>
#include <vector>

#include "models/ops.hpp"

namespace tracecast::onnx {
namespace {

/// Dimensions [in_first, in_last) of the input and [out_first, out_last) of the output with equal products.
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

std::int64_t product(const Shape& shape, std::size_t first, std::size_t last) {
  std::int64_t count = 1;
  for (std::size_t i = first; i < last; ++i) count *= shape[i];
  return count;
}

/// Changes one dimension of out[first, last) so that the product becomes `wanted`; the first that can.
bool grow_one(Shape& out, std::size_t first, std::size_t last, std::int64_t wanted) {
  const std::int64_t now = product(out, first, last);
  if (now == wanted) return true;
  for (std::size_t k = first; k < last; ++k) {
    const std::int64_t others = now / out[k];
    if (wanted % others == 0) {
      out[k] = wanted / others;
      return true;
    }
  }
  return false;
}

}  // namespace

std::optional<Shape> follow_reshape(const Shape& own_in, const Shape& own_out, const Shape& in,
                                    std::int64_t own_batch, std::int64_t batch) {
  if (own_in.size() != in.size() || element_count(own_in) != element_count(own_out) ||
      element_count(own_in) == 0 || element_count(in) == 0) {
    return std::nullopt;
  }
  Shape out = own_out;
  const std::vector<Group> groups = match_groups(own_in, own_out);
  if (groups.empty()) return std::nullopt;
  for (const Group& group : groups) {
    const std::int64_t wanted = product(in, group.in_first, group.in_last);
    if (wanted == product(own_in, group.in_first, group.in_last)) continue;
    std::size_t first = group.out_first;
    std::int64_t rest = wanted;
    if (first == 0 && group.out_last > 1 && own_out[0] == own_batch && wanted % batch == 0) {
      out[0] = batch;
      rest = wanted / batch;
      first = 1;
    }
    if (!grow_one(out, first, group.out_last, rest)) return std::nullopt;
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
