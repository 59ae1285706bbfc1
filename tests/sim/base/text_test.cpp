#include "sim/base/text.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("sim/base/text");

TEST_CASE("the nearest word is the one with the fewest edits") {
  const std::vector<std::string> words = {"k80", "p100_pcie_16gb", "v100_pcie_16gb",
                                          "v100_sxm2_16gb"};
  struct Row {
    const char* what;
    const char* word;
    const char* nearest;
  };
  const Row rows[] = {
      {"one letter dropped", "v100_pcie_16b", "v100_pcie_16gb"},
      {"two letters swapped", "v100_smx2_16gb", "v100_sxm2_16gb"},
      {"case does not count", "K80", "k80"},
      {"one wrong digit of three", "k40", "k80"},
      {"a tie goes to the first", "x100_pcie_16gb", "p100_pcie_16gb"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK(find_nearest_word(row.word, words).value_or("none") == row.nearest);
  }
}

TEST_CASE("a letter more or less counts as much as a wrong one") {
  // Two letters more, against one wrong one.
  CHECK(find_nearest_word("resnet52", std::vector<std::string>{"resnet1520", "resnet50"}) ==
        "resnet50");
  // Three letters less, against one wrong one.
  CHECK(find_nearest_word("resnet52", std::vector<std::string>{"res52", "resnet50"}) == "resnet50");
}

TEST_CASE("a word unlike all others has no nearest") {
  const std::vector<std::string> words = {"train", "infer"};
  CHECK_FALSE(find_nearest_word("quantum", words));
  CHECK_FALSE(find_nearest_word("anything", {}));
  CHECK_FALSE(find_nearest_word(std::string(1'000'000, 'z'), words));
}

TEST_CASE("an error's choices are listed when few, counted when many") {
  const std::vector<std::string> few = {"text", "json", "csv"};
  CHECK(describe_choices("jsn", few) == "one of text, json, csv (nearest: json)");
  CHECK(describe_choices("spreadsheet", few) == "one of text, json, csv");
  std::vector<std::string> many;
  for (int i = 0; i < 40; ++i) many.push_back("network_" + std::to_string(i));
  CHECK(describe_choices("netwrk_7", many) == "one of 40 known names (nearest: network_7)");
}

TEST_CASE("lower case touches ASCII letters only") {
  CHECK(to_lower("Tesla V100-SXM2") == "tesla v100-sxm2");
  CHECK(to_lower("\xc3\x84Z") == "\xc3\x84z");
  CHECK(to_lower("") == "");
}

TEST_CASE("a number is the whole text or nothing") {
  CHECK(parse_double("1.5e3") == 1500.0);
  CHECK(parse_double("-0.25") == -0.25);
  CHECK(parse_integer("-42") == -42);
  CHECK(parse_integer("9223372036854775807") == 9223372036854775807LL);
  for (const char* text :
       {"", " 1", "1 ", "1,5", "1x", "0x10", "nan", "inf", "-inf", "1e999", "--1"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_double(text));
    CHECK_FALSE(parse_integer(text));
  }
  CHECK_FALSE(parse_integer("1.5"));
  CHECK_FALSE(parse_integer("9223372036854775808"));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
