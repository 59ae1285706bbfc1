#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/foreign_text.hpp"
#include "sim/base/text.hpp"

namespace tracecast {

/// Writes the answer to stdout, as printable_page has it. A reader that went away (a closed pipe)
/// is no error. Throws InputError when the output cannot be written (a full disk).
void write_report(std::string_view text);
/// For a file that is written beside the answer: refuses "-", since standard output holds that.
/// Throws InputError.
void refuse_standard_output(std::string_view flag, std::string_view file);
/// One line of talk on stderr, printable.
void say(std::string_view line);
/// The state of long work on stderr, over the line before; nothing where stderr is no terminal. An
/// empty line clears it.
void say_progress(std::string_view line);

/// `text`, printable, in exactly `width` columns: padded with blanks, or cut in the middle with
/// ".." so that both ends of a long name stay.
[[nodiscard]] std::string fit(std::string_view text, std::size_t width);
/// The same without padding: in at most `width` columns.
[[nodiscard]] std::string fit_within(std::string_view text, std::size_t width);
/// `text`, printable, in at most `width` columns: whole, or its first words and "..".
[[nodiscard]] std::string cut_text(std::string_view text, std::size_t width);
/// `share` (0 to 1) of `width` columns as a bar.
[[nodiscard]] std::string bar(double share, std::size_t width);
/// Number in at most `width` columns (4 or more): three digits, fewer decimals where room is short,
/// "2e+05" when even the whole number is too long.
[[nodiscard]] std::string low_precision(double value, std::size_t width);
/// Breaks `text`, printable, at blanks into lines of at most `width` columns, each but the first
/// begun by `indent` blanks.
[[nodiscard]] std::string wrap(std::string_view text, std::size_t width, std::size_t indent);
/// Appends a line of a report to `page`: a label in its column, the value beside it, wrapped at 80
/// columns.
void add_line(std::string& page, std::string_view label, std::string_view value);
/// A share (0 to 1) in whole percent: "12 %", "<1 %" where there is something.
[[nodiscard]] std::string percent(double share);
/// Part of the whole, 0 where that is nothing.
[[nodiscard]] double share_of(std::int64_t part, std::int64_t whole);

}  // namespace tracecast
