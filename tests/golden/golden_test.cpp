#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iomanip>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/file.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"

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
    // Lists of {class, ...} are told apart by their first word, so that their order may change;
    // those that begin with the same word are counted.
    std::map<std::string, int> seen;
    for (std::size_t i = 0; i < value.size(); ++i) {
      std::string name = std::to_string(i);
      if (value[i].is_object() && !value[i].empty() && value[i].front().is_string()) {
        name = value[i].front();
        if (const int before = seen[name]++; before > 0) name += " " + std::to_string(before + 1);
      }
      flatten(value[i], path + "[" + name + "]", into);
    }
  } else {
    into[path] = value;
  }
}

/// Words of one line; "several words" are one. {temporary} is the folder.
std::vector<std::string> words(const std::string& line, const std::string& temporary) {
  const std::string place = "{temporary}";
  std::istringstream in(line);
  std::vector<std::string> result;
  for (std::string word; in >> std::quoted(word);) {
    if (const auto at = word.find(place); at != std::string::npos) {
      word.replace(at, place.size(), temporary);
    }
    result.push_back(word);
  }
  return result;
}

/// Removes what is not compared, at any depth.
void leave_out(const std::set<std::string>& keys, Json& value) {
  if (value.is_object()) {
    for (const std::string& key : keys) value.erase(key);
  }
  if (value.is_structured()) {
    for (Json& child : value) leave_out(keys, child);
  }
}

/// The last command's result; those before it make its files.
Json result_of(const fs::path& folder) {
  const TemporaryFolder temporary;
  std::istringstream commands(read_file(folder / "command", 4096));
  Json document;
  for (std::string line; std::getline(commands, line);) {
    CAPTURE(line);
    std::vector<std::string> command = words(line, temporary.path().string());
    if (command.empty()) continue;
    command.insert(command.begin(), TRACECAST_PROGRAM);
    const ProcessResult result = run_process(command, Seconds(30));
    CAPTURE(result.err);
    REQUIRE(result.exit_code >= 0);
    REQUIRE(result.exit_code <= 1);
    document = Json::parse(result.out);
  }
  return document;
}

TEST_SUITE_BEGIN("golden");

// Each folder beside this file: `command` (arguments of tracecast, run in the root of the sources;
// of several lines the last one's result is compared), `tolerance` (relative, of every number),
// `expected.json` (the part of the result that is compared). TRACECAST_REFRESH_GOLDEN=1 writes the
// expected files anew; the commit says why numbers moved.
TEST_CASE("predictions are what they were") {
  const bool refresh = std::getenv("TRACECAST_REFRESH_GOLDEN") != nullptr;
  // Hashes change with every comment in a spec; sentences are checked elsewhere.
  const std::set<std::string> ignored = {"version", "inputs", "assumptions", "warnings", "why"};
  std::set<fs::path> cases;
  for (const auto& entry : fs::directory_iterator("tests/golden")) {
    if (entry.is_directory()) cases.insert(entry.path());
  }
  REQUIRE(cases.size() >= 5);
  for (const fs::path& folder : cases) {
    const std::string name = folder.filename().string();
    CAPTURE(name);
    Json document = result_of(folder);
    leave_out(ignored, document);
    if (refresh) {
      write_file(folder / "expected.json", document.dump(2) + '\n');
      continue;
    }
    const double tolerance = std::stod(read_file(folder / "tolerance", 100));
    std::map<std::string, Json> found, expected;
    flatten(document, "", found);
    flatten(Json::parse(read_file(folder / "expected.json", 1 << 20)), "", expected);
    for (const auto& entry : expected) {
      const auto& [path, value] = entry;
      CAPTURE(entry.first);
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
