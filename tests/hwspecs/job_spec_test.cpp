#include "hwspecs/software/job_spec.hpp"

#include <doctest/doctest.h>

#include <string>

#include "hwspecs/gpu_sharing.hpp"
#include "hwspecs/software/framework_profile.hpp"
#include "hwspecs/software/input_pipeline.hpp"
#include "sim/base/error.hpp"
#include "tests/support/specs.hpp"

namespace tracecast {
namespace {

constexpr const char* kHead =
    "id: \"x\" source { key: \"a\" } network { value: \"resnet50\" source: \"a\" } "
    "framework { value: \"pytorch\" source: \"a\" } ";

TEST_SUITE_BEGIN("hwspecs/software/job_spec");

TEST_CASE("a batch is padded to the expected longest of its sequences") {
  // cv = 4 / 13: sigma^2 = ln(1 + 0.0947) = 0.0905, mu = ln 13 - 0.0452 = 2.520.
  const PaddedLengths lengths{.mean = 13, .sd = 4, .most = 50, .added = 2};
  struct Row {
    std::int64_t batch, tokens;
  };
  const Row rows[] = {
      {1, 15},    // z = 0: e^2.520 = 12.4, and 2
      {16, 24},   // z = Phi^-1(15.625 / 16.25) = 1.769: e^3.052 = 21.2, and 2
      {256, 31},  // z = Phi^-1(255.625 / 256.25) = 2.815: e^3.366 = 29.0, and 2
  };
  for (const Row& row : rows) {
    CAPTURE(row.batch);
    CHECK(lengths.longest_of(row.batch) == row.tokens);
  }
  const PaddedLengths alike{.mean = 20, .sd = 0, .most = 50, .added = 0};
  CHECK(alike.longest_of(1000) == 20);
  const PaddedLengths cut{.mean = 20, .sd = 20, .most = 30, .added = 0};
  CHECK(cut.longest_of(1000) == 30);
}

TEST_CASE("every program in the binary names what is there") {
  CHECK(job_spec_ids().size() >= 7);
  for (const std::string& id : job_spec_ids()) {
    CAPTURE(id);
    const JobSpec& spec = find_job_spec(id);
    CHECK_NOTHROW((void)find_framework(spec.framework));
    if (spec.data != "synthetic" && spec.data != "memory") {
      CHECK_NOTHROW((void)find_data_set(spec.data));
    }
    CHECK(spec.values.size() >= 4);
  }
}

TEST_CASE("bad programs are refused in one line") {
  struct Row {
    const char* what;
    std::string text, says;
  };
  const std::string head = kHead;
  const Row rows[] = {
      {"no id", "name: \"x\"", "no id"},
      {"no network", "id: \"x\"", "no network"},
      {"source", head + "optimizer { value: \"sgd\" source: \"b\" }", "source \"b\""},
      {"count", head + "workers { value: 1.5 source: \"a\" }", "whole number"},
      {"range", head + "processes { value: 0 source: \"a\" }", "1 to 64"},
      {"field", head + "wokers { value: 1 source: \"a\" }", "wokers"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    try {
      (void)parse_job_spec(row.text, "x.textproto");
      FAIL("accepted");
    } catch (const InputError& error) {
      CHECK(std::string(error.what()).find(row.says) != std::string::npos);
    }
  }
  CHECK_THROWS_AS((void)find_job_spec("lstm_wikitext"), InputError);
}

TEST_CASE("sharing of a GPU has a slice, a switch and a hold, each with its source") {
  CHECK(default_gpu_sharing().time_slice.in_us() == doctest::Approx(1024));
  CHECK(default_gpu_sharing("2021-01").before_date.empty());
  const std::string values =
      "time_slice_us { value: 1 source: \"a\" } context_switch_us { value: 2 source: \"a\" } "
      "idle_hold_us { value: 3 source: \"a\" } ";
  const std::string head = "source { key: \"a\" } ";
  CHECK(parse_gpu_sharing(head + "rule { " + values + "}", "x").front().idle_hold.in_us() ==
        doctest::Approx(3));
  for (const std::string& bad :
       {std::string(), head + "rule { time_slice_us { value: 0 source: \"a\" } }",
        head + "rule { before_date: \"2020-01\" " + values + "}", "rule { " + values + "}"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS((void)parse_gpu_sharing(bad, "x"), InputError);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
