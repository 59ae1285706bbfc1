#pragma once
#include <cstddef>
#include <string>
#include <string_view>

/// Text that others wrote (names in traces, networks, specs and tables) on its way out. A terminal
/// obeys some characters instead of showing them; these are called commands here: C0 and C1
/// controls, DEL, line and paragraph separators, and marks that turn the direction of writing
/// (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069). Bytes that are no UTF-8 count as
/// commands too: a terminal may take a single 0x9b for the C1 control.
namespace tracecast {

/// `text` as one line that is safe to show and valid UTF-8: "\x1b" for a command byte or a byte
/// that is no UTF-8, "\u202e" for a command of several bytes, all else as it is. Every name that
/// others gave goes through here.
[[nodiscard]] std::string printable(std::string_view text);

/// A whole page on its way to a terminal: line breaks and tabs stay, other commands become "\u001b"
/// and bytes that are no UTF-8 U+FFFD, so that JSON stays JSON. Behind `printable` nothing is left
/// to do.
[[nodiscard]] std::string printable_page(std::string_view page);

/// `text` with U+FFFD for every byte that is no UTF-8: for files whose form wants UTF-8 and keeps
/// commands.
[[nodiscard]] std::string as_utf8(std::string_view text);

/// Text in quotes as JSON wants it, commands escaped; bytes that are no UTF-8 become U+FFFD.
[[nodiscard]] std::string json_quoted(std::string_view text);

/// One CSV field of text, without commands (so that a row is a line), quoted where it must be. A
/// spreadsheet takes what begins with = + - or @ for a formula: such text, unless it is a number,
/// gets an apostrophe before it. Source: OWASP, "CSV Injection".
[[nodiscard]] std::string csv_field(std::string_view text);

/// Columns that a terminal gives to UTF-8 text: two to a wide character of East Asia or an emoji,
/// none to a combining mark, one to all else.
[[nodiscard]] std::size_t columns(std::string_view text);
/// The longest beginning of UTF-8 text, or its longest end, in at most `width` columns; no
/// character is cut.
[[nodiscard]] std::string_view first_columns(std::string_view text, std::size_t width);
[[nodiscard]] std::string_view last_columns(std::string_view text, std::size_t width);

/// The longest beginning of `text` in at most `bytes` bytes that cuts no UTF-8 character.
[[nodiscard]] std::string_view first_bytes(std::string_view text, std::size_t bytes);

}  // namespace tracecast
