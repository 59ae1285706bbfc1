#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/file.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tools/program.hpp"

namespace tracecast::test {
namespace {

using Json = nlohmann::json;
const std::string kJobs = "tools/manual/jobs.textproto",
                  kPrices = "tools/manual/catalogue.textproto";

TEST_SUITE_BEGIN("tools/plan");

Json report(Words words, int exit_code = 0) {
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
  const Json without = report(words);
  Words more = words;
  more.insert(more.end(), {"--measured", "tools/manual/runs.csv"});
  const Json with = report(more);
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

TEST_CASE("predict takes runs, too, and says what compare says") {
  const TemporaryFolder folder;
  const std::string runs = (folder.path() / "runs.csv").string();
  const Words job{"--gpu", "v100", "--batch", "64", "--format", "json", "--measured", runs};
  const auto asked = [&](const char* subcommand) {
    Words words{subcommand, "resnet50"};
    words.insert(words.end(), job.begin(), job.end());
    const ProcessResult result = tracecast(words);
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    return Json::parse(result.out);
  };
  write_file(runs, "network,gpu,batch,samples_per_s\nresnet50,t4,64,100\nvgg16,t4,64,1\n");
  const Json predicted = asked("predict"), compared = asked("compare");
  const Json& here = predicted["measured"]["throughput_samples_per_s"];
  const Json& there = compared["rows"][0]["throughput_samples_per_s"];
  CHECK(predicted["measured"]["runs"] == 1);
  CHECK(predicted["measured"]["here"] == false);
  for (const char* key : {"value", "low", "high"})
    CHECK(here[key].get<double>() == doctest::Approx(there[key].get<double>()).epsilon(1e-6));
  const Json& plain = predicted["throughput_samples_per_s"];
  CHECK(here["value"].get<double>() != doctest::Approx(plain["value"].get<double>()));
  // On the same GPU the run is the answer, nearly.
  write_file(runs, "network,gpu,samples_per_s\nresnet50,v100,300\n");
  const Json same = asked("predict");
  CHECK(same["measured"]["here"] == true);
  CHECK(same["measured"]["throughput_samples_per_s"]["value"].get<double>() ==
        doctest::Approx(300).epsilon(0.02));
  CHECK(tracecast({"predict", "resnet50", "--gpu", "v100", "--measured", runs, "--format", "csv"})
            .exit_code == 2);
  const ProcessResult text =
      tracecast({"predict", "resnet50", "--gpu", "v100", "--batch", "64", "--measured", runs});
  CHECK(text.out.find("Corrected") != std::string::npos);
}

TEST_CASE("columns of compare are named as those of predict, and tell what JSON tells") {
  const auto asked = [](const char* subcommand, const char* format) {
    return tracecast({subcommand, "resnet50", "--gpu", "v100", "--batch", "64", "--format", format})
        .out;
  };
  const auto cells = [](const std::string& line) {
    std::vector<std::string> found;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, ',');) found.push_back(cell);
    return found;
  };
  const auto table = [&](const std::string& csv) {
    std::istringstream in(csv);
    std::string names, values;
    std::getline(in, names), std::getline(in, values);
    std::map<std::string, std::string> row;
    const auto keys = cells(names), all = cells(values);
    for (std::size_t i = 0; i < std::min(keys.size(), all.size()); ++i) row[keys[i]] = all[i];
    return row;
  };
  auto predicted = table(asked("predict", "csv")), compared = table(asked("compare", "csv"));
  for (const char* column :
       {"gpu", "batch_per_gpu", "throughput_samples_per_s", "throughput_low_samples_per_s",
        "throughput_high_samples_per_s", "fits"}) {
    CAPTURE(std::string(column));
    CHECK_FALSE(compared[column].empty());
    CHECK(compared[column] == predicted[column]);
  }
  const Json row = Json::parse(asked("compare", "json"))["rows"][0];
  for (const char* column : {"memory_bytes", "power_w", "owned_usd_per_million_samples"}) {
    CAPTURE(std::string(column));
    CHECK(std::stod(compared[column]) == row[column].get<double>());
  }
}

TEST_CASE("the prices in the program are used and said where none are given") {
  const ProcessResult result = tracecast({"plan", kJobs, "--deadline", "30d", "--worlds", "20"});
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("partly guessed") != std::string::npos);
}

