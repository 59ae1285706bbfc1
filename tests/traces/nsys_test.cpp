#include "traces/nsys/reader.hpp"

#include <doctest/doctest.h>
#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "tests/support/temporary_folder.hpp"
#include "traces/open.hpp"

using namespace tracecast;
using namespace tracecast::traces;

namespace {

/// A database made by these statements.
std::filesystem::path database(const test::TemporaryFolder& folder, const std::string& sql) {
  const std::filesystem::path path = folder.path() / "export.sqlite";
  sqlite3* opened = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &opened) == SQLITE_OK);
  char* message = nullptr;
  const int code = sqlite3_exec(opened, sql.c_str(), nullptr, nullptr, &message);
  CAPTURE(std::string(message != nullptr ? message : ""));
  REQUIRE(code == SQLITE_OK);
  sqlite3_close(opened);
  return path;
}

const std::string kKernels =
    "CREATE TABLE StringIds (id INTEGER, value TEXT);"
    "INSERT INTO StringIds VALUES (1, 'void gemm<float>(int)'), (2, 'gemm'), (3, "
    "'cudaLaunchKernel_v7000');"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, "
    "streamId INTEGER,"
    " correlationId INTEGER, demangledName INTEGER, shortName INTEGER, gridX INTEGER, gridY "
    "INTEGER, gridZ INTEGER,"
    " blockX INTEGER, blockY INTEGER, blockZ INTEGER, registersPerThread INTEGER, "
    "staticSharedMemory INTEGER,"
    " dynamicSharedMemory INTEGER);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 3500, 0, 7, 11, 1, 2, 252, 128, 96, 128, "
    "1, 1, 40, 64, 32768);";

