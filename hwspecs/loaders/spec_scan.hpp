#pragma once
#include <string_view>

namespace tracecast {

/// What can be learnt of a file's Protobuf text without parsing it. Private to this box.

/// The string after the word `field` outside of braces, strings and comments, as written; empty:
/// there is none.
[[nodiscard]] std::string_view scan_string(std::string_view text, std::string_view field);

/// Whether the word `field` stands outside of braces, strings and comments.
[[nodiscard]] bool states_field(std::string_view text, std::string_view field);

/// Whether `word` stands between quotation marks of either kind somewhere in `text`.
[[nodiscard]] bool names_quoted(std::string_view text, std::string_view word);

}  // namespace tracecast
