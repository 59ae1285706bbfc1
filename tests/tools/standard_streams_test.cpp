#include <doctest/doctest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "sim/base/file.hpp"
#include "tests/support/onnx_bytes.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using namespace tracecast;
using namespace tracecast::test;
using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr std::uint64_t kMost = 1 << 24;

/// `count` kernels of one name, a step around them.
std::string recording(const std::string& kernel, int count) {
  std::string text =
      R"({"deviceProperties":[{"id":0,"name":"Tesla T4"}],"traceEvents":[)"
      R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":0,"dur":99999})";
  for (int i = 0; i < count; ++i) {
    text += R"(,{"ph":"X","cat":"kernel","pid":0,"tid":7,"name":")" + kernel + R"(","ts":)" +
            std::to_string(10 + 10 * i) + R"(,"dur":5,"args":{"device":0,"stream":7}})";
  }
  return text + "]}";
}

ProcessResult tracecast_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), TRACECAST_PROGRAM);
  return run_process(arguments);
}

/// tracecast in a shell's line: "cat FILE | $T trace summary -", where $F is the folder.
ProcessResult in_shell(const std::string& line, const fs::path& folder) {
  return run_process(
      {"/bin/sh", "-c",
       "T='" TRACECAST_PROGRAM "'; F='" + folder.string() + "'; export TMPDIR=$F/tmp; " + line});
}

int count_entries(const fs::path& folder) {
  return static_cast<int>(std::distance(fs::directory_iterator(folder), {}));
}

