// Work: run_sweep over tests/bench/sweep_grid.textproto, 10,000 points of training, by all cores
// into a file; then the same again, which predicts nothing. CPU time is of the main thread: look at
// the wall time.
#include <filesystem>

#include "sim/base/file.hpp"
#include "tests/bench/bench.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tools/sweep/run.hpp"

int main(int argc, char** argv) {
  using namespace tracecast;
  const bool smoke = bench::is_smoke(argc, argv);
  const std::string file = "tests/bench/sweep_grid.textproto";
  const SweepGrid grid(
      smoke ? "predict { network: \"alexnet\" gpu: [\"v100_sxm2_16gb\", \"t4\"] batch: [1, 2] }"
            : read_file(file, 1 << 20),
      file);
  const Predictor predictor(Hardware::embedded());
  const test::TemporaryFolder folder;
  bench::Stopwatch first, again;
  for (int repeat = 0; repeat < (smoke ? 1 : 3); ++repeat) {
    SweepOptions options;
    options.file = folder.path() / (std::to_string(repeat) + ".db");
    options.fingerprint = "bench";
    first.start();
    const SweepSummary summary = run_sweep(grid, predictor, options);
    first.stop();
    bench::check(summary.succeeded + summary.too_large == grid.size(), "every point is answered");
    again.start();
    const SweepSummary same = run_sweep(grid, predictor, options);
    again.stop();
    bench::check(same.known == grid.size() && same.predicted == 0, "and known");
    bench::check(same.succeeded == summary.succeeded, "and the same");
  }
  first.print("sweep first", "point", static_cast<double>(grid.size()));
  again.print("sweep again", "point", static_cast<double>(grid.size()));
}
