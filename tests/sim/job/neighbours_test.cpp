#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "sim/job/predictor.hpp"

/// Jobs that differ in one thing alone: what a user who tries a little more, or a little less, is
/// reported.
namespace tracecast {
namespace {

const Predictor& predictor() {
  static const Predictor the(Hardware::embedded());
  return the;
}

template <class T, std::size_t N>
T pick(Random& random, const std::array<T, N>& all) {
  return all[random.below(N)];
}

std::optional<Forecast> predict(const Job& job, const Place& place,
                                const Parallelism& parallelism = Usual{}) {
  try {
    return predictor().predict(job, place, parallelism);
  } catch (const InputError&) {
    return std::nullopt;  // such as more tokens than the network has positions
  }
}

std::string text(const Job& job, const Place& place) {
  return job.network + " batch " + std::to_string(job.batch) + ' ' + job.phase + ' ' +
         job.precision + ' ' + job.software.framework + " on " + place.gpu + " x " +
         std::to_string(place.gpus.value_or(1));
}

constexpr std::array kNetworks{"resnet18",      "resnet50",    "vgg16",          "alexnet",
                               "googlenet",     "densenet121", "mobilenet_v2",   "inception_v3",
                               "squeezenet1_0", "bert_base",   "gpt2",           "vit_b_16",
                               "unet",          "ncf",         "lstm_wikitext2", "dlrm_kaggle",
                               "transformer",   "ssd300",      "dcgan",          "efficientnet_b0"};
constexpr std::array kTensorCores{"v100_sxm2_16gb", "t4", "a100_sxm4_80gb", "h100_sxm5_80gb"};

TEST_SUITE_BEGIN("sim/job/neighbours");

TEST_CASE("a sharded step takes no less time with longer sequences") {
  constexpr std::array networks{"gpt3_125m", "gpt3_1.3b", "gpt3_6.7b",
                                "gpt3_13b",  "llama3_8b", "mixtral_8x7b"};
  constexpr std::array gpus{"a100_sxm4_80gb", "h100_sxm5_80gb", "b200"};
  constexpr std::array software{"megatron", "fsdp", "internevo", "megatron_2021"};
  Random random(5602);
  int judged = 0;
  for (int trial = 0; trial < 60; ++trial) {
    Job job{.network = pick(random, networks)};
    Place place{.gpu = pick(random, gpus), .gpus = std::int64_t{8} << random.below(2)};
    Sharded parallel_layout{.software = pick(random, software)};
    parallel_layout.plan.zero = static_cast<int>(random.below(4));
    if (parallel_layout.plan.zero < 2) {
      parallel_layout.plan.tensor = std::int64_t{1} << random.below(3);
      parallel_layout.plan.pipeline = std::int64_t{1} << random.below(2);
    }
    parallel_layout.plan.micro_batches = 1 + static_cast<std::int64_t>(random.below(4));
    if (random.below(3) == 0) parallel_layout.plan.recompute = "full";
    double last = 0;
    for (const std::int64_t tokens : {128, 256, 512, 1024, 2048}) {
      job.seq_len = tokens;
      const auto forecast = predict(job, place, parallel_layout);
      if (!forecast) break;
      CAPTURE(text(job, place));
      CAPTURE(parallel_layout.software);
      CAPTURE(parallel_layout.plan.zero);
      CAPTURE(parallel_layout.plan.tensor.value_or(1));
      CAPTURE(parallel_layout.plan.pipeline.value_or(1));
      CAPTURE(parallel_layout.plan.recompute);
      CAPTURE(tokens);
      CHECK(forecast->step_time_s.value >= last * (1 - 1e-6));
      last = forecast->step_time_s.value;
      ++judged;
    }
  }
  CHECK(judged > 200);
}

/// Whether a line of `lines` has all of `parts`, in order.
bool mentions(const std::vector<std::string>& lines, std::initializer_list<const char*> parts) {
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
    std::size_t at = 0;
    for (const char* part : parts) {
      at = line.find(part, at);
      if (at == line.npos) return false;
    }
    return true;
  });
}

double transposes_s(const Forecast& forecast) {
  for (const StepPart& part : forecast.by_class) {
    if (part.name == "transpose") return part.time.in_s();
  }
  return 0;
}

