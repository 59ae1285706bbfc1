#pragma once
#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"

namespace tracecast::store {

/// A prepared statement of SQLite. Throws InputError naming the file when anything fails: what
/// SQLite says is the finding.
class Statement {
 public:
  Statement(sqlite3* database, std::string_view text, const std::string& where) : where_(where) {
    if (sqlite3_prepare_v2(database, text.data(), static_cast<int>(text.size()), &statement_,
                           nullptr) != SQLITE_OK)
      fail(sqlite3_errmsg(database));
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  void bind(int index, std::string_view text) {
    sqlite3_bind_blob64(statement_, index, text.data(), text.size(), SQLITE_TRANSIENT);
  }
  void bind_text(int index, std::string_view text) {
    sqlite3_bind_text64(statement_, index, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  }
  void bind(int index, std::int64_t value) { sqlite3_bind_int64(statement_, index, value); }
  void bind(int index, double value) { sqlite3_bind_double(statement_, index, value); }
  void bind_nothing(int index) { sqlite3_bind_null(statement_, index); }
  /// Ready for other values.
  void reset() { sqlite3_reset(statement_); }
  /// Whether there is a row.
  bool step() {
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code != SQLITE_DONE) fail(sqlite3_errmsg(sqlite3_db_handle(statement_)));
    return false;
  }
  [[nodiscard]] std::string text(int column = 0) const {
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
    const int size = sqlite3_column_bytes(statement_, column);
    return bytes == nullptr ? std::string() : std::string(bytes, static_cast<std::size_t>(size));
  }
  [[nodiscard]] std::int64_t number(int column = 0) const {
    return sqlite3_column_int64(statement_, column);
  }
  [[nodiscard]] sqlite3_stmt* handle() const { return statement_; }

 private:
  [[noreturn]] void fail(const char* message) const {
    throw InputError(where_, message, "a store that can be read and written");
  }
  std::string where_;
  sqlite3_stmt* statement_ = nullptr;
};

/// Opens a file of ours to write, or makes it. Nothing in it but tables and indexes may have a say:
/// a trigger or a view of somebody else's making could drop rows without a word. Throws InputError:
/// no place for a file, no regular file.
inline sqlite3* open_to_write(const std::filesystem::path& file) {
  const std::string where = file.string();
  std::error_code none;
  if (file.empty()) throw InputError("-", "an empty name", "the name of a file");
  if (std::filesystem::exists(file, none)) check_regular_file(file, "a file of results");
  sqlite3* handle = nullptr;
  // An absolute path: ":memory:" is a file like any other.
  const int code = sqlite3_open_v2(std::filesystem::absolute(file).c_str(), &handle,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  if (code != SQLITE_OK) {
    const std::string message = handle == nullptr ? "no memory" : sqlite3_errmsg(handle);
    sqlite3_close(handle);
    throw InputError(where, message, "a file that can be made or written");
  }
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  return handle;
}

/// Throws InputError where a file of ours holds what we never put there: triggers, views, virtual
/// tables.
inline void refuse_code(sqlite3* handle, const std::string& where) {
  Statement found(handle,
                  "SELECT CASE WHEN type = 'table' THEN 'virtual table' ELSE type END, name FROM "
                  "sqlite_master WHERE type IN ('trigger', 'view') OR (type = 'table' AND rootpage "
                  "= 0) LIMIT 1",
                  where);
  if (found.step())
    throw InputError(where, "a " + found.text(0) + " \"" + found.text(1).substr(0, 60) + '"',
                     "tables and indexes alone, as tracecast makes them");
}

}  // namespace tracecast::store
