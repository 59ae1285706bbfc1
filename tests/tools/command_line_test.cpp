#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/base/file.hpp"
#include "tests/support/onnx_bytes.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tools/program.hpp"

namespace tracecast::test {
namespace {

using Json = nlohmann::json;

const std::vector<std::string> kJob = {"predict", "resnet50", "--gpu",   "v100_sxm2_16gb",
                                       "--batch", "32",       "--phase", "train"};
std::vector<std::string> with(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// The widest line, in characters.
std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0, width = 0;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0) == 0x80) continue;
    width = c == '\n' ? 0 : width + 1;
    widest = std::max(widest, width);
  }
  return widest;
}

TEST_SUITE_BEGIN("tools/command_line");

TEST_CASE("text for people fits 80 columns and ends each line") {
  const std::vector<std::vector<std::string>> commands = {
      kJob,
      with(kJob, {"--explain"}),
      {"predict", "resnet50", "--gpu", "v100", "--batch", "100000"},
      {"predict", "vgg16", "--gpu", "k40m", "--phase", "infer", "--image-size", "32"},
      {"gpus"},
      {"gpus", "v100"},
      {"hardware", "cpus"},
      {"hardware", "cpus", "e5-2667"},
      {"hardware", "disks"},
      {"hardware", "links"},
      {"hardware", "machines"},
      {"hardware", "machines", "dgx1"},
      {"networks"},
      {"networks", "resnet50"},
      {"networks", "mlp"},
      {"networks", "--image-size", "32"},
      {"--help"},
      {"predict", "--help"},
      {"validate", "--help"},
      {"colocate", "--help"},
      {"calibrate", "--help"},
      {"trace", "summary", "--help"},
      {"trace", "replay", "--help"},
      {"trace", "record", "--help"},
  };
  for (const auto& command : commands) {
    std::string what;
    for (const std::string& word : command) what += word + ' ';
    CAPTURE(what);
    const ProcessResult result = tracecast(command);
    CHECK(result.err == "");
    CHECK(result.exit_code <= 1);
    CHECK(result.out.ends_with('\n'));
    CHECK(widest_line(result.out) <= 80);
  }
}

TEST_CASE(
    "a command line that cannot be read is reported where, what was found and what was expected") {
  struct Row {
    std::vector<std::string> arguments;
    std::string line;
  };
  const Row rows[] = {
      {{"predict", "resnet50"},
       "tracecast predict: found no --gpu; expected one (see tracecast predict --help)"},
      {{"trace"},
       "tracecast trace: found no subcommand; expected one (see tracecast trace --help)"},
      {with(kJob, {"--accumulate", "x"}),
       "tracecast predict: found --accumulate: \"x\"; expected a whole number from 1 to 100000, in "
       "digits"},
      {with(kJob, {"--format", "xml"}),
       "tracecast predict: found --format: xml; expected one of text,json,csv"},
      {with(kJob, {"--sample-sd", "9"}),
       "tracecast predict: found --sample-sd: \"9\"; expected a number from 0 to 2"},
      {with(kJob, {"--trace"}),
       "tracecast predict: found --trace without its value; expected a value (see tracecast "
       "predict --help)"},
      {with(kJob, {"--batch", "8"}),
       "tracecast predict: found --batch more than once; expected it once"},
  };
  for (const Row& row : rows) {
    const ProcessResult result = tracecast(row.arguments);
    CHECK(result.exit_code == 2);
    CHECK(result.err == row.line + '\n');
  }
}

TEST_CASE("today's PyTorch is the usual framework; its fp32 code runs convolutions alone as TF32") {
  const auto usual = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"predict", "resnet50", "--gpu", "a100", "--format", "json"});
    return Json::parse(tracecast(more).out);
  };
  const Json today = usual({});
  CHECK(today["framework"] == "pytorch_2");
  CHECK(today["precision"] == "tf32");
  CHECK(usual({"--set", "framework.tf32=0"})["precision"] == "fp32");
  CHECK(usual({"--framework-version", "1.13"})["framework"] == "pytorch");
}