/// A folder with recordings of all kinds, a table and a network.
struct Inputs {
  TemporaryFolder folder;
  Inputs() {
    fs::create_directory(path("tmp"));
    write_file(path("t.json"), recording("volta_sgemm_128x64_nn", 30));
    write_file(path("list.csv"), "Name,Duration\ngemm,3000\n");
    write_file(path("network.onnx"), onnx::small_network().bytes());
    write_file(path("table.csv"),
               "id,source,date,gpu,gpus,nodes,interconnect,framework,framework_name,"
               "framework_version,precision,xla,network,data,phase,batch_per_gpu,samples_per_s,"
               "notes\nr1,paper,2018-01,v100_sxm2_16gb,1,1,,tensorflow,TensorFlow,1.8,fp32,no,"
               "alexnet,synthetic,train,64,1000,\n");
    const std::string text = read_file(path("t.json"), kMost);
    gzFile packed = gzopen(path("t.json.gz").c_str(), "wb");
    gzwrite(packed, text.data(), static_cast<unsigned>(text.size()));
    gzclose(packed);
    sqlite3* database = nullptr;
    REQUIRE(sqlite3_open(path("export.sqlite").c_str(), &database) == SQLITE_OK);
    REQUIRE(sqlite3_exec(database,
                         "CREATE TABLE StringIds (id INTEGER, value TEXT);"
                         "INSERT INTO StringIds VALUES (1, 'gemm');"
                         "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, "
                         "deviceId INTEGER, streamId INTEGER, correlationId INTEGER, demangledName "
                         "INTEGER, shortName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, "
                         "blockX INTEGER, blockY INTEGER, blockZ INTEGER, registersPerThread "
                         "INTEGER, staticSharedMemory INTEGER, dynamicSharedMemory INTEGER);"
                         "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 3500, 0, 7, 11, 1, "
                         "1, 2, 1, 1, 128, 1, 1, 40, 64, 32768);",
                         nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(database);
    const ProcessResult made = tracecast_of(
        {"trace", "convert", path("t.json"), "--to", "tracecast", "-o", path("t.tctrace")});
    REQUIRE(made.exit_code == 0);
  }
  [[nodiscard]] fs::path path(const std::string& name) const { return folder.path() / name; }
};

TEST_SUITE_BEGIN("tools/standard_streams");

TEST_CASE("- reads what a file of that content would say, of every format, and leaves nothing") {
  const Inputs inputs;
  for (const char* file : {"t.json", "t.json.gz", "list.csv", "export.sqlite", "t.tctrace"}) {
    CAPTURE(file);
    for (const char* format : {"text", "json"}) {
      const ProcessResult named =
          tracecast_of({"trace", "summary", inputs.path(file), "--format", format});
      const ProcessResult piped =
          in_shell("cat $F/" + std::string(file) + " | $T trace summary - --format " + format,
                   inputs.folder.path());
      CHECK(piped.exit_code == 0);
      if (std::string_view(format) == "text") {
        CHECK(piped.out == named.out);
      } else {
        Json a = Json::parse(named.out), b = Json::parse(piped.out);
        CHECK(b["inputs"][0]["name"] == "standard input");
        CHECK(b["inputs"][0]["sha256"] == a["inputs"][0]["sha256"]);
        a.erase("inputs"), b.erase("inputs");
        CHECK(a == b);
      }
    }
    // What the shell opened is the file itself, unless something of it was read.
    const ProcessResult redirected = in_shell(
        "$T trace summary - --format json < $F/" + std::string(file), inputs.folder.path());
    CHECK(Json::parse(redirected.out)["inputs"][0]["name"] == file);
  }
  CHECK(count_entries(inputs.path("tmp")) == 0);
}

TEST_CASE("every subcommand that reads a file of foreign making takes - for it") {
  const Inputs inputs;
  struct Row {
    const char *file, *arguments;
  };
  const Row rows[] = {
      {"t.json", "trace replay @ --as-recorded"},
      {"t.json", "trace summary @ --from 100us --to 200us"},
      {"t.tctrace", "trace summary @ --from 100us --to 200us"},
      {"t.json", "trace diff @ $F/t.json.gz --per-step"},
      {"table.csv", "validate @"},
      {"network.onnx", "predict @ --gpu t4 --batch 2"},
      {"network.onnx", "predict @ --gpu t4 --batch 2 --largest-batch --format csv"},
      {"network.onnx", "networks @ --format csv"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.arguments);
    const auto with = [&row](const std::string& word) {
      std::string line = row.arguments;
      return line.replace(line.find('@'), 1, word);
    };
    const ProcessResult piped =
        in_shell("cat $F/" + std::string(row.file) + " | $T " + with("-"), inputs.folder.path());
    const ProcessResult named =
        in_shell("$T " + with("$F/" + std::string(row.file)), inputs.folder.path());
    CAPTURE(piped.err);
    CHECK(piped.exit_code == 0);
    CHECK(count_lines(piped.out) == count_lines(named.out));
    CHECK_FALSE(piped.out.empty());
  }
  CHECK(count_entries(inputs.path("tmp")) == 0);
}

TEST_CASE("- as an output is standard output, and no file of that name") {
  const Inputs inputs;
  for (const std::string to : {"chrome", "perfetto", "chakra", "tracecast"}) {
    CAPTURE(to);
    const fs::path file = inputs.path("out." + to);
    REQUIRE(tracecast_of({"trace", "convert", inputs.path("t.json"), "--to", to, "-o", file})
                .exit_code == 0);
    const std::string content = read_file(file, kMost);
    const std::string convert = "cd $F; $T trace convert ";
    for (const std::string& line :
         {convert + "t.json --to " + to + " -o -", convert + "- --to " + to + " < t.json",
          "cat $F/t.json | $T trace convert - --to " + to + " -o -",
          convert + "t.json --to " + to + " -o /dev/stdout | cat"}) {
      CAPTURE(line);
      const ProcessResult result = in_shell(line, inputs.folder.path());
      CHECK(result.exit_code == 0);
      // Our own form says where it comes from.
      if (to == "tracecast" && line.starts_with("cat")) continue;
      CHECK(result.out == content);
    }
  }
  CHECK_FALSE(fs::exists(inputs.path("-")));
  // A reader that has seen enough is no error.
  const ProcessResult cut =
      in_shell("cd $F; ($T trace convert t.json --to chrome -o -; echo $? > code) | true; cat code",
               inputs.folder.path());
  CHECK(cut.out == "0\n");
  CHECK(cut.err.find("found") == std::string::npos);
}

TEST_CASE("- where standard output holds the answer, or twice, is refused with the reason") {
  const Inputs inputs;
  for (const std::string line :
       {"predict alexnet --gpu t4 --batch 2 --trace -",
        "trace replay t.json --as-recorded --trace -", "calibrate --from table.csv --out -",
        "trace record -o - -- true", "trace diff - -", "trace summary - - < t.json"}) {
    CAPTURE(line);
    const ProcessResult result = in_shell("cd $F; $T " + line, inputs.folder.path());
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK(count_lines(result.err) == 1);
    CHECK(result.err.find("standard ") != std::string::npos);
  }
  CHECK_FALSE(fs::exists(inputs.path("-")));
  // What never ends and is no network is refused by its first bytes.
  for (const char* endless : {"yes", "cat /dev/zero", "yes '{'"}) {
    for (const char* line : {"predict - --gpu v100", "networks -"}) {
      CAPTURE(endless);
      CAPTURE(line);
      const ProcessResult result =
          in_shell(std::string(endless) + " | $T " + line, inputs.folder.path());
      CHECK(result.exit_code == 2);
      CHECK(result.out.empty());
      CHECK(result.err.starts_with("standard input, byte 0: found "));
      CHECK(result.err.find("expected an ONNX file") != std::string::npos);
    }
  }
  CHECK(count_entries(inputs.path("tmp")) == 0);
  // Nothing on standard input is an empty file.
  const ProcessResult empty = in_shell("$T trace summary - < /dev/null", inputs.folder.path());
  CHECK(empty.exit_code == 2);
  CHECK(empty.err.starts_with("standard input: found an empty file"));
}

TEST_CASE("a pipe gets what a file gets, and what is said of its size is true") {
  const Inputs inputs;
  const fs::path pipe = inputs.path("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const ProcessResult piped = in_shell(
      "cd $F; cat pipe > got & $T trace convert t.json --to chrome -o pipe; wait; "
      "$T trace convert t.json --to chrome -o file",
      inputs.folder.path());
  CHECK(read_file(inputs.path("got"), kMost) == read_file(inputs.path("file"), kMost));
  CHECK(piped.err == "wrote pipe (0.0 MB)\nwrote file (0.0 MB)\n");
  CHECK(fs::is_fifo(pipe));
  const ProcessResult nowhere = tracecast_of(
      {"trace", "convert", inputs.path("t.json"), "--to", "chrome", "-o", "/dev/null"});
  CHECK(nowhere.err == "wrote /dev/null (0.0 MB)\n");
  const ProcessResult full = tracecast_of(
      {"trace", "convert", inputs.path("t.json"), "--to", "chrome", "-o", "/dev/full"});
  CHECK(full.exit_code == 2);
  CHECK(count_lines(full.err) == 1);
  CHECK(full.err.find("No space left") != std::string::npos);
}

TEST_CASE("two commands that write one file at once leave one of the two answers, whole") {
  const Inputs inputs;
  std::array<std::vector<std::string>, 2> commands;
  std::array<std::string, 2> reports;
  const std::string out = inputs.path("out.json");
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string from = inputs.path("from" + std::to_string(i));
    write_file(from, recording(i == 0 ? "gemm" : "convolution", i == 0 ? 3000 : 2000));
    commands[i] = {TRACECAST_PROGRAM, "trace", "convert", from, "--to", "chrome", "-o", out};
    REQUIRE(run_process(commands[i]).exit_code == 0);
    reports[i] = read_file(out, kMost);
  }
  const int entries = count_entries(inputs.folder.path());
  constexpr int kRounds = 25;
  for (int round = 0; round < kRounds; ++round) {
    ProcessResult results[2];
    std::thread other([&] { results[1] = run_process(commands[1]); });
    results[0] = run_process(commands[0]);
    other.join();
    REQUIRE(results[0].exit_code == 0);
    REQUIRE(results[1].exit_code == 0);
    const std::string content = read_file(out, kMost);
    REQUIRE((content == reports[0] || content == reports[1]));
  }
  CHECK(count_entries(inputs.folder.path()) == entries);
}

TEST_SUITE_END();

}  // namespace
