// Work: a matrix of jobs and GPUs, 30 networks of the zoo in training on each of 20 GPUs: specs and graphs, lowering,
// pricing, simulation, power limit, metrics. The first call and the whole of it count; nothing is warmed up.
#include <string>
#include <vector>

#include "tests/bench/bench.hpp"
#include "tools/job.hpp"

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
  const Sources sources = load_sources({});
  bench::Stopwatch whole;
  double cells = 0;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    cells = 0;
    double sum = 0;
    whole.start();
    for (const char* network : kNetworks) {
      for (const char* gpu : kGpus) {
        JobOptions options;
        options.network = network;
        options.gpu = gpu;
        options.batch = 16;
        const Job job = make_job(options, sources);
        const Prediction prediction = predict(job, sources);
        sum += prediction.throughput_samples_per_s.value;
        ++cells;
        if (smoke) break;
      }
    }
    whole.stop();
    bench::check(sum > 0, "every job trains");
  }
  whole.print("predict_matrix", "cell", cells);
}