TEST_CASE("jobs that serve get replicas enough for their rate, beside those that train") {
  const std::string file = "tools/manual/serving_jobs.textproto";
  const Json doc = report({file, "--catalogue", kPrices, "--deadline", "30d"});
  const auto assigned = [](const Json& d, const char* job) {
    for (const Json& row : d["plan"]["assignment"])
      if (row["job"] == job) return row;
    return Json();
  };
  const Json chat = assigned(doc, "chat");
  REQUIRE(chat.contains("replicas"));
  const double borne = chat["borne_per_replica_per_s"].get<double>();
  const int replicas = chat["replicas"].get<int>();
  // As predicted a tenth fewer would be too few or just enough; nine in ten worlds ask for some
  // more than that.
  CHECK(replicas * borne > 12);
  CHECK(chat["time_s"].get<double>() == doctest::Approx(720 * 3600));
  CHECK(doc["plan"]["in_time"] == true);
  for (const Json& residence : doc["plan"]["schedule"])
    if (residence["job"] == "chat") CHECK(residence["begin_s"].get<double>() == doctest::Approx(0));
  CHECK(assigned(doc, "vision")["count"] == 2);
  CHECK(doc["probability_within_limits"].get<double>() > 0.6);

  // What a replica bears is what `serve --find rate` says.
  const TemporaryFolder folder;
  const std::string own = (folder.path() / "jobs.textproto").string();
  const auto write = [&](const std::string& rate, const std::string& more) {
    write_file(own,
               "job { id: \"chat\" network: \"llama3_8b\" precision: \"fp8\" allowed_gpu: "
               "\"a100_sxm4_80gb\" "
               "serving { input: 1500 output: 250 hours: 720 requests_per_s: " +
                   rate + more + " } }");
  };
  write("12", " tpot_ms: 40");
  const Json sure = report({own, "--catalogue", kPrices, "--deadline", "30d"});
  const Json one = assigned(sure, "chat");
  const double rate = one["borne_per_replica_per_s"].get<double>();
  CHECK(one["replicas"].get<int>() >= 12 / rate);
  CHECK(one["gpus"].get<int>() >= one["replicas"].get<int>());
  write("12", " tpot_ms: 40 certainty: 0.99");
  const Json safe = assigned(report({own, "--catalogue", kPrices, "--deadline", "30d"}), "chat");
  CHECK(safe["replicas"].get<int>() > one["replicas"].get<int>());
  write("12", " ttft_ms: 0.01");
  const Json none = report({own, "--catalogue", kPrices, "--deadline", "30d"}, 1);
  REQUIRE(none["jobs_without_place"].size() == 1);
  CHECK(none["jobs_without_place"][0].get<std::string>().find("no load keeps to") !=
        std::string::npos);
}

TEST_CASE("a transformer with a global batch is divided over its gang as --search would") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "jobs.textproto").string();
  write_file(file,
             "job { id: \"gpt\" network: \"gpt3_13b\" global_batch: 256 seq_len: 2048 tokens: 1e9 "
             "gpus: 8 gpus: 16 allowed_gpu: \"a100_sxm4_80gb\" }");
  const Json doc = report({file, "--catalogue", kPrices, "--deadline", "30d"});
  const ProcessResult found = tracecast({"predict", "gpt3_13b", "--gpu", "a100_sxm4_80gb", "--gpus",
                                         "16", "--machine", "dgx_a100", "--seq-len", "2048",
                                         "--global-batch", "256", "--search", "--format", "json"});
  REQUIRE(found.exit_code == 0);
  const double best = Json::parse(found.out)["divisions"][0]["throughput"]["value"].get<double>();
  bool seen = false;
  for (const Json& row : doc["matrix"]) {
    if (row["gpus"] != 16 || row["machine"] != "dgx_a100") continue;
    seen = true;
    CHECK(row["samples_per_s"]["value"].get<double>() == doctest::Approx(best).epsilon(1e-9));
  }
  CHECK(seen);
  CHECK(doc["plan"]["assignment"][0]["gpus"].get<int>() >= 8);
}

