#include <doctest/doctest.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/software/mlperf_round.hpp"
#include "hwspecs/software/published_source.hpp"
#include "sim/base/error.hpp"
#include "sim/job/predictor.hpp"
#include "tests/support/invented_files.hpp"

// One text file, in a folder that Hardware takes, adds whatever hwspecs/ holds; forecasts follow
// it.
namespace tracecast::test {
namespace {

TEST_SUITE_BEGIN("job/own_files");

/// What the binary has, and the folder's one file.
Hardware with_file(const std::string& path, const std::string& text) {
  const InventedFiles folder;
  (void)folder.write(path, text);
  return Hardware::embedded().with_folder(folder.root.path());
}

double rate(const Hardware& hardware, const Job& job, const Place& place,
            const Parallelism& parallelism = Usual{}) {
  return Predictor(hardware).predict(job, place, parallelism).throughput_samples_per_s.value;
}

TEST_CASE("a disk, added or in the place of one that is known") {
  const Job job{.network = "resnet50", .batch = 8, .data = "imagenet"};
  const double usual = rate(Hardware::embedded(), job, {.gpu = "t4", .disk = "nvme_ssd"});
  const Hardware added = with_file("disk/tape.textproto", invented_disk());
  CHECK(rate(added, job, {.gpu = "t4", .disk = "tape"}) < 0.2 * usual);
  CHECK(rate(added, job, {.gpu = "t4", .disk = "nvme_ssd"}) == usual);
  const Hardware replaced = with_file("disk/any_name.textproto", invented_disk("nvme_ssd"));
  CHECK(rate(replaced, job, {.gpu = "t4", .disk = "nvme_ssd"}) < 0.2 * usual);
}

TEST_CASE("a framework version, by its number and by its month") {
  const Hardware hardware = with_file("framework/x.textproto", invented_framework_version());
  const auto of = [&](const Software& software) {
    return rate(hardware, {.network = "resnet50", .software = software}, {.gpu = "t4"});
  };
  const double two = of({.framework = "pytorch", .version = "2.4"});
  CHECK(of({.framework = "pytorch", .version = "3.2"}) < 0.5 * two);
  CHECK(of({.framework = "pytorch", .date = "2025-01"}) == two);
  CHECK(of({.framework = "pytorch"}) == of({.framework = "pytorch", .version = "3.2"}));
}

TEST_CASE("a strategy and a machine") {
  const InventedFiles folder;
  (void)folder.write("strategy/ours.textproto", invented_strategy("ours", "20"));
  (void)folder.write("strategy/slow.textproto", invented_strategy("slow", "20000"));
  (void)folder.write("machine/pair.textproto", invented_machine());
  const Hardware hardware = Hardware::embedded().with_folder(folder.root.path());
  const Job job{.network = "resnet50", .batch = 8};
  const Place place{.gpu = "t4", .machine = "pair", .gpus = 2};
  const double ours = rate(hardware, job, place, DataParallel{.strategy = "ours"});
  CHECK(rate(hardware, job, place, DataParallel{.strategy = "slow"}) < 0.6 * ours);
  CHECK_THROWS_AS((void)rate(Hardware::embedded(), job, place), InputError);
}

TEST_CASE("a round of MLPerf, which builds on the one before") {
  const Hardware hardware = with_file("mlperf/x.textproto", invented_mlperf_round());
  const MlperfRound* round = hardware.specs().find_mlperf_round("v9.0");
  REQUIRE(round != nullptr);
  CHECK(&hardware.specs().newest_mlperf_round() == round);
  CHECK(round->find("bert")->framework == "pytorch");
  CHECK(round->find("resnet")->network ==
        hardware.specs().find_mlperf_round("v5.0")->find("resnet")->network);
  CHECK(round->find("newnet")->unpredicted == "nobody drew it");
  CHECK(Hardware::embedded().specs().find_mlperf_round("v9.0") == nullptr);
}

TEST_CASE("a published source: its program, and which rows were used for what") {
  const Hardware hardware = with_file("published/x.textproto", invented_published_source());
  const std::vector<std::string> columns{"source", "gpu"};
  const PublishedRecords records(hardware.specs().published_sources(), "any.csv", columns);
  const auto row = [](std::string_view source, std::string_view gpu) {
    return [=](std::string_view column) { return column == "source" ? source : gpu; };
  };
  CHECK(records.program_of(row("our blog", "t4")).optimizer == "none");
  CHECK(records.used_for(row("our blog", "t4")).value == RowUse::Choice);
  CHECK(records.used_for(row("our blog", "p100_sxm2_16gb")).value == RowUse::Fit);
  CHECK(records.used_for(row("their blog", "t4")).value == RowUse::None);
  CHECK(records.used_for(row("our blog", "t4")).interval == RowUse::Fit);
}

TEST_CASE("later folders go before earlier ones, and files of the second may build on the first") {
  const InventedFiles first, second;
  (void)first.write("framework/x.textproto", invented_framework_version());
  (void)second.write(
      "framework/y.textproto",
      "id: \"pytorch_4\" name: \"PyTorch 4\" based_on: \"pytorch_3\"\n" + kInventedSource + R"(
era { framework: "pytorch" from_version: "4.0" from_date: "2033-01" source: "us" }
launch_per_kernel_us { value: 77 source: "us" }
)");
  const Hardware both =
      Hardware::embedded().with_folder(first.root.path()).with_folder(second.root.path());
  const FrameworkProfile four = both.framework(Software{.framework = "pytorch"});
  CHECK(four.id == "pytorch_4");
  CHECK(four.host.dispatch_per_op.in_us() == doctest::Approx(500));
  CHECK(four.host.launch_per_kernel.in_us() == doctest::Approx(77));
}

}  // namespace
}  // namespace tracecast::test
