#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "models/graph_text.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/job/predictor.hpp"
#include "sim/job/resolved_job.hpp"
#include "sim/parallel/many_gpus_timeline.hpp"
#include "sim/plan/division_search.hpp"
#include "sim/step/step_timeline.hpp"
#include "tools/command/output.hpp"
#include "tools/command/standard_input.hpp"
#include "tools/command/subcommand.hpp"
#include "tools/command/whole_number.hpp"
#include "tools/predict/cluster_options.hpp"
#include "tools/predict/division_report.hpp"
#include "tools/predict/explain_many.hpp"
#include "tools/predict/measured_throughput.hpp"
#include "tools/predict/predict_flags.hpp"
#include "tools/predict/server_command.hpp"
#include "tools/predict/transformer_options.hpp"
#include "tools/report/page.hpp"
#include "tools/report/report.hpp"
#include "tools/report/report_servers.hpp"
#include "traces/chrome/writer.hpp"

namespace tracecast {
namespace {

struct PredictOptions {
  PlacedJob job;
  SourceOptions sources;
  DataParallel replicas;
  ParameterServers servers;
  TransformerOptions sharded;
  bool no_fold = false;
  std::string format = "text";
  std::string dump;
  std::string trace, report, measured;  ///< files
  bool explain = false, strict = false, largest_batch = false, search = false;
};

using Given = std::function<bool(std::string_view flag)>;

Parallelism parallelism_of(const PredictOptions& options) {
  if (options.sharded.was_asked) {
    Sharded division = options.sharded;
    division.fold = !options.no_fold;
    division.finds_largest_batch = options.largest_batch;
    return division;
  }
  if (any_given(options.servers)) return options.servers;
  DataParallel replicas = options.replicas;
  replicas.fold = !options.no_fold;
  return replicas;
}

/// What the flags ask for. Throws InputError: flags of parameter servers where there can be none.
AnswerKind kind_of(const PredictOptions& options, const Parallelism& parallelism,
                   const Hardware& hardware) {
  const Place& place = options.job;
  const bool is_replicated = !std::holds_alternative<Sharded>(parallelism);
  const bool on_cpu = to_lower(place.gpu).starts_with("cpu:");
  if (is_replicated && !on_cpu && options.dump == "graph") return AnswerKind::OneGpu;
  std::int64_t nodes = 1;
  if (is_replicated && !on_cpu && asks_for_many(place, parallelism) &&
      (any_given(options.servers) || !options.replicas.strategy.empty())) {
    nodes = make_cluster(place, place.gpu, hardware).fabric.num_nodes();
    (void)asks_for_servers(options.servers, options.replicas.strategy, nodes, hardware.specs());
  }
  return kind_of_answer(place, parallelism, nodes, hardware.specs());
}

/// Two words for one number are refused, even when they say the same.
void refuse_twice(const PredictOptions& options, const Given& given) {
  if (given("--batch") && given("--micro-batch")) {
    throw InputError("--batch", fmt::format("{} beside --micro-batch", options.job.batch),
                     "one of the two: both are the sequences of a pass");
  }
  if (given("--accumulate") && given("--global-batch")) {
    throw InputError("--accumulate",
                     fmt::format("{} beside --global-batch {}", options.job.accumulate,
                                 options.sharded.plan.global_batch.value_or(0)),
                     "one of the two: either says how many micro-batches a step has");
  }
}

void refuse_idle(const PredictOptions& options, AnswerKind kind, const Given& given,
                 const SpecLibrary& specs) {
  refuse_idle_flags({.kind = kind,
                     .job = options.job,
                     .format = options.format,
                     .dump = options.dump,
                     .stages = options.sharded.plan.pipeline.value_or(1),
                     .zero = options.sharded.plan.zero,
                     .explains = options.explain,
                     .sets = options.sources.sets,
                     .specs = specs},
                    given);
}

/// Writes the answer of one kind of details, and the trace beside it.
class Answer {
 public:
  Answer(const PredictOptions& options, const Predictor& predictor, const Forecast& forecast)
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
    return options_.largest_batch ? predictor_.advise_on_batch(forecast_) : MemoryAdvice{};
  }