TEST_CASE("what is wrong wherever a job runs is no answer of no") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "jobs.textproto").string();
  write_file(file, "job { id: \"a\" network: \"resnet50\" phase: \"nan\" samples: 1e6 gpus: 1 }");
  const std::vector<Words> wrong = {
      {"compare", "resnet50", "--gpu", "v100,a100", "--phase", "nan"},
      {"compare", "resnet50", "--gpu", "v100", "--precision", "inf"},
      {"compare", "resnet50", "--gpu", "v100", "--framework", "nan"},
      {"compare", "resnet50", "--gpu", "v100", "--framework", "tensorrt"},
      {"compare", "resnet50", "--gpu", "v100", "--optimizer", "-1"},
      {"compare", "resnet50", "--gpu", "v100", "--image-size", "-1"},
      {"compare", "resnet50", "--gpu", "v100", "--epoch-samples", "-1"},
      {"compare", "resnet5000", "--gpu", "v100"},
      {"compare", "bert_base", "--gpu", "v100", "--seq-len", "100000"},
      {"compare", "llama3_8b", "--gpu", "h100", "--serve", "--concurrency", "8", "--phase",
       "infer"},
      {"compare", "llama3_8b", "--gpu", "h100", "--serve", "--concurrency", "8", "--seq-len", "9"},
      {"plan", file, "--deadline", "30d"},
  };
  for (const Words& words : wrong) {
    CAPTURE(line_of(words));
    const ProcessResult result = tracecast(words);
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    CHECK(result.out.empty());
  }
  // Too large for the GPU is an answer.
  CHECK(tracecast({"compare", "llama3_70b", "--gpu", "t4"}).exit_code == 1);
}

TEST_CASE("GPUs are compared by what a million tokens of answers costs") {
  const Words words{"compare",       "llama3_8b", "--gpu",   "l40s,h100", "--serve",
                    "--concurrency", "8,64",      "--input", "500",       "--output",
                    "100",           "--format",  "json"};
  const Json doc = Json::parse(tracecast(words).out);
  REQUIRE(doc["rows"].size() == 4);
  for (std::size_t i = 0; i < 4; i += 2) {
    const Json &few = doc["rows"][i], &many = doc["rows"][i + 1];
    CHECK(many["tokens_per_s"]["value"].get<double>() > few["tokens_per_s"]["value"].get<double>());
    CHECK(many["owned_usd_per_million_tokens"].get<double>() <
          few["owned_usd_per_million_tokens"].get<double>());
    CHECK(many["tpot_ms"]["value"].get<double>() > few["tpot_ms"]["value"].get<double>());
  }
  // The same question, to the last digit.
  const Json served = Json::parse(
      tracecast({"serve", "llama3_8b", "--gpu", "h100", "--precision", "bf16", "--concurrency",
                 "64", "--input", "500", "--output", "100", "--format", "json"})
          .out);
  CHECK(doc["rows"][3]["tokens_per_s"]["value"] == served["tokens_per_s"]);
  CHECK(doc["rows"][3]["ttft_ms"]["value"] == served["ttft_ms"]["mean"]["value"]);
  CHECK(tracecast({"compare", "llama3_8b", "--gpu", "h100", "--serve"}).exit_code == 2);
  CHECK(tracecast({"compare", "llama3_8b", "--gpu", "h100", "--concurrency", "8"}).exit_code == 2);
  const ProcessResult text =
      tracecast({"compare", "llama3_8b", "--gpu", "l40s,h100", "--serve", "--tpot-ms", "30"});
  CHECK(text.exit_code == 0);
  CHECK(text.out.find("USD per million tokens") != std::string::npos);
  // A rate that was found is as unsure as the steps that bear it.
  const Json found = Json::parse(tracecast({"compare", "llama3_8b", "--gpu", "h100", "--serve",
                                            "--tpot-ms", "30", "--format", "json"})
                                     .out);
  const Json& tokens = found["rows"][0]["tokens_per_s"];
  CHECK(tokens["low"].get<double>() < tokens["value"].get<double>());
  CHECK(tokens["high"].get<double>() > tokens["value"].get<double>());
  for (std::size_t at = 0; at < text.out.size();) {
    const std::size_t end = std::min(text.out.find('\n', at), text.out.size());
    CHECK(end - at <= 80);
    at = end + 1;
  }
}

