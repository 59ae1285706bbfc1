#include "sim/job/other_sizes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

const Predictor& sizes_predictor() {
  static const Predictor the(Hardware::embedded());
  return the;
}

std::vector<OtherSize> better(const Job& job, const Place& place,
                              const Parallelism& parallelism = Usual{}) {
  return find_better_sizes(sizes_predictor(), job, place, parallelism,
                           sizes_predictor().predict(job, place, parallelism));
}

TEST_SUITE_BEGIN("sim/job/other_sizes");

TEST_CASE("rows that are no multiple of eight: the next length is named with the kernels it has") {
  // Scores of 1493 keys, two bytes each: Volta's tensor cores take rows of eight.
  const Job job{
      .network = "transformer", .batch = 8, .phase = "infer", .precision = "fp16", .seq_len = 1493};
  const Place place{.gpu = "v100_sxm2_16gb"};
  const std::vector<OtherSize> sizes = better(job, place);
  const auto length = std::find_if(sizes.begin(), sizes.end(), [](const OtherSize& other) {
    return other.what == OtherSize::What::Length;
  });
  REQUIRE(length != sizes.end());
  CHECK(length->size == 1496);
  CHECK(length->step_time_s < sizes_predictor().predict(job, place).step_time_s.value);
  REQUIRE(!length->layers.empty());
  CHECK(length->layers.size() <= 3);
  for (const ChangedLayer& layer : length->layers) {
    CAPTURE(layer.name);
    CHECK(layer.time > layer.other_time);
  }
}

TEST_CASE("one sample more that no fp8 kernel takes is named where fewer launches are faster") {
  // 50 rows a sample: a multiple of 16 at 16 samples, not at 17. The host of the small batch pays
  // for every cast to 8 bits.
  const Job job{.network = "vit_l_32", .batch = 16, .phase = "infer", .precision = "fp8"};
  const std::vector<OtherSize> sizes = better(job, {.gpu = "h200"});
  const auto next = std::find_if(sizes.begin(), sizes.end(),
                                 [](const OtherSize& other) { return other.size == 17; });
  REQUIRE(next != sizes.end());
  REQUIRE(!next->layers.empty());
  CHECK(next->layers.front().other_kernels < next->layers.front().kernels);
}

TEST_CASE("what is reported is what the other size is predicted to take, and fits") {
  int reported = 0;
  for (const char* gpu : {"t4", "p4", "a100_sxm4_80gb", "l40"}) {
    for (const char* network : {"gpt2", "lstm_wikitext2", "resnet50"}) {
      for (const std::int64_t batch : {3, 5, 9, 65, 100}) {
        const Job job{.network = network, .batch = batch, .phase = "infer", .precision = "fp16"};
        const Place place{.gpu = gpu};
        const Forecast here = sizes_predictor().predict(job, place);
        for (const OtherSize& other : better(job, place)) {
          CAPTURE(gpu);
          CAPTURE(network);
          CAPTURE(batch);
          CAPTURE(other.size);
          ++reported;
          REQUIRE(other.what == OtherSize::What::Batch);
          Job changed = job;
          changed.batch = other.size;
          const Forecast there = sizes_predictor().predict(changed, place);
          CHECK(there.fits());
          CHECK(there.step_time_s.value == other.step_time_s);
          const bool is_shorter = other.size > batch && other.step_time_s < here.step_time_s.value;
          const bool has_more = other.size < batch &&
                                here.throughput_samples_per_s.value < 0.85 * other.samples_per_s;
          CHECK((is_shorter || has_more));
        }
      }
    }
  }
  CHECK(reported > 0);
}

TEST_CASE("sizes that libraries like have no better ones beside them") {
  for (const char* network : {"resnet50", "bert_base", "vgg16"}) {
    CAPTURE(network);
    CHECK(better({.network = network, .batch = 32, .precision = "amp"}, {.gpu = "v100"}).empty());
  }
}

TEST_CASE("a sharded step whose scores no fused kernel takes names the kernels by class") {
  // Megatron's softmax takes scores of sequences times heads a multiple of four: 2 x 10 heads of a
  // rank, not 3 x 10.
  Sharded parallel_layout{.software = "torchtitan"};
  parallel_layout.plan.tensor = 4;
  parallel_layout.plan.pipeline = 2;
  parallel_layout.plan.attention = "unfused";
  parallel_layout.plan.recompute = "full";
  parallel_layout.plan.global_batch = 30;
  parallel_layout.plan.micro_batch = 3;
  const Job job{.network = "qwen2.5_14b", .seq_len = 2048};
  const Place place{.gpu = "gb300", .gpus = 16};
  const std::vector<OtherSize> sizes = better(job, place, parallel_layout);
  REQUIRE(!sizes.empty());
  for (const OtherSize& other : sizes) {
    CHECK((other.size == 2 || other.size == 4));
    CHECK(!other.layers.empty());
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
