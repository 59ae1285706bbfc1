#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tracecast::traces::nvprof {

/// Fields of a line: by `separator` with quotes ('"', doubled inside), ',' or '\t'.
[[nodiscard]] std::vector<std::string> split_csv(std::string_view line, char separator);
/// Fields of a line of nvprof's text tables: between runs of two blanks or more, `count` of them,
/// the last one with all the rest.
[[nodiscard]] std::vector<std::string> split_text(std::string_view line, std::size_t count);

/// Seconds, milliseconds ... in nanoseconds; nothing when `unit` is no unit of time.
[[nodiscard]] std::optional<double> time_unit_ns(std::string_view unit);
/// Bytes of B, KB, MB, GB (powers of 2^10).
[[nodiscard]] std::optional<double> size_unit(std::string_view unit);

/// A number with its unit behind it ("1.6782ms", "8.0000KB") or, when it has none, in `unit`; in ns
/// or bytes. Nothing when it is no such thing, negative or beyond 2.3e18.
[[nodiscard]] std::optional<std::int64_t> time_ns(std::string_view text, std::string_view unit);
[[nodiscard]] std::optional<std::int64_t> bytes(std::string_view text, std::string_view unit);

}  // namespace tracecast::traces::nvprof
