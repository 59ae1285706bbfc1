#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "sim/base/file.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tools/program.hpp"

namespace tracecast::test {
namespace {

using Json = nlohmann::json;
const std::string kJobs = "tools/manual/jobs.textproto",
                  kPrices = "tools/manual/catalogue.textproto";

TEST_SUITE_BEGIN("tools/plan");

Json answer(Words words, int exit_code = 0) {
  words.insert(words.begin(), "plan");
  words.insert(words.end(), {"--format", "json", "--worlds", "20"});
  CAPTURE(line_of(words));
  const ProcessResult result = tracecast(words);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == exit_code);
  return Json::parse(result.out);
}

TEST_CASE("the manual's jobs: a plan in its limits, and the same bytes again from the store") {
  const TemporaryFolder folder;
  const std::string store = (folder.path() / "cells.sqlite").string();
  const Words words{
      "plan",       kJobs, "--catalogue", kPrices,  "--fleet",    "tools/manual/fleet.textproto",
      "--deadline", "30d", "--budget",    "500000", "--power-kw", "40",
      "--worlds",   "20",  "--store",     store,    "--format",   "json"};
  const ProcessResult first = tracecast(words), second = tracecast(words);
  CHECK(first.exit_code == 0);
  CHECK(first.out == second.out);
  CHECK(second.err.find(" 0 of them predicted now") != std::string::npos);
  const Json doc = Json::parse(first.out);
  CHECK(doc["plan"]["spend_usd"].get<double>() <= 500000);
  CHECK(doc["plan"]["power_kw"].get<double>() <= 40);
  CHECK(doc["plan"]["makespan_s"].get<double>() <= 30 * 86400.0);
  CHECK(doc["plan"]["in_time"] == true);
  int jobs = 0;
  for (const Json& row : doc["plan"]["assignment"]) jobs += row["count"].get<int>();
  CHECK(jobs == 20);
  CHECK(doc["runners_up"].size() >= 1);
  CHECK(doc["plan"]["schedule"].size() == 20);
}

TEST_CASE("a run that was timed moves the same job elsewhere, and narrows what is said of it") {
  const Words words{kJobs, "--catalogue", kPrices, "--deadline", "30d"};
  const Json without = answer(words);
  Words more = words;
  more.insert(more.end(), {"--measured", "tools/manual/runs.csv"});
  const Json with = answer(more);
  const auto cell = [](const Json& doc) {
    for (const Json& row : doc["matrix"])
      if (row["job"] == "vision_a" && row["gpu"] == "a100_sxm4_80gb" && row["gpus"] == 1)
        return row;
    return Json();
  };
  const Json a = cell(without)["samples_per_s"], b = cell(with)["samples_per_s"];
  CHECK(cell(with)["basis"] == "corrected");
  CHECK(b["value"].get<double>() != a["value"].get<double>());
  CHECK(b["high"].get<double>() / b["low"].get<double>() <
        a["high"].get<double>() / a["low"].get<double>());
}

TEST_CASE("the prices in the program are used and said where none are given") {
  const ProcessResult result = tracecast({"plan", kJobs, "--deadline", "30d", "--worlds", "20"});
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("partly guessed") != std::string::npos);
}

TEST_CASE("impossible requests say which limit binds and by how much, and end with 1") {
  Json doc = answer({kJobs, "--catalogue", kPrices, "--deadline", "30d", "--budget", "500"}, 1);
  REQUIRE(doc["binding_limits"].size() == 1);
  CHECK(doc["binding_limits"][0]["limit"] == "budget");
  const double needed = doc["binding_limits"][0]["needed"].get<double>();
  CHECK(needed > 500);
  // What is said to do, does; and half of it does not.
  (void)answer({kJobs, "--catalogue", kPrices, "--deadline", "30d", "--budget",
                std::to_string(needed * 1.001)});
  (void)answer({kJobs, "--catalogue", kPrices, "--deadline", "30d", "--budget",
                std::to_string(needed * 0.5)},
               1);
  doc = answer({kJobs, "--catalogue", kPrices, "--deadline", "2h"}, 1);
  REQUIRE(doc["binding_limits"].size() == 1);
  CHECK(doc["binding_limits"][0]["limit"] == "deadline");
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "jobs.textproto").string();
  write_file(file,
             "job { id: \"big\" network: \"bert_large\" batch: 4096 seq_len: 512 samples: 1e6 }");
  doc = answer({file, "--catalogue", kPrices, "--deadline", "30d"}, 1);
  REQUIRE(doc["jobs_without_place"].size() == 1);
  CHECK(doc["jobs_without_place"][0].get<std::string>().starts_with("memory binds: big needs"));
}

TEST_CASE("bad files end with 2 and one line that names the place") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "bad.textproto").string();
  const std::string job = "job { id: \"a\" network: \"resnet50\" samples: 1e6 ";
  const std::string offer = "offer { id: \"a\" gpu: \"t4\" price_usd: 1 } ";
  const std::pair<std::string, const char*> jobs[] = {
      {job + "after: \"b\" }\n" + "job { id: \"b\" network: \"resnet50\" samples: 1 after: \"a\" }",
       "after itself"},
      {job + "}\n" + job + "}", "a second job \"a\""},
      {job + "epochs: 3 }", "2 kinds of work"},
      {job + "gpus: 0 }", "gpus 0"},
      {job + "deadline_hours: -1 }", "deadline_hours -1"},
      {job + "deadline: 3 }", "deadline_hours"},
      {job + "allowed_gpu: \"v1000\" }", "v1000"},
      {job + "serving { requests_per_s: 1 } }", "serving"},
      {"", "no job"}};
  for (const auto& [text, expected] : jobs) {
    CAPTURE(text);
    write_file(file, text);
    const ProcessResult result = tracecast({"plan", file, "--deadline", "30d"});
    CHECK(result.exit_code == 2);
    CHECK(count_lines(result.err) == 1);
    CHECK(result.err.find(expected) != std::string::npos);
  }
  const std::pair<std::string, const char*> prices[] = {
      {"offer { id: \"a\" gpu: \"t4\" price_usd: -1 }", "price_usd -1"},
      {offer + "\n" + offer, ":2: "},
      {"offer { id: \"a\" gpu: \"t4\" price: 1 }", "price_usd"},
      {"offer { id: \"a\" gpu: \"t5000\" price_usd: 1 }", "t5000"},
      {"offer { id: \"a\" gpu: \"t4\" }", "without a price"},
      {"offer { id: \"a\" gpu: \"t4\" price_usd: 1 load_w: 10 idle_w: 20 }", "above load"},
      {offer + "pue: 0.5", "pue 0.5"}};
  for (const auto& [text, expected] : prices) {
    CAPTURE(text);
    write_file(file, text);
    const ProcessResult result =
        tracecast({"plan", kJobs, "--catalogue", file, "--deadline", "30d"});
    CHECK(result.exit_code == 2);
    CHECK(count_lines(result.err) == 1);
    CHECK(result.err.find(expected) != std::string::npos);
  }
  for (const char* deadline : {"30", "d", "-3d", "3y"})
    CHECK(tracecast({"plan", kJobs, "--deadline", deadline}).exit_code == 2);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
