#include "sim/job/hardware.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/job/predictor.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("job/hardware");

TEST_CASE("what is made beside it leaves hardware as it was") {
  const Hardware first = Hardware::embedded();
  const GpuSpec before = first.gpus().find("v100_sxm2_16gb");
  const Hardware faster = first.with("gpu.memory_bandwidth=2x");
  CHECK(faster.gpus().find("v100_sxm2_16gb").dram_bandwidth == 2 * before.dram_bandwidth);
  CHECK(first.gpus().find("v100_sxm2_16gb").dram_bandwidth == before.dram_bandwidth);
  CHECK(first.factors().empty());
  CHECK(faster.factors().size() == 1);
  const Hardware both = faster.with("framework.launch_us=9").with("link.latency=3x");
  CHECK(both.framework("pytorch").host.launch_per_kernel.in_us() == doctest::Approx(9));
  CHECK(first.framework("pytorch").host.launch_per_kernel.in_us() < 9);
  CHECK(both.factors().size() == 2);
}

TEST_CASE("arithmetic that is faster by a finer process takes less energy") {
  const Hardware first = Hardware::embedded();
  const Hardware faster = first.with("gpu.compute=2x");
  const GpuSpec before = first.gpus().find("v100_sxm2_16gb");
  const GpuSpec after = faster.gpus().find("v100_sxm2_16gb");
  CHECK(after.process_nm == before.process_nm / 2);
  for (std::size_t i = 0; i < before.peaks.size(); ++i)
    CHECK(after.peaks[i].rate == 2 * before.peaks[i].rate);
  const Job job{.network = "resnet50", .batch = 64};
  const auto power = [&](const Hardware& hardware) {
    return Predictor(hardware).predict(job, {.gpu = "v100_sxm2_16gb"}).power->board.avg;
  };
  CHECK(power(faster) < power(first));
}

TEST_CASE("a folder's disk is what jobs read from") {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "disk");
  write_file(folder.path() / "disk" / "crawl.textproto",
             "id: \"crawl\"\nname: \"Crawl\"\n"
             "sources { key: \"us\" title: \"a test\" where: \"here\" }\n"
             "sequential_read_mb_per_s { value: 1 source: \"us\" }\n"
             "kind { value: NETWORK source: \"us\" }\n"
             "sequential_write_mb_per_s { value: 1 source: \"us\" }\n"
             "random_read_iops { value: 100 source: \"us\" }\n"
             "latency_us { value: 1000 source: \"us\" }\n");
  const Hardware hardware = Hardware::embedded().with_folder(folder.path());
  CHECK(hardware.disks().find("crawl").name == "Crawl");
  CHECK_THROWS_AS((void)Hardware::embedded().disks().find("crawl"), InputError);
  const Job job{.network = "resnet50", .batch = 64, .data = "imagenet"};
  const Place place{.gpu = "v100", .disk = "crawl"};
  const Forecast slow = Predictor(hardware).predict(job, place);
  const Forecast usual = Predictor(Hardware::embedded()).predict(job, {.gpu = "v100"});
  CHECK(slow.step_time_s.value > 10 * usual.step_time_s.value);
}

TEST_CASE("settings and folders that are wrong are refused in one line") {
  const Hardware hardware = Hardware::embedded();
  for (const char* setting : {"gpu.colour=2x", "cost.nothing=1", "framework.launch_us=-1", "x",
                              "=1", "gpu.compute=2", "sharing.time_slice_us=0"}) {
    CAPTURE(setting);
    CHECK_THROWS_AS((void)hardware.with(setting), InputError);
  }
  CHECK_THROWS_AS((void)hardware.with_folder("/no/such/folder"), InputError);
  CHECK_THROWS_AS((void)hardware.with_profile(std::filesystem::path("/no/such/file")), InputError);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
