#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "models/graph_text.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/job/cluster.hpp"
#include "sim/job/predictor.hpp"
#include "sim/job/resolved_job.hpp"
#include "sim/parallel/many_gpus_timeline.hpp"
#include "sim/plan/layout_search.hpp"
#include "sim/step/step_timeline.hpp"
#include "tools/command/output.hpp"
#include "tools/command/standard_input.hpp"
#include "tools/command/subcommand.hpp"
#include "tools/predict/explain_many.hpp"
#include "tools/predict/fitting_changes_report.hpp"
#include "tools/predict/layout_report.hpp"
#include "tools/predict/measured_throughput.hpp"
#include "tools/predict/other_sizes_report.hpp"
#include "tools/predict/predict_options.hpp"
#include "tools/predict/recorded_host.hpp"
#include "tools/predict/transformer_options.hpp"
#include "tools/report/page.hpp"
#include "tools/report/report.hpp"
#include "tools/report/report_servers.hpp"
#include "traces/chrome/writer.hpp"

namespace tracecast {
namespace {

/// Writes the answer of one kind of details, and the trace beside it.
class Report {
 public:
  Report(const PredictOptions& options, const Predictor& predictor, const Forecast& forecast)
      : options_(options), predictor_(predictor), forecast_(forecast) {}

  std::string operator()(const OneGpuDetails& details) const {
    const auto& [job, prediction] = details;
    if (!options_.trace.empty()) {
      traces::write_chrome_trace(step_timeline(prediction.program, prediction.priced, *job.step,
                                               prediction.timeline.steps_simulated, job.gpu.name),
                                 options_.trace);
    }
    if (options_.dump == "kernels") return dump_kernels(job, prediction);
    if (options_.dump == "program") return dump_program(job, prediction);
    // Advice costs several plans: given when asked for, or when the job does not fit.
    const MemoryAdvice advice = !forecast_.fits()        ? predictor_.advise_on_memory(forecast_)
                                : options_.largest_batch ? predictor_.advise_on_batch(forecast_)
                                                         : MemoryAdvice{};
    const bool explains = options_.explain;
    if (options_.format == "json") return report_json(job, prediction, advice, explains);
    if (options_.format == "text") {
      return explains ? explain_text(job, prediction) : report_text(job, prediction, advice);
    }
    if (explains) return explain_csv(job, prediction);
    return report_csv(job, prediction,
                      options_.largest_batch ? advice.largest_batch : std::nullopt);
  }

  std::string operator()(const ManyGpusDetails& details) const {
    const auto& [job, many] = details;
    if (!options_.trace.empty()) {
      traces::write_chrome_trace(
          many_gpus_timeline(many.step, many.kind_of, many.groups.size() == 1 ? job.gpu.name : ""),
          options_.trace);
    }
    if (options_.dump == "kernels") return dump_kernels(job, many.one_gpu);
    if (options_.dump == "program") return dump_many_program(many);
    const MemoryAdvice advice = advise_if_asked();
    if (options_.explain) {
      return options_.format == "json"  ? explain_many_json(job, many, advice)
             : options_.format == "csv" ? explain_many_csv(job, many)
                                        : explain_many_text(job, many);
    }
    return options_.format == "json"  ? report_many_json(job, many, advice)
           : options_.format == "csv" ? report_many_csv(job, many, advice)
                                      : report_many_text(job, many, advice);
  }

  std::string operator()(const ServerDetails& details) const {
    const auto& [job, servers] = details;
    const MemoryAdvice advice = advise_if_asked();
    return options_.format == "json"  ? report_servers_json(job, servers, advice)
           : options_.format == "csv" ? report_servers_csv(job, servers, advice)
                                      : report_servers_text(job, servers, advice);
  }

  std::string operator()(const ShardedStep& sharded) const {
    return options_.format == "json"  ? report_sharded_json(sharded, options_.explain)
           : options_.format == "csv" ? report_sharded_csv(sharded, options_.explain)
                                      : report_sharded_text(sharded, options_.explain);
  }

