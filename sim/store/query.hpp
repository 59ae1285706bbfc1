#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "sim/store/row.hpp"

namespace tracecast::store {

/// Asks an SQLite file of any kind, which stays as it is, one statement that only reads. `on_row` gets the row's values, after
/// `on_columns` the names. Throws InputError: no file, no database, a damaged one; words that are no SQL, that would change
/// something, or that are several statements.
void query(const std::filesystem::path& file, const std::string& sql,
           const std::function<void(const std::vector<std::string>& names)>& on_columns,
           const std::function<void(const std::vector<Value>& row)>& on_row);

}  // namespace tracecast::store
