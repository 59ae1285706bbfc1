#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/file.hpp"
#include "tests/support/process.hpp"

namespace tracecast::test {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

/// Numbers by their path in the document: "step_time_s.value"; words and flags as text.
void flatten(const Json& value, const std::string& path, std::map<std::string, Json>& into) {
  if (value.is_object()) {
    for (const auto& [key, child] : value.items()) {
      flatten(child, path.empty() ? key : path + "." + key, into);
    }
  } else if (value.is_array()) {
    // Lists of {class, ...} are told apart by their first word, so that their order may change.
    for (std::size_t i = 0; i < value.size(); ++i) {
      std::string name = std::to_string(i);
      if (value[i].is_object() && value[i].front().is_string()) name = value[i].front();
      flatten(value[i], path + "[" + name + "]", into);
    }
  } else {
    into[path] = value;
  }
}

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> result;
  for (std::string word; in >> word;) result.push_back(word);
  return result;
}

TEST_SUITE_BEGIN("golden");

// Each folder beside this file: `command` (arguments of tracecast, run in the root of the sources),
// `tolerance` (relative, of every number), `expected.json` (the part of the answer that is compared).
// TRACECAST_REFRESH_GOLDEN=1 writes the expected files anew; the commit says why numbers moved.
TEST_CASE("predictions are what they were") {
  const bool refresh = std::getenv("TRACECAST_REFRESH_GOLDEN") != nullptr;
  // Hashes change with every comment in a spec; lists of words are checked elsewhere.
  const std::set<std::string> ignored = {"version", "inputs", "assumptions", "warnings"};
  std::set<fs::path> cases;
  for (const auto& entry : fs::directory_iterator("tests/golden")) {
    if (entry.is_directory()) cases.insert(entry.path());
  }
  REQUIRE(cases.size() >= 5);
  for (const fs::path& folder : cases) {
    const std::string name = folder.filename().string();
    CAPTURE(name);
    std::vector<std::string> command = words(read_file(folder / "command", 4096));
    command.insert(command.begin(), TRACECAST_PROGRAM);
    const ProcessResult result = run_process(command, Seconds(30));
    REQUIRE(result.exit_code <= 1);
    Json document = Json::parse(result.out);
    for (const std::string& key : ignored) document.erase(key);
    if (refresh) {
      write_file(folder / "expected.json", document.dump(2) + '\n');
      continue;
    }
    const double tolerance = std::stod(read_file(folder / "tolerance", 100));
    std::map<std::string, Json> found, expected;
    flatten(document, "", found);
    flatten(Json::parse(read_file(folder / "expected.json", 1 << 20)), "", expected);
    for (const auto& [path, value] : expected) {
      CAPTURE(path);
      REQUIRE(found.contains(path));
      if (value.is_number()) {
        const double want = value, have = found[path];
        CAPTURE(want);
        CAPTURE(have);
        CHECK(std::abs(have - want) <= tolerance * std::max(std::abs(want), 1e-9));
      } else {
        CHECK(found[path] == value);
      }
    }
    CHECK(found.size() == expected.size());
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