 private:
  /// Of a job on several GPUs: each has the batch.
  [[nodiscard]] MemoryAdvice advise_if_asked() const {
    // A row of CSV has the columns that were asked for.
    const bool advises = options_.largest_batch || (!forecast_.fits() && options_.format != "csv");
    return advises ? predictor_.advise_on_batch(forecast_) : MemoryAdvice{};
  }

  const PredictOptions& options_;
  const Predictor& predictor_;
  const Forecast& forecast_;
};

/// `--search`: other flags of an answer mean nothing.
int search_command(const PredictOptions& options) {
  if (!options.dump.empty() || !options.trace.empty() || options.explain || options.largest_batch ||
      options.work.is_asked())
    throw InputError("--search", "--dump, --trace, --explain, --largest-batch or work beside it",
                     "none of them: ask for the parallel layout that was found");
  const Predictor predictor(load_hardware(options.sources));
  Sharded base = options.sharded;
  base.fold = !options.no_fold;
  const plan::LayoutSearch search = plan::search_layouts(predictor, options.job, options.job, base);
  write_report(options.format == "json"  ? layouts_json(search, options.job)
               : options.format == "csv" ? layouts_csv(search)
                                         : layouts_text(search, options.job));
  return search.parallel_layouts.front().fits ? kExitDone : kExitNo;
}

/// The same job on 1, 2, 4 ... GPUs up to those asked for, of one machine or of 1, 2, 4 ... nodes.
ScalingCurve scaling_of(const PredictOptions& options, const Parallelism& parallelism,
                        const Predictor& predictor, const Forecast& whole) {
  ScalingCurve curve;
  const bool by_node = whole.nodes > 1;
  if (!std::holds_alternative<ManyGpusDetails>(*whole.details) || !options.job.cluster.empty()) {
    return curve;
  }
  const std::int64_t most = by_node ? whole.nodes : whole.gpus;
  for (std::int64_t n = 1; n < most; n *= 2) {
    PlacedJob job = options.job;
    (by_node ? job.nodes : job.gpus) = n;
    if (by_node) job.gpus.reset();
    try {
      const Forecast part = predictor.predict(job, job, parallelism);
      curve.points.push_back({part.gpus, part.throughput_samples_per_s, part.efficiency});
    } catch (const InputError& refused) {
      curve.left_out.push_back(fmt::format("{} {} cannot be asked for alone: {}.", n,
                                           by_node ? "nodes" : "GPUs", refused.what()));
    }
  }
  curve.points.push_back({whole.gpus, whole.throughput_samples_per_s, whole.efficiency});
  return curve;
}

/// Of a sharded job that does not fit the largest micro-batch that does is worth a search of its
/// own.
Forecast with_advice(const Predictor& predictor, const PlacedJob& job, Parallelism parallelism,
                     bool advises) {
  Forecast forecast = predictor.predict(job, job, parallelism);
  auto* sharded = std::get_if<Sharded>(&parallelism);
  if (sharded == nullptr || sharded->finds_largest_batch || forecast.fits() || !advises)
    return forecast;
  sharded->finds_largest_batch = true;
  return predictor.predict(job, job, parallelism);
}

int predict_command(PredictOptions& options, const GivenFlags& given) {
  if (options.search) return search_command(options);
  refuse_standard_output("--trace", options.trace);
  check_work(options.work);
  if (options.work.is_asked() &&
      (!options.dump.empty() || (options.explain && options.format == "csv")))
    throw InputError(options.dump.empty() ? "--explain --format csv" : "--dump",
                     "an amount of work beside it", "--format text or json, without --dump");
  check_report(options.report);
  StandardInput input;
  input.resolve(options.job.network, kMostNetworkBytes, kOnnxOpening);
  if (!options.measured.empty() && (options.format == "csv" || !options.dump.empty()))
    throw InputError("--measured", options.format == "csv" ? "--format csv" : "--dump",
                     "text or JSON; `compare --measured` writes CSV");
  if (!options.dump.empty() && options.format != "text") {
    throw InputError("--dump", "--format " + options.format, "--format text: a dump is text");
  }
  if (!options.host_from.empty()) take_recorded_host(options.host_from, options.job.software);
  const Predictor predictor(load_hardware(options.sources));
  const auto [parallelism, kind] = settle_parallelism(options, given, predictor.hardware());
  if (given("--nic") || given("--no-p2p")) {
    const Fabric fabric = make_cluster(options.job, options.job.gpu, predictor.hardware()).fabric;
    if (given("--nic") && fabric.num_nodes() < 2)
      throw InputError("--nic", "one machine, which nothing leaves", "several: --nodes");
    if (given("--no-p2p") && fabric.ranks_of(FabricNodeId{0}) < 2)
      throw InputError("--no-p2p", "one GPU in each machine", "several: --gpus");
  }
  if (kind == ReportKind::ParameterServers) {
    if (!options.dump.empty()) {
      throw InputError("--dump", options.dump + " with parameter servers", "no dump");
    }
    if (!options.trace.empty())
      throw InputError("--trace", "parameter servers on nodes of their own", "another strategy");
  }
  if (options.dump == "graph" && kind != ReportKind::Sharded) {
    if (!options.report.empty())
      throw InputError("--report", "--dump graph", "an answer: without --dump");
    write_report(graph_text(*predictor.resolve(options.job, options.job).step));
    return kExitDone;
  }
  const Forecast forecast =
      with_advice(predictor, options.job, parallelism, options.format != "csv");
  if (!options.report.empty()) {
    const ScalingCurve scaling = scaling_of(options, parallelism, predictor, forecast);
    write_page(forecast_page(forecast, scaling), options.report);
  }
  std::string report = std::visit(Report(options, predictor, forecast), *forecast.details);
  if (!options.measured.empty()) {
    const MeasuredThroughput measured = measured_throughput(
        options.measured, options.job, options.job, parallelism, predictor, forecast);
    report = options.format == "json" ? with_measured(report, measured)
                                      : report + measured_text(measured);
  }
  if (options.dump.empty() && !options.explain && options.format != "csv") {
    const std::vector<OtherSize> sizes =
        find_better_sizes(predictor, options.job, options.job, parallelism, forecast);
    const std::vector<FittingChange> changes =
        find_fitting_changes(predictor, options.job, options.job, parallelism, forecast);
    if (options.format == "json") {
      report = with_fitting_changes(with_other_sizes(report, sizes), changes);
    } else {
      report += fitting_changes_text(changes) + other_sizes_text(sizes, forecast);
    }
  }
  if (options.work.is_asked()) {
    const WorkReport work =
        report_work(options.work, predictor, options.job, options.job, parallelism, forecast);
    report = options.format == "json"  ? with_work(report, work)
             : options.format == "csv" ? csv_with_work(report, work)
                                       : report + work_text(work);
  }
  write_report(report);
  const bool in_page = options.format == "text" && options.dump.empty() &&
                       (!options.explain || kind == ReportKind::Sharded);
  if (!in_page) {
    for (const std::string& warning : forecast.warnings) say("warning: " + warning);
  }
  const bool refused = options.strict && (!forecast.warnings.empty() ||
                                          forecast.memory.fit_probability < kSurelyFits);
  return forecast.fits() && !refused ? kExitDone : kExitNo;
}

}  // namespace

void add_predict_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<PredictOptions>();
  CLI::App* subcommand = add_predict_subcommand(app, *options);
  subcommand->footer("Example: tracecast predict resnet50 --gpu v100 --batch 64 --phase train");
  subcommand->callback([options, subcommand, &exit_code] {
    exit_code = predict_command(*options, [subcommand](std::string_view flag) {
      return subcommand->get_option(std::string(flag))->count() > 0;
    });
  });
}

}  // namespace tracecast
