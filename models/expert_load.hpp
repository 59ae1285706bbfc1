#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace tracecast {

/// Rows of a tile of a grouped GEMM that kernels offer.
inline constexpr std::array<int, 6> kExpertTileRows = {8, 16, 32, 64, 128, 256};

/// How tokens fall on experts.
struct Routing {
  std::int64_t tokens = 1;     ///< entering the layer over the whole group
  std::int64_t per_token = 1;  ///< experts that a token takes
  std::int64_t experts = 1;
  std::int64_t ranks = 1;  ///< over which the experts are divided evenly
  /// 0: round robin. Above: tokens of an expert are drawn from a power law of this exponent.
  double exponent = 0;
  friend bool operator==(const Routing&, const Routing&) = default;
};

/// What one rank's experts get: that with most tokens.
struct ExpertLoad {
  double experts = 1;                                  ///< that get tokens
  double rows = 1;                                     ///< pairs of token and expert
  double others = 0;                                   ///< pairs of other ranks' experts
  double tokens = 1;                                   ///< with an expert on this rank
  std::array<double, kExpertTileRows.size()> tiles{};  ///< of rows, by kExpertTileRows
  friend bool operator==(const ExpertLoad&, const ExpertLoad&) = default;
};

/// Round robin: token t takes experts t + i * stride, stride = ceil(experts / per_token), where
/// tokens >= stride; with fewer, tokens spread over a stride. Power law: x of each expert by the
/// inverse of its distribution at evenly spaced quantiles in random order, between 1 and 0.8 tokens
/// (0.01 and 2 where pairs are no more than experts), scaled to all pairs, rounded and cut at the
/// tokens; what is too many or too few goes to ranks in turn, off their fullest or onto their
/// emptiest expert. Tokens take experts from the fullest on, one column of choices after the other.
/// The mean over four orders of the rank with most. Seeded: the same numbers every time. Source:
/// how the tables of data/modern were drawn, its README, section moe, and helper.py of the
/// collector named there.
[[nodiscard]] ExpertLoad expert_load(const Routing& routing);

}  // namespace tracecast
