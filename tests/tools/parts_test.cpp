#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "calibrate/table/error_statistics.hpp"
#include "sim/base/error.hpp"
#include "sim/job/largest_batch.hpp"
#include "sim/job/sha256.hpp"
#include "tools/command/cell.hpp"
#include "tools/command/output.hpp"

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("tools/parts");

TEST_CASE("error statistics of four rows, by hand") {
  // |errors| sorted: 0.1 0.1 0.2 0.8; the median is (0.1 + 0.2) / 2; 90 % of 4 rows are all 4.
  const ErrorStatistics s = summarize({{0.1, true}, {-0.1, true}, {-0.2, true}, {0.8, false}});
  CHECK(s.n == 4);
  CHECK(s.mape == doctest::Approx(0.3));
  CHECK(s.median_ape == doctest::Approx(0.15));
  CHECK(s.p90_ape == doctest::Approx(0.8));
  CHECK(s.bias == doctest::Approx(0.15));
  CHECK(s.coverage90 == doctest::Approx(0.75));
  CHECK(summarize({}).n == 0);
}

TEST_CASE("one bad row in ten is beyond the 90th percentile") {
  std::vector<JudgedRow> rows(9, {0.1, true});
  rows.push_back({5.0, false});
  CHECK(summarize(rows).p90_ape == doctest::Approx(0.1));
}

TEST_CASE("the largest number that holds is found from any start") {
  for (const std::int64_t limit : {0, 1, 2, 7, 64, 99, 100}) {
    for (const std::int64_t start : {1, 6, 64, 100}) {
      CAPTURE(limit);
      CAPTURE(start);
      int tries = 0;
      const std::int64_t found = find_largest(start, 100, [&](std::int64_t n) {
        ++tries;
        return n <= limit;
      });
      CHECK(found == limit);
      CHECK(tries <= 15);
    }
  }
}

TEST_CASE("at the largest batch the job fits, and one sample more does not") {
  const Hardware hardware = load_hardware({});
  PlacedJob options;
  options.network = "resnet50";
  options.gpu = "v100_sxm2_16gb";
  for (const char* framework : {"pytorch", "tensorflow", "caffe"}) {
    CAPTURE(framework);
    options.software.framework = framework;
    options.batch = 64;
    const auto fits = [&] { return plan_memory(make_job(options, hardware), hardware).fits; };
    options.batch = find_largest_batch(make_job(options, hardware), hardware);
    CHECK(options.batch > 64);
    CHECK(fits());
    ++options.batch;
    CHECK_FALSE(fits());
  }
}

TEST_CASE(
    "advice for a job that does not fit: recomputation, or smaller batches that share an update") {
  const Hardware hardware = load_hardware({});
  PlacedJob options;
  options.network = "resnet50";
  options.gpu = "t4";
  options.software.framework = "pytorch";
  options.batch = 400;
  const auto advise = [&] {
    const ResolvedJob job = make_job(options, hardware);
    return advise_on_memory(job, predict(job, hardware), hardware);
  };
  const MemoryAdvice advice = advise();
  REQUIRE(advice.largest_batch);
  CHECK(*advice.largest_batch < 400);
  REQUIRE(advice.recomputed);
  CHECK(advice.recomputed->memory.fits);
  REQUIRE(advice.accumulated);
  // As few batches as fit: one fewer would be too large.
  const auto [batch, count] = *advice.accumulated;
  CHECK(batch * count >= 400);
  CHECK(batch <= *advice.largest_batch);
  CHECK(*advice.largest_batch * (count - 1) < 400);
  options.phase = "infer";
  options.batch = 100'000;
  const MemoryAdvice inference = advise();
  CHECK(inference.largest_batch);
  CHECK_FALSE(inference.recomputed);
  CHECK_FALSE(inference.accumulated);
  CHECK_FALSE(inference.is_hopeless);
  // 13 billion weights and their momenta are 78 GB at the least; a T4 has 16.
  options.network = "llama2_13b";
  options.phase = "train";
  options.batch = 4;
  const MemoryAdvice hopeless = advise();
  CHECK(hopeless.is_hopeless);
  CHECK(hopeless.largest_batch == 0);
  CHECK_FALSE(hopeless.recomputed);
}

