#include <map>
#include <optional>
#include <string>

#include "sim/base/error.hpp"
#include "sim/job/many_gpus.hpp"
#include "sim/job/resolved_job.hpp"
#include "sim/network/fabric.hpp"
#include "tools/validate/published_cluster.hpp"
#include "tools/validate/validation.hpp"

namespace tracecast {
namespace {

/// Steps of training programs on one or several GPUs (cluster/sia_step_times.csv.gz): a record says
/// which program (a job of hwspecs/job) and which machine a row's words mean.
class StepTimeTable final : public RowPredictor {
 public:
  StepTimeTable(const CsvReader& table, const Hardware& hardware)
      : hardware_(hardware), records_(hardware.specs(), table) {}
  std::string_view table() const override { return "steps of training programs"; }
  std::string_view unit() const override { return "s"; }
  std::string_view convention() const override {
    return "Whole loops: loading, waits and the host's work in a step.";
  }

  RowResult predict(const CsvReader& reader) override {
    const RowFields row(reader);
    const double measured = row.positive("step_s");
    const PublishedProgram program = records_.program_of(reader);
    if (!program.unpredicted.empty()) return skip(program.unpredicted);
    if (program.network.empty())
      return skip("no record says what program " + std::string(row.text("model")) + " is");
    PlacedJob job;
    job.network = program.network;
    job.gpu = row.gpu();
    job.batch = row.integer("local_batch", 1, 1'000'000);
    job.software.date = program.date;
    job.machine = program.machine;
    const auto gpus = row.integer("gpus", 1, 100'000);
    const PublishedCluster cluster{.gpu = job.gpu,
                                   .gpus = gpus,
                                   .nodes = row.integer("nodes", 1, 100'000),
                                   .description = program.box};
    const std::string key = job.network + '|' + job.gpu + '|' + job.machine + '|' +
                            std::to_string(job.batch) + '|' + std::to_string(gpus) + '|' +
                            std::to_string(cluster.nodes);
    auto known = known_.find(key);
    if (known == known_.end()) {
      known = known_
                  .emplace(key, gpus == 1 ? predict_one(job)
                                          : predict_several(job, cluster, program.link))
                  .first;
    }
    RowResult result = known->second;
    result.measured = measured;
    return result;
  }

 private:
  [[nodiscard]] RowResult predict_one(const PlacedJob& options) const {
    try {
      const ResolvedJob job = make_job(options, hardware_);
      const Prediction p = tracecast::predict(job, hardware_);
      return {.measured = 0, .predicted = p.step_time_s, .basis = main_basis(p), .skipped = {}};
    } catch (const InputError& error) {
      return skip(error.what());
    }
  }
  /// Replicas as the framework's users train them. `link`: of the nodes' NICs; empty: the
  /// machine's.
  [[nodiscard]] RowResult predict_several(const PlacedJob& options, const PublishedCluster& place,
                                          const std::string& link) const {
    try {
      ClusterSpec cluster = read_published_cluster(place, hardware_);
      if (!link.empty() && place.nodes > 1) cluster.network.link = link;
      ResolvedJob job = make_job(options, hardware_);
      const ManyGpus many =
          predict_many(job, hardware_, build_fabric(cluster, hardware_.specs()), DataParallel{});
      return {.measured = 0,
              .predicted = many.step_time_s,
              .basis = main_basis(many.one_gpu),
              .skipped = {}};
    } catch (const InputError& error) {
      return skip(error.what());
    }
  }

  const Hardware& hardware_;
  PublishedRows records_;
  std::map<std::string, RowResult> known_;  ///< by all that a prediction is made from
};

}  // namespace

std::vector<TableKind> step_time_tables() {
  return {{.name = "steps of training programs (sia_step_times.csv.gz)",
           .required = {"model", "gpu", "gpus", "nodes", "local_batch", "step_s"},
           .make = [](const CsvReader& reader, const Hardware& hardware) {
             return std::make_unique<StepTimeTable>(reader, hardware);
           }}};
}

}  // namespace tracecast
