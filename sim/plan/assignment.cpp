#include "sim/plan/assignment.hpp"

#include <limits>
#include <optional>

#include "sim/base/error.hpp"

namespace tracecast::plan {
namespace {

class Assignment {
 public:
  Assignment(const std::vector<double>& cost, std::size_t rows, std::size_t columns)
      : cost_(cost),
        columns_(columns),
        row_price_(rows),
        column_price_(columns),
        column_of_(rows),
        row_of_(columns),
        from_(columns) {}

  void add(std::size_t row) {
    std::size_t sink = find_path(row);
    for (;;) {  // back along the path, every row takes the column that was reached from it
      const std::size_t r = from_[sink];
      row_of_[sink] = r;
      const std::optional<std::size_t> freed = column_of_[r];
      column_of_[r] = sink;
      if (r == row) return;
      sink = *freed;
    }
  }
  [[nodiscard]] std::vector<std::size_t> columns() const {
    std::vector<std::size_t> all;
    for (const auto& column : column_of_) all.push_back(*column);
    return all;
  }

 private:
  /// The free column at the end of the cheapest path from `row`; prices then make every step of it
  /// free of charge.
  std::size_t find_path(std::size_t row) {
    constexpr double kFar = std::numeric_limits<double>::infinity();
    std::vector<double> distance(columns_, kFar);
    std::vector<std::size_t> remaining, done_rows, done_columns;
    for (std::size_t c = 0; c < columns_; ++c) remaining.push_back(c);
    double reached = 0;
    std::size_t at = row;
    for (;;) {
      done_rows.push_back(at);
      std::size_t best = 0;
      double lowest = kFar;
      for (std::size_t i = 0; i < remaining.size(); ++i) {
        const std::size_t c = remaining[i];
        const double through =
            reached + cost_[at * columns_ + c] - row_price_[at] - column_price_[c];
        if (through < distance[c]) {
          distance[c] = through;
          from_[c] = at;
        }
        if (distance[c] < lowest || (distance[c] == lowest && !row_of_[c])) {
          lowest = distance[c];
          best = i;
        }
      }
      reached = lowest;
      const std::size_t column = remaining[best];
      remaining[best] = remaining.back();
      remaining.pop_back();
      done_columns.push_back(column);
      if (!row_of_[column]) {
        update_prices(row, reached, distance, done_rows, done_columns);
        return column;
      }
      at = *row_of_[column];
    }
  }
  void update_prices(std::size_t row, double reached, const std::vector<double>& distance,
                     const std::vector<std::size_t>& rows,
                     const std::vector<std::size_t>& columns) {
    row_price_[row] += reached;
    for (const std::size_t r : rows) {
      if (r != row) row_price_[r] += reached - distance[*column_of_[r]];
    }
    for (const std::size_t c : columns) column_price_[c] -= reached - distance[c];
  }

  const std::vector<double>& cost_;
  std::size_t columns_;
  std::vector<double> row_price_, column_price_;
  std::vector<std::optional<std::size_t>> column_of_, row_of_;
  std::vector<std::size_t> from_;  ///< the row from which a column was reached
};

}  // namespace

std::vector<std::size_t> assign(const std::vector<double>& cost, std::size_t rows,
                                std::size_t columns) {
  TRACECAST_CHECK(columns >= rows && cost.size() == rows * columns, "a column for every row");
  Assignment assignment(cost, rows, columns);
  for (std::size_t row = 0; row < rows; ++row) assignment.add(row);
  return assignment.columns();
}

}  // namespace tracecast::plan
