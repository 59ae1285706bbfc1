#include "sim/store/store.hpp"

#include <sqlite3.h>

#include <mutex>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/store/statement.hpp"

namespace tracecast::store {
namespace {

constexpr int kWaitMs = 60'000;           ///< for other processes
constexpr int kApplication = 0x54524341;  ///< "TRCA": whose file it is

}  // namespace

struct Store::Database {
  std::string where;
  sqlite3* handle = nullptr;
  mutable std::mutex mutex;

  explicit Database(std::string file) : where(std::move(file)) {}
  ~Database() { sqlite3_close(handle); }
  void run(const char* text) const {
    Statement statement(handle, text, where);
    while (statement.step()) {
    }
  }
  [[nodiscard]] std::int64_t number(const char* text) const {
    Statement statement(handle, text, where);
    return statement.step() ? statement.number() : 0;
  }
};

Store::Store(const std::filesystem::path& file)
    : database_(std::make_unique<Database>(file.string())) {
  Database& d = *database_;
  d.handle = open_to_write(file);
  sqlite3_busy_timeout(d.handle, kWaitMs);
  const std::int64_t application = d.number("PRAGMA application_id");
  const std::int64_t tables = d.number("SELECT count(*) FROM sqlite_master");
  if (application != kApplication && tables > 0)
    throw InputError(d.where, "a database of something else", "a store of tracecast, or no file");
  refuse_code(d.handle, d.where);
  d.run("PRAGMA journal_mode=WAL");
  d.run("PRAGMA synchronous=NORMAL");
  d.run("BEGIN IMMEDIATE");
  d.run("PRAGMA application_id=1414677313");  // kApplication
  d.run(
      "CREATE TABLE IF NOT EXISTS results (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT "
      "ROWID");
  d.run("COMMIT");
}
Store::~Store() = default;
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;

std::optional<std::string> Store::find(std::string_view key) const {
  const std::lock_guard lock(database_->mutex);
  Statement statement(database_->handle, "SELECT value FROM results WHERE key = ?",
                      database_->where);
  statement.bind(1, key);
  return statement.step() ? std::optional(statement.text()) : std::nullopt;
}

void Store::put(std::string_view key, std::string_view value) {
  const std::lock_guard lock(database_->mutex);
  Statement statement(database_->handle, "INSERT OR IGNORE INTO results VALUES (?, ?)",
                      database_->where);
  statement.bind(1, key);
  statement.bind(2, value);
  statement.step();
  Statement check(database_->handle, "SELECT count(*) FROM results WHERE key = ?",
                  database_->where);
  check.bind(1, key);
  if (!check.step() || check.number() != 1)
    throw InputError(database_->where, "a row that was written and is not there",
                     "a table as tracecast makes it");
}

std::size_t Store::size() const {
  const std::lock_guard lock(database_->mutex);
  return static_cast<std::size_t>(database_->number("SELECT count(*) FROM results"));
}

}  // namespace tracecast::store
