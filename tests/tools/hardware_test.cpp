#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/base/file.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast::test {
namespace {

using Json = nlohmann::json;

ProcessResult hardware(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {TRACECAST_PROGRAM, "hardware"});
  return run_process(arguments, Seconds(30));
}

TEST_SUITE_BEGIN("tools/hardware");

TEST_CASE("a list and one spec are told as JSON and CSV with units and sources") {
  const Json list = Json::parse(hardware({"links", "--format", "json"}).out);
  CHECK(list["schema"] == "tracecast.hardware/1");
  bool found = false;
  for (const Json& link : list["links"]) {
    if (link["id"] != "ethernet_25g") continue;
    found = true;
    CHECK(link["gb_per_s"] == doctest::Approx(3.125));  // in full: 25 / 8
  }
  CHECK(found);
  const Json cpu = Json::parse(hardware({"cpus", "E5-2667", "--format", "json"}).out);
  CHECK(cpu["id"] == "e5_2667_v4");
  for (const Json& value : cpu["values"]) CHECK(value["source"].is_string());
  CHECK(cpu["sources"].size() >= 3);
  const std::string csv = hardware({"disks", "--format", "csv"}).out;
  CHECK(csv.starts_with("id,name,kind,sequential_read_mb_per_s,"));
  CHECK(hardware({"machines", "dgx1", "--format", "csv"}).out.find("\ncpu,e5_2698_v4,doc,") !=
        std::string::npos);
}

TEST_CASE("an unknown kind or id is answered with the nearest word and exit code 2") {
  const ProcessResult kind = hardware({"cpu"});
  CHECK(kind.exit_code == 2);
  CHECK(kind.err.find("nearest: cpus") != std::string::npos);
  const ProcessResult id = hardware({"machines", "dgx 3"});
  CHECK(id.exit_code == 2);
  CHECK(id.err.find("nearest: dgx") != std::string::npos);
  CHECK(hardware({}).exit_code == 2);
}

TEST_CASE("a folder adds a disk of one's own in its sub-folder") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "disk");
  write_file(folder.path() / "disk" / "mine.textproto",
             "id: \"mine\" name: \"My disk\"\n"
             "sources { key: \"us\" title: \"This test\" where: \"here\" }\n"
             "kind { value: HDD source: \"us\" }\n"
             "sequential_read_mb_per_s { value: 100 source: \"us\" }\n"
             "sequential_write_mb_per_s { value: 100 source: \"us\" }\n"
             "random_read_iops { value: 100 source: \"us\" }\n"
             "latency_us { value: 9000 source: \"us\" }\n");
  const std::string path = folder.path().string();
  CHECK(hardware({"disks", "mine", "--hwspecs", path}).exit_code == 0);
  CHECK(hardware({"disks", "mine"}).exit_code == 2);
  CHECK(hardware({"links", "--hwspecs", path}).exit_code == 0);  // no sub-folder of links: fine
  CHECK(hardware({"links", "--hwspecs", path + "/absent"}).exit_code == 2);
}

}  // namespace
}  // namespace tracecast::test

TEST_SUITE_END();
