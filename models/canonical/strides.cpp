#include "models/canonical/strides.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>

namespace tracecast::canonical {
namespace {

/// Dimensions from the outermost in memory to the innermost.
std::vector<std::size_t> order_of(const Shape& shape, const Strides& strides) {
  std::vector<std::size_t> order(shape.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return strides[a] > strides[b]; });
  return order;
}

Strides dense_in(const Shape& shape, const std::vector<std::size_t>& order) {
  Strides strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step *= std::max<std::int64_t>(1, shape[order[i]]);
  }
  return strides;
}

}  // namespace

Strides contiguous(const Shape& shape) {
  std::vector<std::size_t> order(shape.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return dense_in(shape, order);
}

Strides channels_last(const Shape& shape) { return dense_in(shape, {0, 2, 3, 1}); }

bool is_contiguous(const Shape& shape, const Strides& strides) {
  const Strides wanted = contiguous(shape);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1 && strides[d] != wanted[d]) return false;
  }
  return true;
}

bool is_channels_last(const Shape& shape, const Strides& strides) {
  if (shape.size() != 4 || strides[1] == 0) return false;
  std::int64_t least = 0;
  for (const std::size_t d : std::array<std::size_t, 4>{1, 3, 2, 0}) {
    if (shape[d] == 0 || strides[d] < least) return false;
    if (d == 0 && least == strides[1]) return false;
    least = strides[d] * std::max<std::int64_t>(1, shape[d]);
  }
  return true;
}

bool is_dense(const Shape& shape, const Strides& strides) {
  std::vector<std::size_t> order = order_of(shape, strides);
  std::erase_if(order, [&](std::size_t d) { return shape[d] == 1; });
  std::int64_t step = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    if (strides[order[i]] != step) return false;
    step *= shape[order[i]];
  }
  return true;
}

Strides dense_like(const Shape& shape, const Strides& strides) {
  return dense_in(shape, order_of(shape, strides));
}

std::optional<Strides> view(const Shape& shape, const Strides& strides, const Shape& as) {
  const std::int64_t count = element_count(shape);
  if (count != element_count(as)) return std::nullopt;
  if (count <= 1 || shape.empty()) return contiguous(as);
  Strides result(as.size());
  auto to = static_cast<std::ptrdiff_t>(as.size()) - 1;
  std::int64_t step = strides.back(), run = 1, taken = 1;
  for (std::size_t from = shape.size(); from-- > 0;) {
    run *= shape[from];
    const bool ends = from == 0 || (shape[from - 1] != 1 && strides[from - 1] != run * step);
    if (!ends) continue;
    while (to >= 0 && (taken < run || as[static_cast<std::size_t>(to)] == 1)) {
      result[static_cast<std::size_t>(to)] = taken * step;
      taken *= as[static_cast<std::size_t>(to)];
      --to;
    }
    if (taken != run) return std::nullopt;
    if (from > 0) {
      step = strides[from - 1];
      run = taken = 1;
    }
  }
  return to < 0 ? std::optional(std::move(result)) : std::nullopt;
}

}  // namespace tracecast::canonical
