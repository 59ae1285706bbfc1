#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/file.hpp"
#include "sim/base/text.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tools/program.hpp"

// One figure, whoever asks: CSV has the digits and the keys of JSON, the page its digits, text the
// same rounded. (Python's are held against JSON's by python_test.py.)

namespace tracecast::test {
namespace {

using Json = nlohmann::json;

TEST_SUITE_BEGIN("tools/figures");

/// NAME with PART between its words wherever it can stand, and at its end: "step_time_low_s" of
/// "step_time_s".
std::vector<std::string> with_part(const std::string& name, const std::string& part) {
  std::vector<std::string> names = {name + '_' + part};
  for (std::size_t at = 0; (at = name.find('_', at)) != name.npos; ++at)
    names.push_back(name.substr(0, at) + '_' + part + name.substr(at));
  return names;
}

/// Every value of a document by the names that a column of it may have: its key, its keys joined,
/// of an interval its low and high end, of a breakdown its class.
void collect(const Json& value, const std::string& key, const std::string& path,
             std::multimap<std::string, Json>& named) {
  if (value.is_object()) {
    for (const auto& [name, inner] : value.items()) {
      collect(inner, name, path.empty() ? name : path + '_' + name, named);
      if (name == "value") named.emplace(key, inner);
      if (!key.empty() && inner.is_primitive())
        for (const std::string& one : with_part(key, name)) named.emplace(one, inner);
    }
  } else if (value.is_array()) {
    for (const Json& entry : value) {
      if (entry.is_object() && entry.contains("class") && entry.contains("time_s"))
        named.emplace(entry["class"].get<std::string>() + "_s", entry["time_s"]);
      if (entry.is_object() && entry.contains("part") && entry.contains("time_s"))
        named.emplace(entry["part"].get<std::string>() + "_s", entry["time_s"]);
    }
  } else {
    named.emplace(key, value);
    named.emplace(path, value);
  }
}

std::vector<std::vector<std::string>> table_of(const std::string& csv) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string>& row = rows.emplace_back(1);
    bool quoted = false;
    for (const char c : line) {
      if (c == '"') quoted = !quoted;
      if (c == ',' && !quoted)
        row.emplace_back();
      else if (c != '"')
        row.back() += c;
    }
  }
  return rows;
}

/// Whether a cell says what a value of JSON says, to the last digit.
bool says(const std::string& cell, const Json& value) {
  if (value.is_null()) return cell.empty();
  if (value.is_boolean()) return cell == (value.get<bool>() ? "yes" : "no");
  if (value.is_string()) return cell == value.get<std::string>();
  const auto number = parse_double(cell);
  return number && *number == value.get<double>();
}

struct Question {
  const char* name;
  Words words;
};
const Question kModes[] = {
    {"one GPU", {"predict", "alexnet", "--gpu", "v100_sxm2_16gb", "--batch", "32"}},
    {"one GPU and an epoch",
     {"predict", "resnet50", "--gpu", "t4", "--batch", "8", "--phase", "infer", "--epoch-samples",
      "50000"}},
    {"data parallel",
     {"predict", "alexnet", "--gpu", "v100_sxm2_16gb", "--batch", "32", "--gpus", "4", "--strategy",
      "ddp"}},
    {"parameter servers",
     {"predict", "alexnet", "--gpu", "k80", "--batch", "16", "--nodes", "3", "--machine", "osu_ri2",
      "--servers", "1"}},
    {"sharded, pipeline",
     {"predict", "gpt3_125m", "--gpu", "a100_sxm4_80gb", "--gpus", "8", "--tp", "2", "--pp", "2",
      "--micro-batch", "2", "--global-batch", "16"}},
    {"sharded, ZeRO",
     {"predict", "gpt3_125m", "--gpu", "a100_sxm4_80gb", "--gpus", "8", "--zero", "3"}},
    {"sharded, a limit of power",
     {"predict", "gpt3_125m", "--gpu", "a100_sxm4_80gb", "--gpus", "8", "--zero", "3",
      "--power-limit", "200"}},
};

ProcessResult in_format(Words words, const char* format) {
  words.insert(words.end(), {"--format", format});
  return tracecast(words);
}

