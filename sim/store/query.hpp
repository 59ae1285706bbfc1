#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "sim/store/row.hpp"

namespace tracecast::store {

/// What a query may take before it is given up: some have no end.
struct QueryLimits {
  std::uint64_t rows = 1'000'000;
  double seconds = 8;
};

/// Asks an SQLite file of any kind, which stays as it is, one statement that only reads. `on_row`
/// gets the row's values, after `on_columns` the names. It has `kMostQueryHeap` of memory. Throws
/// InputError: no regular file, no database, a damaged one; words that are no SQL, that would
/// change something, or that are several statements; more than the limits.
inline constexpr std::int64_t kMostQueryHeap = 256 << 20;
void query(const std::filesystem::path& file, const std::string& sql, const QueryLimits& limits,
           const std::function<void(const std::vector<std::string>& names)>& on_columns,
           const std::function<void(const std::vector<Value>& row)>& on_row);

}  // namespace tracecast::store