TEST_CASE("the JSON document has the promised keys and consistent values") {
  const ProcessResult result = tracecast(with(kJob, {"--format", "json"}));
  REQUIRE(result.exit_code == 0);
  const Json doc = Json::parse(result.out);
  for (const char* key : {"schema",
                          "version",
                          "inputs",
                          "seed",
                          "network",
                          "gpu",
                          "gpus",
                          "nodes",
                          "batch_per_gpu",
                          "phase",
                          "precision",
                          "framework",
                          "parameters",
                          "forward_macs_per_sample",
                          "throughput_samples_per_s",
                          "step_time_s",
                          "gpu_utilization",
                          "sm_efficiency",
                          "cpu_utilization",
                          "memory",
                          "power_w",
                          "energy_j_per_sample",
                          "breakdown",
                          "basis",
                          "bottleneck"}) {
    CAPTURE(key);
    CHECK(doc.contains(key));
  }
  const double step = doc["step_time_s"]["value"], rate = doc["throughput_samples_per_s"]["value"];
  CHECK(rate * step == doctest::Approx(32));
  CHECK(doc["step_time_s"]["low"] < doc["step_time_s"]["value"]);
  CHECK(doc["step_time_s"]["value"] < doc["step_time_s"]["high"]);
  double time = 0, share = 0, basis = 0, memory = 0;
  for (const Json& part : doc["breakdown"]) {
    time += part["time_s"].get<double>();
    share += part["share"].get<double>();
  }
  for (const Json& part : doc["basis"]) basis += part["share"].get<double>();
  for (const auto& [name, bytes] : doc["memory"]["by_class_bytes"].items()) {
    memory += bytes.get<double>();
  }
  CHECK(time == doctest::Approx(step));
  CHECK(share == doctest::Approx(1));
  CHECK(basis == doctest::Approx(1));
  CHECK(memory == doctest::Approx(doc["memory"]["device_used_bytes"].get<double>()));
  for (const Json& input : doc["inputs"]) CHECK(input["sha256"].get<std::string>().size() == 64);
  for (const char* key : {"sm_efficiency", "cpu_utilization"}) {
    CHECK(doc[key].get<double>() > 0);
    CHECK(doc[key].get<double>() <= 1);
  }
}

TEST_CASE("the same command gives the same bytes") {
  const auto command = with(kJob, {"--format", "json", "--explain"});
  CHECK(tracecast(command).out == tracecast(command).out);
}

TEST_CASE("the answer no is exit code 1") {
  const ProcessResult result =
      tracecast({"predict", "resnet50", "--gpu", "v100", "--batch", "10000", "--format", "json"});
  CHECK(result.exit_code == 1);
  CHECK(Json::parse(result.out)["memory"]["fits"] == false);
}

TEST_CASE("a warning is fatal only when asked") {
  onnx::Model model = onnx::small_network();
  model.nodes[1] = onnx::node("NoSuchOperator", {"conv"}, {"relu"});
  const TemporaryFolder folder;
  const std::string path = folder.path() / "odd.onnx";
  write_file(path, model.bytes());
  const std::vector<std::string> command = {"predict", path, "--gpu", "v100", "--phase", "infer"};
  const ProcessResult result = tracecast(command);
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("NoSuchOperator") != std::string::npos);
  CHECK(widest_line(result.out) <= 80);
  CHECK(tracecast(with(command, {"--strict"})).exit_code == 1);
}

