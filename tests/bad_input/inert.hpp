#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/process.hpp"

namespace tracecast::test {

/// A name as nobody gives one: a formula to a spreadsheet, escape sequences that set a window's
/// title and colours, a return that writes over the line, a line of its own, DEL, a C1 control and
/// marks that turn the direction of writing. All of it UTF-8.
inline constexpr std::string_view kHostile =
    "=evil,\"\x1b]0;owned\x07\x1b[31m\rCR\nFORGED line\x7f\u009b2J\u202Eabc\u2066";
/// The same without line breaks, for formats of lines.
inline constexpr std::string_view kHostileLine =
    "=evil\x1b]0;owned\x07\x1b[31m\x7f\u009b2J\u202Eabc\u2066";
/// The same without C0 controls, for formats that refuse those.
inline constexpr std::string_view kHostileText = "=evil,\"owned\u009b2J\u202Eabc\u2066";
/// The C1 control as a single byte, and other bytes that are no UTF-8.
inline constexpr std::string_view kNoUtf8 =
    "\x9b"
    "31m\xff\xc3";

/// `text` as a JSON string whose bytes beyond ASCII stay as they are.
[[nodiscard]] std::string raw_json(std::string_view text);
/// `text` as a string of Protobuf's text form, every byte beyond plain ASCII as octal digits.
[[nodiscard]] std::string textproto_string(std::string_view text);
/// `text` as a quoted CSV field.
[[nodiscard]] std::string raw_csv(std::string_view text);

/// Checks what a run left on stdout and stderr: nothing that a terminal obeys but line breaks and
/// tabs, valid UTF-8, no line of the hostile name's own; JSON where `format` says "json"; where it
/// says "csv" rows as wide as their header and no field that is a formula.
void check_inert(const ProcessResult& result, std::string_view format);

/// Runs tracecast (it must answer: exit code 0 or 1) in each of the formats and checks all of them.
/// Returns what was written to stdout, together.
std::string check_formats_inert(const std::vector<std::string>& arguments,
                                const std::vector<std::string>& formats = {"text", "json", "csv"});

}  // namespace tracecast::test
