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

/// Tokens of one rank's experts, and how many tokens have an expert there.
struct RankLoad {
  std::vector<double> of_expert;
  double tokens = 0;
};

RankLoad round_robin(const Routing& r, std::int64_t own) {
  const std::int64_t stride = (r.experts + r.per_token - 1) / r.per_token;
  RankLoad load{std::vector<double>(static_cast<std::size_t>(own), 0.0)};
  // Tokens repeat after as many as there are experts.
  const std::int64_t round = r.tokens >= stride ? std::min(r.tokens, r.experts) : r.tokens;
  const auto add = [&](std::int64_t first, std::int64_t last, double times) {
    for (std::int64_t t = first; t < last; ++t) {
      const std::int64_t begin = r.tokens >= stride ? t : t * stride / r.tokens;
      bool is_here = false;
      for (std::int64_t i = 0; i < r.per_token; ++i) {
        const std::int64_t expert = (begin + i * stride) % r.experts;
        if (expert >= own) continue;
        load.of_expert[static_cast<std::size_t>(expert)] += times;
        is_here = true;
      }
      if (is_here) load.tokens += times;
    }
  };
  add(0, round, static_cast<double>(r.tokens / round));
  add(0, r.tokens % round, 1);
  return load;
}

/// Adds `left` pairs, or takes as many away, one from each rank in turn: onto its emptiest expert,
/// off its fullest.
void distribute_over_ranks(std::vector<double>& load, const Routing& r, double left) {
  const auto own = static_cast<std::ptrdiff_t>(load.size()) / static_cast<std::ptrdiff_t>(r.ranks);
  const double most = static_cast<double>(r.tokens), step = left > 0 ? 1 : -1;
  for (bool has_moved = true; std::abs(left) >= 1 && has_moved;) {
    has_moved = false;
    for (auto first = load.begin(); load.end() - first >= own && std::abs(left) >= 1;
         first += own) {
      const auto at =
          step > 0 ? std::min_element(first, first + own) : std::max_element(first, first + own);
      if (step > 0 ? *at >= most : *at <= 0) continue;
      *at += step;
      left -= step;
      has_moved = true;
    }
  }
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
    x = std::min(std::round(x / sum * pairs), static_cast<double>(r.tokens));
    left -= x;
  }
  distribute_over_ranks(load, r, left);
  return load;
}

/// Tokens with an expert among those of one rank, `first` to `last` of all: experts from the
/// fullest on fill the tokens' first choices, then the second, ...
double tokens_of_rank(const std::vector<double>& load, std::int64_t tokens, std::size_t first,
                      std::size_t last) {
  std::vector<std::size_t> order(load.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t x, std::size_t y) { return load[x] > load[y]; });
  std::vector<bool> is_here(static_cast<std::size_t>(tokens));
  std::int64_t at = 0;
  for (const std::size_t expert : order) {
    const auto count = static_cast<std::int64_t>(load[expert]);
    if (expert >= first && expert < last) {
      for (std::int64_t i = at; i < at + count; ++i)
        is_here[static_cast<std::size_t>(i % tokens)] = true;
    }
    at += count;
  }
  return static_cast<double>(std::count(is_here.begin(), is_here.end(), true));
}

/// What a rank of those loads computes; at least one tile.
ExpertLoad load_of(const RankLoad& rank) {
  ExpertLoad load{.experts = 0, .rows = 0, .tokens = rank.tokens};
  for (const double rows : rank.of_expert) {
    if (!(rows > 0)) continue;
    load.experts += 1;
    load.rows += rows;
    for (std::size_t i = 0; i < kExpertTileRows.size(); ++i)
      load.tiles[i] += std::ceil(rows / kExpertTileRows[i]);
  }
  if (load.experts == 0) {
    load.experts = load.rows = load.tokens = 1;
    load.tiles.fill(1);
  }
  return load;
}

ExpertLoad power_law(const Routing& r, std::int64_t own) {
  std::vector<double> quantiles(static_cast<std::size_t>(r.experts));
  for (std::size_t i = 0; i < quantiles.size(); ++i) {
    quantiles[i] = (static_cast<double>(i) + 0.5) / static_cast<double>(quantiles.size());
  }
  Random random(7);
  const auto size = static_cast<std::size_t>(own);
  ExpertLoad mean{.experts = 0, .rows = 0, .tokens = 0};
  for (int n = 0; n < kOrders; ++n) {
    for (std::size_t i = quantiles.size() - 1; i > 0; --i)
      std::swap(quantiles[i], quantiles[random.below(i + 1)]);
    const std::vector<double> load = drawn(r, quantiles);
    std::size_t fullest = 0;
    double most = -1;
    for (std::size_t first = 0; first + size <= load.size(); first += size) {
      const auto begin = load.begin() + static_cast<std::ptrdiff_t>(first);
      const double sum = std::accumulate(begin, begin + own, 0.0);
      if (sum <= most) continue;
      most = sum;
      fullest = first;
    }
    const auto begin = load.begin() + static_cast<std::ptrdiff_t>(fullest);
    const ExpertLoad one = load_of({std::vector<double>(begin, begin + own),
                                    tokens_of_rank(load, r.tokens, fullest, fullest + size)});
    mean.experts += one.experts / kOrders;
    mean.rows += one.rows / kOrders;
    mean.tokens += one.tokens / kOrders;
    for (std::size_t i = 0; i < mean.tiles.size(); ++i) mean.tiles[i] += one.tiles[i] / kOrders;
  }
  return mean;
}

}  // namespace

ExpertLoad expert_load(const Routing& routing) {
  const std::int64_t own = std::max<std::int64_t>(1, routing.experts / routing.ranks);
  ExpertLoad load =
      routing.exponent > 0 ? power_law(routing, own) : load_of(round_robin(routing, own));
  const double pairs = static_cast<double>(routing.tokens * routing.per_token);
  load.others = routing.ranks > 1 ? std::max(0.0, pairs - load.rows) : 0;
  return load;
}

}  // namespace tracecast
