#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "sim/base/file.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tools/program.hpp"

// Input, host and links mean the same in every command.
namespace tracecast::test {
namespace {

using Json = nlohmann::json;

Json document_of(Words words) {
  words.insert(words.end(), {"--format", "json"});
  CAPTURE(line_of(words));
  const ProcessResult result = tracecast(words);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  return Json::parse(result.out);
}

/// A setting as flags, as fields of a job of `plan` and as columns of `schedule`.
struct HostSetting {
  Words flags;
  std::string fields, columns, values;
};

struct HostAsked {
  std::string file(const char* name, const std::string& text) const {
    const std::string path = (folder.path() / name).string();
    write_file(path, text);
    return path;
  }
  double compared(const HostSetting& s, int gpus) const {
    Words words{"compare", "alexnet", "--gpu",  "v100_sxm2_16gb",
                "--batch", "64",      "--gpus", std::to_string(gpus)};
    words.insert(words.end(), s.flags.begin(), s.flags.end());
    return document_of(words)["rows"][0]["throughput_samples_per_s"]["value"];
  }
  double predicted(const HostSetting& s, int gpus) const {
    Words words{"predict", "alexnet", "--gpu", "v100_sxm2_16gb", "--batch", "64"};
    if (gpus > 1) words.insert(words.end(), {"--gpus", std::to_string(gpus)});
    words.insert(words.end(), s.flags.begin(), s.flags.end());
    return document_of(words)["throughput_samples_per_s"]["value"];
  }
  double planned(const HostSetting& s, int gpus) const {
    const std::string jobs = file(
        "jobs.textproto",
        fmt::format("job {{ id: \"a\" network: \"alexnet\" batch: 64 samples: 1e7 gpus: {} {} }}",
                    gpus, s.fields));
    const std::string offers =
        file("offers.textproto",
             "id: \"o\" name: \"O\" date: \"2026-04\" offer { id: \"box\" gpu: \"v100_sxm2_16gb\" "
             "gpus: 16 usd_per_hour: 8 load_w: 3000 idle_w: 800 rack_units: 4 }");
    return document_of({"plan", jobs, "--catalogue", offers, "--deadline", "30d", "--worlds",
                        "10"})["matrix"][0]["samples_per_s"]["value"];
  }
  double scheduled(const HostSetting& s, int gpus) const {
    const std::string jobs =
        file("jobs.csv", fmt::format("job_id,submit_s,num_gpu,model,batch,steps{}\n"
                                     "0,0,{},alexnet,64,100000{}\n",
                                     s.columns, gpus, s.values));
    const std::string rates = (folder.path() / "rates.json").string();
    document_of({"schedule", jobs, "--gpus", "16", "--gpus-per-node", "8", "--gpu",
                 "v100_sxm2_16gb", "--export-throughputs", rates});
    const Json doc = Json::parse(read_file(rates, 1 << 20));
    return 64 * doc["v100_sxm2_16gb"].begin().value()["null"].get<double>();
  }
  double gridded(const HostSetting& s, int gpus) const {
    const std::string grid = file(
        "grid.textproto",
        fmt::format("predict {{ network: \"alexnet\" gpu: \"v100_sxm2_16gb\" batch: 64 {} {} }}",
                    gpus > 1 ? fmt::format("gpus: {}", gpus) : "", s.fields));
    const std::string results = (folder.path() / fmt::format("{}.db", ++runs)).string();
    const ProcessResult run = tracecast({"sweep", grid, "-o", results});
    CAPTURE(run.err);
    REQUIRE(run.exit_code == 0);
    return document_of(
        {"query", results, "SELECT * FROM predictions"})[0]["throughput_samples_per_s"];
  }
  TemporaryFolder folder;
  mutable int runs = 0;
};

void same_everywhere(const HostSetting& setting, int gpus) {
  const HostAsked asked;
  CAPTURE(setting.fields);
  const double predicted = asked.predicted(setting, gpus);
  CHECK(asked.compared(setting, gpus) == doctest::Approx(predicted));
  CHECK(asked.planned(setting, gpus) == doctest::Approx(predicted));
  CHECK(asked.scheduled(setting, gpus) == doctest::Approx(predicted));
  CHECK(asked.gridded(setting, gpus) == doctest::Approx(predicted));
}

TEST_SUITE_BEGIN("tools/host_options");

TEST_CASE("the same job with data and 4, 8, 32 threads is as fast in every command") {
  double before = 0;
  for (const int threads : {4, 8, 32}) {
    const HostSetting setting{
        {"--data", "imagenet", "--host-cpu", "2xe5_2698_v4", "--cpu-threads",
         std::to_string(threads), "--workers", std::to_string(threads)},
        fmt::format("data: \"imagenet\" host_cpu: \"2xe5_2698_v4\" cpu_threads: {0} workers: {0}",
                    threads),
        ",data,host_cpu,cpu_threads,workers",
        fmt::format(",imagenet,2xe5_2698_v4,{0},{0}", threads)};
    same_everywhere(setting, 1);
    const double now = HostAsked().predicted(setting, 1);
    CHECK(now >= before);
    before = now;
  }
}

TEST_CASE("loader, disk, quota and machine mean the same in every command") {
  same_everywhere({{"--data", "imagenet", "--pipeline", "tensorpack", "--disk", "aws_s3",
                    "--cpu-quota", "4", "--machine", "dgx1_v100"},
                   "data: \"imagenet\" pipeline: \"tensorpack\" disk: \"aws_s3\" cpu_quota: 4 "
                   "machine: \"dgx1_v100\"",
                   ",data,pipeline,disk,cpu_quota,machine",
                   ",imagenet,tensorpack,aws_s3,4,dgx1_v100"},
                  1);
}

TEST_CASE("NICs and peer access mean the same in every command") {
  same_everywhere({{"--nic", "ethernet_25g:1", "--no-p2p"},
                   "nic: \"ethernet_25g:1\" no_p2p: true",
                   ",nic,no_p2p",
                   ",ethernet_25g:1,yes"},
                  16);
}

TEST_CASE("nine jobs of a study gain by a new GPU what the study's rows say") {
  const HostAsked asked;
  const std::string fleet = asked.file("fleet.textproto",
                                       "group { count: 7 gpus: 1 gpu: \"v100_pcie_16gb\" } "
                                       "group { count: 3 gpus: 1 gpu: \"p100_pcie_16gb\" }");
  const std::string rates = (asked.folder.path() / "rates.json").string();
  document_of({"schedule", "tools/manual/s_fj_jobs.csv", "--fleet", fleet, "--policy", "max_min",
               "--export-throughputs", rates});
  const Json doc = Json::parse(read_file(rates, 1 << 20));
  const Json study = document_of({"study", "run", "s_fj"});
  int compared = 0;
  for (const auto& [row, program] : {std::pair("ratio_ssd", "('ssd300_rn34 (batch size 32)', 1)"),
                                     {"ratio_rm", "('ncf (batch size 2048)', 1)"},
                                     {"ratio_ic", "('resnet50_v1 (batch size 64)', 1)"}}) {
    for (const Json& known : study["rows"]) {
      if (known["row"] != row) continue;
      CAPTURE(program);
      CHECK(doc["p100_pcie_16gb"][program]["null"].get<double>() /
                doc["v100_pcie_16gb"][program]["null"].get<double>() ==
            doctest::Approx(known["predicted"].get<double>()).epsilon(1e-3));
      ++compared;
    }
  }
  CHECK(compared == 3);
}

TEST_CASE("a quota is less than its threads, and utilisation says of what it is a share") {
  const Words job{"predict",   "alexnet", "--gpu",         "v100",       "--batch",
                  "64",        "--data",  "imagenet",      "--host-cpu", "2xe5_2698_v4",
                  "--workers", "16",      "--cpu-threads", "16"};
  Words with = job;
  with.insert(with.end(), {"--cpu-quota", "2"});
  const Json free = document_of(job), bound = document_of(with);
  CHECK(bound["throughput_samples_per_s"]["value"].get<double>() <
        0.5 * free["throughput_samples_per_s"]["value"].get<double>());
  CHECK(free["cpu_utilization_of"] == "16 threads");
  CHECK(bound["cpu_utilization_of"] == "a quota of 2.00 CPUs");
  CHECK(bound["cpu_utilization"].get<double>() <= 1);
  CHECK(bound["input"]["cpu_quota"] == 2);
  CHECK(free["input"]["cpu_quota"].is_null());
}

TEST_CASE("wrong words of NICs, quotas and columns are one line with exit code 2") {
  const TemporaryFolder folder;
  const std::string jobs = (folder.path() / "jobs.csv").string();
  write_file(jobs, "job_id,submit_s,num_gpu,model,batch,steps,no_p2p\n0,0,2,alexnet,8,10,maybe\n");
  for (const auto& [words, named] : std::vector<std::pair<Words, std::string>>{
           {{"predict", "alexnet", "--gpu", "a100", "--gpus", "16", "--nic", "bogus"}, "bogus"},
           {{"predict", "alexnet", "--gpu", "a100", "--gpus", "16", "--nic", "nvlink3"}, "nvlink3"},
           {{"predict", "alexnet", "--gpu", "a100", "--gpus", "16", "--nic", "ethernet_100g:0"},
            "ethernet_100g:0"},
           {{"predict", "alexnet", "--gpu", "a100", "--nic", "ethernet_100g:1"}, "--nic"},
           {{"predict", "alexnet", "--gpu", "a100", "--no-p2p"}, "--no-p2p"},
           {{"predict", "alexnet", "--gpu", "a100", "--cpu-quota", "2"}, "--cpu-quota"},
           {{"compare", "alexnet", "--gpu", "a100", "--data", "imagenot"}, "imagenot"},
           {{"schedule", jobs, "--gpus", "2", "--gpu", "v100"}, "maybe"}}) {
    CAPTURE(line_of(words));
    const ProcessResult result = tracecast(words);
    CHECK(result.exit_code == 2);
    CHECK(result.err.find(named) != std::string::npos);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
