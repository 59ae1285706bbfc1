#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tracecast {

/// The candidate with the least edit distance (Levenshtein) to `word`, ignoring case, or nothing
/// when even the nearest differs in more than half of its letters. First candidate wins a tie.
[[nodiscard]] std::optional<std::string> find_nearest_word(std::string_view word,
                                                           std::span<const std::string> candidates);

/// "one of a, b, c (nearest: b)": the tail of an error message about an unknown word. Long lists
/// are cut to a count and their nearest entry.
[[nodiscard]] std::string describe_choices(std::string_view word,
                                           std::span<const std::string> candidates);

/// ASCII lower case.
[[nodiscard]] std::string to_lower(std::string_view text);

/// The whole text as a finite number or an integer; nothing when any character is left over or it
/// overflows.
[[nodiscard]] std::optional<double> parse_double(std::string_view text);
[[nodiscard]] std::optional<long long> parse_integer(std::string_view text);

/// Number with three significant digits, no exponent: "0.0123", "12.3", "12300"; "-" where it is
/// not finite.
[[nodiscard]] std::string three_digits(double value);

}  // namespace tracecast
