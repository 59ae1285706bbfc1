#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "sim/base/file.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tools/program.hpp"

namespace {

using namespace tracecast;
using namespace tracecast::test;
using Json = nlohmann::json;

/// A rank whose only collective lasts from `arrival` to 300 us, in a step of 400.
std::string rank_file(int rank, int arrival) {
  const std::string number = std::to_string(rank);
  return R"({"deviceProperties":[{"id":0,"name":"Tesla T4"}],"distributedInfo":{"rank":)" + number +
         R"(,"world_size":2},"traceEvents":[
  {"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":0,"dur":400},
  {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":)" +
         std::to_string(arrival - 6) + R"(,"dur":4,"args":{"correlation":1}},
  {"ph":"X","cat":"cuda_runtime","name":"cudaDeviceSynchronize","pid":1,"tid":1,"ts":)" +
         std::to_string(arrival) + R"(,"dur":)" + std::to_string(310 - arrival) +
         R"(,"args":{"correlation":2}},
  {"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_RING_LL","pid":0,"tid":20,"ts":)" +
         std::to_string(arrival) + R"(,"dur":)" + std::to_string(300 - arrival) +
         R"(,"args":{"device":0,"stream":20,"correlation":1,"Collective name":"allreduce",
   "In msg nelems":1000000,"Out msg nelems":1000000,"Group size":2,"dtype":"Float","Process Group Name":"0"}}]})";
}

ProcessResult summary(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {"trace", "summary"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return test::tracecast(command);
}

ProcessResult replay(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {"trace", "replay"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return test::tracecast(command);
}

struct Files {
  TemporaryFolder folder;
  Files() {
    // Named against the order of ranks.
    write_file(folder.path() / "a.json", rank_file(1, 240));
    write_file(folder.path() / "b.json", rank_file(0, 100));
  }
  [[nodiscard]] std::string a() const { return folder.path() / "a.json"; }
  [[nodiscard]] std::string b() const { return folder.path() / "b.json"; }
};

void check_columns(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    std::size_t columns = 0;
    for (const char c : line) columns += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    CHECK(columns <= 80);
    CHECK_FALSE(line.ends_with(' '));
  }
}

}  // namespace

TEST_CASE("several files, or their folder, are the ranks of one job") {
  const Files files;
  const ProcessResult listed = summary({files.a(), files.b(), "--format", "json"});
  const ProcessResult folder = summary({files.folder.path(), "--format", "json"});
  REQUIRE(listed.exit_code == 0);
  CHECK(listed.out == folder.out);
  const Json doc = Json::parse(listed.out);
  CHECK(doc["ranks"] == 2);
  CHECK(doc["inputs"].size() == 2);
  CHECK(doc["by_rank"][0]["rank"] == 0);
  const Json& together = doc["ranks_together"];
  CHECK(together["is_split"] == true);
  CHECK(together["collectives"] == 1);
  CHECK(together["waiting_s"].get<double>() == doctest::Approx(140e-6));
  CHECK(together["moving_s"].get<double>() == doctest::Approx(120e-6));
  CHECK(together["ranks"][1]["came_last"] == 1);
  CHECK(together["ranks"][1]["others_waited_s"].get<double>() == doctest::Approx(140e-6));
  // 4 MB in 60 us among two ranks.
  CHECK(together["kinds"][0]["bus_bytes_per_s"].get<double>() == doctest::Approx(4e6 / 60e-6));
  // The path: rank 1's host to 234, launch to 240, 60 of moving, 10 to the return, 90 to the step's
  // end.
  CHECK(doc["critical_path"]["length_s"].get<double>() == doctest::Approx(400e-6));
  CHECK(doc["critical_path"]["shares"][0]["kind"] == "host_work");
  double shares = 0;
  for (const Json& share : doc["critical_path"]["shares"]) shares += share["share"].get<double>();
  CHECK(shares == doctest::Approx(1));
}

