#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "sim/base/file.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tools/program.hpp"

namespace tracecast::test {
namespace {

using Json = nlohmann::json;

ProcessResult hardware(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"hardware"});
  return tracecast(arguments);
}

TEST_SUITE_BEGIN("tools/hardware");

TEST_CASE("a list and one spec are reported as JSON and CSV with units and sources") {
  const Json list = Json::parse(hardware({"links", "--format", "json"}).out);
  CHECK(list["schema"] == "tracecast.hardware/2");
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

ProcessResult predict(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"predict", "resnet50", "--batch", "8"});
  return tracecast(arguments);
}

TEST_CASE("a prediction without a GPU has no power and no GPU utilisation, and says so") {
  const ProcessResult text = predict({"--gpu", "cpu:2xe5-2667"});
  CHECK(text.exit_code == 0);
  CHECK(text.out.find("cpu:2xe5_2667_v4 = 2 x Intel Xeon E5-2667 v4") != std::string::npos);
  CHECK(text.out.find("of 16 cores") != std::string::npos);
  CHECK(text.out.find("nvidia-smi") == std::string::npos);
  const Json doc = Json::parse(predict({"--gpu", "cpu:2xe5-2667", "--format", "json"}).out);
  CHECK(doc["gpu"] == "cpu:2xe5_2667_v4");
  CHECK(doc["gpu_utilization"].is_null());
  CHECK(doc["power_w"].is_null());
  CHECK(doc["energy_j_per_sample"].is_null());
  CHECK(doc["memory"]["fits"] == true);
  const double busy = doc["cpu_utilization"];
  CHECK(busy > 0);
  CHECK(busy <= 1);
  CHECK(doc["basis"].back()["basis"] == "spec");
}

TEST_CASE("a machine's CPU scales the host's costs, and its slot bounds the copy of the input") {
  const auto step = [](const std::vector<std::string>& more) {
    std::vector<std::string> command{"--gpu",   "k40m",  "--framework", "tensorflow",
                                     "--phase", "infer", "--format",    "json"};
    command.insert(command.end(), more.begin(), more.end());
    return Json::parse(predict(command).out)["step_time_s"]["value"].get<double>();
  };
  const double typical = step({"--host-cpu", "e5_2698_v4"});
  CHECK(step({"--machine", "dgx_station"}) == doctest::Approx(typical));  // the reference CPU
  CHECK(step({"--machine", "paddle_k40m_host"}) > typical);  // 2.6 GHz turbo, Ivy Bridge
  CHECK(step({"--machine", "s_fj_v100"}) <= typical);        // 3.7 GHz turbo, Skylake
  const Json doc =
      Json::parse(predict({"--gpu", "v100", "--machine", "dgx1", "--format", "json"}).out);
  CHECK(doc["machine"] == "dgx1_v100");
  CHECK(doc["host_cpu"] == "e5_2698_v4");
}

TEST_CASE("an unnamed host dispatches as what servers of the GPU's years have, and is said so") {
  const auto report = [](const std::string& gpu, const std::vector<std::string>& more) {
    // So small a batch that dispatch makes the step.
    std::vector<std::string> command{"--gpu",   gpu,     "--framework", "tensorflow",
                                     "--phase", "infer", "--format",    "json"};
    command.insert(command.end(), more.begin(), more.end());
    return predict(command).out;
  };
  const auto step = [](const std::string& out) {
    return Json::parse(out)["step_time_s"]["value"].get<double>();
  };
  // hwspecs/host/default.textproto: Ivy Bridge beside K40, Broadwell beside V100, Sapphire Rapids
  // beside H100.
  for (const auto& [gpu, cpu] : {std::pair{"k40m", "e5_2680_v2"},
                                 {"v100_sxm2_16gb", "e5_2698_v4"},
                                 {"h100_sxm5_80gb", "platinum_8480c"},
                                 {"gh200_96gb", "grace"}}) {
    CAPTURE(gpu);
    const std::string assumed = report(gpu, {}), named = report(gpu, {"--host-cpu", cpu});
    CHECK(step(assumed) == doctest::Approx(step(named)));
    CHECK(Json::parse(assumed)["host_cpu"] == cpu);
    const bool scales = std::string_view(cpu) != "e5_2698_v4";  // the framework's reference
    CHECK((assumed.find("--host-cpu names yours") != assumed.npos) == scales);
    CHECK(named.find("names yours") == named.npos);
  }
  // 3.6 GHz * 1.05 of the reference over 3.8 GHz * 1.62: a step of dispatch alone takes 0.614 of
  // the time.
  const double fast = step(report("h100_sxm5_80gb", {}));
  const double slow = step(report("h100_sxm5_80gb", {"--host-cpu", "e5_2698_v4"}));
  CHECK(fast / slow == doctest::Approx(3.6 * 1.05 / (3.8 * 1.62)).epsilon(0.05));
}

TEST_CASE("a short form in a machine is the board that the machine comes with, and said so") {
  const std::vector<std::vector<std::string>> rows = {{}, {"--gpus", "8"}};
  for (const std::vector<std::string>& row : rows) {
    std::vector<std::string> command{"--gpu", "a100", "--machine", "dgx_a100", "--format", "json"};
    command.insert(command.end(), row.begin(), row.end());
    const std::string out = predict(command).out;
    CHECK(out.find("a100_sxm4_40gb: the \\\"a100\\\" that dgx_a100 comes with") != out.npos);
    CHECK(out.find("a100_sxm4_80gb") == out.npos);
  }
}