  const PredictOptions& options_;
  const Predictor& predictor_;
  const Forecast& forecast_;
};

/// `--search`: other flags of an answer mean nothing.
int search_command(const PredictOptions& options) {
  if (!options.dump.empty() || !options.trace.empty() || options.explain || options.largest_batch)
    throw InputError("--search", "--dump, --trace, --explain or --largest-batch beside it",
                     "none of them: ask for the division that was found");
  const Predictor predictor(load_hardware(options.sources));
  Sharded base = options.sharded;
  base.fold = !options.no_fold;
  const plan::DivisionSearch search =
      plan::search_divisions(predictor, options.job, options.job, base);
  write_answer(options.format == "json"  ? divisions_json(search, options.job)
               : options.format == "csv" ? divisions_csv(search)
                                         : divisions_text(search, options.job));
  return search.divisions.front().fits ? kExitDone : kExitNo;
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

int predict_command(PredictOptions& options, const Given& given) {
  if (options.search) return search_command(options);
  refuse_standard_output("--trace", options.trace);
  check_report(options.report);
  StandardInput input;
  input.resolve(options.job.network);
  if (!options.measured.empty() && (options.format == "csv" || !options.dump.empty()))
    throw InputError("--measured", options.format == "csv" ? "--format csv" : "--dump",
                     "text or JSON; `compare --measured` writes CSV");
  if (!options.dump.empty() && options.format != "text") {
    throw InputError("--dump", "--format " + options.format, "--format text: a dump is text");
  }
  const Predictor predictor(load_hardware(options.sources));
  const Parallelism parallelism = parallelism_of(options);
  const AnswerKind kind = kind_of(options, parallelism, predictor.hardware());
  refuse_idle(options, kind, given, predictor.hardware().specs());
  if (kind == AnswerKind::Divided) refuse_twice(options, given);
  if (kind == AnswerKind::ParameterServers) {
    if (!options.dump.empty()) {
      throw InputError("--dump", options.dump + " with parameter servers", "no dump");
    }
    if (!options.trace.empty())
      throw InputError("--trace", "parameter servers on nodes of their own", "another strategy");
  }
  if (options.dump == "graph" && kind != AnswerKind::Divided) {
    if (!options.report.empty())
      throw InputError("--report", "--dump graph", "an answer: without --dump");
    write_answer(graph_text(*predictor.resolve(options.job, options.job).step));
    return kExitDone;
  }
  const Forecast forecast = predictor.predict(options.job, options.job, parallelism);
  if (!options.report.empty()) {
    const ScalingCurve scaling = scaling_of(options, parallelism, predictor, forecast);
    write_page(forecast_page(forecast, scaling), options.report);
  }
  std::string answer = std::visit(Answer(options, predictor, forecast), *forecast.details);
  if (!options.measured.empty()) {
    const MeasuredThroughput measured = measured_throughput(
        options.measured, options.job, options.job, parallelism, predictor, forecast);
    answer = options.format == "json" ? with_measured(answer, measured)
                                      : answer + measured_text(measured);
  }
  write_answer(answer);
  const bool in_page = options.format == "text" && options.dump.empty() &&
                       (!options.explain || kind == AnswerKind::Divided);
  if (!in_page) {
    for (const std::string& warning : forecast.warnings) say("warning: " + warning);
  }
  const bool refused = options.strict && !forecast.warnings.empty();
  return forecast.fits() && !refused ? kExitDone : kExitNo;
}

}  // namespace

void add_predict_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<PredictOptions>();
  PlacedJob& job = options->job;
  CLI::App* verb = app.add_subcommand("predict", "Predict speed, memory and power of a network");
  verb->add_option("network", job.network,
                   "Zoo name (see `networks`), path to an .onnx file or a config.json, or - for an "
                   ".onnx file on standard input")
      ->required()
      ->type_name("NETWORK");
  verb->add_option("--gpu", job.gpu,
                   "GPU, such as v100_sxm2_16gb or v100 (see `gpus`), or cpu:2xe5_2667: no GPU, "
                   "two such CPUs")
      ->required()
      ->type_name("ID");
  verb->add_option("--batch", job.batch, "Samples per step [1]")
      ->type_name("N")
      ->check(whole_number(1, kMostBatch));
  verb->add_option("--phase", job.phase, "train, infer, forward or forward_backward")
      ->type_name("PHASE")
      ->capture_default_str();
  verb->add_option(
          "--precision", job.precision,
          "fp32, tf32, amp, fp16, bf16, fp8 or int8 (inference); default: fp32, of divided "
          "transformers amp")
      ->type_name("P");
  std::string frameworks;
  for (const std::string& id : SpecLibrary::embedded().framework_ids())
    frameworks += (frameworks.empty() ? "" : ", ") + id;
  verb->add_option(
          "--framework", job.software.framework,
          frameworks +
              " (no host, all fused: ideal); default: pytorch, with parameter servers tensorflow")
      ->type_name("F");
  verb->add_flag("--xla", job.software.xla, "The framework compiles the graph with XLA");
  verb->add_flag("--cuda-graphs", job.software.cuda_graphs,
                 "A step is captured once as CUDA graphs and launched whole");
  verb->add_flag_function(
      "--cudnn-benchmark,!--no-cudnn-benchmark",
      [&job](std::int64_t times) { job.software.cudnn_benchmark = times > 0; },
      "Convolution algorithms are tried out, or named by cuDNN; default: as the framework does");
  verb->add_option("--framework-version", job.software.version,
                   "Version, such as \"1.15\" or \"1.6, cuDNN 7.0\"")
      ->type_name("V");
  verb->add_option(
          "--optimizer", job.optimizer,
          "sgd, momentum, adam, adamw, lamb, adagrad, rmsprop, adadelta or none: gradients "
          "alone; default: momentum, of divided transformers adam")
      ->type_name("O");
  verb->add_option("--image-size", job.image_size, "Side of square images, pixels")
      ->type_name("S")
      ->check(whole_number(1, 1'000'000));
  verb->add_option("--seq-len", job.seq_len, "Tokens per sample")
      ->type_name("L")
      ->check(whole_number(1, 100'000'000));
  verb->add_option("--recompute", job.recompute,
                   "Activations computed again, not kept: none, selective or full")
      ->type_name("R")
      ->capture_default_str();
  verb->add_option("--accumulate", job.accumulate, "Batches whose gradients share an update [1]")
      ->type_name("N")
      ->check(whole_number(1, kMostAccumulated));
  verb->option_defaults()->group("Host and input");
  std::string data_sets;
  for (const std::string& id : SpecLibrary::embedded().data_set_ids()) data_sets += ", " + id;
  verb->add_option("--data", job.data,
                   "synthetic (on the GPU already), memory (a program's arrays, copied every "
                   "step), or loaded: real "
                   "(the network's usual data set)" +
                       data_sets)
      ->type_name("D")
      ->capture_default_str();
  verb->add_option("--machine", job.machine,
                   "Machine whose CPU dispatches and loads, and whose links carry the input")
      ->type_name("ID");
  verb->add_option("--host-cpu", job.host_cpu, "CPU of the host, such as 2xe5_2698_v4")
      ->type_name("[N x]ID");
  verb->add_option("--cpu-threads", job.cpu_threads, "CPU threads that the job may use")
      ->type_name("T")
      ->check(whole_number(1, 4096));
  verb->add_option("--workers", job.workers, "Loader threads or processes; 0: the main thread")
      ->type_name("W")
      ->check(whole_number(0, 4096));
  verb->add_option("--disk", job.disk, "Disk that every sample is read from; else the page cache")
      ->type_name("ID");
  verb->add_option("--pipeline", job.pipeline,
                   "Loader, if not the framework's: tensorpack, keras, ...")
      ->type_name("ID");
  verb->add_option("--epoch-samples", job.epoch_samples, "Samples of an epoch, for its energy")
      ->type_name("N")
      ->check(whole_number(1, 1'000'000'000'000));
  verb->option_defaults()->group("GPU");
  verb->add_option("--power-limit", job.board.power_limit_w,
                   "Board power limit, W (nvidia-smi -pl)")
      ->type_name("W");
  verb->add_option("--clock", job.board.clock_mhz,
                   "Clock the SMs are held at (nvidia-smi -ac, -lgc)")
      ->type_name("MHZ");
  verb->add_option("--memory-clock", job.board.memory_clock_mhz,
                   "Memory clock, as nvidia-smi shows it")
      ->type_name("MHZ");
  verb->option_defaults()->group("Several GPUs");
  add_cluster_options(*verb, job);
  std::string strategies;
  for (const std::string& id : SpecLibrary::embedded().strategy_ids())
    strategies += (strategies.empty() ? "" : ", ") + id;
  verb->add_option("--strategy", options->replicas.strategy,
                   "How several GPUs train: " + strategies + "; default: the framework's")
      ->type_name("S");
  verb->add_option("--sample-sd", options->replicas.sample_sd,
                   "Several GPUs: spread of a sample's time relative to its mean; sentences or "
                   "images of differing sizes about 0.25")
      ->type_name("SD")
      ->check(CLI::Range(0.0, 2.0));
  verb->add_flag("--no-fold", options->no_fold, "Simulate GPUs that are alike one by one");
  verb->option_defaults()->group("Transformers divided among GPUs");
  add_transformer_options(*verb, options->sharded);
  verb->add_flag("--search", options->search,
                 "Find the fastest division that fits, for --global-batch; what is given stays");
  verb->option_defaults()->group("Parameter servers");
  add_server_flags(*verb, options->servers);
  verb->option_defaults()->group("Answer");
  add_source_options(*verb, options->sources);
  add_format_option(*verb, options->format);
  verb->add_option("--dump", options->dump, "Print a stage instead: graph, kernels or program")
      ->type_name("STAGE")
      ->check(CLI::IsMember({"graph", "kernels", "program"}));
  verb->add_option("--trace", options->trace,
                   "Write the simulated steps as a trace for ui.perfetto.dev")
      ->type_name("FILE");
  add_report_option(*verb, options->report);
  verb->add_option("--measured", options->measured,
                   "Runs of this job that were timed (network,gpu,samples_per_s and others): they "
                   "correct the throughput")
      ->type_name("FILE");
  verb->add_flag("--explain", options->explain, "Table by layer; of several GPUs by kernel class");
  verb->add_flag("--largest-batch", options->largest_batch, "Find the largest batch that fits");
  verb->add_flag("--strict", options->strict, "Exit with 1 on any warning");
  verb->footer("Example: tracecast predict resnet50 --gpu v100 --batch 64 --phase train");
  verb->callback([options, verb, &exit_code] {
    exit_code = predict_command(*options, [verb](std::string_view flag) {
      return verb->get_option(std::string(flag))->count() > 0;
    });
  });
}

}  // namespace tracecast
