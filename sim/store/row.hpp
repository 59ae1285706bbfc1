#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace tracecast::store {

/// What a cell of a table holds; nothing: not known, or not asked for.
using Value = std::variant<std::monostate, std::int64_t, double, std::string>;

enum class ColumnType { Integer, Real, Text };
struct Column {
  std::string name;
  ColumnType type = ColumnType::Text;
};

}  // namespace tracecast::store
