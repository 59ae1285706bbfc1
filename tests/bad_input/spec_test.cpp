#include <doctest/doctest.h>

#include <regex>
#include <string>
#include <vector>

#include "sim/base/file.hpp"
#include "tests/bad_input/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast::test {
namespace {

/// A folder for --hwspecs; `use` predicts with what was written there.
class SpecFolder {
 public:
  void write(const std::string& file_name, const std::string& content) {
    write_file(folder_.path() / file_name, content);
  }
  [[nodiscard]] std::vector<std::string> use(const std::string& gpu) const {
    return {"predict", "alexnet", "--gpu", gpu, "--batch", "2", "--hwspecs", folder_.path()};
  }

 private:
  TemporaryFolder folder_;
};

/// A shipped spec under a new id and name and without other spellings.
std::string invented_gpu() {
  std::string text = read_file("hwspecs/gpu/t4.textproto", 1 << 20);
  text = std::regex_replace(text, std::regex("(^|\n)alias: [^\n]*"), "");
  text = std::regex_replace(text, std::regex("(^|\n)name: \"[^\"]*\""), "$1name: \"Invented 1\"");
  return std::regex_replace(text, std::regex("(^|\n)id: \"[^\"]*\""), "$1id: \"invented\"");
}

/// The lines `FIELD { value: NUMBER ...`.
std::vector<std::string> numeric_fields(const std::string& text) {
  std::vector<std::string> names;
  const std::regex pattern(R"((^|\n)(\w+) *\{ *value: *-?[0-9])");
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
    names.push_back((*it)[2]);
  }
  return names;
}

std::string set_value(const std::string& text, const std::string& field, const std::string& value) {
  return std::regex_replace(text, std::regex("(^|\n)(" + field + " *\\{ *value: *)[^ }]+"),
                            "$1$2" + value);
}

std::string line_of(const std::string& text, const std::string& field) {
  std::smatch match;
  REQUIRE(std::regex_search(text, match, std::regex("(^|\n)(" + field + " *\\{[^\n]*\n)")));
  return match[2];
}

std::string without_line(std::string text, const std::string& field) {
  const std::string line = line_of(text, field);
  return text.erase(text.find(line), line.size());
}

TEST_SUITE_BEGIN("bad_input/spec");

TEST_CASE("the spec that the broken ones start from is fine") {
  SpecFolder folder;
  folder.write("invented.textproto", invented_gpu());
  check_reports(folder.use("invented"));
}

TEST_CASE("a spec with an absurd or missing value is refused, whichever value it is") {
  const std::string good = invented_gpu();
  const std::vector<std::string> fields = numeric_fields(good);
  REQUIRE(fields.size() >= 20);
  SpecFolder folder;
  for (const std::string& field : fields) {
    CAPTURE(field);
    for (const char* absurd :
         {"-1", "nan", "inf", "1e300", "99999999999999999999", "\"forty\"", ""}) {
      CAPTURE(absurd);
      folder.write("invented.textproto", set_value(good, field, absurd));
      check_refuses(folder.use("invented"));
    }
    folder.write("invented.textproto", without_line(good, field));
    check_refuses(folder.use("invented"));
    folder.write("invented.textproto", good + line_of(good, field));
    check_refuses(folder.use("invented"));
  }
}

TEST_CASE("a spec that contradicts itself or its neighbours is refused") {
  const std::string good = invented_gpu();
  const auto renamed = [&](const std::string& from, const std::string& to) {
    return std::regex_replace(good, std::regex("\n" + from), "\n" + to);
  };
  struct Row {
    const char* what;
    std::string content;
  };
  const Row rows[] = {
      {"no bytes", ""},
      {"not text", std::string(1000, '\0')},
      {"two megabytes of comment", "#" + std::string(2 << 20, 'x') + "\n" + good},
      {"a value in another unit", renamed("boost_clock_mhz", "boost_clock_ghz")},
      {"a bandwidth in another unit", renamed("dram_gb_per_s", "dram_gib_per_s")},
      {"an unknown field", good + "colour: \"green\"\n"},
      {"no id", std::regex_replace(good, std::regex("id: \"invented\""), "")},
      {"an id that no flag could name",
       std::regex_replace(good, std::regex("invented"), "../In Vented")},
      {"two ids", good + "id: \"other\"\n"},
      {"an unknown generation",
       std::regex_replace(good, std::regex("architecture *\\{ *value: *\\w+"),
                          "architecture { value: FERMI2")},
      {"a source that is not listed",
       std::regex_replace(good, std::regex("(sm_count *\\{ *value: *\\d+ *source: *)\"[^\"]*\""),
                          "$1\"hearsay\"")},
      {"an open brace", good + "peak {"},
      {"braces a thousand deep", good + std::string(1000, '{')},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    SpecFolder folder;
    folder.write("invented.textproto", row.content);
    check_refuses(folder.use("invented"));
  }
}