TEST_CASE("what this version does not predict is refused in one line") {
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--gpus", "0"},
                                               {"--nodes", "0"},
                                               {"--gpus", "2", "--strategy", "ddpp"},
                                               {"--precision", "int8"},
                                               {"--framework", "tensorrt"},
                                               {"--framework", "minerva"},
                                               {"--data", "imagenett"},
                                               {"--dump", "graph", "--format", "json"},
                                               {"--set", "speed=2"},
                                               {"--set", "cost.luck=1"}}) {
    CAPTURE(more.front());
    const ProcessResult result = tracecast(with(kJob, more));
    CHECK(result.exit_code == 2);
    CHECK(result.out == "");
    CHECK(count_lines(result.err) == 1);
  }
}

TEST_CASE("every precision is answered on every GPU, with a line where another one runs") {
  const auto run = [](const std::string& gpu, const std::string& precision) {
    const ProcessResult result = tracecast(
        {"predict", "resnet18", "--gpu", gpu, "--phase", "infer", "--batch", "8", "--framework",
         "pytorch", "--precision", precision, "--set", "framework.tf32=0", "--format", "json"});
    CAPTURE(gpu);
    CAPTURE(precision);
    REQUIRE(result.exit_code == 0);
    return Json::parse(result.out);
  };
  for (const char* gpu : {"k40m", "p100", "p40", "v100", "t4", "a100", "h100"}) {
    for (const char* precision : {"fp32", "tf32", "amp", "fp16", "bf16", "fp8", "int8"}) {
      const Json report = run(gpu, precision);
      const bool as_asked = report["precision"] == precision;
      CHECK(report["warnings"].size() == (as_asked ? 0 : 1));
    }
  }
  CHECK(run("k40m", "int8")["precision"] == "fp32");
  CHECK(run("t4", "int8")["framework"] == "tensorrt");
  CHECK(run("k40m", "int8")["framework"] == "pytorch_2");
}

TEST_CASE("a number that is none and a value that is empty are refused in one short line") {
  const std::vector<std::vector<std::string>> commands = {
      {"predict", "resnet50", "--gpu", "v100", "--gpus", "4", "--sample-sd", "nan"},
      {"plan", "tools/manual/jobs.textproto", "--deadline", "30d", "--budget", "nan"},
      {"plan", "tools/manual/jobs.textproto", "--deadline", "30d", "--power-kw", "NaN"},
      {"plan", "tools/manual/jobs.textproto", "--deadline", "30d", "--time-limit", "nan"},
      {"plan", "tools/manual/jobs.textproto", "--deadline", "30d", "--catalogue", ""},
      {"compare", "llama3_8b", "--gpu", "h100", "--serve", "--ttft-ms", "nan"},
      {"compare", "llama3_8b", "--gpu", "h100", "--serve", "--ttft-ms", "inf"},
      {"schedule", "jobs.csv", "--gpus", "8", "--round", "nan"},
      {"validate", "tools/manual/measurements.csv", "--min-us", "nan"},
      {"predict", "resnet50", "--gpu", "v100", "--framework-version", "nan"},
      {"predict", "resnet50", "--gpu", "v100", "--report", ""},
      {"predict", "resnet50", "--gpu", "v100", "--report="},
      {"predict", "resnet50", "--gpu", "v100", "--hwspecs", ""},
      {"predict", "resnet50", "--gpu", "v100", "--batch", ""},
  };
  for (const auto& command : commands) {
    CAPTURE(line_of(command));
    const ProcessResult result = tracecast(command);
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    CHECK(result.err.size() < 160);
    CHECK(result.out.empty());
  }
}

TEST_CASE("a misspelt flag or subcommand is answered with the nearest one") {
  CHECK(tracecast(with(kJob, {"--bacth", "3"})).err.find("--batch") != std::string::npos);
  CHECK(tracecast({"predcit"}).err.find("predict") != std::string::npos);
}

TEST_CASE("each stage can be printed") {
  for (const char* stage : {"graph", "kernels", "program"}) {
    CAPTURE(stage);
    const ProcessResult result = tracecast(with(kJob, {"--dump", stage}));
    CHECK(result.exit_code == 0);
    CHECK(count_lines(result.out) > 100);
  }
}

