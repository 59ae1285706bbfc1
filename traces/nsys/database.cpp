#include "traces/nsys/database.hpp"

#include <fstream>
#include <system_error>

#include "sim/base/error.hpp"

namespace tracecast::traces::nsys {
namespace {

namespace fs = std::filesystem;

constexpr int kStepsAtOnce = 1000;
constexpr std::uint64_t kFreeSteps = 1'000'000;
constexpr std::uint64_t kStepsPerByte = 16;
constexpr std::uint64_t kTextPerByte = 2;
constexpr std::int64_t kMostHeap = std::int64_t{128} << 20;
constexpr const char* kExpected = "an SQLite export of Nsight Systems";

/// The file as a URI that says: read only, and nobody changes it. So SQLite takes no lock and looks
/// for no log.
std::string uri_of(const fs::path& path) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string uri = "file://";
  for (const char c : fs::absolute(path).string()) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '/' || c == '.' || c == '-' || c == '_';
    if (is_plain) {
      uri += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      uri += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return uri + "?mode=ro&immutable=1";
}

/// The first byte of a log that SQLite keeps beside the file; zero when there is none, or one that
/// was done with.
char first_byte(const fs::path& path, const char* ending) {
  fs::path log = path;
  log += ending;
  std::error_code error;
  if (!fs::is_regular_file(log, error)) return '\0';
  char first = '\0';
  std::ifstream(log, std::ios::binary).get(first);
  return first;
}

void refuse_unmerged(const fs::path& path, const std::string& name) {
  for (const char* ending : {"-wal", "-journal"}) {
    if (first_byte(path, ending) == '\0') continue;
    throw InputError(name, "changes beside it that are not merged into it (" + name + ending + ")",
                     "a finished export: open and close it with sqlite3 once");
  }
}

/// Reading tables is all that a statement may do.
int allow(void*, int action, const char*, const char*, const char*, const char* view) {
  const bool reads = action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_PRAGMA;
  return reads && view == nullptr ? SQLITE_OK : SQLITE_DENY;
}

int count_steps(void* left) {
  auto& steps = *static_cast<std::uint64_t*>(left);
  if (steps < kStepsAtOnce) return 1;
  steps -= kStepsAtOnce;
  return 0;
}

std::string quoted(const std::string& name) { return '"' + name + '"'; }

}  // namespace

Database::Database(const fs::path& path) : name_(path.filename().string()) {
  refuse_unmerged(path, name_);
  std::error_code error;
  bytes_ = fs::file_size(path, error);
  if (error) throw InputError(path.string(), error.message(), kExpected);
  steps_left_ = kFreeSteps + kStepsPerByte * bytes_;
  text_left_ = kTextPerByte * bytes_;
  heap_before_ = sqlite3_hard_heap_limit64(kMostHeap);
  sqlite3* opened = nullptr;
  const int code = sqlite3_open_v2(uri_of(path).c_str(), &opened,
                                   SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
  database_.reset(opened);
  if (code != SQLITE_OK) fail();
  forbid_code();
}

Database::~Database() {
  database_.reset();
  sqlite3_hard_heap_limit64(heap_before_);
}

void Database::forbid_code() const {
  sqlite3* database = database_.get();
  sqlite3_limit(database, SQLITE_LIMIT_LENGTH, 16 << 20);
  sqlite3_limit(database, SQLITE_LIMIT_SQL_LENGTH, 1 << 16);
  sqlite3_limit(database, SQLITE_LIMIT_COLUMN, 1000);
  sqlite3_limit(database, SQLITE_LIMIT_EXPR_DEPTH, 100);
  sqlite3_limit(database, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_limit(database, SQLITE_LIMIT_WORKER_THREADS, 0);
  sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_DQS_DML, 0, nullptr);
  sqlite3_drop_modules(database, nullptr);
  sqlite3_progress_handler(database, kStepsAtOnce, count_steps, &steps_left_);
  (void)sqlite3_exec(database, "PRAGMA cell_size_check = ON", nullptr, nullptr, nullptr);
  sqlite3_set_authorizer(database, allow, nullptr);
}

Database::Statement Database::prepare(const std::string& sql) const {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database_.get(), sql.c_str(), -1, &statement, nullptr) != SQLITE_OK)
    fail();
  return Statement(statement);
}

bool Database::step(sqlite3_stmt* statement) const {
  const int code = sqlite3_step(statement);
  if (code != SQLITE_ROW && code != SQLITE_DONE) fail();
  return code == SQLITE_ROW;
}

/// SQLite's own word for what stands under that name, whatever the file's list of tables claims.
bool Database::has_table(const std::string& table) const {
  const Statement statement = prepare("PRAGMA main.table_list(" + quoted(table) + ")");
  while (step(statement.get())) {
    const std::string kind = text(statement.get(), 2);
    if (kind == "table") return true;
    throw InputError(name_ + ", " + table, kind == "view" ? "a view" : "a " + kind + " table",
                     "a table that holds its rows, as Nsight Systems writes it");
  }
  return false;
}

/// Names as spelt in the file. Columns that are computed are not among them.
std::set<std::string> Database::columns(const std::string& table) const {
  std::set<std::string> names;
  const Statement statement = prepare("PRAGMA main.table_info(" + quoted(table) + ")");
  while (step(statement.get())) names.insert(text(statement.get(), 1));
  return names;
}

std::string Database::text(sqlite3_stmt* statement, int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
  if (bytes == nullptr) {
    if (sqlite3_column_type(statement, column) != SQLITE_NULL) fail();
    return {};
  }
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement, column));
  if (size > text_left_) throw InputError(name_, "more text than the file has bytes", kExpected);
  text_left_ -= size;
  return std::string(bytes, size);
}

void Database::fail() const {
  const int code = database_ ? sqlite3_errcode(database_.get()) : SQLITE_NOMEM;
  std::string found = database_ ? sqlite3_errmsg(database_.get()) : "out of memory";
  if (code == SQLITE_INTERRUPT) found = "rows without end for a file of its size";
  throw InputError(name_, found, kExpected);
}

Rows::Rows(const Database& database, const std::string& table,
           const std::vector<std::string>& wanted)
    : database_(database) {
  if (!database.has_table(table)) return;
  const std::set<std::string> there = database.columns(table);
  std::string list;
  for (const std::string& column : wanted) {
    list += list.empty() ? "" : ", ";
    list += there.count(column) > 0 ? quoted(column) : "NULL";
  }
  // In the file's order, and never by way of an index that may say something else.
  statement_ = database.prepare("SELECT " + list + " FROM main." + quoted(table) + " NOT INDEXED");
}

std::optional<std::int64_t> Rows::number(int column) const {
  if (sqlite3_column_type(statement_.get(), column) != SQLITE_INTEGER) return std::nullopt;
  return sqlite3_column_int64(statement_.get(), column);
}

std::string Rows::text(int column) const { return database_.text(statement_.get(), column); }

}  // namespace tracecast::traces::nsys
