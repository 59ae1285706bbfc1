#include "sim/job/predictor.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

const Predictor& predictor() {
  static const Predictor one(Hardware::embedded());
  return one;
}

std::vector<Job> some_jobs() {
  return {{.network = "alexnet", .batch = 32},
          {.network = "resnet50", .batch = 8, .precision = "amp"},
          {.network = "bert_base", .batch = 4, .software = {.framework = "tensorflow"}},
          {.network = "lstm_wikitext2", .batch = 16, .phase = "infer"},
          {.network = "mobilenet_v2", .batch = 8, .data = "imagenet"}};
}
std::vector<Place> some_places() {
  return {{.gpu = "k80"},
          {.gpu = "v100"},
          {.gpu = "a100", .gpus = 4},
          {.gpu = "t4", .board = {.power_limit_w = 65}},
          {.gpu = "cpu:e5_2667"}};
}

bool same_bytes(const Interval& a, const Interval& b) { return std::memcmp(&a, &b, sizeof a) == 0; }
bool same_bytes(const Cell& a, const Cell& b) {
  return same_bytes(a.samples_per_s, b.samples_per_s) && same_bytes(a.step_time_s, b.step_time_s) &&
         a.memory_needed == b.memory_needed && a.fits == b.fits && a.power == b.power &&
         a.refused == b.refused;
}
bool same_bytes(const Matrix& a, const Matrix& b) {
  if (a.cells.size() != b.cells.size()) return false;
  for (std::size_t i = 0; i < a.cells.size(); ++i) {
    if (!same_bytes(a.cells[i], b.cells[i])) return false;
  }
  return true;
}

TEST_SUITE_BEGIN("job/predictor");

TEST_CASE("a matrix has the throughput of each job at each place, and says why there is none") {
  const auto jobs = some_jobs();
  const auto places = some_places();
  const Matrix matrix = predictor().throughput(jobs, places);
  REQUIRE(matrix.cells.size() == jobs.size() * places.size());
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    for (std::size_t p = 0; p < places.size(); ++p) {
      const Cell& cell = matrix.at(j, p);
      if (!cell.refused.empty()) {
        CHECK_THROWS_AS((void)predictor().predict(jobs[j], places[p]), InputError);
        CHECK(cell.samples_per_s.value == 0);
        continue;
      }
      const Forecast forecast = predictor().predict(jobs[j], places[p]);
      CHECK(same_bytes(cell.samples_per_s, forecast.throughput_samples_per_s));
      CHECK(cell.fits == forecast.fits());
    }
  }
  // Loading is predicted beside a GPU only.
  CHECK(matrix.at(4, 4).refused.find("--data") != std::string::npos);
  CHECK(matrix.at(0, 2).samples_per_s.value > matrix.at(0, 0).samples_per_s.value);
}

