#include "sim/store/sweep_store.hpp"

#include <sqlite3.h>

#include <utility>

#include "sim/store/statement.hpp"

namespace tracecast::store {
namespace {

constexpr int kSweepWaitMs = 60'000;           ///< for other processes
constexpr int kSweepApplication = 0x54525357;  ///< "TRSW": whose file it is
/// Of every table, in this order.
constexpr int kCommonColumns = 6;
constexpr const char* kCommon =
    "point INTEGER PRIMARY KEY, question_sha256 TEXT NOT NULL UNIQUE, state_sha256 TEXT NOT NULL, "
    "inputs_sha256 TEXT, version TEXT NOT NULL, status TEXT NOT NULL";

const char* type_of(ColumnType type) {
  return type == ColumnType::Integer ? " INTEGER" : type == ColumnType::Real ? " REAL" : " TEXT";
}

std::string quoted(const std::string& name) { return '"' + name + '"'; }

std::string create_text(const PointTable& table) {
  std::string text = "CREATE TABLE IF NOT EXISTS " + quoted(table.name) + " (" + kCommon;
  for (const Column& column : table.columns)
    text += ", " + quoted(column.name) + type_of(column.type);
  return text + ")";
}

std::string put_text(const PointTable& table) {
  std::string names = "point, question_sha256, state_sha256, inputs_sha256, version, status";
  std::string marks = "?, ?, ?, ?, ?, ?";
  std::string changes =
      "state_sha256=excluded.state_sha256, inputs_sha256=excluded.inputs_sha256, "
      "version=excluded.version, status=excluded.status";
  for (const Column& column : table.columns) {
    const std::string name = quoted(column.name);
    names += ", " + name;
    marks += ", ?";
    changes += ", " + name + "=excluded." + name;
  }
  return "INSERT INTO " + quoted(table.name) + " (" + names + ") VALUES (" + marks +
         ") ON CONFLICT(question_sha256) DO UPDATE SET " + changes;
}

void bind(Statement& statement, int index, const Value& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    statement.bind(index, *whole);
  } else if (const auto* number = std::get_if<double>(&value)) {
    statement.bind(index, *number);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    statement.bind_text(index, *text);
  } else {
    statement.bind_nothing(index);
  }
}

}  // namespace

struct SweepStore::Database {
  std::string where;
  sqlite3* handle = nullptr;
  std::vector<PointTable> tables;
  std::vector<std::unique_ptr<Statement>> finds, puts;  ///< of each table
  std::unique_ptr<Statement> put_inputs;

  Database(std::string file, std::vector<PointTable> kinds)
      : where(std::move(file)), tables(std::move(kinds)) {}
  ~Database() {
    finds.clear();
    puts.clear();
    put_inputs.reset();
    sqlite3_close(handle);
  }
  void run(std::string_view text) const {
    Statement statement(handle, text, where);
    while (statement.step()) {
    }
  }
  [[nodiscard]] std::int64_t number(std::string_view text) const {
    Statement statement(handle, text, where);
    return statement.step() ? statement.number() : 0;
  }
  void open();
  void check_columns(const PointTable& table) const;
  /// Throws InputError unless the row is in its table: a clause of a table of somebody else's
  /// making may drop it in silence.
  void check_is_there(const PointRow& row) const;
};

void SweepStore::Database::open() {
  handle = open_to_write(where);
  sqlite3_busy_timeout(handle, kSweepWaitMs);
  const std::int64_t application = number("PRAGMA application_id");
  if (application != kSweepApplication && number("SELECT count(*) FROM sqlite_master") > 0)
    throw InputError(where, "a database of something else",
                     "a file that `tracecast sweep` made, or none");
  refuse_code(handle, where);
  Statement check(handle, "PRAGMA quick_check(1)", where);
  if (check.step() && check.text() != "ok")
    throw InputError(where, "a damaged database: " + check.text().substr(0, 200),
                     "a whole one: sqlite3 FILE .recover may save rows");
  check.reset();
  run("PRAGMA journal_mode=WAL");
  run("PRAGMA synchronous=NORMAL");
  run("BEGIN IMMEDIATE");
  run("PRAGMA application_id=1414681431");  // kSweepApplication
  run("CREATE TABLE IF NOT EXISTS grids (first_point INTEGER PRIMARY KEY, points INTEGER NOT NULL, "
      "grid TEXT NOT NULL UNIQUE)");
  run("CREATE TABLE IF NOT EXISTS inputs (inputs_sha256 TEXT PRIMARY KEY, inputs_json TEXT NOT "
      "NULL) "
      "WITHOUT ROWID");
  for (const PointTable& table : tables) run(create_text(table));
  run("COMMIT");
  for (const PointTable& table : tables) {
    check_columns(table);
    finds.push_back(
        std::make_unique<Statement>(handle,
                                    "SELECT point, state_sha256, status, refused FROM " +
                                        quoted(table.name) + " WHERE question_sha256 = ?",
                                    where));
    puts.push_back(std::make_unique<Statement>(handle, put_text(table), where));
  }
  put_inputs =
      std::make_unique<Statement>(handle, "INSERT OR IGNORE INTO inputs VALUES (?, ?)", where);
}