TEST_CASE("a column of CSV is a figure of JSON under its key, to the last digit") {
  // Words that CSV and JSON say in their own ways, and figures that only CSV of many GPUs has had
  // so far.
  const std::set<std::string> kOwn = {
      "servers",      "channel", "link",     "synchronous",   "staleness_updates", "host_update_s",
      "stragglers_s", "input_s", "strategy", "largest_batch", "efficiency"};
  for (const Question& mode : kModes) {
    CAPTURE(mode.name);
    const ProcessResult json = in_format(mode.words, "json"), csv = in_format(mode.words, "csv");
    CAPTURE(csv.out);
    CAPTURE(json.err);
    REQUIRE(json.exit_code == 0);
    REQUIRE(csv.exit_code == 0);
    std::multimap<std::string, Json> named;
    collect(Json::parse(json.out), "", "", named);
    const auto table = table_of(csv.out);
    REQUIRE(table.size() == 2);
    REQUIRE(table[0].size() == table[1].size());
    for (std::size_t i = 0; i < table[0].size(); ++i) {
      const std::string& column = table[0][i];
      CAPTURE(column);
      CAPTURE(table[1][i]);
      const auto [begin, end] = named.equal_range(column);
      if (kOwn.contains(column) && begin == end) continue;
      CHECK(begin != end);
      CHECK(
          std::any_of(begin, end, [&](const auto& one) { return says(table[1][i], one.second); }));
    }
    // What is asked of every mode.
    for (const char* needed : {"throughput_samples_per_s", "throughput_low_samples_per_s",
                               "throughput_high_samples_per_s", "step_time_s"})
      CHECK(std::find(table[0].begin(), table[0].end(), needed) != table[0].end());
  }
}

/// What text and page say of the speed: of sharded transformers tokens, else samples.
const Json& speed_of(const Json& doc) {
  return doc.contains("throughput_tokens_per_s") ? doc["throughput_tokens_per_s"]
                                                 : doc["throughput_samples_per_s"];
}

TEST_CASE("text rounds the figures of JSON") {
  for (const Question& mode : kModes) {
    CAPTURE(mode.name);
    const Json doc = Json::parse(in_format(mode.words, "json").out);
    const std::string text = in_format(mode.words, "text").out;
    CAPTURE(text);
    const double step_s = doc["step_time_s"]["value"].get<double>();
    const bool has_step = text.find(three_digits(step_s * 1e3) + " ms") != std::string::npos ||
                          text.find(three_digits(step_s) + " s") != std::string::npos;
    CHECK(has_step);
    CHECK(text.find(three_digits(speed_of(doc)["value"].get<double>())) != std::string::npos);
  }
}

TEST_CASE("the page has the figures of JSON, to the last digit") {
  const TemporaryFolder folder;
  for (const Question& mode : kModes) {
    CAPTURE(mode.name);
    const std::string file = (folder.path() / "page.html").string();
    Words words = mode.words;
    words.insert(words.end(), {"--report", file});
    const ProcessResult result = in_format(words, "json");
    if (result.exit_code == 2 && result.err.find("no page") != std::string::npos) return;
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    const Json doc = Json::parse(result.out);
    const std::string html = read_file(file, 1 << 26);
    const std::string begin = "id=\"data\">";
    const std::size_t at = html.find(begin) + begin.size();
    const Json page = Json::parse(html.substr(at, html.find("</script>", at) - at));
    std::set<double> shown;
    for (const Json& fact : page["headline"]) {
      for (const char* key : {"value", "low", "high"})
        if (fact.contains(key) && fact[key].is_number()) shown.insert(fact[key].get<double>());
    }
    CAPTURE(page["headline"].dump());
    for (const char* key : {"value", "low", "high"}) {
      CAPTURE(key);
      CHECK(shown.contains(speed_of(doc)[key].get<double>()));
    }
    CHECK(shown.contains(doc["step_time_s"]["value"].get<double>()));
  }
}

TEST_CASE("rows of CSV of served requests are the latencies of JSON, to the last digit") {
  const Words words = {"serve",   "llama3_8b", "--gpu",    "h100", "--concurrency", "4",
                       "--input", "256",       "--output", "32",   "--requests",    "50"};
  const Json doc = Json::parse(in_format(words, "json").out);
  const auto table = table_of(in_format(words, "csv").out);
  REQUIRE(table.size() == 5);
  const auto cell = [&](std::size_t row, const std::string& column) {
    const auto at = std::find(table[0].begin(), table[0].end(), column);
    REQUIRE(at != table[0].end());
    return table[row][static_cast<std::size_t>(at - table[0].begin())];
  };
  for (std::size_t row = 1; row < table.size(); ++row) {
    const std::string metric = cell(row, "metric");
    CAPTURE(metric);
    const Json& said = doc.at(metric);
    CHECK(says(cell(row, "mean"), said["mean"]["value"]));
    CHECK(says(cell(row, "low"), said["mean"]["low"]));
    CHECK(says(cell(row, "high"), said["mean"]["high"]));
    for (const char* p : {"p50", "p90", "p99"}) CHECK(says(cell(row, p), said[p]["value"]));
    for (const char* key : {"network", "gpu", "gpus", "engine", "kv_tokens"}) {
      CAPTURE(key);
      CHECK(says(cell(row, key), doc.at(key)));
    }
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
