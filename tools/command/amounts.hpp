#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"

namespace tracecast {

/// Sizes that a flag accepts, in bytes.
struct SizeRange {
  double least = 1, most = 1e15;
};

/// What the help of flags that take sizes says of their units.
inline constexpr std::string_view kSizeUnits =
    "K, M, G (or KiB, MiB, GiB) are powers of 1024, kB, MB, GB of 1000";

/// A size as people write it, to the nearest byte: "4096", "1e6", "64KiB", "1M", "1.5 GB". K, M, G,
/// T without a B are powers of 1024, as nccl-tests reads them; case counts for nothing. Throws
/// InputError, which names the flag and what it expects.
[[nodiscard]] Bytes parse_size(const char* flag, std::string_view text,
                               const SizeRange& range = {});
[[nodiscard]] std::vector<Bytes> parse_sizes(const char* flag,
                                             const std::vector<std::string>& texts,
                                             const SizeRange& range = {});

/// "36h", "30d", "8w": a time with its unit, up to 20 years. Throws InputError, which names the
/// flag.
[[nodiscard]] Seconds parse_time(const char* flag, std::string_view text);

/// In the largest binary unit that is not more, whole or with three digits: "64 KiB", "1.50 GiB",
/// "768 B".
[[nodiscard]] std::string size_text(Bytes size);

/// A large count with three significant digits, by powers of 1000: "6.74 G", "25.6 M", "431 k",
/// "768".
[[nodiscard]] std::string short_count(double value);

}  // namespace tracecast