TEST_CASE(
    "mixed precision is slower than fp32 only through its casts and transposes, and says so") {
  Random random(5604);
  int judged = 0, slower = 0;
  for (int trial = 0; trial < 200; ++trial) {
    Job job{.network = pick(random, kNetworks),
            .batch = std::int64_t{16} << random.below(4),
            .optimizer = "momentum"};
    const Place place{.gpu = pick(random, kTensorCores)};
    const auto with = [&](const char* precision) {
      job.precision = precision;
      return predict(job, place);
    };
    auto wide = with("fp32"), mixed = with("amp");
    if (!wide || !mixed) continue;
    CAPTURE(text(job, place));
    CAPTURE(wide->step_time_s.value);
    CAPTURE(mixed->step_time_s.value);
    if (mixed->step_time_s.value > wide->step_time_s.value * 1.02) {
      CHECK(mentions(mixed->assumptions, {"amp: casts and loss scaling take the host"}));
      ++slower;
    }
    // Without a host that issues the casts, and an update that waits for loss scaling.
    job.software.cuda_graphs = true;
    job.phase = "forward_backward";
    wide = with("fp32"), mixed = with("amp");
    REQUIRE((wide && mixed));
    // Tensor cores' kernels in 16 bits want workspace, and images channels last.
    if (mentions(mixed->warnings, {"for want of workspace"})) continue;
    const double turned = std::max(0.0, transposes_s(*mixed) - transposes_s(*wide));
    CHECK(mixed->step_time_s.value - turned <=
          wide->step_time_s.value * 1.05);  // kernels of a few us
    ++judged;
  }
  CHECK(judged > 100);
  CHECK(slower > 10);  // or nothing was tested
}

TEST_CASE("mixed precision leaves tables that are looked up alone") {
  for (const char* network : {"dlrm", "dlrm_kaggle", "dlrm_benchmark"}) {
    for (const char* framework : {"pytorch", "tensorflow"}) {
      Job job{.network = network, .batch = 512, .optimizer = "sgd"};
      job.software.framework = framework;
      const Place place{.gpu = "h100_sxm5_80gb"};
      CAPTURE(network);
      CAPTURE(framework);
      job.precision = "fp32";
      const auto wide = predict(job, place);
      job.precision = "amp";
      const auto mixed = predict(job, place);
      REQUIRE((wide && mixed));
      CHECK(mixed->step_time_s.value < wide->step_time_s.value * 1.6);
      CHECK(mixed->memory.needed < wide->memory.needed * 1.05);
    }
  }
}

TEST_CASE("a superchip is slower than its GPU elsewhere through its host alone, and says so") {
  Random random(5608);
  int slower = 0;
  for (int trial = 0; trial < 40; ++trial) {
    Job job{.network = pick(random, kNetworks),
            .batch = std::int64_t{1} << random.below(7),
            .precision = random.below(2) == 0 ? "fp32" : "bf16"};
    const auto elsewhere = predict(job, {.gpu = "b200"});
    const auto here = predict(job, {.gpu = "gb200"});
    if (!elsewhere || !here) continue;
    CAPTURE(job.network);
    CAPTURE(job.batch);
    const auto same_host = predict(job, {.gpu = "gb200", .host_cpu = "2x" + elsewhere->host_cpu});
    REQUIRE(same_host);
    CHECK(same_host->step_time_s.value <= elsewhere->step_time_s.value * (1 + 1e-9));
    if (here->step_time_s.value <= elsewhere->step_time_s.value * 1.02) continue;
    CHECK(mentions(here->assumptions, {"waiting for the host takes", "NVIDIA Grace"}));
    ++slower;
  }
  CHECK(slower > 5);
}

