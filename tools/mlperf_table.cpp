#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "tools/many_gpus.hpp"
#include "tools/published_cluster.hpp"
#include "tools/validation.hpp"

namespace tracecast {
namespace {

/// A benchmark of MLPerf Training as one of our networks.
struct Benchmark {
  std::string_view name;
  std::string_view network;  ///< empty: none of ours
  std::string_view optimizer;
  std::string_view unknown;     ///< why it cannot be predicted
  bool samples_differ = false;  ///< sentences, or images of differing sizes
  bool sentences = false;       ///< of kTokensPerSentence
};
constexpr std::array<Benchmark, 12> kBenchmarks{{
    {"ssd", "ssd300_rn34", "momentum", ""},
    {"gnmt", "gnmt_v2", "adam", "", true, true},
    {"maskrcnn", "mask_rcnn", "momentum", "", true},
    {"resnet", "resnet50_v1.5", "momentum", ""},
    {"bert", "bert_large", "adam", "", true},
    {"retinanet", "retinanet_resnext50", "adam", ""},
    {"transformer", "transformer_big", "adam", "", true, true},
    {"dlrm", "", "", "embedding tables are divided among the GPUs: no data parallelism"},
    {"dlrm_dcnv2", "", "", "embedding tables are divided among the GPUs: no data parallelism"},
    {"gpt3", "", "", "divided by layers and tensors: no data parallelism alone"},
    {"llama2_70b_lora", "", "", "divided by layers and tensors: no data parallelism alone"},
    {"llama31_405b", "", "", "divided by layers and tensors: no data parallelism alone"},
}};

/// Rows of published/mlperf.csv: steady throughput of data-parallel training in 16 bits, the input at hand.
class MlperfTable final : public RowPredictor {
 public:
  explicit MlperfTable(const Sources& sources) : sources_(sources) {}
  std::string_view table() const override { return "MLPerf training"; }
  std::string_view unit() const override { return "samples_per_s"; }
  std::string_view convention() const override {
    return "steady throughput, input at hand, mixed precision; MXNet for ResNet-50, else PyTorch";
  }

  RowAnswer predict(const CsvReader& reader) override {
    const RowFields row(reader);
    const std::string name(row.text("benchmark"));
    const auto* benchmark = std::find_if(kBenchmarks.begin(), kBenchmarks.end(),
                                         [&](const Benchmark& b) { return b.name == name; });
    if (benchmark == kBenchmarks.end()) return skip("network of " + name + " is not in the zoo");
    if (!benchmark->unknown.empty()) return skip(std::string(benchmark->unknown));
    if (row.text("throughput").empty()) return skip("no steady throughput: time to train alone");
    if (row.text("batch_per_gpu").empty()) return skip("the batch is not stated");
    double batch = row.positive("batch_per_gpu");
    if (row.text_or_empty("batch_unit") == "tokens") batch /= kTokensPerSentence;
    if (batch < 1) return skip("less than one sample per GPU: samples are divided");
    const double gpus = row.positive("gpus");
    const double nodes = row.text("nodes").empty() ? 1 : row.positive("nodes");

    JobOptions job;
    job.network = benchmark->network;
    job.optimizer = benchmark->optimizer;
    job.gpu = row.text("gpu_id");
    job.batch = std::llround(batch);
    job.precision = "amp";
    job.framework = name == "resnet" ? "mxnet" : "pytorch";
    if (!row.text_or_empty("seq_len").empty()) job.seq_len = std::llround(row.positive("seq_len"));
    if (benchmark->sentences) job.seq_len = static_cast<std::int64_t>(kTokensPerSentence);
    const SpreadOptions spread{.strategy = "apex",
                               .sample_sd = benchmark->samples_differ ? kSampleSd : 0.0};
    const PublishedCluster cluster{.gpu = job.gpu,
                                   .gpus = std::llround(gpus),
                                   .nodes = std::llround(nodes),
                                   .description = std::string(row.text_or_empty("node_class")) +
                                                  "; " + std::string(row.text_or_empty("system"))};
    RowAnswer result = answer(job, cluster, spread);
    result.measured = row.positive("throughput");
    return result;
  }

 private:
  /// Mean length of the sentences of WMT's English-German pairs. A guess.
  static constexpr double kTokensPerSentence = 30;
  /// Spread of the time of one image of COCO or one sentence. A choice made after looking at the V100 rows.
  static constexpr double kSampleSd = 0.25;

  RowAnswer answer(const JobOptions& job, const PublishedCluster& cluster,
                   const SpreadOptions& spread) {
    const std::string key = job.network + '|' + job.gpu + '|' + std::to_string(job.batch) + '|' +
                            std::to_string(cluster.gpus) + '|' + std::to_string(cluster.nodes) +
                            '|' + to_lower(cluster.description);
    auto known = answers_.find(key);
    if (known == answers_.end())
      known = answers_.emplace(key, predict_row(job, cluster, spread)).first;
    return known->second;
  }

  RowAnswer predict_row(const JobOptions& options, const PublishedCluster& row,
                        const SpreadOptions& spread) const {
    try {
      const ClusterSpec cluster = read_published_cluster(row, sources_);
      Job job = make_job(options, sources_);
      const ManyGpus many = predict_many(
          job, sources_,
          build_fabric(cluster, {sources_.gpus, sources_.cpus, sources_.links, sources_.machines}),
          spread);
      return {.measured = 0,
              .predicted = many.throughput_samples_per_s,
              .basis = main_basis(many.one_gpu),
              .skipped = {}};
    } catch (const InputError& error) {
      return skip(error.what());
    }
  }

  const Sources& sources_;
  std::map<std::string, RowAnswer> answers_;
};

}  // namespace

std::vector<TableKind> mlperf_tables() {
  return {{.name = "MLPerf training (mlperf.csv)",
           .required = {"series_id", "benchmark", "gpu_id", "gpus", "nodes", "batch_per_gpu",
                        "throughput"},
           .make = [](const CsvReader&, const Sources& sources) -> std::unique_ptr<RowPredictor> {
             return std::make_unique<MlperfTable>(sources);
           }}};
}

}  // namespace tracecast