TEST_CASE("several threads get the same bytes as one") {
  const auto jobs = some_jobs();
  const auto places = some_places();
  const Matrix alone = Predictor(Hardware::embedded()).throughput(jobs, places);
  const Predictor shared(Hardware::embedded());
  std::vector<Matrix> found(4);
  std::vector<std::thread> threads;
  for (Matrix& matrix : found) {
    threads.emplace_back([&] { matrix = shared.throughput(jobs, places); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Matrix& matrix : found) CHECK(same_bytes(matrix, alone));
  CHECK(same_bytes(shared.throughput(jobs, places), alone));
}

TEST_CASE("a predictor for other hardware shares graphs and nothing else") {
  const auto jobs = some_jobs();
  const auto places = some_places();
  const Predictor first(Hardware::embedded());
  const Matrix usual = first.throughput(jobs, places);
  for (const char* set :
       {"gpu.memory_bandwidth=2x", "gpu.compute=0.5x", "framework.launch_us=50"}) {
    CAPTURE(std::string(set));
    const Hardware other = Hardware::embedded().with(set);
    const Matrix shared = first.for_hardware(other).throughput(jobs, places);
    CHECK(same_bytes(shared, Predictor(other).throughput(jobs, places)));
    CHECK_FALSE(same_bytes(shared, usual));
  }
  CHECK(same_bytes(first.throughput(jobs, places), usual));
}

TEST_CASE("what is remembered changes no answer: settings and sizes are told apart") {
  const Predictor one(Hardware::embedded());
  Job job{.network = "resnet50", .batch = 16};
  const double first = one.predict(job, {.gpu = "v100"}).step_time_s.value;
  job.image_size = 128;
  CHECK(one.predict(job, {.gpu = "v100"}).step_time_s.value < first);
  job.image_size.reset();
  CHECK(one.predict(job, {.gpu = "v100"}).step_time_s.value == first);
  job.phase = "infer";
  CHECK(one.predict(job, {.gpu = "v100"}).step_time_s.value < first);
  const std::vector<Job> jobs{{.network = "resnet50", .batch = 16}};
  const std::vector<Place> places{{.gpu = "v100"}, {.gpu = "v100", .board = {.clock_mhz = 800}}};
  const Matrix matrix = one.throughput(jobs, places);
  CHECK(matrix.at(0, 1).samples_per_s.value < matrix.at(0, 0).samples_per_s.value);
}

TEST_CASE("a forecast is of the whole job") {
  const Job job{.network = "resnet50", .batch = 32};
  const Forecast one = predictor().predict(job, {.gpu = "v100_sxm2_16gb"});
  const Forecast four = predictor().predict(job, {.gpu = "v100_sxm2_16gb", .gpus = 4});
  CHECK(one.gpus == 1);
  CHECK(one.parallel_layout.empty());
  CHECK(four.gpus == 4);
  CHECK(four.parallel_layout == "ddp");
  CHECK(four.samples_per_step == 4 * one.samples_per_step);
  CHECK(four.throughput_samples_per_s.value * four.step_time_s.value ==
        doctest::Approx(four.samples_per_step));
  CHECK(four.throughput_samples_per_s.value < 4 * one.throughput_samples_per_s.value);
  CHECK(std::holds_alternative<ManyGpusDetails>(*four.details));
  const Place nodes{.gpu = "v100_sxm2_16gb", .gpus = 16, .nodes = 4};
  CHECK(predictor().predict(job, nodes, ParameterServers{.servers = 1}).gpus == 12);
  Sharded parallel_layout;
  parallel_layout.plan.zero = 3;
  const Forecast sharded = predictor().predict(
      {.network = "gpt3_13b"}, {.gpu = "a100_sxm4_80gb", .gpus = 8}, parallel_layout);
  CHECK(sharded.throughput_tokens_per_s.has_value());
  CHECK(sharded.gpus == 8);
}

TEST_CASE(
    "GPUs that wait for their network draw less than one alone, and all together its multiple") {
  // 552 MB of gradients after 50 ms of work, over the NICs of four machines.
  const Job job{.network = "vgg16", .batch = 8};
  const Forecast one = predictor().predict(job, {.gpu = "v100_pcie_16gb"});
  const Forecast four = predictor().predict(job, {.gpu = "v100_pcie_16gb", .gpus = 4, .nodes = 4});
  REQUIRE(one.power);
  REQUIRE(four.power);
  REQUIRE(four.step_time_s.value > 1.5 * one.step_time_s.value);
  CHECK(four.power->board.avg < 0.8 * one.power->board.avg);
  CHECK(four.power->boards_total.in_w() == doctest::Approx(4 * four.power->board.avg.in_w()));
}

TEST_CASE("a graph can be had without running it") {
  const ResolvedJob job = predictor().resolve({.network = "alexnet", .batch = 2}, {.gpu = "t4"});
  CHECK(job.forward->name == "alexnet");
  CHECK(job.step->ops().size() > job.forward->ops().size());
}

TEST_CASE(
    "a data set's rows are read from the GPUs where all of them hold it, else from the host, and "
    "are paid for") {
  const Job job{
      .network = "rgat_fp8_features", .batch = 512, .precision = "amp", .optimizer = "adam"};
  const auto run = [&](const char* gpu, std::int64_t gpus, const char* strategy) {
    return predictor().predict(job, {.gpu = gpu, .gpus = gpus}, DataParallel{.strategy = strategy});
  };
  const Forecast sharded = run("b200", 8, "wholegraph"), host = run("b200", 8, "ddp");
  // Features of 547 million nodes and twice as many edges as are published, of eight bytes: at
  // least 80 GB of each of eight.
  CHECK(sharded.memory.needed > host.memory.needed + Bytes(80e9));
  CHECK(sharded.memory.fits);
  CHECK(sharded.throughput_samples_per_s.value > host.throughput_samples_per_s.value);
  // Four H100 hold no more than half of it.
  const Forecast few = run("h100", 4, "wholegraph"), few_host = run("h100", 4, "ddp");
  CHECK(few.memory.needed == few_host.memory.needed);
  CHECK(few.memory.fits);
  CHECK(few.step_time_s.value > 1.2e9 / 64e9);  // features of a step over 16 lanes of PCI Express 5
}

TEST_CASE("every framework adds the gradients of micro-batches, of biases too") {
  for (const std::string& framework : Hardware::embedded().specs().framework_ids()) {
    CAPTURE(framework);
    for (const char* network : {"alexnet", "autoencoder", "bert_base"}) {
      CAPTURE(network);
      const Job job{
          .network = network, .batch = 4, .software = {.framework = framework}, .accumulate = 3};
      try {
        const Forecast forecast = predictor().predict(job, {.gpu = "a100_sxm4_40gb"});
        CHECK(forecast.samples_per_step == 12);
      } catch (const InputError&) {
        // One that does not train.
      }
    }
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