TEST_CASE("a machine or CPU that does not exist is refused in one line") {
  const std::vector<std::vector<std::string>> rows = {
      {"--gpu", "cpu:e5_9999"},
      {"--gpu", "cpu:"},
      {"--gpu", "cpu:2x"},
      {"--gpu", "cpu:0xe5_2667"},
      {"--gpu", "cpu:999xe5_2667"},
      {"--gpu", "v100", "--machine", "dgx17"},
      {"--gpu", "t4", "--machine", "dgx1"},
      {"--gpu", "a100_pcie_40gb", "--machine", "dgx_a100", "--gpus", "8"},
      {"--gpu", "cpu:2xe5_2667", "--data", "imagenet"},
      {"--gpu", "cpu:2xe5_2667", "--power-limit", "100"},
      {"--gpu", "v100", "--host-cpu", "e5_2667", "--machine", "dgx1"},
      {"--gpu", "cpu:2xe5_2667", "--host-cpu", "e5_2667"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.back());
    const ProcessResult result = predict(row);
    CHECK(result.exit_code == 2);
    CHECK(result.out == "");
    CHECK(result.err.find('\n') == result.err.size() - 1);
  }
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

TEST_CASE("a variant of a GPU states what differs, and every answer says what it inherits") {
  const TemporaryFolder folder;
  write_file(folder.path() / "mine.textproto",
             "id: \"mine\"\nname: \"H200 with more bandwidth\"\nbase: \"h200\"\n"
             "sources { key: \"us\" title: \"This test\" where: \"here\" }\n"
             "dram_gb_per_s { value: 9600 source: \"us\" }\n");
  const std::string path = folder.path().string();
  const std::string text = hardware({"gpus", "mine", "--hwspecs", path}).out;
  CHECK(text.find("\nbase  ") != std::string::npos);
  CHECK(text.find(" us\n") != std::string::npos);
  CHECK(text.find("h200/board (inherited)\n") != std::string::npos);
  CHECK(text.find("  h200/: NVIDIA H200") != std::string::npos);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    CHECK(end - begin <= 80);
    begin = end + 1;
  }
  const Json doc =
      Json::parse(hardware({"gpus", "mine", "--hwspecs", path, "--format", "json"}).out);
  for (const Json& value : doc["values"]) {
    CAPTURE(value.dump());
    const bool own = value["field"] == "base" || value["field"] == "dram_gb_per_s";
    CHECK(value.contains("inherited_from") != own);
    if (!own) CHECK(value["inherited_from"] == "h200");
  }
  const std::string csv = hardware({"gpus", "mine", "--hwspecs", path, "--format", "csv"}).out;
  CHECK(csv.find("\ndram_gb_per_s,9600,us,This test,here,\n") != std::string::npos);
  CHECK(csv.find(",h200\n") != std::string::npos);
  // It is predicted as a spec that states all of this itself.
  std::string whole = read_file("hwspecs/gpu/h200.textproto", 1 << 20);
  whole = std::regex_replace(whole, std::regex("(^|\n)alias: [^\n]*"), "");
  whole = std::regex_replace(whole, std::regex("(^|\n)name: [^\n]*"), "$1name: \"H200 in full\"");
  whole = std::regex_replace(whole, std::regex("(^|\n)id: [^\n]*"), "$1id: \"whole\"");
  whole = std::regex_replace(whole, std::regex("dram_gb_per_s \\{ value: [0-9]+"),
                             "dram_gb_per_s { value: 9600");
  write_file(folder.path() / "whole.textproto", whole);
  // So many pixels that kernels, and not the host, make the step.
  const auto step = [&](const std::string& gpu) {
    const Json report = Json::parse(
        predict({"--gpu", gpu, "--hwspecs", path, "--image-size", "1344", "--format", "json"}).out);
    CHECK(report["gpu"] == gpu);
    // What was measured on the H200 itself says nothing of a GPU that is none.
    if (gpu != "h200") {
      for (const Json& part : report["basis"]) CHECK(part["basis"] != "measured");
    }
    return report["step_time_s"]["value"].get<double>();
  };
  CHECK(step("mine") == step("whole"));
  CHECK(step("mine") != step("h200"));
}

TEST_CASE("a short form is answered with the board that it stands for, in every way to predict") {
  const std::vector<std::vector<std::string>> rows = {
      {"resnet50"}, {"resnet50", "--gpus", "8"}, {"gpt2", "--gpus", "8", "--tp", "2"}};
  for (const std::vector<std::string>& row : rows) {
    std::vector<std::string> command{TRACECAST_PROGRAM, "predict", "--gpu", "a100"};
    command.insert(command.end(), row.begin(), row.end());
    const ProcessResult result = run_process(command, Seconds(30));
    CAPTURE(result.out);
    CHECK(result.exit_code == 0);
    CHECK(result.out.find("a100_sxm4_80gb") != std::string::npos);
    CHECK(result.out.find("\"a100\"") != std::string::npos);
  }
  CHECK(hardware({"gpus", "a100"}).out.starts_with("a100_sxm4_80gb: "));
}

}  // namespace
}  // namespace tracecast::test

TEST_SUITE_END();
