#include <sqlite3.h>

#include <cstdio>
#include <filesystem>
#include <string>

namespace {

const std::string kTables = R"(
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
INSERT INTO StringIds VALUES (1, 'void gemm<float>(int)'), (2, 'gemm'), (3, 'cudaLaunchKernel_v7000'), (4, 'step 1');
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
  correlationId INTEGER, demangledName INTEGER, shortName INTEGER, gridX INTEGER, blockX INTEGER,
  registersPerThread INTEGER, staticSharedMemory INTEGER, dynamicSharedMemory INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 3500, 0, 7, 11, 1, 2, 252, 128, 40, 64, 32768), (4000, 4500, 0, 8, 12, 1, 2, 1, 32, 8, 0, 0);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
  correlationId INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (10, 30, 0, 7, 12, 4096, 1, 1, 2);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (900, 950, 5, 11, 3);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, text TEXT, textId INTEGER, globalTid INTEGER);
INSERT INTO NVTX_EVENTS VALUES (0, 5000, 'step 1', NULL, 5), (1, NULL, 'mark', NULL, 5), (2, 9, NULL, 4, 5);
CREATE TABLE TARGET_INFO_GPU (id INTEGER, cuDevice INTEGER, name TEXT, totalMemory INTEGER, smCount INTEGER);
INSERT INTO TARGET_INFO_GPU VALUES (1, 0, 'GPU', 42505273344, 108);
CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.16.1');
)";

bool make(const std::filesystem::path& path, const std::string& sql) {
  std::filesystem::remove(path);
  sqlite3* database = nullptr;
  const bool done = sqlite3_open(path.c_str(), &database) == SQLITE_OK &&
                    sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
  sqlite3_close(database);
  return done;
}

}  // namespace

/// sqlite_seeds FOLDER: small databases with the tables of Nsight Systems, and with what may stand
/// in their place.
int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::filesystem::path folder = argv[1];
  const std::string small = "PRAGMA page_size = 512;";
  const std::string rows =
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT i * 10, i * 10 + 5, 0, i % 3, i, 1, 2, 4, 64, "
      "8, 0, 0 FROM "
      "(WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT 200) SELECT i FROM "
      "n);";
  const struct {
    const char* name;
    std::string sql;
  } seeds[] = {
      {"tables", small + kTables},
      {"deep", small + kTables + rows},
      {"wide", "PRAGMA encoding = 'UTF-16';" + small + kTables},
      {"overflow", small + kTables + "INSERT INTO StringIds VALUES (9, printf('%.4000c', 'x'));"},
      {"vacuumed", "PRAGMA auto_vacuum = FULL;" + small + kTables + rows +
                       "DELETE FROM StringIds WHERE id > 2;"},
      {"rowless", small + "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER PRIMARY KEY, end "
                          "INTEGER) WITHOUT ROWID;"
                          "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2), (3, 4);"},
      {"generated", small + "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, length "
                            "INTEGER, end INTEGER AS (start + length));"
                            "CREATE INDEX by_end ON CUPTI_ACTIVITY_KIND_KERNEL (end, start);"
                            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2), (3, 4);"},
      {"view", small + "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(start) AS "
                       "(VALUES (1) UNION ALL "
                       "SELECT start + 1 FROM n) SELECT start, start AS end FROM n;"},
      {"virtual", small + "CREATE VIRTUAL TABLE StringIds USING fts5(id, value);" +
                      kTables.substr(kTables.find("CREATE TABLE CUPTI"))},
  };
  for (const auto& seed : seeds) {
    if (!make(folder / (std::string(seed.name) + ".sqlite"), seed.sql))
      std::fprintf(stderr, "sqlite_seeds: no %s\n", seed.name);
  }
}