TEST_CASE("the text says who waited for whom within 80 columns") {
  const Files files;
  const ProcessResult both = summary({files.a(), files.b()});
  for (const char* word : {"Collectives of all ranks", "all-reduce", "came last to",
                           "Critical path", "by rank:", "collective, moving"}) {
    CAPTURE(word);
    CHECK(both.out.find(word) != std::string::npos);
  }
  check_columns(both.out);
  const ProcessResult one = summary({files.a()});
  CHECK(one.out.find("cannot tell waiting") != std::string::npos);
  check_columns(one.out);
}

TEST_CASE("two recordings of one rank are refused, and a folder's other files counted") {
  const Files files;
  write_file(files.folder.path() / "c.txt", "hello\n");
  const ProcessResult folder = summary({files.folder.path()});
  CHECK(folder.exit_code == 0);
  CHECK(folder.out.find("file of the folder that cannot be read") != std::string::npos);
  const TemporaryFolder other;
  write_file(other.path() / "c.txt", "hello\n");
  const ProcessResult none = summary({other.path()});
  CHECK(none.exit_code == 2);
  CHECK(none.err.starts_with(other.path().string() + ": c.txt: found no trace format"));
  write_file(files.folder.path() / "d.json", rank_file(1, 200));
  const ProcessResult twice = summary({files.a(), files.folder.path() / "d.json"});
  CHECK(twice.exit_code == 2);
  CHECK(count_lines(twice.err) == 1);
  CHECK(twice.err.find("rank 1") != std::string::npos);
}

TEST_CASE("files of unrelated jobs are refused by every subcommand that takes ranks") {
  const Files files;
  const auto unrelated = [&](const std::string& name, const std::string& of) {
    std::string text = rank_file(1, 240);
    const std::string world = R"("world_size":2)";
    write_file(files.folder.path() / name, text.replace(text.find(world), world.size(), of));
    return std::string(files.folder.path() / name);
  };
  const std::string other = unrelated("other.json", R"("world_size":8)");
  const auto check_refused = [](const ProcessResult& result) {
    CAPTURE(result.out);
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK(count_lines(result.err) == 1);
    CHECK(result.err.find("rank 1 of 8") != std::string::npos);
    CHECK(result.err.find("other.json") != std::string::npos);
    CHECK(result.err.find("b.json") != std::string::npos);
  };
  check_refused(summary({files.b(), other}));
  check_refused(summary({other, files.b(), "--format", "json"}));
  check_refused(replay({files.b(), other, "--as-recorded"}));
  std::filesystem::remove(files.a());
  check_refused(summary({files.folder.path()}));
  check_refused(replay({files.folder.path(), "--as-recorded"}));

  const std::string archive = files.folder.path() / "both.tar";
  REQUIRE(run_process({"/usr/bin/env", "tar", "-cf", archive, "-C", files.folder.path(), "b.json",
                       "other.json"})
              .exit_code == 0);
  check_refused(summary({archive}));
  check_refused(replay({archive, "--as-recorded"}));
  const auto trace = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"trace"});
    return test::tracecast(words);
  };
  check_refused(trace({"diff", archive, files.b()}));
  check_refused(trace({"diff", files.b(), files.folder.path()}));
  const std::string out = files.folder.path() / "out.pftrace";
  check_refused(trace({"convert", archive, "--to", "perfetto", "-o", out}));
  CHECK_FALSE(std::filesystem::exists(out));
  CHECK(trace({"convert", archive, "--to", "perfetto", "--rank", "1", "-o", out}).exit_code == 0);
}

TEST_CASE("a folder of ranks can be compared with a file, and every file is an input") {
  const Files files;
  const ProcessResult result = run_process(
      {TRACECAST_PROGRAM, "trace", "diff", files.folder.path(), files.b(), "--format", "json"});
  REQUIRE(result.exit_code == 0);
  const Json inputs = Json::parse(result.out)["inputs"];
  REQUIRE(inputs.size() == 3);
  CHECK(inputs[0]["name"] == "a.json");
  CHECK(inputs[1]["side"] == "a");
  CHECK(inputs[2]["side"] == "b");
  CHECK(inputs[2]["name"] == "b.json");
}

