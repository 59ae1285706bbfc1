#include <doctest/doctest.h>

#include <regex>
#include <set>
#include <string>

#include "calibrate/table/csv_reader.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "sim/job/largest_batch.hpp"
#include "tests/support/data.hpp"

namespace tracecast::test {
namespace {

PlacedJob training(const char* network, const char* gpu, const char* framework,
                   std::int64_t batch) {
  PlacedJob options;
  options.network = network;
  options.gpu = gpu;
  options.software.framework = framework;
  options.batch = batch;
  return options;
}

TEST_SUITE_BEGIN("validation/memory_fit");

TEST_CASE("the largest batch is right within a power of two where a larger one is known to fail") {
  // Gavel (OSDI 2022 artifact, jobs/README.md): ResNet-50 on a K80 ran at batch 64 and not at 128.
  const Hardware hardware = load_hardware({});
  const std::int64_t largest =
      find_largest_batch(make_job(training("resnet50", "k80", "pytorch", 64), hardware), hardware);
  MESSAGE("ResNet-50 on a K80, PyTorch: largest batch " << largest
                                                        << "; measured: 64 runs, 128 does not");
  CHECK(largest >= 64);
  CHECK(largest < 128);
}

TEST_CASE("batches chosen to fill a device fit, and twice as many do not") {
  // Lambda's benchmark takes for each board about the largest batch that ran (e2e.csv, ResNet-50).
  const auto table = find_data("published/e2e.csv");
  if (!table) return;
  const Hardware hardware = load_hardware({});
  CsvReader reader(*table);
  const auto at = [&](const char* name) {
    return std::string(reader.field(*reader.find_column(name)));
  };
  std::set<std::string> seen;
  while (reader.next()) {
    if (!at("source").starts_with("lambdal") || at("model") != "ResNet-50 v1.5" ||
        at("gpu_count") != "1" || at("framework_version").find("20.01") == std::string::npos) {
      continue;
    }
    const std::string key = at("gpu") + " " + at("precision") + " " + at("batch_per_gpu");
    if (!seen.insert(key).second) continue;
    PlacedJob options =
        training("resnet50", at("gpu").c_str(), "pytorch", std::stoll(at("batch_per_gpu")));
    options.precision = at("precision") == "fp32" ? "fp32" : "amp";
    try {
      const std::int64_t largest = find_largest_batch(make_job(options, hardware), hardware);
      MESSAGE(key << ": largest batch " << largest);
      CHECK(largest >= options.batch);
      CHECK(largest <= 2 * options.batch);
    } catch (const InputError&) {
      MESSAGE(key << ": no spec of this GPU");
    }
  }
  CHECK(seen.size() >= 8);
}

TEST_CASE("what was measured on one GPU fits") {
  const auto table = find_data("published/core.csv");
  if (!table) return;
  // T4 at batch 200 in fp32: 16.2 GiB of activations by op, of 14.8; its speed, too, is beyond the
  // board's fp32.
  const std::set<std::string> impossible = {"pollux-00003"};
  const Hardware hardware = load_hardware({});
  CsvReader reader(*table);
  const auto at = [&](const char* name) {
    return std::string(reader.field(*reader.find_column(name)));
  };
  std::set<std::string> seen;
  int planned = 0;
  while (reader.next()) {
    if (at("gpus") != "1" || impossible.contains(at("id"))) continue;
    PlacedJob options = training(at("network").c_str(), at("gpu").c_str(), at("framework").c_str(),
                                 std::stoll(at("batch_per_gpu")));
    options.phase = at("phase");
    options.precision = at("precision");
    options.software.version = at("framework_version");
    const std::string key = options.network + options.gpu + options.software.framework +
                            options.phase + options.precision + options.software.version +
                            at("batch_per_gpu");
    if (!find_network(options.network) || !seen.insert(key).second) continue;
    try {
      const MemoryPlan plan = plan_memory(make_job(options, hardware), hardware);
      ++planned;
      CAPTURE(at("id"));
      CHECK_MESSAGE(plan.fits, key);
    } catch (const InputError&) {
      continue;  // no spec or profile: `validate` lists it
    }
  }
  MESSAGE("configurations planned: " << planned);
  CHECK(planned >= 900);
}

/// Bytes of `channels` x `side` x `side` floats for 32 images.
double image(double channels, double side) { return 32 * channels * side * side * 4; }

TEST_CASE("ResNet-50 at batch 32 in PyTorch, class by class and op by op") {
  // Independent of the zoo: He et al., table 1, torchvision's layout (stride in the 3x3
  // convolutions).
  constexpr double kParameters = 25'557'032, kChannels = 26'560;  // of 53 batch norms
  double kept = image(3, 224) + 32 * 8;                           // images and labels
  kept +=
      2 *
      image(
          64,
          112);  // first convolution's result, which its batch norm reads; relu's, in place of bn's
  kept += image(64, 56) * 3;  // pool's result and its 8-byte indices
  double side = 56;
  constexpr int kBlocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    const double width = 64 << stage;
    for (int block = 0; block < kBlocks[stage]; ++block) {
      const double out = stage > 0 && block == 0 ? side / 2 : side;
      kept += 2 * image(width, side);     // 1x1: result for bn, bn and relu for the next
      kept += 2 * image(width, out);      // 3x3
      kept += 2 * image(4 * width, out);  // 1x1: result for bn; bn, sum and relu share one
      if (block == 0)
        kept += image(4 * width, out);  // the shortcut's convolution; its bn goes with the sum
      side = out;
    }
  }
  kept += 2 * kChannels * 4;  // mean and deviation of every batch norm
  // The peak is the gradient of the last 3x3 convolution's weights. Gone by then: results and
  // statistics of the last block behind it; there: gradients of the shortcut, of the convolution's
  // result and input; logits.
  double peak = kept - 2 * image(2048, 7) - 2 * image(512, 7) - 2 * (2048 + 512) * 4;
  peak += image(2048, 7) + 2 * image(512, 7) + 32 * 1000 * 4;

  const Hardware hardware = load_hardware({});
  PlacedJob options = training("resnet50", "v100_dgxs_32gb", "pytorch", 32);
  options.software.version = "1.8";
  const MemoryPlan plan = plan_memory(make_job(options, hardware), hardware);
  const MemoryByClass& c = plan.by_class;
  MESSAGE("MiB by hand and planned: activations "
          << peak / 1048576 << " " << c.activations.in_mib() << ", weights "
          << kParameters * 4 / 1048576 << " " << c.weights.in_mib() << ", gradients "
          << (kParameters + 512 * 512 * 9) * 4 / 1048576 << " " << c.gradients.in_mib()
          << ", optimizer " << kParameters * 4 / 1048576 << " " << c.optimizer.in_mib());
  // Blocks of 512 bytes: every tensor may be up to that much larger.
  CHECK(c.activations.in_bytes() == doctest::Approx(peak).epsilon(1e-4));
  CHECK(c.weights.in_bytes() == doctest::Approx(4 * (kParameters + 2 * kChannels)).epsilon(1e-3));
  CHECK(c.gradients.in_bytes() == doctest::Approx(4 * (kParameters + 512 * 512 * 9)).epsilon(1e-3));
  CHECK(c.optimizer.in_bytes() == doctest::Approx(4 * kParameters).epsilon(1e-3));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
