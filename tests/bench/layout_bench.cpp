// Work: the fastest parallel layout of GPT-3 175B, Llama 3 70B and 405B over 1,024 A100 and 512
// H100, against asking for every parallel layout.
#include <cstdio>

#include "sim/plan/layout_search.hpp"
#include "tests/bench/bench.hpp"

int main(int argc, char** argv) {
  using namespace tracecast;
  const bool smoke = bench::is_smoke(argc, argv);
  struct Case {
    const char *network, *gpu, *machine;
    std::int64_t gpus, batch;
  };
  const Case cases[] = {{"gpt3_175b", "h100_sxm5_80gb", "dgx_h100", 512, 1536},
                        {"gpt3_175b", "a100_sxm4_80gb", "dgx_a100", 1024, 1536},
                        {"llama3_70b", "h100_sxm5_80gb", "dgx_h100", 512, 512},
                        {"llama3_70b", "a100_sxm4_80gb", "dgx_a100", 1024, 1024},
                        {"llama3_405b", "h100_sxm5_80gb", "dgx_h100", 512, 512},
                        {"llama3_405b", "a100_sxm4_80gb", "dgx_a100", 1024, 1024}};
  const Predictor predictor(Hardware::embedded());
  for (const Case& c : cases) {
    Job job;
    job.network = c.network;
    Place place;
    place.gpu = c.gpu;
    place.machine = c.machine;
    place.gpus = c.gpus;
    Sharded base;
    base.plan.global_batch = c.batch;
    bench::Stopwatch watch;
    plan::LayoutSearch fast;
    for (int repeat = 0; repeat < (smoke ? 1 : 3); ++repeat) {
      watch.start();
      fast = plan::search_layouts(predictor, job, place, base);
      watch.stop();
    }
    bench::check(fast.parallel_layouts.front().fits, "a parallel layout fits");
    if (!smoke) {
      const plan::LayoutSearch all = plan::search_layouts(predictor, job, place, base, true);
      const double ratio = fast.parallel_layouts.front().samples_per_s.value /
                           all.parallel_layouts.front().samples_per_s.value;
      std::printf("%s on %lld %s: %.2f seq/s, %.4f of the best of all %zu parallel layouts ",
                  c.network, static_cast<long long>(c.gpus), c.gpu,
                  fast.parallel_layouts.front().samples_per_s.value, ratio, all.predicted);
      bench::check(ratio >= 0.97, "within 3 % of asking for every parallel layout");
    }
    watch.print("search_layouts", "parallel_layout", static_cast<double>(fast.predicted));
    if (smoke) return 0;
  }
}