TEST_CASE("CSV is one header and one row of as many fields") {
  const ProcessResult result = tracecast(with(kJob, {"--format", "csv"}));
  REQUIRE(count_lines(result.out) == 2);
  const std::size_t end = result.out.find('\n');
  const auto commas = [](const std::string& text) {
    return std::count(text.begin(), text.end(), ',');
  };
  CHECK(commas(result.out.substr(0, end)) == commas(result.out.substr(end)));
}

TEST_CASE("help is an answer") {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"--help"}, {"predict", "--help"}, {"validate", "--help"}}) {
    const ProcessResult result = tracecast(command);
    CHECK(result.exit_code == 0);
    CHECK(result.out.find("Usage") != std::string::npos);
  }
}

TEST_CASE("a reader that goes away early is no error") {
  const std::string command =
      std::string("set -o pipefail; '") + TRACECAST_PROGRAM + "' gpus | head -1";
  const ProcessResult result = run_process({"/bin/bash", "-c", command}, Seconds(30));
  CHECK(result.exit_code == 0);
  CHECK(count_lines(result.out) == 1);
}

TEST_CASE("host costs and cost parameters can be set") {
  const auto step = [](const std::vector<std::string>& more) {
    const ProcessResult result = tracecast(with({"predict", "resnet50", "--gpu", "v100", "--batch",
                                                 "1", "--phase", "infer", "--format", "json"},
                                                more));
    REQUIRE(result.exit_code == 0);
    return Json::parse(result.out)["step_time_s"]["value"].get<double>();
  };
  CHECK(step({"--set", "framework.launch_us=50"}) > 1.5 * step({}));  // launches decide at batch 1
}

TEST_CASE("validate lists every row, the skipped ones with their reason") {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "table.csv";
  write_file(path,
             "id,gpu,gpus,framework,precision,xla,network,data,phase,batch_per_gpu,samples_per_s\n"
             "a,v100_sxm2_16gb,1,tensorflow,fp32,no,resnet50,synthetic,train,64,360\n"
             "b,v100_sxm2_16gb,8,tensorflow,fp32,no,resnet50,synthetic,train,64,2800\n"
             "c,v100_sxm2_16gb,1,tensorflow,fp32,no,newnet,synthetic,train,64,100\n");
  const ProcessResult result = tracecast({"validate", path, "--format", "json"});
  REQUIRE(result.exit_code == 0);
  const Json doc = Json::parse(result.out);
  REQUIRE(doc["rows"].size() == 3);
  CHECK(doc["rows"][0]["id"] == "a");
  const double predicted = doc["rows"][0]["predicted"], error = doc["rows"][0]["error"];
  CHECK(error == doctest::Approx((predicted - 360) / 360));
  CHECK(doc["rows"][1]["skipped"].is_null());
  CHECK(doc["rows"][1]["predicted"].get<double>() <= 8 * predicted);  // eight GPUs, none idle
  CHECK(doc["rows"][1]["predicted"].get<double>() >= 6 * predicted);
  CHECK(doc["rows"][2]["skipped"].get<std::string>().find("newnet") != std::string::npos);
  CHECK(doc["total"]["n"] == 2);
  CHECK(doc["total"]["skipped"] == 1);
  CHECK(Json::parse(tracecast({"validate", path, "--only", "id=b", "--format", "json"}).out)["rows"]
            .size() == 1);
}

