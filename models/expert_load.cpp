#include "models/expert_load.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "sim/base/random.hpp"

namespace tracecast {
namespace {

constexpr int kOrders = 4;

std::vector<double> round_robin(const Routing& r, std::int64_t own) {
  const std::int64_t stride = (r.experts + r.per_token - 1) / r.per_token;
  std::vector<double> load(static_cast<std::size_t>(own), 0.0);
  if (r.tokens >= stride) {
    const double each =
        static_cast<double>(r.tokens * r.per_token) / static_cast<double>(r.experts);
    const auto more = static_cast<std::size_t>(
        std::llround((each - std::floor(each)) * static_cast<double>(own)));
    for (std::size_t i = 0; i < load.size(); ++i) load[i] = std::floor(each) + (i < more ? 1 : 0);
    return load;
  }
  for (std::int64_t t = 0; t < r.tokens; ++t) {
    for (std::int64_t i = 0; i < r.per_token; ++i) {
      const std::int64_t expert = (t * stride / r.tokens + i * stride) % r.experts;
      if (expert < own) load[static_cast<std::size_t>(expert)] += 1;
    }
  }
  return load;
}

/// Tokens of every expert, in the order of `quantiles`.
std::vector<double> drawn(const Routing& r, const std::vector<double>& quantiles) {
  const double pairs = static_cast<double>(r.tokens * r.per_token);
  const bool many = r.tokens * r.per_token > r.experts;
  const double low = many ? 1 : 0.01;
  const double high = many ? std::max(1.0 + 1e-9, 0.8 * static_cast<double>(r.tokens)) : 2;
  const double a = 1 - r.exponent;
  const double at_low = std::pow(low, a), at_high = std::pow(high, a);
  std::vector<double> load(quantiles.size());
  for (std::size_t i = 0; i < load.size(); ++i) {
    load[i] = std::pow((at_high - at_low) * quantiles[i] + at_low, 1 / a);
  }
  const double sum = std::accumulate(load.begin(), load.end(), 0.0);
  double left = pairs;
  for (double& x : load) {
    x = std::round(x / sum * pairs);
    left -= x;
  }
  std::vector<std::size_t> order(load.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t x, std::size_t y) { return load[x] > load[y]; });
  for (std::size_t i = 0; std::abs(left) >= 1; ++i) {
    double& x = load[order[i % order.size()]];
    const double step = left > 0 ? 1 : -1;
    if (x + step >= 0) {
      x += step;
    }
    left -= step;
  }
  for (double& x : load) x = std::min(x, static_cast<double>(r.tokens));
  return load;
}

std::vector<double> power_law(const Routing& r, std::int64_t own) {
  std::vector<double> quantiles(static_cast<std::size_t>(r.experts));
  for (std::size_t i = 0; i < quantiles.size(); ++i) {
    quantiles[i] = (static_cast<double>(i) + 0.5) / static_cast<double>(quantiles.size());
  }
  Random random(7);
  const auto size = static_cast<std::size_t>(own);
  std::vector<double> mean(size, 0.0);
  for (int n = 0; n < kOrders; ++n) {
    for (std::size_t i = quantiles.size() - 1; i > 0; --i)
      std::swap(quantiles[i], quantiles[random.below(i + 1)]);
    const std::vector<double> load = drawn(r, quantiles);
    std::vector<double> fullest;
    double most = -1;
    for (std::size_t rank = 0; (rank + 1) * size <= load.size(); ++rank) {
      const auto first = load.begin() + static_cast<std::ptrdiff_t>(rank * size);
      const double sum = std::accumulate(first, first + own, 0.0);
      if (sum <= most) continue;
      most = sum;
      fullest.assign(first, first + own);
    }
    std::sort(fullest.rbegin(), fullest.rend());
    for (std::size_t i = 0; i < size; ++i) mean[i] += fullest[i] / kOrders;
  }
  return mean;
}

}  // namespace

ExpertLoad expert_load(const Routing& routing) {
  const std::int64_t own = std::max<std::int64_t>(1, routing.experts / routing.ranks);
  const std::vector<double> loads =
      routing.exponent > 0 ? power_law(routing, own) : round_robin(routing, own);
  ExpertLoad all{.experts = 0, .rows = 0};
  for (const double load : loads) {
    if (!(load > 0)) continue;
    all.experts += 1;
    all.rows += load;
    for (std::size_t i = 0; i < kExpertTileRows.size(); ++i) {
      all.tiles[i] += std::ceil(load / kExpertTileRows[i]);
    }
  }
  if (all.experts == 0) {  // the rank computes at least one tile
    all.experts = all.rows = 1;
    all.tiles.fill(1);
  }
  const double pairs = static_cast<double>(routing.tokens * routing.per_token);
  all.others = routing.ranks > 1 ? std::max(0.0, pairs - all.rows) : 0;
  return all;
}

}  // namespace tracecast