/// Whether the file's table is the one of this program.
void SweepStore::Database::check_columns(const PointTable& table) const {
  Statement list(handle, "SELECT name FROM pragma_table_info('" + table.name + "')", where);
  std::size_t count = 0;
  bool same = true;
  while (list.step()) {
    if (count >= kCommonColumns)
      same = same && count - kCommonColumns < table.columns.size() &&
             list.text() == table.columns[count - kCommonColumns].name;
    ++count;
  }
  if (!same || count != table.columns.size() + kCommonColumns)
    throw InputError(where, "columns of another version", "a file of this version, or a new one");
}

void SweepStore::Database::check_is_there(const PointRow& row) const {
  Statement& find = *finds.at(row.table);
  find.reset();
  find.bind_text(1, row.question);
  const bool is_there = find.step() && find.text(1) == row.state && find.text(2) == row.status;
  find.reset();
  if (!is_there)
    throw InputError(where, "a row that was written and is not there",
                     "tables as tracecast makes them");
}

SweepStore::SweepStore(const std::filesystem::path& file, std::vector<PointTable> tables)
    : database_(std::make_unique<Database>(file.string(), std::move(tables))) {
  database_->open();
}
SweepStore::~SweepStore() = default;
SweepStore::SweepStore(SweepStore&&) noexcept = default;
SweepStore& SweepStore::operator=(SweepStore&&) noexcept = default;

std::int64_t SweepStore::first_point(std::string_view grid, std::int64_t points) {
  const Database& d = *database_;
  d.run("BEGIN IMMEDIATE");
  Statement known(d.handle, "SELECT first_point FROM grids WHERE grid = ?", d.where);
  known.bind_text(1, grid);
  std::int64_t first = 0;
  if (known.step()) {
    first = known.number();
  } else {
    first = d.number("SELECT coalesce(max(first_point + points), 0) FROM grids");
    Statement add(d.handle, "INSERT INTO grids VALUES (?, ?, ?)", d.where);
    add.bind(1, first);
    add.bind(2, points);
    add.bind_text(3, grid);
    add.step();
  }
  known.reset();
  d.run("COMMIT");
  return first;
}

std::optional<SweepStore::Known> SweepStore::find(std::size_t table,
                                                  std::string_view question) const {
  Statement& find = *database_->finds.at(table);
  find.reset();
  find.bind_text(1, question);
  if (!find.step()) return std::nullopt;
  Known known{find.number(0), find.text(1), find.text(2), find.text(3)};
  find.reset();
  return known;
}

bool SweepStore::empty() const {
  for (const PointTable& table : database_->tables)
    if (database_->number("SELECT count(*) FROM (SELECT 1 FROM " + quoted(table.name) +
                          " LIMIT 1)") > 0)
      return false;
  return true;
}

void SweepStore::put(std::span<const PointRow> rows) {
  Database& d = *database_;
  d.run("BEGIN IMMEDIATE");
  try {
    for (const PointRow& row : rows) {
      if (!row.inputs_sha256.empty()) {
        d.put_inputs->reset();
        d.put_inputs->bind_text(1, row.inputs_sha256);
        d.put_inputs->bind_text(2, row.inputs);
        d.put_inputs->step();
      }
      Statement& put = *d.puts.at(row.table);
      put.reset();
      int index = 0;
      put.bind(++index, row.point);
      put.bind_text(++index, row.question);
      put.bind_text(++index, row.state);
      if (row.inputs_sha256.empty()) {
        put.bind_nothing(++index);
      } else {
        put.bind_text(++index, row.inputs_sha256);
      }
      put.bind_text(++index, row.version);
      put.bind_text(++index, row.status);
      TRACECAST_CHECK(row.values.size() == d.tables[row.table].columns.size(),
                      "a row has a value for every column");
      for (const Value& value : row.values) bind(put, ++index, value);
      put.step();
      put.reset();
      d.check_is_there(row);
    }
    d.put_inputs->reset();
    for (const auto& put : d.puts) put->reset();
    d.run("COMMIT");
  } catch (...) {
    for (const auto& put : d.puts) put->reset();
    d.put_inputs->reset();
    sqlite3_exec(d.handle, "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
}

void SweepStore::close() {
  Database& d = *database_;
  for (const auto& find : d.finds) find->reset();
  // Where another process has it open it stays as it is.
  sqlite3_busy_timeout(d.handle, 0);
  sqlite3_exec(d.handle, "PRAGMA journal_mode=DELETE", nullptr, nullptr, nullptr);
  database_.reset();
}

}  // namespace tracecast::store
