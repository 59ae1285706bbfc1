#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/invented_files.hpp"
#include "tests/tools/program.hpp"

// One text file, in a folder that --hwspecs names, adds whatever hwspecs/ holds; the command's
// answers follow it.
namespace tracecast::test {
namespace {

using Json = nlohmann::json;

TEST_SUITE_BEGIN("tools/own_files");

/// A folder of specs and tables for one test.
struct Folder : InventedFiles {
  [[nodiscard]] ProcessResult run(Words words) const {
    words.insert(words.end(), {"--hwspecs", root.path().string()});
    return tracecast(words);
  }
  [[nodiscard]] Json json(Words words) const {
    words.insert(words.end(), {"--format", "json"});
    const ProcessResult result = run(words);
    CAPTURE(result.err);
    REQUIRE(result.out.starts_with("{"));
    return Json::parse(result.out);
  }
};

double rate(const Json& report) { return report["throughput_samples_per_s"]["value"]; }

TEST_CASE("a disk: loading from it paces the job") {
  const Folder folder;
  (void)folder.write("disk/tape.textproto", invented_disk());
  const Words job{"predict", "resnet50", "--gpu", "t4", "--batch", "8", "--data", "imagenet"};
  Words from_tape = job, from_ssd = job;
  from_tape.insert(from_tape.end(), {"--disk", "tape"});
  from_ssd.insert(from_ssd.end(), {"--disk", "nvme_ssd"});
  CHECK(rate(folder.json(from_tape)) < 0.2 * rate(folder.json(from_ssd)));
  // What the binary has may be replaced too.
  (void)folder.write("disk/tape.textproto", invented_disk("nvme_ssd"));
  CHECK(rate(folder.json(from_ssd)) < 40);
}

TEST_CASE("a framework version: chosen by its number and its month") {
  const Folder folder;
  (void)folder.write("framework/pytorch_3.textproto", invented_framework_version());
  const auto with = [&](const std::string& version) {
    return folder.json(
        {"predict", "resnet50", "--gpu", "t4", "--batch", "1", "--framework-version", version});
  };
  CHECK(rate(with("3.2")) < 0.5 * rate(with("2.4")));
  const Json today = folder.json({"predict", "resnet50", "--gpu", "t4", "--batch", "1"});
  CHECK(rate(today) == rate(with("3.2")));
}

TEST_CASE("a strategy, and the machine that it runs on") {
  const Folder folder;
  (void)folder.write("strategy/ours.textproto", invented_strategy("ours", "20"));
  (void)folder.write("strategy/slow.textproto", invented_strategy("slow", "20000"));
  (void)folder.write("machine/pair.textproto", invented_machine());
  const auto with = [&](const std::string& id) {
    return folder.json({"predict", "resnet50", "--gpu", "t4", "--gpus", "2", "--machine", "pair",
                        "--batch", "8", "--strategy", id});
  };
  const Json ours = with("ours");
  CHECK(ours["gpus"] == 2);
  CHECK(rate(with("slow")) < 0.6 * rate(ours));
  const ProcessResult unknown = folder.run({"predict", "resnet50", "--gpu", "t4", "--gpus", "2",
                                            "--machine", "pair", "--strategy", "our"});
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.err.find("ours") != std::string::npos);
}

TEST_CASE("a round of MLPerf: its software, and its rows are untouched") {
  const Folder folder;
  const std::string table = folder.write(
      "mlperf.csv",
      "series_id,round,benchmark,gpu_id,gpus,nodes,batch_per_gpu,batch_unit,throughput,framework\n"
      "a,v5.0,bert,a100_sxm4_80gb,8,1,48,sequences,4000,pytorch\n"
      "b,v9.0,bert,a100_sxm4_80gb,8,1,48,sequences,4000,pytorch\n"
      "c,v9.0,resnet,a100_sxm4_80gb,8,1,48,images,4000,mxnet\n"
      "d,v9.0,newnet,a100_sxm4_80gb,8,1,48,images,4000,mxnet\n");
  (void)folder.write("mlperf/v9_0.textproto", invented_mlperf_round());
  const Json rows = folder.json({"validate", table})["rows"];
  REQUIRE(rows.size() == 4);
  CHECK(rows[1]["predicted"].get<double>() < 0.5 * rows[0]["predicted"].get<double>());
  CHECK(rows[2]["predicted"].is_number());  // as the round before
  CHECK(rows[3]["skipped"] == "nobody drew it");
  CHECK(rows[0]["used_for"] == "choice");
  CHECK(rows[1]["used_for"].is_null());
}

TEST_CASE("a published source: what its program does, and which rows were used") {
  const Folder folder;
  const std::string table = folder.write(
      "ours.csv",
      "id,source,gpu,gpus,framework,precision,network,data,phase,batch_per_gpu,samples_per_s\n"
      "a,our blog,v100_sxm2_16gb,1,pytorch,fp32,vgg16,synthetic,train,16,200\n"
      "b,our blog,p100_sxm2_16gb,1,pytorch,fp32,vgg16,synthetic,train,16,120\n"
      "c,their blog,v100_sxm2_16gb,1,pytorch,fp32,vgg16,synthetic,train,16,200\n");
  (void)folder.write("published/our_blog.textproto", invented_published_source());
  const Json report = folder.json({"validate", table});
  const Json& rows = report["rows"];
  CHECK(rows[0]["used_for"] == "choice");
  CHECK(rows[1]["used_for"] == "fit");
  CHECK(rows[2]["used_for"].is_null());
  CHECK(rows[2]["line"] == 4);
  CHECK(rows[2]["metric"] == "samples_per_s");
  CHECK(rows[2]["flag"].is_null());
  // Without an optimizer a step is shorter.
  CHECK(rows[0]["predicted"].get<double>() > 1.001 * rows[2]["predicted"].get<double>());
  CHECK(report["total"]["n"] == 3);
  CHECK(report["total"]["by_used_for"]["fit"]["n"] == 1);
  CHECK(report["total"]["by_used_for"]["choice"]["n"] == 1);
  CHECK(report["total"]["by_used_for"]["none"]["n"] == 1);
  bool grouped = false;
  for (const Json& group : report["groups"])
    grouped = grouped || (group["by"] == "used_for" && group["key"] == "fit" && group["n"] == 1);
  CHECK(grouped);
  const std::string csv = folder.run({"validate", table, "--format", "csv"}).out;
  CHECK(csv.find(",skipped,line,metric,unit,flag,used_for\n") != std::string::npos);
  CHECK(csv.find(",2,samples_per_s,samples_per_s,,choice\n") != std::string::npos);
  CHECK(csv.find(",3,samples_per_s,samples_per_s,,fit\n") != std::string::npos);
  const std::string text = folder.run({"validate", table}).out;
  CHECK(text.find("used_for   choice") != std::string::npos);
  CHECK(text.find("1 were fitted, 1 were in view") != std::string::npos);
  // A table that nothing here has seen says nothing of it.
  const std::string own =
      folder.write("own.csv",
                   "gpu,gpus,framework,precision,network,phase,batch_per_gpu,samples_per_s\n"
                   "t4,1,pytorch,amp,resnet50,train,64,300\n");
  CHECK(folder.run({"validate", own}).out.find("used_for") == std::string::npos);
}

TEST_CASE("a file that is wrong is refused by every command, in one line that names it") {
  struct Row {
    const char *path, *text, *expected;
  };
  const Row rows[] = {
      {"framework/x.textproto", "id: \"x\" based_on: \"pytroch\"", "pytroch"},
      {"strategy/x.textproto", "id: \"x\"", "communication"},
      {"mlperf/x.textproto", "id: \"v9\" based_on: \"v5.0\"", "no month"},
      {"mlperf/x.textproto",
       "id: \"v9\" based_on: \"v5.0\" month { value: \"2029-01\" source: \"results\" } benchmark { "
       "name: \"x\" source: \"code\" }",
       "why it is unpredicted"},
      {"published/x.textproto", "id: \"x\" used_for { use: FIT }", "what or record"},
      {"published/x.textproto", "id: \"x\" program { source: \"y\" }", "key of a source"},
      {"published/x.textproto", "id: \"x\" rows { where { column: \"gpu\" } }", "is_not"},
      {"disks/x.textproto", "id: \"x\"", "nearest: disk"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.path);
    const Folder folder;
    (void)folder.write(row.path, row.text);
    const ProcessResult result = folder.run({"predict", "resnet50", "--gpu", "t4"});
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.err.find(row.expected) != std::string::npos);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  }
}

}  // namespace
}  // namespace tracecast::test