std::string refusal(const std::filesystem::path& path) {
  try {
    (void)read_recording(path);
    return "taken";
  } catch (const InputError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE(
    "kernels, copies, calls, waits, ranges and devices are read, and versions of either spelling") {
  const test::TemporaryFolder folder;
  const auto path = database(
      folder,
      kKernels +
          "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, "
          "streamId INTEGER,"
          " correlationId INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind "
          "INTEGER);"
          "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (10, 30, 0, 7, 12, 4096, 1, 1, 2);"
          "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid "
          "INTEGER, correlationId INTEGER,"
          " nameId INTEGER);"
          "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (900, 950, 5, 11, 3);"
          "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, streamId "
          "INTEGER,"
          " correlationId INTEGER, syncType INTEGER, eventId INTEGER);"
          "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (4000, 4100, 7, 13, 3, 0);"
          "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, text TEXT, textId INTEGER, "
          "globalTid INTEGER);"
          "INSERT INTO NVTX_EVENTS VALUES (0, 5000, 'step 1', NULL, 5), (1, NULL, 'mark', NULL, "
          "5), (2, 9, NULL, 2, 5);"
          "CREATE TABLE TARGET_INFO_GPU (id INTEGER, cuDevice INTEGER, name TEXT, totalMemory "
          "INTEGER, smCount INTEGER,"
          " computeMajor INTEGER, computeMinor INTEGER, threadsPerWarp INTEGER, maxWarpsPerSm "
          "INTEGER);"
          "INSERT INTO TARGET_INFO_GPU VALUES (3, 2, 'other', 1, 84, 8, 6, 32, 48), (1, 0, 'GPU', "
          "42505273344, 108, 8, 0, 32, 64);"
          "CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);"
          "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.16.1');");
  const Recording recording = read_recording(path);
  const Trace& trace = recording.traces.front();
  CHECK(trace.format == "Nsight Systems, schema 3.16.1");
  REQUIRE(trace.kernels.size() == 1);
  CHECK(trace.kernels.span[0] == Span{1000, 2500});
  CHECK(trace[trace.kernels.name[0]] == "void gemm<float>(int)");
  CHECK(trace.geometries[trace.kernels.geometry[0].index] == Geometry{.grid = {252, 128, 96},
                                                                      .block = {128, 1, 1},
                                                                      .registers_per_thread = 40,
                                                                      .shared_bytes = 32832});
  REQUIRE(trace.copies.size() == 1);
  CHECK(trace.copies.kind[0] == CopyKind::HostToDevice);
  CHECK(trace.copies.memory[0] == HostMemory::Pinned);
  REQUIRE(trace.calls.size() == 1);
  CHECK(trace[trace.calls.name[0]] == "cudaLaunchKernel");
  CHECK(trace.calls.correlation[0] == trace.kernels.correlation[0]);
  CHECK(trace.syncs.kind[0] == SyncKind::Stream);
  REQUIRE(trace.marks.size() == 2);
  CHECK(trace[trace.marks.name[0]] == "step 1");
  CHECK(trace[trace.marks.name[1]] == "gemm");
  REQUIRE(trace.devices.size() == 2);
  CHECK(trace.devices[1].id == 0);
  CHECK(trace.devices[1].max_threads_per_sm == 2048);
}

TEST_CASE("columns and tables that are missing are taken as not recorded") {
  const test::TemporaryFolder folder;
  const auto path = database(
      folder,
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, streamId INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 9, 7), (9, 5, 7), (NULL, 5, 7), ('x', 5, "
      "7),"
      " (0, 9223372036854775807, 7);");
  const Recording recording = read_recording(path);
  const Trace& trace = recording.traces.front();
  REQUIRE(trace.kernels.size() == 1);
  CHECK(trace[trace.kernels.name[0]] == "name not recorded");
  CHECK(trace.left_out.at("row of negative duration").count == 1);
  CHECK(trace.left_out.at("row without begin or end").count == 3);
}

TEST_CASE(
    "a database without CUDA events, one of other tables, and a damaged one are refused in one "
    "line") {
  const test::TemporaryFolder folder;
  CHECK(refusal(database(folder, "CREATE TABLE StringIds (id INTEGER, value TEXT);"))
            .find("found no table of CUDA events") != std::string::npos);
  const test::TemporaryFolder second;
  const auto path = database(second, kKernels);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file << std::string(3000, '\x7f');
  }
  const std::string message = refusal(path);
  CAPTURE(message);
  CHECK(message.find("expected an SQLite export of Nsight Systems") != std::string::npos);
  CHECK(message.find('\n') == std::string::npos);
}

TEST_CASE("what is no table, or computes what it holds, is not read in a table's place") {
  struct Row {
    const char* what;
    std::string sql;
    const char* message;
  };
  const Row rows[] = {
      {"a view without end",
       "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(start) AS (VALUES (1) UNION ALL "
       "SELECT start + 1 FROM n) SELECT start, start + 1 AS end FROM n;",
       "export.sqlite, CUPTI_ACTIVITY_KIND_KERNEL: found a view"},
      {"a view of other words",
       kKernels + "ALTER TABLE StringIds RENAME TO texts;"
                  "CREATE VIEW stringids AS SELECT * FROM texts;",
       "export.sqlite, StringIds: found a view"},
      {"a virtual table", "CREATE VIRTUAL TABLE CUPTI_ACTIVITY_KIND_KERNEL USING fts5(start, end);",
       "export.sqlite, CUPTI_ACTIVITY_KIND_KERNEL: found a virtual table"},
      {"a list of tables that lies",
       "CREATE TABLE t (a INTEGER); CREATE VIEW v AS SELECT 1 AS start, 2 AS end;"
       "PRAGMA writable_schema = ON;"
       "UPDATE sqlite_schema SET type = 'table', rootpage = 2, name = 'CUPTI_ACTIVITY_KIND_KERNEL',"
       " sql = 'CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT 1 AS start, 2 AS end' WHERE name "
       "= 'v';",
       "found malformed database schema"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const test::TemporaryFolder folder;
    const std::string message = refusal(database(folder, row.sql));
    CAPTURE(message);
    CHECK(message.find(row.message) != std::string::npos);
  }
  const test::TemporaryFolder folder;
  const Recording recording = read_recording(database(
      folder,
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, streamId INTEGER,"
      " deviceId INTEGER AS (length(hex(zeroblob(1000000))) + start));"
      "CREATE INDEX backwards ON CUPTI_ACTIVITY_KIND_KERNEL (start DESC, end, streamId);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, streamId) VALUES (1, 2, 7), (3, 4, "
      "7);"));
  const Trace& trace = recording.traces.front();
  REQUIRE(trace.kernels.size() == 2);
  CHECK(trace.kernels.span[0].begin_ns == 1);  // in the file's order, not an index's
  CHECK(trace.streams[trace.kernels.stream[0].index].device == -1);
}

TEST_CASE("a database is read where it stands: nothing appears beside it, whatever its name") {
  for (const char* name :
       {"export.sqlite", "50% of?run#7 &mode=rw.sqlite", "\xc3\xa4 \xff.sqlite"}) {
    CAPTURE(name);
    const test::TemporaryFolder folder;
    const auto path = folder.path() / name;
    std::filesystem::rename(database(folder, "PRAGMA journal_mode = WAL;" + kKernels), path);
    std::filesystem::permissions(
        folder.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
    const Recording recording = read_recording(path);
    std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
    CHECK(recording.traces.front().kernels.size() == 1);
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      files += entry.is_regular_file() ? 1 : 0;
    CHECK(files == 1);
  }
}

TEST_CASE("changes that stand beside a database and not in it are reported") {
  const test::TemporaryFolder folder;
  const auto path = database(folder, kKernels);
  for (const char* ending : {"-wal", "-journal"}) {
    CAPTURE(ending);
    const auto log = path.string() + ending;
    std::ofstream(log) << "";
    CHECK(refusal(path) == "taken");
    std::ofstream(log) << "frames";
    const std::string message = refusal(path);
    CAPTURE(message);
    CHECK(message.find(std::string("(export.sqlite") + ending + ")") != std::string::npos);
    std::filesystem::remove(log);
  }
  CHECK(refusal(path) == "taken");
}

namespace {

constexpr std::size_t kPage = 512;

std::uint32_t number_at(const std::string& bytes, std::size_t at, int size) {
  std::uint32_t value = 0;
  for (int i = 0; i < size; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(i)]);
  return value;
}
void set_page(std::string& bytes, std::size_t at, std::size_t page) {
  for (std::size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<char>(page >> (24 - 8 * i));
}

/// Lets every way down from a table's inner page lead to the next such page, the last one's to a
/// leaf.
std::string tangle(std::string bytes) {
  std::vector<std::size_t> inner;
  std::size_t leaf = 0;
  for (std::size_t page = 1; page < bytes.size() / kPage; ++page) {
    if (bytes[page * kPage] == 0x05) inner.push_back(page);
    if (bytes[page * kPage] == 0x0d) leaf = page;
  }
  for (std::size_t i = 0; i < inner.size(); ++i) {
    const std::size_t page = inner[i] * kPage;
    const std::size_t next = (i + 1 < inner.size() ? inner[i + 1] : leaf) + 1;
    set_page(bytes, page + 8, next);
    for (std::size_t cell = 0; cell < number_at(bytes, page + 3, 2); ++cell)
      set_page(bytes, page + number_at(bytes, page + 12 + 2 * cell, 2), next);
  }
  return bytes;
}

}  // namespace

TEST_CASE("pages that lead to each other again and again end in a refusal, not in rows for ever") {
  struct Row {
    const char* what;
    const char* columns;
    const char* values;
    const char* message;
  };
  const Row rows[] = {
      {"rows that are kept", "CUPTI_ACTIVITY_KIND_KERNEL (start, end", "i, i + 1",
       "found 100001 records in"},
      {"rows that are passed over", "StringIds (id, value", "'no number', i",
       "found rows without end for a file of its size"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const test::TemporaryFolder folder;
    const std::string table =
        std::string(row.columns).substr(0, std::string(row.columns).find(' '));
    const auto path = database(
        folder,
        "PRAGMA page_size = 512; CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end);"
        "CREATE TABLE " +
            std::string(row.columns) + "); INSERT INTO " + table + " SELECT " + row.values +
            " FROM (WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT "
            "9000) SELECT i FROM n);");
    CHECK(refusal(path) == "taken");
    write_file(path, tangle(read_file(path, 1 << 24)));
    const std::string message = refusal(path);
    CAPTURE(message);
    CHECK(message.find(row.message) != std::string::npos);
  }
}

TEST_CASE("texts that share their pages are refused when they are more than the file holds") {
  const test::TemporaryFolder folder;
  const auto path =
      database(folder,
               "PRAGMA page_size = 512; CREATE TABLE StringIds (id INTEGER, value TEXT);"
               "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER);"
               "INSERT INTO StringIds VALUES (1, zeroblob(18830)), (2, zeroblob(18830)), (3, "
               "zeroblob(18830));");
  CHECK(refusal(path) == "taken");
  std::string bytes = read_file(path, 1 << 24);
  // Cells stand from the page's end downwards; each ends with the page where its text goes on.
  const std::size_t leaf = kPage;
  REQUIRE(number_at(bytes, leaf + 3, 2) == 3);
  const std::uint32_t first = number_at(bytes, leaf + kPage - 4, 4);
  for (std::size_t cell = 0; cell < 2; ++cell)
    set_page(bytes, leaf + number_at(bytes, leaf + 8 + 2 * cell, 2) - 4, first);
  std::size_t last = first;
  while (number_at(bytes, (last - 1) * kPage, 4) != 0)
    last = number_at(bytes, (last - 1) * kPage, 4);
  REQUIRE(last < bytes.size() / kPage / 2);
  bytes.resize(last * kPage);
  set_page(bytes, 28, last);
  write_file(path, bytes);
  const std::string message = refusal(path);
  CAPTURE(message);
  CHECK(message.find("found more text than the file has bytes") != std::string::npos);
}
