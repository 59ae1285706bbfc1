#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/job/many_gpus.hpp"
#include "tools/published_cluster.hpp"
#include "tools/validation.hpp"

namespace tracecast {
namespace {

/// A benchmark of MLPerf Training as one of our networks, as NVIDIA's code for it runs (models/lowering/notes/0006).
struct Benchmark {
  std::string_view name;
  std::string_view network{};  ///< empty: none of ours
  std::string_view unknown{};  ///< why it cannot be predicted
  std::string_view optimizer = "adam";
  std::string_view framework = "pytorch";
  std::string_view framework_in_v07{}, framework_before_v07{};  ///< empty: the same
  std::string_view network_unfused{};  ///< where NVIDIA's fused attention does not run
  std::string_view precision = "amp";
  bool graphs_from_v10 = false;  ///< steps captured as CUDA graphs from round v1.0 on
  bool fp8_on_hopper = false;    ///< data/published/README-mlperf.md
  bool samples_differ = false;   ///< sentences, or images of differing sizes
  bool sentences = false;        ///< of kTokensPerSentence
  double share_of_tokens = 1;    ///< that are words: padding is left out
};
/// When a round's results came out: no software in it is newer. Source: mlcommons.org, benchmark results.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kRounds{
    {{"v0.5", "2018-12"},
     {"v0.6", "2019-07"},
     {"v0.7", "2020-07"},
     {"v1.0", "2021-06"},
     {"v1.1", "2021-12"},
     {"v2.0", "2022-06"},
     {"v2.1", "2022-11"},
     {"v3.0", "2023-06"},
     {"v3.1", "2023-11"},
     {"v4.0", "2024-06"},
     {"v4.1", "2024-11"},
     {"v5.0", "2025-06"}}};

/// Empty, so today, for a round after those.
std::string_view date_of(std::string_view round) {
  const auto found = std::find_if(kRounds.begin(), kRounds.end(),
                                  [&](const auto& known) { return known.first == round; });
  return found == kRounds.end() ? std::string_view() : found->second;
}

constexpr std::string_view kTables =
    "embedding tables are divided among the GPUs: no data parallelism";
constexpr std::string_view kSharded = "divided by layers and tensors: no data parallelism alone";
constexpr std::array<Benchmark, 14> kBenchmarks{{
    {.name = "ssd",
     .network = "ssd300_rn34",
     .optimizer = "momentum",
     .framework = "pytorch_apex",
     .framework_before_v07 = "pytorch"},
    {.name = "gnmt",
     .network = "gnmt_v2",
     .precision = "fp16",
     .samples_differ = true,
     .sentences = true},
    {.name = "maskrcnn",
     .network = "mask_rcnn",
     .optimizer = "momentum",
     .framework = "pytorch_nvidia",
     .framework_in_v07 = "pytorch_apex",
     .framework_before_v07 = "pytorch",
     .graphs_from_v10 = true,
     .samples_differ = true},
    {.name = "resnet",
     .network = "resnet50_v1.5",
     .optimizer = "momentum",
     .framework = "mxnet_nvidia",
     .graphs_from_v10 = true},
    // Half of the tokens of English Wikipedia in sequences of 512 are padding: Krell et al., arXiv 2107.02027, section 1.
    {.name = "bert",
     .network = "bert_large_mlperf",
     .framework = "pytorch_nvidia",
     .network_unfused = "bert_large_mlperf_unfused",
     .graphs_from_v10 = true,
     .fp8_on_hopper = true,
     .samples_differ = true,
     .share_of_tokens = 0.5},
    {.name = "retinanet",
     .network = "retinanet_resnext50",
     .framework = "pytorch_nvidia",
     .graphs_from_v10 = true},
    {.name = "transformer",
     .network = "transformer_big",
     .framework = "pytorch_nvidia",
     .samples_differ = true,
     .sentences = true},
    {.name = "unet3d",
     .network = "unet3d",
     .optimizer = "momentum",
     .framework = "mxnet_nvidia",
     .graphs_from_v10 = true},
    {.name = "rnnt",
     .network = "rnnt",
     .framework = "pytorch_nvidia",
     .graphs_from_v10 = true,
     .samples_differ = true},
    {.name = "dlrm", .unknown = kTables},
    {.name = "dlrm_dcnv2", .unknown = kTables},
    {.name = "gpt3", .unknown = kSharded},
    {.name = "llama2_70b_lora", .unknown = kSharded},
    {.name = "llama31_405b", .unknown = kSharded},
}};

/// Rows of published/mlperf.csv: steady throughput of data-parallel training in 16 bits, the input at hand.
class MlperfTable final : public RowPredictor {
 public:
  explicit MlperfTable(const Hardware& hardware) : hardware_(hardware) {}
  std::string_view table() const override { return "MLPerf training"; }
  std::string_view unit() const override { return "samples_per_s"; }
  std::string_view convention() const override {
    return "steady throughput, input at hand, 16 bits, BERT's layers fp8 on Hopper; with NVIDIA's "
           "fused kernels, but GNMT, and Mask R-CNN and SSD before v0.7 in plain PyTorch";
  }

