#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace tracecast {

/// A cell of a table, as `fit` of output.hpp, that does not begin its row. Text longer than its
/// cell stays whole: it has lines of its own, of at most 80 columns, and the row goes on below,
/// behind the cell. `at`: columns of the row before it.
[[nodiscard]] std::string fit(std::string_view text, std::size_t width, std::size_t at);

/// The last cell of a row, from column `at` on: `text`, printable, broken at blanks at column 80,
/// each line begun there.
[[nodiscard]] std::string last_cell(std::string_view text, std::size_t at);

}  // namespace tracecast