TEST_CASE("several ranks are replayed together, and say what waiting and moving became") {
  const Files files;
  const ProcessResult recorded =
      replay({files.a(), files.b(), "--as-recorded", "--format", "json"});
  REQUIRE(recorded.exit_code == 0);
  const Json doc = Json::parse(recorded.out);
  CHECK(doc["job"]["recorded_ranks"] == 2);
  CHECK(doc["job"]["step_time_s"]["value"].get<double>() == doctest::Approx(400e-6));
  CHECK(doc["ranks"][1]["predicted_step_s"].get<double>() == doctest::Approx(400e-6));
  CHECK(doc["job"]["basis"] == "measured");
}

TEST_CASE("a recorded job goes to other links and other counts of GPUs") {
  const Files files;
  const auto moved = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {files.a(),   files.b(), "--recorded-machine",
                                          "dgx1_v100", "--from",  "v100_sxm2_16gb",
                                          "--format",  "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProcessResult result = replay(arguments);
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    return Json::parse(result.out)["job"];
  };
  // 60 us of moving 4 MB, of which latency is a part: between half and all of it.
  const Json faster = moved({"--set", "link.bandwidth=2x"});
  const double moving = faster["collectives"][0]["replayed_s"].get<double>();
  CHECK(moving < 60e-6);
  CHECK(moving > 30e-6);
  CHECK(faster["step_time_s"]["value"].get<double>() == doctest::Approx(340e-6 + moving));
  CHECK(faster["step_time_s"]["low"].get<double>() < faster["step_time_s"]["value"].get<double>());
  CHECK(faster["basis"] == "transferred");
  CHECK_FALSE(faster["account"].empty());

  const Json more = moved({"--gpus", "32", "--machine", "dgx1_v100"});
  CHECK(more["gpus"] == 32);
  CHECK(more["collectives"][0]["ranks"] == 32);
  CHECK(more["collectives"][0]["replayed_s"].get<double>() > 60e-6);

  // The host's 234 + 90 us at half speed; calls included.
  const Json slower = moved({"--set", "host.speed=0.5x"});
  CHECK(slower["step_time_s"]["value"].get<double>() > 600e-6);
}

TEST_CASE("changes that are not known, or ask too little, are refused in one line") {
  const Files files;
  struct Row {
    std::vector<std::string> arguments;
    const char* names;
  };
  const Row rows[] = {
      {{"--set", "link.bandwith=2x"}, "nvlink.bandwidth"},
      {{"--set", "link.bandwidth=fast"}, "2x"},
      {{"--set", "link.bandwidth=0x"}, "0.001"},
      {{"--set", "gpu.compute=nanx"}, "0.001"},
      {{"--gpus", "1"}, "2 or more"},
      {{"--as-recorded", "--gpus", "4"}, "changes"},
      {{}, "--as-recorded"},
  };
  for (const Row& row : rows) {
    std::vector<std::string> arguments = {files.a(), files.b(), "--from", "v100_sxm2_16gb"};
    if (row.arguments.empty()) arguments.resize(2);
    arguments.insert(arguments.end(), row.arguments.begin(), row.arguments.end());
    const ProcessResult result = replay(arguments);
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    CHECK(count_lines(result.err) == 1);
    CHECK(result.err.find(row.names) != std::string::npos);
  }
}

TEST_CASE("the text of a moved job stays within 80 columns and gives an account") {
  const Files files;
  const ProcessResult result =
      replay({files.a(), files.b(), "--from", "v100_sxm2_16gb", "--gpus", "16", "--set",
              "link.bandwidth=2x", "--set", "gpu.memory_bandwidth=1.5x"});
  CAPTURE(result.err);
  CHECK(result.exit_code == 0);
  for (const char* word : {"2 of 2 GPUs recorded, replayed on 16", "2 -> 16", "scaled", "Account",
                           "link.bandwidth times 2"}) {
    CAPTURE(word);
    CHECK(result.out.find(word) != std::string::npos);
  }
  check_columns(result.out);
}
