#include <doctest/doctest.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/base/file.hpp"
#include "tests/bad_input/program.hpp"
#include "tests/support/temporary_folder.hpp"

// What has no end of its own, or none that anybody would wait for, is reported in one line.

namespace tracecast::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

const Seconds kLimit(60);  ///< much more than it takes, on a machine that does other things as well

ProcessResult run(Words words) {
  words.insert(words.begin(), TRACECAST_PROGRAM);
  return run_process(words, kLimit);
}

void check_refused(const ProcessResult& result, const char* says) {
  CAPTURE(result.err);
  CHECK_FALSE(result.timed_out);
  CHECK(result.exit_code == 2);
  CHECK(count_lines(result.err) == 1);
  CHECK(result.err.find(says) != std::string::npos);
}

TEST_SUITE_BEGIN("bad_input/endless");

TEST_CASE("requests of impossible lengths, loads and numbers are refused") {
  const TemporaryFolder folder;
  const fs::path trace = folder.path() / "requests.csv", measured = folder.path() / "result.json";
  const Words serve = {"serve", "llama3_8b", "--gpu", "h100"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), serve.begin(), serve.end());
    return more;
  };
  for (const char* tokens :
       {"9223372036854775807,1", "1,9223372036854775807", "9223372036854775807,9223372036854775807",
        "4611686018427387904,4611686018427387904", "100000000,1"}) {
    CAPTURE(std::string(tokens));
    write_file(trace, std::string("arrival_s,input_tokens,output_tokens\n0,") + tokens + "\n");
    check_refused(run(with({"--trace", trace})), "tokens");
  }
  write_file(trace, "arrival_s,input_tokens,output_tokens\n1e308,1,1\n");
  check_refused(run(with({"--trace", trace})), "arrival_s");
  struct Row {
    const char* key;
    double value;
  };
  for (const Row& row :
       {Row{"max_concurrency", 1e8}, Row{"max_concurrency", 1e300}, Row{"completed", 1e12},
        Row{"total_input_tokens", 1e14}, Row{"mean_ttft_ms", 1e300}}) {
    CAPTURE(row.key);
    nlohmann::json doc{{"model_id", "m"},
                       {"completed", 200},
                       {"max_concurrency", 16},
                       {"total_input_tokens", 20000},
                       {"total_output_tokens", 4000},
                       {"mean_ttft_ms", 100.0},
                       {"mean_tpot_ms", 10.0}};
    doc[row.key] = row.value;
    write_file(measured, doc.dump());
    check_refused(run(with({"--measured", measured})), "found");
  }
  check_refused(run(with({"--rate", "1e-30/s"})), "--rate");
}

TEST_CASE("a fleet that fails faster than its jobs get on is refused, in either kind of run") {
  const TemporaryFolder folder;
  const fs::path jobs = folder.path() / "jobs.csv", fleet = folder.path() / "fleet.textproto";
  write_file(jobs, "job_id,submit_s,num_gpu,duration_s\na,0,8,100000\nb,10,1,1000000\n");
  for (const char* failures :
       {"gpu_mtbf_hours: 1e-3", "node_mtbf_hours: 1e-3", "gpu_mtbf_hours: 1e-6",
        "node_mtbf_hours: 1e-300", "gpu_mtbf_hours: 0.01 node_mtbf_hours: 0.01"}) {
    CAPTURE(std::string(failures));
    write_file(fleet, std::string("group { count: 100 gpus: 8 gpu: 'v100' } failures { ") +
                          failures + " checkpoint_interval_s: 600 restart_s: 60 }");
    for (const Words& policy : {Words{"srtf"}, Words{"max_min", "--round", "360"}}) {
      Words words = {"schedule", jobs, "--fleet", fleet, "--policy"};
      words.insert(words.end(), policy.begin(), policy.end());
      check_refused(run(words), "mtbf_hours");
    }
  }
}

TEST_CASE("rounds that no job could be waited for are refused") {
  const TemporaryFolder folder;
  const fs::path jobs = folder.path() / "jobs.csv";
  write_file(jobs, "job_id,submit_s,num_gpu,duration_s\na,0,1,1e10\n");
  check_refused(run({"schedule", jobs, "--gpus", "8", "--policy", "max_min", "--round", "0.001"}),
                "--round");
}