TEST_CASE("parts of GPUs are bought like GPUs, and jobs have one") {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, const char* text) {
    write_file(folder.path() / name, text);
    return (folder.path() / name).string();
  };
  // Seven small jobs fill a GPU in seven parts; gangs of two have none.
  const std::string jobs =
      write("jobs.textproto",
            "job { id: 'small' network: 'resnet50' batch: 8 count: 7 samples: 1e6 gpus: [1, 2] }");
  const std::string whole = "offer { id: 'box' gpu: 'a100_sxm4_80gb' price_usd: 20000 } ";
  const std::string parts = "offer { id: 'parts' gpu: 'a100_1g_10gb' parts: 7 price_usd: 20000 }";
  const auto plan = [&](const std::string& offers) {
    const std::string catalogue = write("catalogue.textproto", offers.c_str());
    const ProcessResult result = tracecast({"plan", jobs, "--catalogue", catalogue, "--deadline",
                                            "30d", "--worlds", "20", "--format", "json"});
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    return Json::parse(result.out);
  };
  const Json in_parts = plan(parts);
  CHECK(in_parts["plan"]["machines"][0]["count"] == 1);
  for (const Json& cell : in_parts["matrix"]) CHECK(cell["gpus"] == 1);
  for (const Json& row : in_parts["plan"]["assignment"]) CHECK(row["gpus"] == 1);
  // One part is slower than the whole, and faster than a seventh of it: small batches leave most of
  // it idle.
  const auto rate = [](const Json& doc) {
    return doc["matrix"][0]["samples_per_s"]["value"].get<double>();
  };
  const double all = rate(plan(whole)), one = rate(in_parts);
  CHECK(one < all);
  CHECK(one > all / 7);
}

TEST_CASE("impossible requests say which limit binds and by how much, and end with 1") {
  Json doc = report({kJobs, "--catalogue", kPrices, "--deadline", "30d", "--budget", "500"}, 1);
  REQUIRE(doc["binding_limits"].size() == 1);
  CHECK(doc["binding_limits"][0]["limit"] == "budget");
  const double needed = doc["binding_limits"][0]["needed"].get<double>();
  CHECK(needed > 500);
  // What is said to do, does; and half of it does not.
  (void)report({kJobs, "--catalogue", kPrices, "--deadline", "30d", "--budget",
                std::to_string(needed * 1.001)});
  (void)report({kJobs, "--catalogue", kPrices, "--deadline", "30d", "--budget",
                std::to_string(needed * 0.5)},
               1);
  doc = report({kJobs, "--catalogue", kPrices, "--deadline", "2h"}, 1);
  REQUIRE(doc["binding_limits"].size() == 1);
  CHECK(doc["binding_limits"][0]["limit"] == "deadline");
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "jobs.textproto").string();
  write_file(file,
             "job { id: \"big\" network: \"bert_large\" batch: 4096 seq_len: 512 samples: 1e6 }");
  doc = report({file, "--catalogue", kPrices, "--deadline", "30d"}, 1);
  REQUIRE(doc["jobs_without_place"].size() == 1);
  CHECK(doc["jobs_without_place"][0].get<std::string>().starts_with("memory binds: big needs"));
}

TEST_CASE("bad files end with 2 and one line that names the place") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "bad.textproto").string();
  const std::string job = "job { id: \"a\" network: \"resnet50\" samples: 1e6 ";
  const std::string serving = "job { id: \"a\" network: \"llama3_8b\" serving { ";
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
      {job + "serving { requests_per_s: 1 } }", "serving and work"},
      {job + "batch: 4 global_batch: 64 }", "batch beside global_batch"},
      {serving + "input: 10 output: 10 hours: 1 ttft_ms: 5 } }", "without requests_per_s"},
      {serving + "requests_per_s: -1 input: 10 output: 10 hours: 1 ttft_ms: 5 } }",
       "requests_per_s -1"},
      {serving + "requests_per_s: 1 input: 10 hours: 1 ttft_ms: 5 } }", "without input and output"},
      {serving + "requests_per_s: 1 input: 10 output: 10 hours: 1 } }", "without a limit"},
      {serving + "requests_per_s: 1 input: 10 output: 10 hours: 1 ttft_ms: 5 certainty: 0.2 } }",
       "0.5 to 0.99"},
      {serving + "requests_per_s: 1 input: 131000 output: 73 hours: 1 ttft_ms: 5 } }",
       "context of 131072"},
      {"job { id: \"a\" network: \"llama9\" serving { requests_per_s: 1 input: 10 output: 10 "
       "hours: 1 "
       "ttft_ms: 5 } }",
       "llama"},
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
