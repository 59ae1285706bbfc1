#pragma once
#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tracecast::traces::nsys {

/// An SQLite file that anyone may have made, opened to be read and nothing else: no lock, no file
/// beside it, no code of the file's own (views, triggers, virtual tables, functions), and limits
/// that a file of its size never meets when it is whole:
///   steps of SQLite's machine  <= 1 million + 16 * bytes of the file   (a row of 16 columns takes
///   40, in 100 bytes) text that is handed out    <= 2 * bytes of the file                 (every
///   text stands in the file; UTF-16 may grow) memory of SQLite           <= 128 MiB; 16 MiB for
///   one value
/// so that pages which point in circles end in an error.
class Database {
 public:
  /// Throws InputError: unreadable, or with changes beside it (-wal, -journal) that are not merged
  /// into it.
  explicit Database(const std::filesystem::path& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  /// Of the file.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  friend class Rows;
  struct End {
    void operator()(sqlite3* database) const { sqlite3_close(database); }
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  using Statement = std::unique_ptr<sqlite3_stmt, End>;

  void forbid_code() const;
  [[nodiscard]] Statement prepare(const std::string& sql) const;
  /// Whether there is another row.
  bool step(sqlite3_stmt* statement) const;
  [[nodiscard]] bool has_table(const std::string& table) const;
  [[nodiscard]] std::set<std::string> columns(const std::string& table) const;
  [[nodiscard]] std::string text(sqlite3_stmt* statement, int column) const;
  [[noreturn]] void fail() const;

  std::string name_;
  std::uint64_t bytes_ = 0;
  std::int64_t heap_before_ = -1;  ///< the process's limit of SQLite's memory
  mutable std::uint64_t steps_left_ = 0, text_left_ = 0;
  std::unique_ptr<sqlite3, End> database_;
};

/// The rows of one table, by column; a column that the table lacks, or computes, reads as nothing.
class Rows {
 public:
  /// Throws InputError: a view or virtual table of that name, a damaged file.
  Rows(const Database& database, const std::string& table, const std::vector<std::string>& wanted);
  /// The table is there.
  [[nodiscard]] explicit operator bool() const { return statement_ != nullptr; }
  /// Throws InputError: damaged, or beyond the limits.
  bool next() { return statement_ != nullptr && database_.step(statement_.get()); }
  [[nodiscard]] std::optional<std::int64_t> number(int column) const;
  [[nodiscard]] std::string text(int column) const;

 private:
  const Database& database_;
  Database::Statement statement_;
};

}  // namespace tracecast::traces::nsys
