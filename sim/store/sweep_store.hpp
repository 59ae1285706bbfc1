#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/store/row.hpp"

namespace tracecast::store {

/// One kind of points: a table of its own.
struct PointTable {
  std::string name;
  std::vector<Column> columns;  ///< of its own, behind those that every table has
};

/// One answered point.
struct PointRow {
  std::size_t table = 0;      ///< into the tables that the store was opened with
  std::int64_t point = 0;     ///< where it stands in the file
  std::string question;       ///< hash of what was asked; one row each
  std::string state;          ///< hash of all that decides the answer but the question
  std::string version;        ///< of the program
  std::string status;         ///< in a word; see what writes it
  std::string inputs_sha256;  ///< of `inputs`
  std::string inputs;         ///< specs and profiles that were read, as JSON; kept once
  std::vector<Value> values;  ///< of the table's own columns
};

/// Answers of sweeps in one SQLite file of plain tables: of every kind of points one with columns
/// `point` (its key, in order), `question_sha256`, `state_sha256`, `inputs_sha256`, `version`,
/// `status` and the kind's own; `grids` (what was asked for) and `inputs` (the JSON behind
/// `inputs_sha256`). A transaction is there whole or not at all, however a writer ends. Several
/// processes may read and write. All functions throw InputError with SQLite's reason: a full disk,
/// a damaged file.
class SweepStore {
 public:
  /// Opens the file, or makes it, and checks it as a whole. Throws InputError also where it is no
  /// store of sweeps, damaged, or of other columns.
  SweepStore(const std::filesystem::path& file, std::vector<PointTable> tables);
  ~SweepStore();
  SweepStore(SweepStore&&) noexcept;
  SweepStore& operator=(SweepStore&&) noexcept;

  /// The number of a grid's first point: those of an earlier time when it was asked for before,
  /// else behind all others.
  [[nodiscard]] std::int64_t first_point(std::string_view grid, std::int64_t points);

  struct Known {
    std::int64_t point = 0;
    std::string state, status, reason;  ///< reason: the column `refused`
  };
  [[nodiscard]] std::optional<Known> find(std::size_t table, std::string_view question) const;
  /// Whether nothing is in it.
  [[nodiscard]] bool empty() const;

  /// Writes all in one transaction. A row whose question is there already replaces it, and keeps
  /// its place.
  void put(std::span<const PointRow> rows);

  /// Puts everything into the one file. Without it (a signal) the file needs the log beside it, and
  /// has it.
  void close();

 private:
  struct Database;
  std::unique_ptr<Database> database_;
};

}  // namespace tracecast::store
