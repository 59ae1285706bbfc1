#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"

namespace tracecast {

/// How the buffers of a message are drawn from small, medium and large ones.
enum class PayloadKind {
  Uniform,  ///< as many of each
  Random,   ///< each drawn, all sizes alike likely
  Skew,     ///< biased towards the large: 60 % large, 30 % medium, 10 % small
};
[[nodiscard]] std::string_view to_string(PayloadKind kind);
[[nodiscard]] std::optional<PayloadKind> find_payload(std::string_view word);

/// The buffers that one message is made of.
struct PayloadMix {
  PayloadKind kind = PayloadKind::Uniform;
  Bytes small{10}, medium{10240}, large{1048576};
  int buffers = 10;
};

/// Sizes of the buffers of one message. Shares are rounded to whole buffers, the rest goes to the
/// larger sizes first (uniform) or to the large ones (skew). Random ones follow from the seed
/// alone.
[[nodiscard]] std::vector<Bytes> draw_payload(const PayloadMix& mix, std::uint64_t seed);

}  // namespace tracecast
