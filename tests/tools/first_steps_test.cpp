#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/tools/program.hpp"

namespace tracecast::test {
namespace {

const Words kSubcommands[] = {
    {"predict"},
    {"colocate"},
    {"validate"},
    {"gpus"},
    {"hardware"},
    {"networks"},
    {"calibrate"},
    {"calibrate", "check"},
    {"cluster"},
    {"collectives"},
    {"net"},
    {"study"},
    {"study", "list"},
    {"study", "run"},
    {"trace"},
    {"trace", "summary"},
    {"trace", "diff"},
    {"trace", "replay"},
    {"trace", "convert"},
    {"trace", "record"},
    {"completion"},
    {"version"},
    {"help"},
};

TEST_SUITE_BEGIN("tools/first_steps");

TEST_CASE("the name alone gives a short page with commands that can be typed") {
  const ProcessResult result = tracecast({});
  CHECK(result.exit_code == 0);
  CHECK(result.err == "");
  CHECK(count_lines(result.out) <= 12);
  for (const char* command :
       {"tracecast predict resnet50 --gpu v100 --batch 64", "tracecast trace summary",
        "tracecast networks", "tracecast gpus", "tracecast --help"}) {
    CAPTURE(command);
    CHECK(result.out.find(command) != std::string::npos);
  }
}

TEST_CASE("the version is one line, from the program and from every subcommand") {
  const std::string version = tracecast({"version"}).out;
  CHECK(version.starts_with("tracecast "));
  CHECK(count_lines(version) == 1);
  CHECK(tracecast({"--version"}).out == version);
  for (Words subcommand : kSubcommands) {
    CAPTURE(line_of(subcommand));
    subcommand.emplace_back("--version");
    const ProcessResult result = tracecast(subcommand);
    CHECK(result.exit_code == 0);
    CHECK(result.out == version);
  }
}

TEST_CASE("-h, --help and help show one page of every subcommand, at 80 columns") {
  CHECK(tracecast({"help"}).out == tracecast({"--help"}).out);
  CHECK(tracecast({"-h"}).out == tracecast({"--help"}).out);
  for (const Words& subcommand : kSubcommands) {
    CAPTURE(line_of(subcommand));
    const auto with = [&](const char* word) {
      Words words = subcommand;
      words.emplace_back(word);
      return words;
    };
    Words asked = subcommand;
    asked.insert(asked.begin(), "help");
    const ProcessResult page = tracecast(asked);
    CHECK(page.exit_code == 0);
    CHECK(page.err == "");
    CHECK(page.out.find("Usage: tracecast" + line_of(subcommand)) != std::string::npos);
    CHECK(page.out.find('{') == std::string::npos);  // choices stand in words
    CHECK(tracecast(with("-h")).out == page.out);
    CHECK(tracecast(with("--help")).out == page.out);
    for (std::size_t begin = 0, end; begin < page.out.size(); begin = end + 1) {
      end = page.out.find('\n', begin);
      const std::string line = page.out.substr(begin, end - begin);
      CAPTURE(line);
      CHECK(line.size() <= 80);
      CHECK_FALSE(line.ends_with(' '));
    }
  }
}

TEST_CASE("help of a subcommand that is not there names the nearest") {
  struct Row {
    Words words;
    const char* says;
  };
  const Row rows[] = {
      {{"help", "predit"}, "nearest: predict"},
      {{"help", "trace", "reply"}, "nearest: replay"},
      {{"help", "predict", "resnet50"}, "no further subcommand"},
      {{"hlep"}, "nearest: help"},
      {{"--versoin"}, "nearest: --version"},
  };
  for (const Row& row : rows) {
    const ProcessResult result = tracecast(row.words);
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.out == "");
    CHECK(count_lines(result.err) == 1);
    CHECK(result.err.find(row.says) != std::string::npos);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
