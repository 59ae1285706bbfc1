#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/bad_input/program.hpp"

namespace tracecast::test {
namespace {

TEST_SUITE_BEGIN("bad_input/flags");

TEST_CASE("flags that make no sense are refused") {
  const std::vector<std::string> good = {"predict", "alexnet", "--gpu", "v100_sxm2_16gb"};
  check_reports(good);
  const std::vector<std::vector<std::string>> additions = {
      {"--batch", "0"},
      {"--batch", "-1"},
      {"--batch", "many"},
      {"--batch", "1e3"},
      {"--batch", "99999999999999999999"},
      {"--batch", "9223372036854775807"},
      {"--batch"},
      {"--batch", ""},
      {"--phase", "dream"},
      {"--precision", "fp12"},
      {"--framework", "abacus"},
      {"--format", "xml"},
      {"--image-size", "0"},
      {"--image-size", "-224"},
      {"--image-size", "1"},
      {"--image-size", "2147483647"},
      {"--dump", "everything"},
      {"--optimizer", "luck"},
      {"--data", "imagnet"},
      {"--data", ""},
      {"--data", "text"},
      {"--workers", "4"},
      {"--cpu-threads", "8"},
      {"--host-cpu", "abacus"},
      {"--host-cpu", "9xe5_2698_v4"},
      {"--data", "imagenet", "--workers", "-1"},
      {"--data", "imagenet", "--workers", "many"},
      {"--data", "imagenet", "--workers", "99999999999999999999"},
      {"--data", "imagenet", "--workers", "1000000"},
      {"--data", "imagenet", "--cpu-threads", "0"},
      {"--data", "imagenet", "--cpu-threads", "100000"},
      {"--data", "imagenet", "--host-cpu", "abacus"},
      {"--data", "imagenet", "--host-cpu", "0xe5_2698_v4"},
      {"--data", "imagenet", "--host-cpu", "99xe5_2698_v4"},
      {"--data", "imagenet", "--host-cpu", "x"},
      {"--data", "imagenet", "--pipeline", "conveyor"},
      {"--data", "imagenet", "--disk", "tape"},
      {"--disk", "hdd"},
      {"--hwspecs", "/absent/folder"},
      {"--profile", "/absent/profile.textproto"},
      {"--no-such-flag"},
      {"second_network"},
  };
  for (const std::vector<std::string>& addition : additions) {
    std::string what;
    for (const std::string& word : addition) what += word + " ";
    CAPTURE(what);
    std::vector<std::string> arguments = good;
    arguments.insert(arguments.end(), addition.begin(), addition.end());
    check_refuses(arguments);
  }
}

TEST_CASE("names that nothing has are refused") {
  check_refuses({"predict", "bert_base", "--gpu", "v100_sxm2_16gb", "--data", "imagenet"});
  check_refuses({"predict", "resnet51", "--gpu", "v100_sxm2_16gb"});
  check_refuses({"predict", "alexnet", "--gpu", "v1000"});
  check_refuses({"predict", "alexnet", "--gpu", ""});
  check_refuses({"predict", "alexnet", "--gpu", std::string(100'000, 'v')});
  check_refuses({"predict", "/absent/network.onnx", "--gpu", "v100_sxm2_16gb"});
  check_refuses({"predict", "/", "--gpu", "v100_sxm2_16gb"});
  check_refuses({"predict", "/dev/zero", "--gpu", "v100_sxm2_16gb"});
  check_refuses({"predict", "--gpu", "v100_sxm2_16gb"});
  check_refuses({"predict", "alexnet"});
  check_refuses({"foretell", "alexnet"});
}

TEST_CASE("an unknown word is answered with the nearest known one") {
  const ProcessResult network = run_tracecast({"predict", "resnet51", "--gpu", "v100_sxm2_16gb"});
  CHECK(network.err.find("resnet50") != std::string::npos);
  const ProcessResult gpu = run_tracecast({"predict", "resnet50", "--gpu", "v100_smx2_16gb"});
  CHECK(gpu.err.find("v100_sxm2_16gb") != std::string::npos);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
