#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "hwspecs/software/mlperf_round.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/job/many_gpus.hpp"
#include "tools/show/network_summary.hpp"
#include "tools/validate/mlperf_sharded.hpp"
#include "tools/validate/published_cluster.hpp"
#include "tools/validate/validation.hpp"

namespace tracecast {
namespace {

/// Rows of published/mlperf.csv: steady throughput of training in 16 bits, the input at hand.
/// Networks whose layers and tensors are divided: mlperf_sharded.hpp.
class MlperfTable final : public RowPredictor {
 public:
  MlperfTable(const CsvReader& reader, const Hardware& hardware)
      : hardware_(hardware), records_(hardware.specs(), reader), sharded_(hardware) {}
  std::string_view table() const override { return "MLPerf training"; }
  std::string_view unit() const override { return "samples_per_s"; }
  std::string_view convention() const override {
    return "steady throughput, input at hand, 16 bits, BERT's layers fp8 on Hopper; with NVIDIA's "
           "fused kernels, but GNMT, and Mask R-CNN and SSD before v0.7 in plain PyTorch";
  }

  bool honors(std::string_view column) const override { return column == "seq_len"; }

  RowResult predict(const CsvReader& reader) override {
    const RowFields row(reader);
    const std::string name(row.text("benchmark"));
    const std::string_view round_id = row.text("round");
    const MlperfRound* known_round = hardware_.specs().find_mlperf_round(round_id);
    // A round without a file runs the newest one's software of today.
    const MlperfRound& round =
        known_round != nullptr ? *known_round : hardware_.specs().newest_mlperf_round();
    const MlperfBenchmark* benchmark = round.find(name);
    if (benchmark == nullptr) return skip("network of " + name + " is not in the zoo");
    if (!benchmark->unpredicted.empty()) return skip(benchmark->unpredicted);
    const PublishedProgram program = records_.program_of(reader);
    if (!program.unpredicted.empty()) return skip(program.unpredicted);
    if (row.text("throughput").empty()) return skip("no steady throughput: time to train alone");
    if (benchmark->parallel_layout) return sharded_.predict(row, *benchmark, round);
    if (row.text("batch_per_gpu").empty()) return skip("the batch is not stated");
    double batch = row.positive("batch_per_gpu");
    if (row.text_or_empty("batch_unit") == "tokens") batch /= round.tokens_per_sentence;
    if (batch < 1) return skip("less than one sample per GPU: samples are divided");
    const double gpus = row.positive("gpus");
    const double nodes = row.text("nodes").empty() ? 1 : row.positive("nodes");

    PlacedJob job;
    job.optimizer = benchmark->optimizer;
    job.gpu = row.text("gpu_id");
    job.batch = std::llround(batch);
    if (!row.text_or_empty("grad_accum").empty()) {
      job.accumulate = std::llround(row.positive("grad_accum"));
      job.batch = std::max<std::int64_t>(job.batch / job.accumulate, 1);
    }
    const GpuSpec* gpu = find_gpu(job.gpu);
    job.precision = benchmark->precision_on(gpu);
    job.network = benchmark->network_on(gpu);
    if (known_round != nullptr) job.software.date = round.month;
    const bool is_own = program.framework.empty();  // the benchmark's usual program
    job.software.framework = is_own ? benchmark->framework : program.framework;
    job.software.cuda_graphs = is_own && benchmark->cuda_graphs;
    if (!row.text_or_empty("seq_len").empty()) {
      job.seq_len = std::llround(benchmark->share_of_tokens * row.positive("seq_len"));
      if (const ZooEntry* entry = find_network(job.network))
        check_sizes_apply(*entry, {}, job.seq_len);
    }
    if (benchmark->sentences) job.seq_len = std::llround(round.tokens_per_sentence);
    const std::string& usual = benchmark->strategy.empty() ? round.strategy : benchmark->strategy;
    const DataParallel parallel{.strategy = program.strategy.empty() ? usual : program.strategy,
                                .sample_sd = benchmark->samples_differ ? round.sample_sd : 0.0};
    const PublishedCluster cluster{.gpu = job.gpu,
                                   .gpus = std::llround(gpus),
                                   .nodes = std::llround(nodes),
                                   .description = std::string(row.text_or_empty("node_class")) +
                                                  "; " + std::string(row.text_or_empty("system"))};
    RowResult result = report(job, cluster, parallel);
    result.measured = row.positive("throughput");
    return result;
  }

 private:
  /// Null: no such GPU, which is said when the row is predicted.
  [[nodiscard]] const GpuSpec* find_gpu(const std::string& id) const {
    try {
      return &hardware_.gpus().find(id);
    } catch (const InputError&) {
      return nullptr;
    }
  }
  RowResult report(const PlacedJob& job, const PublishedCluster& cluster,
                   const DataParallel& parallel) {
    const std::string key = job.network + '|' + job.gpu + '|' + std::to_string(job.batch) + 'x' +
                            std::to_string(job.accumulate) + 'x' +
                            std::to_string(job.seq_len.value_or(0)) + '|' + job.precision + '|' +
                            parallel.strategy + '|' + job.software.framework +
                            (job.software.cuda_graphs ? "+graphs|" : "|") + job.software.date +
                            '|' + std::to_string(cluster.gpus) + '|' +
                            std::to_string(cluster.nodes) + '|' + to_lower(cluster.description);
    auto known = reports_.find(key);
    if (known == reports_.end())
      known = reports_.emplace(key, predict_row(job, cluster, parallel)).first;
    return known->second;
  }

  RowResult predict_row(const PlacedJob& options, const PublishedCluster& row,
                        const DataParallel& parallel) const {
    try {
      const ClusterSpec cluster = read_published_cluster(row, hardware_);
      ResolvedJob job = make_job(options, hardware_);
      const ManyGpus many =
          predict_many(job, hardware_, build_fabric(cluster, hardware_.specs()), parallel);
      return {.measured = 0,
              .predicted = many.throughput_samples_per_s,
              .basis = main_basis(many.one_gpu),
              .skipped = {}};
    } catch (const InputError& error) {
      return skip(error.what());
    }
  }

  const Hardware& hardware_;
  PublishedRows records_;
  ShardedMlperf sharded_;
  std::map<std::string, RowResult> reports_;
};

}  // namespace

std::vector<TableKind> mlperf_tables() {
  return {{.name = "MLPerf training (mlperf.csv)",
           .required = {"series_id", "round", "benchmark", "gpu_id", "gpus", "nodes",
                        "batch_per_gpu", "throughput"},
           .make = [](const CsvReader& reader,
                      const Hardware& hardware) -> std::unique_ptr<RowPredictor> {
             return std::make_unique<MlperfTable>(reader, hardware);
           }}};
}

}  // namespace tracecast
