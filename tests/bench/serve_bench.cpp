// Simulator speed of serving: Llama 3 70B in 8 bits on 8-GPU replicas of H100, prompts of 2,000 and
// answers of 300 tokens that arrive as a Poisson process.
//   replica: 10,000 requests on one replica, prices of the steps included.
//   fleet: 1,000,000 requests on 128 replicas, and the peak of memory.
//   front: 200 closed loops of 1 to 1,000 requests in flight on replicas of 1, 2, 4 and 8 GPUs.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "sim/job/mode/serving_job.hpp"
#include "tests/bench/bench.hpp"

namespace tracecast {
namespace {

using bench::check;

ServingJob job(std::int64_t tensor) {
  ServingJob job;
  job.network = "llama3_70b";
  job.precision = "fp8";
  job.tensor = tensor;
  return job;
}
ServingLoad load(std::uint64_t requests) {
  ServingLoad load;
  load.input = 2000;
  load.output = 300;
  load.requests = requests;
  load.intervals = false;
  return load;
}
Place place(std::int64_t gpus) {
  Place place;
  place.gpu = "h100_sxm5_80gb";
  place.gpus = gpus;
  return place;
}

void open_loop(const Hardware& hardware, const std::string& name, std::int64_t replicas,
               std::uint64_t requests, int repeats) {
  bench::Stopwatch watch;
  for (int i = 0; i < repeats; ++i) {
    watch.start();
    ServingLoad asked = load(requests);
    asked.per_second = 6.25 * static_cast<double>(replicas);
    const ServingReport report = Served(job(8), place(8 * replicas), hardware).report(asked);
    watch.stop();
    check(report.turned_away == 0 && report.requests + requests / 10 == requests,
          "every request is answered");
  }
  watch.print(name, "requests", static_cast<double>(requests));
}

void front(const Hardware& hardware, int loads, int repeats) {
  bench::Stopwatch watch;
  for (int i = 0; i < repeats; ++i) {
    watch.start();
    int fitting = 0;
    for (const std::int64_t tensor : {1, 2, 4, 8}) {
      Served served(job(tensor), place(8), hardware);
      for (int j = 0; j < loads; ++j) {
        ServingLoad asked = load(0);
        asked.concurrency = std::llround(std::pow(1000.0, (j + 1.0) / loads));
        asked.requests = static_cast<std::uint64_t>(4 * *asked.concurrency + 32);
        fitting += served.report(asked).fits ? 1 : 0;
      }
    }
    watch.stop();
    check(fitting == 3 * loads, "8-bit weights of 70 GB fit on 2, 4 and 8 of the boards");
  }
  watch.print("front", "configurations", 4.0 * loads);
}

}  // namespace
}  // namespace tracecast

int main(int argc, char** argv) {
  const bool smoke = tracecast::bench::is_smoke(argc, argv);
  const tracecast::Hardware hardware = tracecast::Hardware::embedded();
  const int repeats = smoke ? 1 : 5;
  tracecast::open_loop(hardware, "replica", 1, smoke ? 1000 : 10'000, repeats);
  tracecast::open_loop(hardware, "fleet", 128, smoke ? 2000 : 1'000'000, repeats);
  tracecast::front(hardware, smoke ? 2 : 50, repeats);
  return 0;
}
