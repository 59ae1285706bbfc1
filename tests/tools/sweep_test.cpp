#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/base/file.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tools/program.hpp"

namespace tracecast::test {
namespace {

using Json = nlohmann::json;

TEST_SUITE_BEGIN("tools/sweep");

/// A grid in a folder of its own, and the file of its results.
struct Rasterized {
  explicit Rasterized(const std::string& text) { write_file(grid, text); }
  ProcessResult run(Words more = {}) const {
    Words words{"sweep", grid, "-o", results};
    words.insert(words.end(), more.begin(), more.end());
    return tracecast(words);
  }
  Json rows(const std::string& table) const {
    const ProcessResult result = tracecast(
        {"query", results, "SELECT * FROM " + table + " ORDER BY point", "--format", "json"});
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    return Json::parse(result.out);
  }
  TemporaryFolder folder;
  std::string grid = (folder.path() / "grid.textproto").string();
  std::string results = (folder.path() / "results.db").string();
};

Json predicted(Words words) {
  words.insert(words.end(), {"--format", "json"});
  CAPTURE(line_of(words));
  const ProcessResult result = tracecast(words);
  REQUIRE(result.exit_code < 2);
  return Json::parse(result.out);
}

void check_interval(const Json& row, const char* value, const char* low, const char* high,
                    const Json& expected) {
  CHECK(row[value] == expected["value"]);
  CHECK(row[low] == expected["low"]);
  CHECK(row[high] == expected["high"]);
}

TEST_CASE("a row says what predict says with the same flags, to the last digit") {
  const Rasterized rasterized(R"(
predict {
  network: ["resnet50", "bert_base"]
  gpu: ["v100_sxm2_16gb", "a100"]
  gpus: [1, 4]
  precision: ["fp32", "amp"]
  batch: [2, 512]
})");
  REQUIRE(rasterized.run().exit_code == 0);
  const Json rows = rasterized.rows("predictions");
  REQUIRE(rows.size() == 32);
  for (std::size_t i = 0; i < rows.size(); i += 3) {
    const Json& row = rows[i];
    CHECK(row["point"] == i);
    const std::string gpus = std::to_string(row["gpus"].get<int>()),
                      batch = std::to_string(row["batch"].get<int>());
    const Json expected = predicted({"predict", row["network"].get<std::string>(), "--gpu",
                                     row["gpu"].get<std::string>(), "--gpus", gpus, "--precision",
                                     row["precision"].get<std::string>(), "--batch", batch});
    check_interval(row, "throughput_samples_per_s", "throughput_low_samples_per_s",
                   "throughput_high_samples_per_s", expected["throughput_samples_per_s"]);
    check_interval(row, "step_time_s", "step_time_low_s", "step_time_high_s",
                   expected["step_time_s"]);
    CHECK(row["used_gpu"] == expected["gpu"]);
    CHECK((row["fits"] == 1) == expected["memory"]["fits"].get<bool>());
    CHECK(row["status"] == (row["fits"] == 1 ? "predicted" : "does not fit"));
    CHECK(row["sm_efficiency"] == expected["sm_efficiency"]);
    CHECK(row["energy_j_per_sample"] == expected["energy_j_per_sample"]);
    CHECK(row["version"] == expected["version"]);
    CHECK(row["basis_measured"].get<double>() + row["basis_transferred"].get<double>() +
              row["basis_spec"].get<double>() + row["basis_unknown"].get<double>() ==
          doctest::Approx(1));
    const Json inputs =
        Json::parse(tracecast({"query", rasterized.results,
                               "SELECT inputs_json FROM inputs WHERE inputs_sha256='" +
                                   row["inputs_sha256"].get<std::string>() + "'",
                               "--format", "json"})
                        .out);
    CHECK(Json::parse(inputs[0]["inputs_json"].get<std::string>()) == expected["inputs"]);
  }
}

TEST_CASE(
    "sharded transformers, parameter servers and served loads are answered as their subcommands "
    "do") {
  const Rasterized rasterized(R"(
predict { network: "gpt2" gpu: "a100" gpus: 8 tp: [2, 4] micro_batch: 2 global_batch: 32 precision: "amp" }
predict { network: "vgg16" gpu: "v100" nodes: 4 servers: 2 framework: "tensorflow" batch: 32 async: [true, false] }
serve { network: "llama3_8b" gpu: "h100_sxm5_80gb" gpus: 1 input: 512 output: 64 requests: 50 concurrency: [4, 8] }
serve { network: "llama3_8b" gpu: "h100_sxm5_80gb" gpus: 1 input: 512 output: 64 requests: 50 rate: "2/s" }
)");
  const ProcessResult result = rasterized.run();
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  const Json rows = rasterized.rows("predictions"), served = rasterized.rows("servings");
  REQUIRE(rows.size() == 4);
  REQUIRE(served.size() == 3);
  const Json sharded =
      predicted({"predict", "gpt2", "--gpu", "a100", "--gpus", "8", "--tp", "4", "--micro-batch",
                 "2", "--global-batch", "32", "--precision", "amp"});
  CHECK(rows[1]["throughput_samples_per_s"] == sharded["throughput_samples_per_s"]["value"]);
  const Json servers = predicted({"predict", "vgg16", "--gpu", "v100", "--nodes", "4", "--servers",
                                  "2", "--framework", "tensorflow", "--batch", "32", "--async"});
  CHECK(rows[2]["throughput_samples_per_s"] == servers["throughput_samples_per_s"]["value"]);
  CHECK(rows[3]["throughput_samples_per_s"] != rows[2]["throughput_samples_per_s"]);
  for (std::size_t i = 0; i < served.size(); ++i) {
    CHECK(served[i]["point"] == i + 4);
    Words words{"serve", "llama3_8b", "--gpu", "h100_sxm5_80gb", "--gpus", "1", "--input",
                "512",   "--output",  "64",    "--requests",     "50"};
    if (i < 2) {
      words.insert(words.end(), {"--concurrency", i == 0 ? "4" : "8"});
    } else {
      words.insert(words.end(), {"--rate", "2/s"});
    }
    const Json expected = predicted(words);
    check_interval(served[i], "ttft_p90_ms", "ttft_p90_low_ms", "ttft_p90_high_ms",
                   expected["ttft_ms"]["p90"]);
    CHECK(served[i]["tokens_per_s_per_gpu"] == expected["tokens_per_s_per_gpu"]);
  }
}

TEST_CASE("what cannot run says why in its row, and the others are answered") {
  const Rasterized rasterized(R"(
predict { network: ["resnet50", "resnet5000"] gpu: ["v100", "v1000"] gpus: [1, 2] strategy: "horovod" image_size: [224, 7] })");
  const ProcessResult result = rasterized.run();
  CHECK(result.exit_code == 0);
  const Json rows = rasterized.rows("predictions");
  REQUIRE(rows.size() == 16);
  int reported = 0;
  for (const Json& row : rows) {
    Words words{"predict",      row["network"].get<std::string>(),
                "--gpu",        row["gpu"].get<std::string>(),
                "--gpus",       std::to_string(row["gpus"].get<int>()),
                "--strategy",   "horovod",
                "--image-size", std::to_string(row["image_size"].get<int>())};
    const ProcessResult alone = tracecast(words);
    CAPTURE(line_of(words));
    if (alone.exit_code == 2) {
      CHECK(row["status"] == "refused");
      CHECK(row["refused"].get<std::string>() + '\n' == alone.err);
      CHECK(row["throughput_samples_per_s"].is_null());
    } else {
      CHECK(row["status"] != "refused");
      ++reported;
    }
  }
  CHECK(reported > 0);
  CHECK(result.out.find("resnet5000") != std::string::npos);
  // Nothing that could be answered: the answer is no.
  const Rasterized none(R"(predict { network: "resnet5000" gpu: "v100" })");
  CHECK(none.run().exit_code == 1);
}

TEST_CASE("a second run predicts nothing, a wider grid what is new, other hardware all of it") {
  const Rasterized rasterized(R"(predict { network: "alexnet" gpu: "v100" batch: [1, 2, 4] })");
  const auto says = [](const ProcessResult& result, const char* words) {
    CAPTURE(result.err);
    CHECK(result.exit_code == 0);
    CHECK(result.err.find(words) != std::string::npos);
  };
  says(rasterized.run(), "3 of 3 points predicted now");
  const std::string first = rasterized.rows("predictions").dump();
  says(rasterized.run(), "0 of 3 points predicted now");
  CHECK(rasterized.rows("predictions").dump() == first);
  write_file(rasterized.grid,
             "# wider\npredict { network: \"alexnet\"  gpu: \"v100\" batch: [1, 2, 3, 4] }");
  says(rasterized.run(), "1 of 4 points predicted now");
  const Json rows = rasterized.rows("predictions");
  CHECK(rows.size() == 4);
  CHECK(rows.back()["batch"] == 3);
  says(rasterized.run({"--set", "gpu.memory_bandwidth=2x"}), "4 of 4 points predicted now");
  const Json changed = rasterized.rows("predictions");
  CHECK(changed.size() == 4);
  CHECK(changed[0]["point"] == rows[0]["point"]);
  CHECK(changed[0]["state_sha256"] != rows[0]["state_sha256"]);
  CHECK(changed[0]["throughput_samples_per_s"] != rows[0]["throughput_samples_per_s"]);
}

TEST_CASE("any number of threads writes the same rows") {
  const Rasterized one(
      R"(predict { network: ["alexnet", "vgg11"] gpu: ["v100", "t4"] batch: [1, 2, 3, 4, 5] })");
  CHECK(one.run({"--threads", "1"}).exit_code == 0);
  const std::string rows = one.rows("predictions").dump();
  CHECK(std::filesystem::remove(one.results));
  CHECK(one.run({"--threads", "5"}).exit_code == 0);
  CHECK(one.rows("predictions").dump() == rows);
}

TEST_CASE("grids and files that are wrong end with one line and 2") {
  const std::string whole = R"(predict { network: "alexnet" gpu: "v100" batch: [1, 2] })";
  const std::pair<std::string, const char*> grids[] = {
      {"", "nothing to ask"},
      {"predict { gpu: \"v100\" }", "without a network"},
      {"predict { network: \"alexnet\" gpuss: 1 }", "gpus"},
      {"predict { network: \"alexnet\" batch: [1, 1] }", "batch 1 twice"},
      {"predict { network: \"-\" gpu: \"v100\" }", "network -"}};
  for (const auto& [text, expected] : grids) {
    CAPTURE(text);
    const ProcessResult result = Rasterized(text).run();
    CHECK(result.exit_code == 2);
    CHECK(count_lines(result.err) == 1);
    CHECK(result.err.find(expected) != std::string::npos);
  }
  // 10^12 points: four axes of a thousand values.
  std::string numbers;
  for (int i = 1; i <= 1000; ++i) numbers += (i > 1 ? ", " : "") + std::to_string(i);
  std::string large = "predict { network: \"alexnet\" gpu: \"v100\" ";
  for (const char* axis : {"batch", "gpus", "cpu_threads", "workers"})
    large += std::string(axis) + ": [" + numbers + "] ";
  const ProcessResult refused = Rasterized(large + "}").run();
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("at most 10000000") != std::string::npos);