TEST_CASE("what a training script does besides the network can be told") {
  const auto step_s = [](const std::vector<std::string>& more) {
    const ProcessResult result = tracecast(
        with({"predict", "vgg16", "--gpu", "v100", "--batch", "8", "--format", "json"}, more));
    REQUIRE(result.exit_code == 0);
    return Json::parse(result.out)["step_time_s"]["value"].get<double>();
  };
  const std::vector<std::string> old = {"--framework-version", "1.8"};
  const double usual = step_s(old);
  CHECK(step_s(with(old, {"--no-cudnn-benchmark"})) == usual);  // PyTorch's default
  // Small images of 7x7: the fastest kernel is one that cuDNN does not name.
  const std::vector<std::string> small = with(old, {"--phase", "infer", "--image-size", "64"});
  CHECK(step_s(with(small, {"--cudnn-benchmark"})) < step_s(small));
  const std::vector<std::string> tries = with(small, {"--framework", "mxnet"});
  CHECK(step_s(with(tries, {"--cudnn-benchmark"})) == step_s(tries));  // MXNet's default
  CHECK(step_s(with(old, {"--no-channels-last"})) == usual);           // PyTorch's default
  // Tensor cores read channels last: cuDNN need not turn images before and after.
  const std::vector<std::string> half = {"--precision", "amp"};
  CHECK(step_s(with(half, {"--channels-last"})) < step_s(half));
  CHECK(step_s(with(old, {"--optimizer", "none"})) < usual);
  // Today's PyTorch takes gradients over as they are: without an optimizer it runs forward and
  // backward.
  CHECK(step_s({"--optimizer", "none"}) < step_s({"--optimizer", "sgd"}));
  // A container's version says its month, and with it what libraries there were.
  const std::vector<std::string> box = {"--framework-version", "NGC 18.08"};
  CHECK(step_s(box) != step_s({"--framework-version", "NGC"}));
}

TEST_CASE("rows of a table whose script is known are predicted as it runs") {
  const auto predicted = [](const std::string& source) {
    const TemporaryFolder folder;
    const std::string table = folder.path() / "rows.csv";
    write_file(table,
               "id,source,date,gpu,gpus,framework,precision,network,data,phase,batch_per_gpu,"
               "samples_per_s\n1," +
                   source + ",2019,v100_sxm2_16gb,1,pytorch,fp32,vgg16,synthetic,train,12,100\n");
    const ProcessResult result = tracecast({"validate", table, "--format", "json"});
    REQUIRE(result.exit_code == 0);
    return Json::parse(result.out)["rows"][0]["predicted"].get<double>();
  };
  CHECK(predicted("a/b") == predicted("c/d"));
  CHECK(predicted("ryujaehun/pytorch-gpu-benchmark") != predicted("a/b"));
}

TEST_CASE("validate predicts language networks, without loss and optimizer") {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "table.csv";
  write_file(path,
             "gpu,dtype,model,phase,option,seq,batch,e2e_ms\n"
             "v100_pcie_32gb,fp32,bert_base,inf,,128,8,20\n"
             "v100_pcie_32gb,fp32,bert_base,train,,128,8,60\n"
             "v100_pcie_32gb,fp32,bert_base,inf,fusion,128,8,20\n"
             "v100_pcie_32gb,fp32,bert_base,inf,,1024,8,20\n"
             "v100_pcie_32gb,fp32,newnet,inf,,128,8,20\n");
  const ProcessResult result = tracecast({"validate", path, "--format", "json"});
  REQUIRE(result.exit_code == 0);
  const Json doc = Json::parse(result.out);
  REQUIRE(doc["rows"].size() == 5);
  // Backward is two GEMMs for each of forward's; pretraining adds the GEMM with the table.
  const double forward = doc["rows"][0]["predicted"], both = doc["rows"][1]["predicted"];
  CHECK(both > 2.5 * forward);
  CHECK(both < 5 * forward);
  // A compiled graph.
  CHECK(doc["rows"][2]["predicted"] > 0.5 * forward);
  CHECK(doc["rows"][2]["predicted"] < 1.5 * forward);
  CHECK(doc["rows"][3]["skipped"].get<std::string>().find("1024 tokens") != std::string::npos);
  CHECK(doc["rows"][4]["skipped"].get<std::string>().find("newnet") != std::string::npos);
  CHECK(doc["total"]["n"] == 3);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
