#include "traces/nsys/reader.hpp"

#include <doctest/doctest.h>
#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "sim/base/error.hpp"
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
