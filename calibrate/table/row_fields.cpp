#include "calibrate/table/row_fields.hpp"

#include <cmath>

#include "calibrate/table/gpu_word.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {

std::size_t RowFields::column(std::string_view name) const {
  const auto column = reader_.find_column(name);
  if (!column) throw InputError(reader_.where(), "no column \"" + std::string(name) + "\"", "one");
  return *column;
}

std::string_view RowFields::text(std::string_view name) const {
  return reader_.field(column(name));
}

std::string_view RowFields::text_or_empty(std::string_view name) const {
  const auto column = reader_.find_column(name);
  return column ? reader_.field(*column) : std::string_view();
}

std::string_view RowFields::gpu() const { return gpu_word(text("gpu"), reader_.file_name()); }

double RowFields::positive(std::string_view name) const {
  const std::string_view field = text(name);
  const auto value = parse_double(field);
  constexpr double kLeast = 1e-18, kMost = 1e18;
  if (!value || !(*value >= kLeast && *value <= kMost)) {
    throw InputError(reader_.where() + ", " + std::string(name), "\"" + std::string(field) + "\"",
                     "a number above 0, at most 1e18");
  }
  return *value;
}

std::int64_t RowFields::integer(std::string_view name, std::int64_t low, std::int64_t high) const {
  const std::string_view field = text(name);
  const auto value = parse_integer(field);
  if (!value || *value < low || *value > high) {
    throw InputError(reader_.where() + ", " + std::string(name), "\"" + std::string(field) + "\"",
                     "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  }
  return *value;
}

}  // namespace tracecast