TEST_CASE("what is no regular file is not waited for") {
  const TemporaryFolder folder;
  const fs::path pipe = folder.path() / "pipe", grid = folder.path() / "grid.textproto";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& file : {pipe.string(), std::string("/dev/zero")}) {
    CAPTURE(file);
    const Words commands[] = {
        {"predict", file, "--gpu", "t4"},
        {"query", file, "SELECT 1"},
        {"trace", "summary", file},
        {"trace", "replay", file, "--gpu", "t4"},
        {"validate", file},
        {"schedule", file, "--gpus", "8"},
        {"schedule", "nowhere", "--fleet", file},
        {"plan", file, "--deadline", "1d"},
        {"serve", "llama3_8b", "--gpu", "h100", "--trace", file},
        {"serve", "llama3_8b", "--gpu", "h100", "--measured", file},
        {"sweep", file, "-o", (folder.path() / "a.db").string()},
        {"cluster", "--cluster", file},
        {"predict", "alexnet", "--gpu", "t4", "--profile", file},
        {"calibrate", "--from", file},
    };
    for (const Words& words : commands) {
      CAPTURE(words[0]);
      check_refused(run(words), "found");
    }
    // A point of a sweep is refused, and the others are answered.
    write_file(grid, "predict { network: [\"" + (file == "/dev/zero" ? file : file) +
                         "\", \"alexnet\"] gpu: \"t4\" }");
    const ProcessResult rasterized =
        run({"sweep", grid, "-o", folder.path() / "results.db", "--format", "json"});
    CAPTURE(rasterized.err);
    CHECK_FALSE(rasterized.timed_out);
    CHECK(rasterized.exit_code == 0);
    check_refused(run({"sweep", grid, "-o", pipe}), "not a regular file");
  }
}

TEST_CASE("a query that has no end is ended by its limits") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "results.db";
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &database) == SQLITE_OK);
  REQUIRE(sqlite3_exec(database, "CREATE TABLE t (a)", nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
  const std::string endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) ";
  check_refused(run({"query", file, endless + "SELECT max(i) FROM n"}), "8 s");
  for (const char* format : {"table", "csv", "json"}) {
    CAPTURE(format);
    const auto query = [&](const std::string& sql, Words more) {
      more.insert(more.begin(), {"query", file, sql, "--format", format});
      return run(more);
    };
    check_refused(query(endless + "SELECT count(*) FROM n", {"--time-limit", "0.5"}),
                  "--time-limit");
    check_refused(query(endless + "SELECT i FROM n", {"--limit", "1000"}), "--limit");
    check_refused(query("SELECT zeroblob(1000000000)", {}), "too big");
    const ProcessResult rows = query(endless + "SELECT i FROM n LIMIT 1000", {"--limit", "1000"});
    CHECK(rows.exit_code == 0);
    const ProcessResult many = query(endless + "SELECT i, hex(zeroblob(1000)) FROM n", {});
    CHECK(many.exit_code == 2);
    if (!kSanitizesAddresses) CHECK(many.peak_bytes < 512ULL << 20);
  }
}

TEST_CASE("CSV of schedules has no infinities and no numbers that are none") {
  const TemporaryFolder folder;
  const fs::path jobs = folder.path() / "jobs.csv", fleet = folder.path() / "fleet.textproto";
  for (const char* rows :
       {"a,0,1,1e-18\n", "a,0,1,1e11\n", "a,1e11,1,1\n", "a,0,1,1e-18\nb,0,1,1e11\n"}) {
    write_file(jobs, std::string("job_id,submit_s,num_gpu,duration_s\n") + rows);
    for (const char* powers :
         {"busy_w: 1000000 usd_per_gpu_hour: 1e9", "busy_w: 0 usd_per_gpu_hour: 0"}) {
      write_file(fleet, std::string("group { count: 2 gpus: 4 gpu: 'v100' ") + powers + " }");
      const ProcessResult result =
          run({"schedule", jobs, "--fleet", fleet, "--policy", "all", "--format", "csv"});
      CAPTURE(std::string(rows));
      CAPTURE(result.out);
      CAPTURE(result.err);
      CHECK(result.exit_code == 0);
      for (const char* word : {"inf", "nan"}) CHECK(result.out.find(word) == std::string::npos);
    }
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