TEST_CASE("two specs of one id in one folder are refused") {
  SpecFolder folder;
  folder.write("one.textproto", invented_gpu());
  folder.write("two.textproto", invented_gpu());
  check_refuses(folder.use("invented"));
}

TEST_CASE("a cost profile with an absurd, missing or repeated parameter is refused") {
  const std::string good = read_file("hwspecs/cost/default.textproto", 1 << 20);
  const TemporaryFolder folder;
  const std::string path = folder.path() / "profile.textproto";
  const std::vector<std::string> use = {"predict", "alexnet", "--gpu", "t4", "--profile", path};
  write_file(path, good);
  check_reports(use);

  std::smatch match;
  REQUIRE(std::regex_search(good, match,
                            std::regex("\nparameter \\{ name: \"[^\"]*\" value: ([0-9.]+)[^\n]*")));
  const std::string line = match[0];
  const std::string value = match[1];
  const auto replaced = [&](const std::string& with) {
    std::string text = good;
    return text.replace(text.find(line), line.size(), with);
  };
  const auto valued = [&](const std::string& with) {
    std::string changed = line;
    return replaced(
        changed.replace(changed.find("value: " + value), 7 + value.size(), "value: " + with));
  };
  struct Row {
    const char* what;
    std::string content;
  };
  const Row rows[] = {
      {"no bytes", ""},
      {"a parameter missing", replaced("")},
      {"a parameter twice", good + line},
      {"an unknown parameter",
       good + "\nparameter { name: \"luck\" value: 1 log_sd: 0.1 data_set: \"prior\" }"},
      {"a parameter without a value",
       replaced(std::regex_replace(line, std::regex("value: [0-9.]+"), ""))},
      {"nan", valued("nan")},
      {"infinite", valued("inf")},
      {"negative", valued("-1")},
      {"absurd", valued("1e30")},
      {"text", valued("\"fast\"")},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    write_file(path, row.content);
    check_refuses(use);
  }
}

TEST_CASE("a file of any kind with a field that nobody knows is refused in one line") {
  namespace fs = std::filesystem;
  int kinds = 0;
  for (const auto& kind : fs::directory_iterator("hwspecs")) {
    if (!kind.is_directory()) continue;
    for (const auto& file : fs::directory_iterator(kind.path())) {
      if (file.path().extension() != ".textproto") continue;
      CAPTURE(file.path().string());
      const TemporaryFolder folder;
      const fs::path place = folder.path() / kind.path().filename();
      fs::create_directory(place);
      write_file(place / file.path().filename(), read_file(file.path(), 1 << 20) + "\njunk: 1\n");
      check_refuses(
          {"predict", "alexnet", "--gpu", "t4", "--batch", "4", "--hwspecs", folder.path()});
      if (kind.path().filename() != "host") break;  // whose files are of different kinds
    }
    ++kinds;
  }
  CHECK(kinds >= 20);
}

TEST_CASE(
    "a spec whose base does not exist or leads back to it is refused, whatever is asked for") {
  const auto variant = [](const std::string& id, const std::string& base) {
    return "id: \"" + id + "\"\nname: \"Invented " + id + "\"\nbase: \"" + base + "\"\n";
  };
  for (const char* base : {"nosuch", "invented", "other", "", "../t4", "T4"}) {
    CAPTURE(base);
    SpecFolder folder;
    folder.write("invented.textproto", variant("invented", base));
    folder.write("other.textproto", variant("other", "invented"));
    check_refuses(folder.use("invented"));
    check_refuses(folder.use("t4"));
  }
  SpecFolder good;
  good.write("invented.textproto", variant("invented", "t4"));
  good.write("other.textproto", variant("other", "invented"));
  check_reports(good.use("other"));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
