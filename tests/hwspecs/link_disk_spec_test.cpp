#include <doctest/doctest.h>

#include "hwspecs/disk_spec.hpp"
#include "hwspecs/link_spec.hpp"
#include "tests/hwspecs/spec_checks.hpp"

TEST_SUITE_BEGIN("hwspecs/link_spec, disk_spec");

namespace tracecast {
namespace {

const std::string kLink = R"spec(id: "wire"
name: "Wire"
sources { key: "us" title: "This test" where: "kLink" }
kind { value: PCIE source: "us" }
gb_per_s { value: 12.5 source: "us" }
latency_us { value: 2 source: "us" }
)spec";

const std::string kDisk = R"spec(id: "plate"
name: "Plate"
sources { key: "us" title: "This test" where: "kDisk" }
kind { value: SATA_SSD source: "us" }
sequential_read_mb_per_s { value: 409.6 source: "us" }
sequential_write_mb_per_s { value: 300 source: "us" }
random_read_iops { value: 90000 source: "us" }
latency_us { value: 100 source: "us" }
)spec";

TEST_CASE("a link keeps its rates in SI; efficiency stays open where no document states it") {
  const LinkSpec link = load_link_spec(kLink, "x");
  CHECK(link.bandwidth.in_gb_per_s() == doctest::Approx(12.5));
  CHECK(link.latency.in_us() == doctest::Approx(2));
  CHECK_FALSE(link.efficiency.has_value());
  const LinkSpec stated = load_link_spec(kLink + "efficiency { value: 0.9 source: \"us\" }\n", "x");
  CHECK(stated.efficiency.value() == doctest::Approx(0.9));
}

TEST_CASE("a wrong link or disk is refused in one line") {
  const auto link = [](const char* from, const char* to) {
    return test::input_error(
        [&] { (void)load_link_spec(test::replace(kLink, from, to), "x.textproto"); });
  };
  CHECK(link("gb_per_s { value: 12.5", "gb_per_s { value: -1").find(":5:") != std::string::npos);
  CHECK(link("PCIE", "PCI").find("nearest: PCIE") != std::string::npos);
  CHECK(link("latency_us { value: 2 source: \"us\" }", "").find("no latency_us") !=
        std::string::npos);
  CHECK(link("latency_us { value: 2 source: \"us\" }",
             "latency_us { value: 2 source: \"us\" } efficiency { value: 1.5 source: \"us\" }")
            .find("efficiency 1.5") != std::string::npos);
  const auto disk = [](const char* from, const char* to) {
    return test::input_error(
        [&] { (void)load_disk_spec(test::replace(kDisk, from, to), "x.textproto"); });
  };
  // 409.6 MB/s are 100 000 reads of 4 KiB a second; a tenth more is let pass.
  CHECK(disk("90000", "110000") == "accepted");
  CHECK(disk("90000", "111000").find("at most 110000") != std::string::npos);
  CHECK(disk("SATA_SSD", "SATA_SD").find("nearest: SATA_SSD") != std::string::npos);
  CHECK(disk("random_read_iops { value: 90000", "random_read_iops { value: nan").find(":7:") !=
        std::string::npos);
}

TEST_CASE("every link and disk in the binary is valid, found by its names, and sourced") {
  const LinkCatalog links = LinkCatalog::embedded();
  const DiskCatalog disks = DiskCatalog::embedded();
  CHECK(links.all().size() >= 30);
  CHECK(disks.all().size() >= 15);
  test::check_catalog(links);
  test::check_catalog(disks);
}

TEST_CASE("link rates follow from lanes, transfers and line coding") {
  const LinkCatalog links = LinkCatalog::embedded();
  const auto rate = [&](const char* word) { return links.find(word).bandwidth.in_gb_per_s(); };
  CHECK(rate("pcie3_x16") == doctest::Approx(16 * 8.0 / 8 * 128 / 130).epsilon(1e-4));
  CHECK(rate("PCIe 2.0 x16") == doctest::Approx(16 * 5.0 / 8 * 8 / 10).epsilon(1e-4));
  CHECK(rate("pcie4") == doctest::Approx(2 * rate("pcie3")).epsilon(1e-4));
  CHECK(rate("infiniband fdr") == doctest::Approx(4 * 14.0625 * 64 / 66 / 8).epsilon(1e-3));
  CHECK(rate("ib edr") == doctest::Approx(12.5));
  CHECK(rate("10gbe") == doctest::Approx(1.25));
  CHECK(links.find("ethernet_1g").latency > links.find("infiniband_fdr").latency);
}

TEST_CASE("the disks of the Fujitsu study have the rates it prints") {
  const DiskCatalog disks = DiskCatalog::embedded();
  CHECK(disks.find("fj_m2_ssd").sequential_read.in_gb_per_s() == doctest::Approx(0.87));
  CHECK(disks.find("fj_m2_ssd").sequential_write.in_gb_per_s() == doctest::Approx(1.75));
  CHECK(disks.find("fj_hdd").sequential_read.in_gb_per_s() == doctest::Approx(0.21));
  CHECK(disks.find("fj_hdd").sequential_write.in_gb_per_s() == doctest::Approx(1.07));
}

}  // namespace
}  // namespace tracecast

TEST_SUITE_END();
