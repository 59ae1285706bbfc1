#include "sim/store/query.hpp"

#include <sqlite3.h>

#include <chrono>
#include <memory>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"

namespace tracecast::store {
namespace {

struct CloseDatabase {
  void operator()(sqlite3* handle) const { sqlite3_close(handle); }
};
using Handle = std::unique_ptr<sqlite3, CloseDatabase>;

struct EndStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

/// "file:" with the characters that a URI must not have in its path written as digits.
std::string uri_of(const std::string& path, const char* options) {
  std::string uri = "file:";
  constexpr const char* kDigits = "0123456789abcdef";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      const auto byte = static_cast<unsigned char>(c);
      uri += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      uri += c;
    }
  }
  return uri + options;
}

/// Until when a query may run; SQLite asks it every so many of its steps.
class Deadline {
 public:
  explicit Deadline(double seconds) : end_(Clock::now() + std::chrono::duration<double>(seconds)) {}
  void watch(sqlite3* database) {
    constexpr int kStepsAtOnce = 100'000;  // a millisecond
    sqlite3_progress_handler(
        database, kStepsAtOnce, [](void* self) { return static_cast<Deadline*>(self)->is_over(); },
        this);
  }
  [[nodiscard]] int is_over() const { return Clock::now() > end_ ? 1 : 0; }

 private:
  using Clock = std::chrono::steady_clock;
  std::chrono::time_point<Clock, std::chrono::duration<double>> end_;
};

/// SQLite's memory, of all databases of this process, while it lives.
class HeapLimit {
 public:
  HeapLimit() : before_(sqlite3_hard_heap_limit64(kMostQueryHeap)) {}
  ~HeapLimit() { sqlite3_hard_heap_limit64(before_); }
  HeapLimit(const HeapLimit&) = delete;
  HeapLimit& operator=(const HeapLimit&) = delete;

 private:
  std::int64_t before_;
};

Handle open(const std::string& where, const char* options) {
  sqlite3* opened = nullptr;
  const int code = sqlite3_open_v2(uri_of(where, options).c_str(), &opened,
                                   SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
  Handle handle(opened);
  if (code == SQLITE_OK) {
    sqlite3_busy_timeout(opened, 60'000);
    // What a query sorts counts against its memory: nothing of it goes to a disk.
    sqlite3_exec(opened, "PRAGMA temp_store = MEMORY", nullptr, nullptr, nullptr);
    // Nothing but this file, whatever the words are: no ATTACH.
    sqlite3_limit(opened, SQLITE_LIMIT_ATTACHED, 0);
    // No value larger than an answer's memory has room for, no functions of the file's own making.
    sqlite3_limit(opened, SQLITE_LIMIT_LENGTH, 16 << 20);
    sqlite3_db_config(opened, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    sqlite3_db_config(opened, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    if (sqlite3_exec(opened, "SELECT 1 FROM sqlite_master", nullptr, nullptr, nullptr) == SQLITE_OK)
      return handle;
  }
  return code == SQLITE_OK || opened != nullptr ? std::move(handle) : nullptr;
}

bool is_read(const Handle& handle) { return handle && sqlite3_errcode(handle.get()) == SQLITE_OK; }

Value value_of(sqlite3_stmt* statement, int column) {
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
      return static_cast<std::int64_t>(sqlite3_column_int64(statement, column));
    case SQLITE_FLOAT:
      return sqlite3_column_double(statement, column);
    case SQLITE_NULL:
      return std::monostate();
    default: {
      const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement, column));
      const int size = sqlite3_column_bytes(statement, column);
      return bytes == nullptr ? std::string() : std::string(bytes, static_cast<std::size_t>(size));
    }
  }
}

std::string shown(double number) {
  std::string text = std::to_string(number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

}  // namespace

void query(const std::filesystem::path& file, const std::string& sql, const QueryLimits& limits,
           const std::function<void(const std::vector<std::string>& names)>& on_columns,
           const std::function<void(const std::vector<Value>& row)>& on_row) {
  const std::string where = file.string();
  std::error_code none;
  if (!std::filesystem::exists(file, none))
    throw InputError(where, "no such file", "results of a sweep");
  check_regular_file(file, "an SQLite database");
  const HeapLimit heap;
  Deadline deadline(limits.seconds);
  Handle handle = open(where, "?mode=ro");
  // In a folder that cannot be written a log cannot be opened, not even an empty one.
  if (!is_read(handle) && !std::filesystem::exists(where + "-wal", none))
    handle = open(where, "?mode=ro&immutable=1");
  if (!is_read(handle))
    throw InputError(where, handle ? sqlite3_errmsg(handle.get()) : "no room to open it",
                     "an SQLite database that can be read");
  deadline.watch(handle.get());
  sqlite3_stmt* prepared = nullptr;
  const char* rest = nullptr;
  if (sqlite3_prepare_v2(handle.get(), sql.c_str(), -1, &prepared, &rest) != SQLITE_OK)
    throw InputError("query", sqlite3_errmsg(handle.get()),
                     "SQL over the tables of the file: SELECT name FROM sqlite_master");
  const std::unique_ptr<sqlite3_stmt, EndStatement> statement(prepared);
  if (prepared == nullptr) throw InputError("query", "no statement", "SELECT ...");
  if (std::string_view(rest).find_first_not_of(" \t\r\n;") != std::string_view::npos)
    throw InputError("query", "\"" + std::string(rest).substr(0, 60) + "\" behind a statement",
                     "one statement");
  if (sqlite3_stmt_readonly(prepared) == 0 || sqlite3_column_count(prepared) == 0)
    throw InputError("query", "\"" + sql.substr(0, 60) + '"',
                     "a statement that only reads: SELECT");
  const int count = sqlite3_column_count(prepared);
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.emplace_back(sqlite3_column_name(prepared, i));
  on_columns(names);
  std::vector<Value> row(static_cast<std::size_t>(count));
  for (std::uint64_t rows = 0;; ++rows) {
    const int code = sqlite3_step(prepared);
    if (code == SQLITE_DONE) return;
    if (code == SQLITE_INTERRUPT)
      throw InputError("query", "no end after " + shown(limits.seconds) + " s",
                       "one that ends, or more time (--time-limit)");
    if (code == SQLITE_ROW && rows == limits.rows)
      throw InputError("query", "more than " + std::to_string(limits.rows) + " rows",
                       "fewer (LIMIT in the SQL), or --limit");
    if (code != SQLITE_ROW)
      throw InputError(where, sqlite3_errmsg(handle.get()), "a query that can be answered");
    for (int i = 0; i < count; ++i) row[static_cast<std::size_t>(i)] = value_of(prepared, i);
    on_row(row);
  }
}

}  // namespace tracecast::store