  const Rasterized other(whole);
  write_file(other.results,
             "no database, but more than a hundred bytes of text, which SQLite reads as a header "
             "of its own and refuses");
  ProcessResult result = other.run();
  CHECK(result.exit_code == 2);
  CHECK(count_lines(result.err) == 1);
  const Rasterized nowhere(whole);
  result = tracecast({"sweep", nowhere.grid, "-o", "/nonexistent/folder/results.db"});
  CHECK(result.exit_code == 2);
  CHECK(count_lines(result.err) == 1);
}

TEST_CASE("a damaged file is refused, and so is a store of another kind") {
  const Rasterized rasterized(
      R"(predict { network: "alexnet" gpu: "v100" batch: [1, 2, 3, 4, 5, 6, 7, 8] })");
  REQUIRE(rasterized.run().exit_code == 0);
  const std::string bytes = read_file(rasterized.results, 1 << 26);
  std::string damaged = bytes;
  for (std::size_t i = 4096; i < damaged.size(); i += 97) damaged[i] = '\x5a';
  write_file(rasterized.results, damaged);
  ProcessResult result = rasterized.run();
  CHECK(result.exit_code == 2);
  CHECK(count_lines(result.err) == 1);
  CHECK(read_file(rasterized.results, 1 << 26) == damaged);
  write_file(rasterized.results, bytes.substr(0, bytes.size() / 2));
  result = rasterized.run();
  CHECK(result.exit_code == 2);
  CHECK(count_lines(result.err) == 1);

  const Rasterized mixed(R"(predict { network: "alexnet" gpu: "v100" })");
  REQUIRE(tracecast({"plan", "tools/manual/jobs.textproto", "--deadline", "30d", "--worlds", "10",
                     "--store", mixed.results})
              .exit_code < 2);
  result = mixed.run();
  CHECK(result.exit_code == 2);
  CHECK(result.err.find("something else") != std::string::npos);
}

TEST_CASE("query reads in three forms and changes nothing") {
  const Rasterized rasterized(R"(predict { network: "alexnet" gpu: "v100" batch: [1, 2] })");
  REQUIRE(rasterized.run().exit_code == 0);
  const auto query = [&](const std::string& sql, const std::string& format) {
    return tracecast({"query", rasterized.results, sql, "--format", format});
  };
  const std::string sql =
      "SELECT batch, gpu, throughput_samples_per_s AS t, cpu_threads FROM predictions";
  const Json rows = Json::parse(query(sql, "json").out);
  REQUIRE(rows.size() == 2);
  CHECK(rows[1]["batch"] == 2);
  CHECK(rows[0]["cpu_threads"].is_null());
  const std::string csv = query(sql, "csv").out;
  CHECK(csv.starts_with("batch,gpu,t,cpu_threads\n1,v100,"));
  const std::size_t at = csv.find("v100,") + 5;
  CHECK(std::stod(csv.substr(at)) == rows[0]["t"].get<double>());
  CHECK(count_lines(query(sql, "table").out) == 3);
  CHECK(query("SELECT 1 WHERE 0", "json").out == "[]\n");
  for (const char* bad :
       {"DELETE FROM predictions", "SELEC 1", "SELECT 1; SELECT 2", "", "CREATE TABLE t (x)",
        "ATTACH 'x.db' AS y", "PRAGMA journal_mode=DELETE", "SELECT nothing FROM predictions"}) {
    CAPTURE(bad);
    const ProcessResult result = query(bad, "csv");
    CHECK(result.exit_code == 2);
    CHECK(count_lines(result.err) == 1);
  }
  CHECK(rasterized.rows("predictions").size() == 2);
  CHECK(tracecast({"query", "/nonexistent.db", "SELECT 1"}).exit_code == 2);
  CHECK(tracecast({"query", rasterized.grid, "SELECT 1"}).exit_code == 2);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