  RowAnswer predict(const CsvReader& reader) override {
    const RowFields row(reader);
    const std::string name(row.text("benchmark"));
    const auto* benchmark = std::find_if(kBenchmarks.begin(), kBenchmarks.end(),
                                         [&](const Benchmark& b) { return b.name == name; });
    if (benchmark == kBenchmarks.end()) return skip("network of " + name + " is not in the zoo");
    if (!benchmark->unknown.empty()) return skip(std::string(benchmark->unknown));
    if (to_lower(row.text_or_empty("framework")).find("tinygrad") != std::string::npos) {
      return skip("framework tinygrad has no profile");
    }
    if (row.text("throughput").empty()) return skip("no steady throughput: time to train alone");
    if (row.text("batch_per_gpu").empty()) return skip("the batch is not stated");
    double batch = row.positive("batch_per_gpu");
    if (row.text_or_empty("batch_unit") == "tokens") batch /= kTokensPerSentence;
    if (batch < 1) return skip("less than one sample per GPU: samples are divided");
    const double gpus = row.positive("gpus");
    const double nodes = row.text("nodes").empty() ? 1 : row.positive("nodes");

    const std::string_view round = row.text("round");
    PlacedJob job;
    job.optimizer = benchmark->optimizer;
    job.gpu = row.text("gpu_id");
    job.batch = std::llround(batch);
    if (!row.text_or_empty("grad_accum").empty()) {
      job.accumulate = std::llround(row.positive("grad_accum"));
      job.batch = std::max<std::int64_t>(job.batch / job.accumulate, 1);
    }
    const GpuSpec* gpu = find_gpu(job.gpu);
    const bool is_hopper = gpu && gpu->architecture == Architecture::Hopper;
    job.precision = benchmark->fp8_on_hopper && is_hopper ? "fp8" : benchmark->precision;
    const bool fuses_attention = round >= "v1.0" && gpu && runs_fused_attention(*gpu);
    job.network = benchmark->network_unfused.empty() || fuses_attention
                      ? benchmark->network
                      : benchmark->network_unfused;
    job.software.date = date_of(round);
    job.software.framework = framework_of(*benchmark, round);
    job.software.cuda_graphs = benchmark->graphs_from_v10 && round >= "v1.0";
    if (!row.text_or_empty("seq_len").empty()) {
      job.seq_len = std::llround(benchmark->share_of_tokens * row.positive("seq_len"));
    }
    if (benchmark->sentences) job.seq_len = static_cast<std::int64_t>(kTokensPerSentence);
    const DataParallel parallel{.strategy = "apex",
                                .sample_sd = benchmark->samples_differ ? kSampleSd : 0.0};
    const PublishedCluster cluster{.gpu = job.gpu,
                                   .gpus = std::llround(gpus),
                                   .nodes = std::llround(nodes),
                                   .description = std::string(row.text_or_empty("node_class")) +
                                                  "; " + std::string(row.text_or_empty("system"))};
    RowAnswer result = answer(job, cluster, parallel);
    result.measured = row.positive("throughput");
    return result;
  }

