#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/configs.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tools/program.hpp"

namespace tracecast::test {
namespace {

using Json = nlohmann::json;

/// The report; null where there is none. Exit code 1: it does not fit.
Json report_of(Words words) {
  words.insert(words.end(), {"--format", "json"});
  const ProcessResult result = tracecast(words);
  CAPTURE(line_of(words));
  CAPTURE(result.err);
  CHECK((result.exit_code == 0 || result.exit_code == 1));
  return Json::parse(result.out, nullptr, false);
}

TEST_SUITE_BEGIN("tools/config_corpus");

TEST_CASE("every language network's configuration predicts and serves") {
  for (const std::string& name : config_names()) {
    CAPTURE(name);
    const Json step = report_of({"predict", config_path(name), "--gpu", "h200", "--phase", "infer",
                                 "--batch", "1", "--seq-len", "64"});
    CHECK(step["step_time_s"]["value"].get<double>() > 0);
    CHECK(step["parameters"].get<double>() > 0);
    const Json served =
        report_of({"serve", config_path(name), "--gpu", "b200", "--gpus", "4", "--pp", "4",
                   "--input", "64", "--output", "4", "--concurrency", "2"});
    CHECK(served.is_object());
  }
}

TEST_CASE("every encoder's configuration predicts, inference and training") {
  for (const std::string& name : encoder_config_names()) {
    CAPTURE(name);
    double time[2] = {};
    for (const char* phase : {"infer", "train"}) {
      const Json step = report_of({"predict", encoder_config_path(name), "--gpu", "h200", "--phase",
                                   phase, "--batch", "1"});
      CHECK(step["warnings"].empty());
      time[std::string_view(phase) == "train" ? 1 : 0] = step["step_time_s"]["value"];
    }
    CHECK(time[1] > time[0]);
  }
  const ProcessResult served =
      tracecast({"serve", encoder_config_path("bert_base"), "--gpu", "h200", "--rate", "1"});
  CHECK(served.exit_code == 2);
  CHECK(served.err.find("token by token") != std::string::npos);
}

TEST_CASE("a pipeline gives one step of its denoiser, or the name of the file that it lacks") {
  const TemporaryFolder folder;
  const std::string index = (folder.path() / "model_index.json").string();
  write_file(index, R"({"_class_name": "StableDiffusionPipeline",
                        "unet": ["diffusers", "UNet2DConditionModel"]})");
  const Words words{"predict", index, "--gpu", "h200", "--phase", "infer"};
  const ProcessResult missing = tracecast(words);
  CHECK(missing.exit_code == 2);
  CHECK(missing.err.find("unet/config.json") != std::string::npos);
  std::filesystem::create_directory(folder.path() / "unet");
  write_file((folder.path() / "unet" / "config.json").string(), encoder_config_text("sd_1.5_unet"));
  const Json step = report_of(words);
  CHECK(step["parameters"] == 859'520'964);
  CHECK(step["warnings"].dump().find("one step") != std::string::npos);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
