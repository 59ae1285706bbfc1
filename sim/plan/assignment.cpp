#include "sim/plan/assignment.hpp"

#include <limits>

#include "sim/base/error.hpp"

namespace tracecast::plan {

std::vector<std::size_t> assign(const std::vector<double>& cost, std::size_t rows,
                                std::size_t columns) {
  TRACECAST_CHECK(columns >= rows && cost.size() == rows * columns, "a column for every row");
  constexpr double kFar = std::numeric_limits<double>::infinity();
  // Places are counted from 1; row 0 and column 0 stand for none.
  std::vector<double> row_price(rows + 1), column_price(columns + 1);
  std::vector<std::size_t> row_of(columns + 1), before(columns + 1);
  for (std::size_t row = 1; row <= rows; ++row) {
    std::vector<double> distance(columns + 1, kFar);
    std::vector<bool> is_done(columns + 1);
    std::size_t at = 0;
    row_of[0] = row;
    do {
      is_done[at] = true;
      const std::size_t r = row_of[at];
      double least = kFar;
      std::size_t next = 0;
      for (std::size_t c = 1; c <= columns; ++c) {
        if (is_done[c]) continue;
        const double reduced = cost[(r - 1) * columns + c - 1] - row_price[r] - column_price[c];
        if (reduced < distance[c]) {
          distance[c] = reduced;
          before[c] = at;
        }
        if (distance[c] < least) {
          least = distance[c];
          next = c;
        }
      }
      for (std::size_t c = 0; c <= columns; ++c) {
        if (is_done[c]) {
          row_price[row_of[c]] += least;
          column_price[c] -= least;
        } else {
          distance[c] -= least;
        }
      }
      at = next;
    } while (row_of[at] != 0);
    for (; at != 0; at = before[at]) row_of[at] = row_of[before[at]];
  }
  std::vector<std::size_t> column_of(rows);
  for (std::size_t c = 1; c <= columns; ++c) {
    if (row_of[c] != 0) column_of[row_of[c] - 1] = c - 1;
  }
  return column_of;
}

}  // namespace tracecast::plan
