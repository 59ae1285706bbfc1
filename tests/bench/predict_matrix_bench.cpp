// Work: Predictor::throughput of 30 networks of the zoo in training on each of 20 GPUs, by a
// predictor that knows nothing yet: specs and graphs, lowering, pricing, simulation, power limit,
// metrics. Then the same again by one that remembers.
#include <cstddef>
#include <vector>

#include "sim/job/predictor.hpp"
#include "tests/bench/bench.hpp"

namespace {

constexpr const char* kNetworks[] = {"alexnet",
                                     "bert_base",
                                     "convnext_tiny",
                                     "deeplabv3_resnet50",
                                     "deit_small",
                                     "densenet121",
                                     "dlrm_kaggle",
                                     "efficientnet_b0",
                                     "efficientnet_v2_s",
                                     "electra_small",
                                     "gnmt_v2",
                                     "googlenet",
                                     "gpt2",
                                     "inception_v3",
                                     "inception_v4",
                                     "lstm_wikitext2",
                                     "mnasnet1_0",
                                     "mobilenet_v2",
                                     "mobilenet_v3_large",
                                     "ncf",
                                     "regnet_y_400mf",
                                     "resnet50",
                                     "resnet152",
                                     "resnext50_32x4d",
                                     "shufflenet_v2_x1_0",
                                     "squeezenet1_0",
                                     "ssd300",
                                     "swin_t",
                                     "unet",
                                     "vgg16"};
constexpr const char* kGpus[] = {"k80",
                                 "m60",
                                 "p4",
                                 "p100_pcie_16gb",
                                 "gtx1080ti",
                                 "v100_sxm2_16gb",
                                 "v100_pcie_32gb",
                                 "t4",
                                 "rtx2080ti",
                                 "quadro_rtx6000",
                                 "a100_sxm4_40gb",
                                 "a100_pcie_80gb",
                                 "a10",
                                 "rtx3090",
                                 "rtx4090",
                                 "l4",
                                 "l40s",
                                 "h100_pcie_80gb",
                                 "h100_sxm5_80gb",
                                 "b200"};

}  // namespace

int main(int argc, char** argv) {
  using namespace tracecast;
  const bool smoke = bench::is_smoke(argc, argv);
  const int repeats = smoke ? 1 : 5;
  std::vector<Job> jobs;
  for (const char* network : kNetworks) jobs.push_back({.network = network, .batch = 16});
  std::vector<Place> places;
  for (const char* gpu : kGpus) places.emplace_back().gpu = gpu;
  if (smoke) jobs.resize(2), places.resize(2);

  const Hardware hardware = Hardware::embedded();
  const double cells = static_cast<double>(jobs.size() * places.size());
  bench::Stopwatch first, again;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const Predictor predictor(hardware);
    first.start();
    const Matrix matrix = predictor.throughput(jobs, places);
    first.stop();
    again.start();
    const Matrix same = predictor.throughput(jobs, places);
    again.stop();
    for (std::size_t i = 0; i < matrix.cells.size(); ++i) {
      const Cell& cell = matrix.cells[i];
      bench::check(cell.refused.empty() && cell.samples_per_s.value > 0, "every job trains");
      bench::check(cell.samples_per_s.value == same.cells[i].samples_per_s.value, "and again");
    }
  }
  first.print("predict_matrix first", "cell", cells);
  again.print("predict_matrix again", "cell", cells);
}