TEST_CASE("training options are refused where they mean nothing") {
  const Hardware hardware = load_hardware({});
  const auto refusal = [&](PlacedJob options) {
    options.network = "alexnet";
    options.gpu = "t4";
    try {
      (void)make_job(options, hardware);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  PlacedJob options;
  options.recompute = "ful";
  CHECK(refusal(options).find("full") != std::string::npos);
  options.recompute = "full";
  options.phase = "infer";
  CHECK(refusal(options).starts_with("--recompute"));
  options = {};
  for (const std::int64_t count : {0, -1, 1'000'000}) {
    options.accumulate = count;
    CHECK(refusal(options).starts_with("--accumulate"));
  }
  options.accumulate = 2;
  CHECK(refusal(options) == "none");
  options.phase = "forward_backward";
  CHECK(refusal(options).starts_with("--accumulate"));
}

TEST_CASE("SHA-256 is that of FIPS 180-2, appendix B") {
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("numbers are short and honest") {
  CHECK(three_digits(0) == "0");
  CHECK(three_digits(0.012345) == "0.0123");
  CHECK(three_digits(12.345) == "12.3");
  CHECK(three_digits(12345) == "12345");
  CHECK(three_digits(-1.5) == "-1.50");
  CHECK(low_precision(123.4, 4) == "123");
  CHECK(low_precision(0.0123, 4) == "0.01");
  CHECK(low_precision(123456, 5) == "1e+05");
}

TEST_CASE("a name too long for its cell stays whole: the row goes on below it") {
  CHECK(fit("abc", 5) == "abc  ");
  CHECK(fit("größe", 7) == "größe  ");
  CHECK(fit("a\nb\x1b", 12) == "a\\x0ab\\x1b  ");
  CHECK(fit("abcdefghij", 7) == "abcdefghij\n       ");
  CHECK(fit("abcdefghij", 7, 2) == "abcdefghij\n  " + std::string(7, ' '));
  // Of a name of several lines each keeps to the page, and together they are the name.
  std::string name;
  while (name.size() < 300) name += "void at::native::kernel<4, float>";
  const std::string cell = fit(name, 30, 2);
  std::string joined;
  for (std::size_t begin = 0; begin < cell.size();) {
    const std::size_t end = std::min(cell.find('\n', begin), cell.size());
    const std::string line = cell.substr(begin, end - begin);
    CHECK(columns(line) + (begin == 0 ? 2 : 0) <= 80);
    joined += begin == 0 ? line : line.substr(2);
    begin = end + 1;
  }
  CHECK(joined == name + std::string(30, ' '));
}

TEST_CASE(
    "the last cell of a row is broken at blanks, each line from its column to the page's edge") {
  CHECK(last_cell("Linear -> 8x10", 47) == "Linear -> 8x10");
  CHECK(last_cell("", 47).empty());
  CHECK(last_cell("one two three four", 71) ==
        "one two\n" + std::string(71, ' ') + "three\n" + std::string(71, ' ') + "four");
}

TEST_CASE("text is cut at its end or broken at blanks") {
  CHECK(fit_within("abcdefghij", 7) == "ab..hij");
  CHECK(fit_within("abc", 7) == "abc");
  CHECK(cut_text("one two, three", 14) == "one two, three");
  CHECK(cut_text("one two, three", 13) == "one two..");
  CHECK(cut_text("one two, three", 9) == "one two..");
  CHECK(cut_text("one two, three", 8) == "one..");
  CHECK(wrap("one two three", 7, 2) == "one two\n  three");
  CHECK(wrap("one\ntwo", 20, 2) == "one\\x0atwo");
  CHECK(bar(0.5, 4) == "██");
  CHECK(bar(0.125, 4) == "▌");
  CHECK(bar(7.0, 2) == "██");
  CHECK(csv_field("a,b") == "\"a,b\"");
  CHECK(csv_field("a") == "a");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