 private:
  [[nodiscard]] static std::string_view framework_of(const Benchmark& benchmark,
                                                     std::string_view round) {
    const std::string_view then = round < "v0.7"    ? benchmark.framework_before_v07
                                  : round == "v0.7" ? benchmark.framework_in_v07
                                                    : std::string_view();
    return then.empty() ? benchmark.framework : then;
  }
  /// Null: no such GPU, which is said when the row is predicted.
  [[nodiscard]] const GpuSpec* find_gpu(const std::string& id) const {
    try {
      return &hardware_.gpus().find(id);
    } catch (const InputError&) {
      return nullptr;
    }
  }
  /// NVIDIA's kernels of 2021 to 2023 for attention over words without padding, part of its code since v1.0. Source:
  /// NVIDIA/apex, contrib/csrc/fmha/fmha_api.cpp: compute capability 8.0 alone, later 9.0 too. Submissions on other
  /// GPUs leave --unpad_fmha out (mlcommons/training_results_v3.1, RTX A5000 and L40S).
  [[nodiscard]] static bool runs_fused_attention(const GpuSpec& gpu) {
    return gpu.compute_capability == 80 || gpu.compute_capability == 90;
  }
  /// Mean length of the sentences of WMT's English-German pairs. A guess.
  static constexpr double kTokensPerSentence = 30;
  /// Spread of the time of one image of COCO or one sentence. A choice made after looking at the V100 rows.
  static constexpr double kSampleSd = 0.25;

  RowAnswer answer(const PlacedJob& job, const PublishedCluster& cluster,
                   const DataParallel& parallel) {
    const std::string key = job.network + '|' + job.gpu + '|' + std::to_string(job.batch) + 'x' +
                            std::to_string(job.accumulate) + '|' + job.software.framework +
                            (job.software.cuda_graphs ? "+graphs|" : "|") + job.software.date +
                            '|' + std::to_string(cluster.gpus) + '|' +
                            std::to_string(cluster.nodes) + '|' + to_lower(cluster.description);
    auto known = answers_.find(key);
    if (known == answers_.end())
      known = answers_.emplace(key, predict_row(job, cluster, parallel)).first;
    return known->second;
  }

  RowAnswer predict_row(const PlacedJob& options, const PublishedCluster& row,
                        const DataParallel& parallel) const {
    try {
      const ClusterSpec cluster = read_published_cluster(row, hardware_);
      ResolvedJob job = make_job(options, hardware_);
      const ManyGpus many =
          predict_many(job, hardware_,
                       build_fabric(cluster, {hardware_.gpus(), hardware_.cpus(), hardware_.links(),
                                              hardware_.machines()}),
                       parallel);
      return {.measured = 0,
              .predicted = many.throughput_samples_per_s,
              .basis = main_basis(many.one_gpu),
              .skipped = {}};
    } catch (const InputError& error) {
      return skip(error.what());
    }
  }

  const Hardware& hardware_;
  std::map<std::string, RowAnswer> answers_;
};

}  // namespace

std::vector<TableKind> mlperf_tables() {
  return {{.name = "MLPerf training (mlperf.csv)",
           .required = {"series_id", "round", "benchmark", "gpu_id", "gpus", "nodes",
                        "batch_per_gpu", "throughput"},
           .make = [](const CsvReader&, const Hardware& hardware) -> std::unique_ptr<RowPredictor> {
             return std::make_unique<MlperfTable>(hardware);
           }}};
}

}  // namespace tracecast
