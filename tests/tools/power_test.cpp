#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/table/csv_reader.hpp"
#include "sim/base/error.hpp"
#include "sim/job/resolved_job.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tools/validate/published_row.hpp"

namespace tracecast {
namespace {

Prediction train(const Hardware& hardware, std::optional<double> limit_w,
                 std::optional<double> clock_mhz = {}) {
  PlacedJob options;
  options.network = "resnet50";
  options.gpu = "v100_pcie_16gb";
  options.software.framework = "pytorch";
  options.batch = 64;
  options.board.power_limit_w = limit_w;
  options.board.clock_mhz = clock_mhz;
  const ResolvedJob job = make_job(options, hardware);
  return predict(job, hardware);
}

std::string refusal(PlacedJob options) {
  options.network = "alexnet";
  try {
    (void)make_job(options, load_hardware({}));
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST_SUITE_BEGIN("tools/power");

TEST_CASE("a lower power limit lowers clock and power and lengthens the step") {
  const Hardware hardware = load_hardware({});
  Prediction before = train(hardware, std::nullopt);
  CHECK(before.power.limit.in_w() == 250);
  for (const double limit : {250.0, 200.0, 150.0, 100.0}) {
    CAPTURE(limit);
    Prediction now = train(hardware, limit);
    if (limit == 250) CHECK(now.step_time_s.value == before.step_time_s.value);
    CHECK(now.power.avg.in_w() <= limit);
    CHECK(now.power.avg <= before.power.avg);
    CHECK(now.power.clock <= before.power.clock);
    CHECK(now.step_time_s.value >= before.step_time_s.value);
    // Lower voltage: the same work for less energy.
    CHECK(now.energy_per_sample <= before.energy_per_sample);
    before = std::move(now);
  }
  CHECK(before.power.throttles);
  CHECK(before.power.avg.in_w() > 90);
}

TEST_CASE("a step held at a lower clock takes longer and draws less") {
  const Hardware hardware = load_hardware({});
  const Prediction free = train(hardware, std::nullopt), held = train(hardware, std::nullopt, 900);
  CHECK(held.power.clock.in_mhz() == doctest::Approx(900).epsilon(0.01));
  CHECK(held.power.avg < free.power.avg);
  // At most in proportion: memory keeps its pace.
  CHECK(held.step_time_s.value > free.step_time_s.value);
  CHECK(held.step_time_s.value < free.step_time_s.value * 1380 / 900 * 1.01);
}

TEST_CASE("limits and clocks beyond the board's are refused with its range") {
  PlacedJob board;
  board.gpu = "v100_pcie_16gb";
  const auto report = [&](auto&& change) {
    PlacedJob options = board;
    change(options);
    return refusal(options);
  };
  for (const double watts : {90.0, 300.0}) {
    CAPTURE(watts);
    CHECK(report([&](PlacedJob& o) { o.board.power_limit_w = watts; }).find("100 to 250 W") !=
          std::string::npos);
  }
  CHECK(report([](PlacedJob& o) { o.board.clock_mhz = 9000; }).find("MHz") != std::string::npos);
  CHECK(report([](PlacedJob& o) { o.board.memory_clock_mhz = 800; }).find("memory_clock_mhz") !=
        std::string::npos);
  CHECK(report([](PlacedJob& o) { o.epoch_samples = 0; }).find("--epoch-samples") !=
        std::string::npos);
}

TEST_CASE("a power limit that cannot be held is said, with the clock, in every form") {
  const std::vector<std::string> low = {
      TRACECAST_PROGRAM, "predict", "resnet50",      "--gpu", "a10", "--precision", "amp",
      "--batch",         "64",      "--power-limit", "60"};
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = low;
    command.insert(command.end(), more.begin(), more.end());
    return test::run_process(command, Seconds(60));
  };
  for (const std::vector<std::string>& where :
       {std::vector<std::string>{}, {"--gpus", "4"}, {"--nodes", "4", "--servers", "1"}}) {
    CAPTURE(where.size());
    const test::ProcessResult text = run(where);
    CHECK(text.exit_code == 0);
    CHECK((text.out + text.err).find("cannot be held") != std::string::npos);
    std::vector<std::string> as_json = where;
    as_json.insert(as_json.end(), {"--format", "json"});
    const auto json = nlohmann::json::parse(run(as_json).out);
    CHECK(json["power_limit_held"] == false);
    CHECK(json["power_w"]["max"].get<double>() > 60);
    CHECK(json["sm_clock_mhz"].get<double>() ==
          doctest::Approx(json["lowest_sm_clock_mhz"].get<double>()).epsilon(0.01));
    REQUIRE(json["warnings"].size() == 1);
    CHECK(json["warnings"][0].get<std::string>().find("lowest clock") != std::string::npos);
  }
  CHECK(run({"--strict"}).exit_code == 1);
}

TEST_CASE("a row's interval of power ends at a limit that is held") {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "rows.csv";
  std::ofstream(path) << "gpu,gpu_count,framework,precision,model,phase,batch_per_gpu,metric,value,"
                         "unit,date,notes\n"
                         "V100,1,PyTorch,fp32,ResNet-50,train,64,average GPU power,170,W,2022,GPU "
                         "power limit 175 W\n";
  const test::ProcessResult result = test::run_process(
      {TRACECAST_PROGRAM, "validate", path.string(), "--format", "json"}, Seconds(60));
  REQUIRE(result.exit_code == 0);
  const auto row = nlohmann::json::parse(result.out)["rows"][0];
  REQUIRE(row["skipped"].is_null());
  CHECK(row["predicted"].get<double>() <= 175);
  CHECK(row["high"].get<double>() == doctest::Approx(175));
}

TEST_CASE("networks are known in the spelling of published tables") {
  CHECK(find_published_network("ShuffleNetV2 (CIFAR-100)") == "shufflenet_v2_cifar");
  CHECK(find_published_network("NeuMF / NCF (ML-1M)") == "ncf_ml1m");
  CHECK(find_published_network("ResNet-50 training") == "resnet50");
  CHECK(find_published_network("GPU utilisation (nvidia-smi) while training resnet50_FP16") ==
        "resnet50");
  CHECK(find_published_network("VGG").empty());
}

TEST_CASE("limit, clocks and optimizer of a published row come from its notes") {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "rows.csv";
  std::ofstream(path) << "gpu,model,framework,precision,phase,batch_per_gpu,date,notes\n"
                         "V100,ResNet-50,PyTorch,not stated,train,8,2022,\"GPU power limit 175 W; "
                         "optimiser adadelta; dataset imagenet (1281167 samples); so a PCIe board "
                         "is likely\"\n"
                         "GTX 1080 Ti,GoogLeNet,Caffe,fp32,train,128,2018,\"core 1607 MHz, memory "
                         "3500 MHz (absolute clocks)\"\n"
                         "V100,ResNet-50,PyTorch,fp32,train,,2020,max memory 3 MiB\n"
                         "V100,ResNet-50,PyTorch,fp32,train,8,2020,dataset nobody-knows; warm\n"
                         "T4,Transformer-XL base,PyTorch,fp32,infer,8,2021,\"caption: FP32, pure "
                         "Python; Sequence length=64; Memory length=640\"\n";
  const Hardware hardware = load_hardware({});
  CsvReader reader(path);
  const RowFields row(reader);
  REQUIRE(reader.next());
  PublishedJob job = read_published_job(row, hardware.specs());
  CHECK(job.unknown.empty());
  CHECK(job.options.gpu == "v100_pcie_16gb");
  CHECK(job.options.board.power_limit_w == 175);
  CHECK(job.options.optimizer == "adadelta");
  CHECK(job.options.data == "imagenet");
  CHECK_FALSE(job.options.board.clock_mhz);
  REQUIRE(reader.next());
  job = read_published_job(row, hardware.specs());
  CHECK(job.options.board.clock_mhz == 1607);
  CHECK(job.options.board.memory_clock_mhz == 3500);
  CHECK(job.options.data == "synthetic");
  REQUIRE(reader.next());
  CHECK(read_published_job(row, hardware.specs()).unknown.find("ran nothing") != std::string::npos);
  REQUIRE(reader.next());
  CHECK(read_published_job(row, hardware.specs()).options.data == "synthetic");
  REQUIRE(reader.next());
  job = read_published_job(row, hardware.specs());
  CHECK(job.options.network == "transformer_xl_base");
  CHECK(job.options.precision == "fp32");
  CHECK(job.options.seq_len == 64);
}

TEST_CASE("a published row is what its source's record says of it") {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "rows.csv";
  std::ofstream(path) << "gpu,model,framework,precision,phase,batch_per_gpu,date,notes\n"
                         "V100,SSD300,TensorFlow 1,fp32,train,8,2020,\"DGX-1; CUDA 10.1/cuDNN 7.6; "
                         "column: Throughput - FP32 + XLA\"\n"
                         "V100,ResNet-50,PyTorch,fp32,train,8,2020,without xla\n";
  const Hardware hardware = load_hardware({});
  CsvReader reader(path);
  const RowFields row(reader);
  REQUIRE(reader.next());
  PublishedProgram program;
  program.network = "ssd300_rn50";
  program.optimizer = "adam";
  program.version = "1.15";
  const PublishedJob job = read_published_job(row, hardware.specs(), program);
  CHECK(job.options.network == "ssd300_rn50");
  CHECK(job.options.optimizer == "adam");
  CHECK(job.options.software.xla);
  CHECK(job.options.software.version.starts_with("1.15"));
  CHECK(job.options.software.version.find("cuDNN 7.6") != std::string::npos);
  CHECK(meant_network("ssd300_rn50", hardware.framework(Software{.framework = "tensorflow"})) ==
        "ssd320_fpn_rn50");
  program.unpredicted = "another thing was measured";
  CHECK(read_published_job(row, hardware.specs(), program).unknown == program.unpredicted);
  REQUIRE(reader.next());
  CHECK_FALSE(read_published_job(row, hardware.specs()).options.software.xla);
}

nlohmann::json said(std::vector<std::string> words) {
  words.insert(words.begin(), TRACECAST_PROGRAM);
  words.insert(words.end(), {"--format", "json"});
  const test::ProcessResult result = test::run_process(words, Seconds(60));
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  return nlohmann::json::parse(result.out);
}

TEST_CASE("predict and serve draw the same for the same prompts") {
  // A step of prompts is GEMMs and attention; what lies between them differs by less than 1 %.
  for (const auto& [gpu, batch] : {std::pair{"v100_sxm2_32gb", "4"},
                                   {"a100_sxm4_80gb", "8"},
                                   {"l40s", "8"},
                                   {"rtx4090", "1"},
                                   {"h100_sxm5_80gb", "8"}}) {
    CAPTURE(gpu);
    const auto step =
        said({"predict", "llama_7b", "--gpu", gpu, "--phase", "infer", "--precision", "fp16",
              "--batch", batch, "--seq-len", "2000", "--framework", "pytorch_compile"})["power_w"];
    const auto served =
        said({"serve", "llama_7b", "--gpu", gpu, "--engine", "vllm", "--precision", "fp16",
              "--batch", batch, "--input", "2000", "--output", "1"})["power_w"];
    // Of boards before Ampere what the kernels ask for: a limit cuts the mean over them there.
    const double asked = step[std::string_view(gpu).starts_with("v100") ? "demand" : "avg"];
    CHECK(served["avg"].get<double>() == doctest::Approx(asked).epsilon(0.01));
  }
}

TEST_CASE("decode on RTX 3090 slows under a limit as it was measured") {
  // data/cases/README.md, 7: 0.94 at 250 W, 0.81 at 200 W, and about 350 W without a limit.
  const std::vector<std::string> job = {
      "predict",   "llama2_7b",   "--gpu",       "rtx3090",         "--phase",
      "infer",     "--precision", "fp16",        "--batch",         "1",
      "--seq-len", "1",           "--framework", "pytorch_compile", "--cuda-graphs"};
  const auto under = [&](const std::string& limit) {
    std::vector<std::string> words = job;
    if (!limit.empty()) words.insert(words.end(), {"--power-limit", limit});
    return said(words);
  };
  const auto speed = [](const nlohmann::json& one) {
    return one["throughput_samples_per_s"]["value"].get<double>();
  };
  const nlohmann::json free = under("");
  CHECK(free["power_w"]["avg"].get<double>() > 280);
  CHECK(free["power_w"]["avg"].get<double>() <= 350);
  for (const auto& [limit, measured] : {std::pair{"250", 0.94}, {"200", 0.81}}) {
    CAPTURE(limit);
    const nlohmann::json limited = under(limit);
    CHECK(speed(limited) / speed(free) == doctest::Approx(measured).epsilon(0.1));
    CHECK(limited["power_w"]["avg"].get<double>() <= std::stod(limit) * (1 + 1e-9));
    CHECK(limited["power_limit_held"] == true);
  }
  CHECK(speed(under("150")) < 0.6 * speed(free));
}

TEST_CASE("half the power costs a large chip a modest part of its speed in networks of images") {
  const auto speed = [](const std::string& gpu, const char* limit) {
    return said({"predict", "resnet50", "--gpu", gpu, "--phase", "infer", "--precision", "amp",
                 "--batch", "256", "--power-limit", limit})["throughput_samples_per_s"]["value"]
        .get<double>();
  };
  const double whole = speed("rtx_pro_6000", "600");
  CHECK(speed("rtx_pro_6000", "300") > 0.75 * whole);
  // The board that is sold with the limit, and the one that is held to it.
  CHECK(speed("rtx_pro_6000_maxq", "300") ==
        doctest::Approx(speed("rtx_pro_6000", "300")).epsilon(0.15));
  CHECK(speed("rtx_pro_6000_server", "600") < whole);
}

TEST_CASE("rates in tokens are compared with tokens, of networks that are counted so") {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "rows.csv";
  const std::string start = "V100,1,PyTorch,,fp32,", end = ",train,8,throughput,20000,";
  std::ofstream(path)
      << "gpu,gpu_count,framework,framework_version,precision,model,phase,batch_per_gpu,metric,"
         "value,unit,notes\n"
      << start << "Transformer-XL base" << end << "tokens/s,\n"
      << start << "Transformer-XL base" << end << "sequences/s,\n"
      << start << "BERT-base" << end << "tokens/s,\n";
  const test::ProcessResult result = test::run_process(
      {TRACECAST_PROGRAM, "validate", path.string(), "--format", "json"}, Seconds(30));
  REQUIRE(result.exit_code == 0);
  const auto rows = nlohmann::json::parse(result.out)["rows"];
  REQUIRE(rows.size() == 3);
  const double predicted = rows[0]["predicted"];
  CHECK(predicted > 1000);
  CHECK(rows[1]["predicted"].get<double>() ==
        predicted);  // what it is counted in, whatever the unit
  CHECK_FALSE(rows[2]["skipped"].is_null());
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