TEST_CASE("a job that does not fit is reported no faster than those that just do") {
  constexpr std::array networks{"unet3d", "resnet50", "vgg16", "unet", "densenet121", "ssd300"};
  constexpr std::array gpus{"v100_sxm2_16gb", "a100_sxm4_80gb", "b300", "t4", "p100_pcie_16gb"};
  constexpr std::array frameworks{"pytorch", "tensorflow", "mxnet"};
  constexpr std::array precisions{"fp32", "fp16", "amp"};
  Random random(5605);
  for (int trial = 0; trial < 24; ++trial) {
    Job job{.network = pick(random, networks), .batch = 64};
    job.precision = pick(random, precisions);
    job.software.framework = pick(random, frameworks);
    const Place place{.gpu = pick(random, gpus)};
    const auto asked = predict(job, place);
    if (!asked) continue;
    const auto largest = predictor().advise_on_batch(*asked).largest_batch;
    if (!largest || *largest == 0) continue;
    // Where the last scratch fits in is a matter of how tensors happen to lie: two batches at the
    // edge.
    double fits = 0;
    for (const double share : {1.0, 0.98}) {
      job.batch = std::max<std::int64_t>(
          1, static_cast<std::int64_t>(share * static_cast<double>(*largest)));
      const auto edge = predict(job, place);
      REQUIRE(edge);
      if (edge->fits()) fits = std::max(fits, edge->throughput_samples_per_s.value);
    }
    CAPTURE(text(job, place));
    for (const double more : {1.01, 1.1, 1.5}) {
      job.batch = static_cast<std::int64_t>(static_cast<double>(*largest) * more) + 1;
      const auto beyond = predict(job, place);
      REQUIRE(beyond);
      CAPTURE(more);
      CAPTURE(fits);
      if (beyond->fits()) continue;  // an allocator may find room for a little more
      CHECK(beyond->throughput_samples_per_s.value <= fits * 1.15);
    }
  }
}

TEST_CASE(
    "a batch at the edge of memory loses what is reported, and no more than the algorithms do") {
  // Scratch goes to the ops that gain most by it: not all fall back because one does.
  Job job{.network = "unet3d", .precision = "fp16"};
  const Place place{.gpu = "b300"};
  double last = 0;
  for (const std::int64_t batch : {96, 112, 120, 128, 132, 136}) {
    job.batch = batch;
    const auto now = predict(job, place);
    REQUIRE(now);
    CAPTURE(batch);
    if (!now->fits()) break;
    const double rate = now->throughput_samples_per_s.value;
    if (rate < 0.85 * last)
      CHECK(mentions(now->warnings, {"memory is nearly full", " for want of workspace", " for "}));
    if (batch <= 128) CHECK(rate > 0.6 * last);
    last = rate;
  }
}

TEST_CASE("computing again never takes more memory") {
  constexpr std::array frameworks{"pytorch", "tensorflow", "caffe",  "torch7", "mxnet",
                                  "chainer", "caffe2",     "theano", "cntk"};
  Random random(5606);
  int judged = 0;
  for (int trial = 0; trial < 150; ++trial) {
    Job job{.network = pick(random, kNetworks), .batch = std::int64_t{1} << random.below(7)};
    job.software.framework = pick(random, frameworks);
    const Place place{.gpu = "a100_sxm4_80gb"};
    const auto all = predict(job, place);
    if (!all) continue;
    for (const char* recompute : {"selective", "full"}) {
      job.recompute = recompute;
      const auto less = predict(job, place);
      REQUIRE(less);
      CAPTURE(text(job, place));
      CAPTURE(recompute);
      CHECK(less->memory.needed.in_mib() <= all->memory.needed.in_mib() * (1 + 1e-9));
      ++judged;
    }
    job.recompute = "none";
  }
  CHECK(judged > 100);
}

TEST_CASE("computing again never takes more memory of a rank of a sharded job") {
  constexpr std::array networks{"gpt3_125m", "gpt3_6.7b", "llama3_8b", "mixtral_8x7b"};
  constexpr std::array software{"megatron", "fsdp", "torchtitan", "megatron_2021"};
  Random random(5607);
  int judged = 0;
  for (int trial = 0; trial < 40; ++trial) {
    Job job{.network = pick(random, networks), .seq_len = std::int64_t{256} << random.below(4)};
    const Place place{.gpu = "h100_sxm5_80gb", .gpus = 8};
    Sharded parallel_layout{.software = pick(random, software)};
    parallel_layout.plan.tensor = std::int64_t{1} << random.below(3);
    parallel_layout.plan.pipeline = std::int64_t{1} << random.below(2);
    parallel_layout.plan.micro_batches = 1 + static_cast<std::int64_t>(random.below(4));
    const auto all = predict(job, place, parallel_layout);
    if (!all) continue;
    for (const char* recompute : {"selective", "full"}) {
      job.recompute = recompute;
      const auto less = predict(job, place, parallel_layout);
      REQUIRE(less);
      CAPTURE(job.network);
      CAPTURE(parallel_layout.software);
      CAPTURE(recompute);
      CHECK(less->memory.needed <= all->memory.needed * (1 + 1e-9));
      ++judged;
    }
  }
  CHECK(judged > 40);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
