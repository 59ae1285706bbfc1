#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "models/graph_text.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/cluster/many_gpus_timeline.hpp"
#include "sim/cluster/step_timeline.hpp"
#include "sim/job/resolved_job.hpp"
#include "tools/explain_many.hpp"
#include "tools/output.hpp"
#include "tools/predict_flags.hpp"
#include "tools/report.hpp"
#include "tools/server_command.hpp"
#include "tools/standard_input.hpp"
#include "tools/subcommand.hpp"
#include "tools/transformer_options.hpp"
#include "tools/whole_number.hpp"
#include "traces/chrome/writer.hpp"

namespace tracecast {
namespace {

struct PredictOptions {
  PlacedJob job;
  SourceOptions sources;
  DataParallel spread;
  ServerFlags servers;
  TransformerOptions sharded;
  bool no_fold = false;
  std::string format = "text";
  std::string dump;
  std::string trace;  ///< file
  bool explain = false, strict = false, largest_batch = false;
};

std::string dump(const std::string& stage, const ResolvedJob& job, const Prediction& prediction) {
  if (stage == "kernels") return dump_kernels(job, prediction);
  return dump_program(job, prediction);
}

/// Advice costs several plans: given when asked for, or when the job does not fit.
MemoryAdvice advise(const PredictOptions& options, const ResolvedJob& job, const Hardware& hardware,
                    const Prediction& prediction) {
  if (!prediction.memory.fits) return advise_on_memory(job, hardware);
  if (options.largest_batch) return advise_on_batch(job, hardware);
  return {};
}

/// Of a job on several GPUs: each has the batch.
MemoryAdvice advise_if_asked(const PredictOptions& options, const ResolvedJob& job,
                             const Hardware& hardware) {
  return options.largest_batch ? advise_on_batch(job, hardware) : MemoryAdvice{};
}

std::string answer(const PredictOptions& options, const ResolvedJob& job,
                   const Prediction& prediction, const MemoryAdvice& advice) {
  if (options.format == "json") return report_json(job, prediction, advice, options.explain);
  if (options.format == "csv") {
    if (options.explain) return explain_csv(job, prediction);
    return report_csv(job, prediction, options.largest_batch ? advice.largest_batch : std::nullopt);
  }
  return options.explain ? explain_text(job, prediction) : report_text(job, prediction, advice);
}

bool asks_for_many(const PredictOptions& options) {
  const Place& c = options.job;
  return !c.cluster.empty() || c.gpus.value_or(1) != 1 || c.nodes.value_or(1) != 1 ||
         options.servers.any();
}

std::string explain_many(const std::string& format, const ResolvedJob& job, const ManyGpus& many,
                         const Hardware& hardware, const MemoryAdvice& advice) {
  return format == "json"  ? explain_many_json(job, many, hardware, advice)
         : format == "csv" ? explain_many_csv(job, many, hardware)
                           : explain_many_text(job, many, hardware);
}

using Given = std::function<bool(std::string_view flag)>;

void refuse_idle(const PredictOptions& options, AnswerKind kind, const Given& given) {
  refuse_idle_flags({.kind = kind,
                     .job = options.job,
                     .format = options.format,
                     .dump = options.dump,
                     .stages = options.sharded.plan.pipeline.value_or(1),
                     .zero = options.sharded.plan.zero,
                     .explains = options.explain,
                     .sets = options.sources.sets},
                    given);
}

/// A job on several GPUs.
int predict_on_many(const PredictOptions& options, const Hardware& hardware, const Given& given) {
  Cluster cluster = make_cluster(options.job, options.job.gpu, hardware);
  PlacedJob job_options = options.job;
  const bool has_servers =
      asks_for_servers(options.servers, options.spread.strategy, cluster.fabric.num_nodes());
  refuse_idle(options, has_servers ? AnswerKind::ParameterServers : AnswerKind::ManyGpus, given);
  if (has_servers && job_options.software.framework.empty())
    job_options.software.framework = "tensorflow";
  if (job_options.gpu.empty()) job_options.gpu = cluster.fabric.gpu_of(Rank{0}).id;
  ResolvedJob job = make_job(job_options, hardware);
  if (cluster.file) job.inputs.push_back(*cluster.file);
  for (std::string& line : cluster.assumptions) job.assumptions.push_back(std::move(line));
  if (has_servers) {
    if (!options.dump.empty()) {
      throw InputError("--dump", options.dump + " with parameter servers", "no dump");
    }
    if (!options.trace.empty())
      throw InputError("--trace", "parameter servers on nodes of their own", "another strategy");
    bool fits = true;
    const MemoryAdvice advice = advise_if_asked(options, job, hardware);
    write_answer(answer_with_servers(job, hardware, std::move(cluster.fabric), options.servers,
                                     options.format, advice, fits));
    return fits && !(options.strict && !job.warnings.empty()) ? kExitDone : kExitNo;
  }
  DataParallel spread = options.spread;
  spread.fold = !options.no_fold;
  const ManyGpus many = predict_many(job, hardware, std::move(cluster.fabric), spread);
  const bool explains = options.explain && options.dump.empty();
  const MemoryAdvice advice = advise_if_asked(options, job, hardware);
  if (!options.trace.empty()) {
    traces::write_chrome_trace(
        many_gpus_timeline(many.step, many.kind_of, many.groups.size() == 1 ? job.gpu.name : ""),
        options.trace);
  }
  write_answer(options.dump == "program" ? dump_many_program(many)
               : !options.dump.empty()   ? dump(options.dump, job, many.one_gpu)
               : explains                ? explain_many(options.format, job, many, hardware, advice)
               : options.format == "json" ? report_many_json(job, many, advice)
               : options.format == "csv"  ? report_many_csv(job, many, advice)
                                          : report_many_text(job, many, advice));
  if (options.format != "text" || options.explain || !options.dump.empty()) {
    for (const std::string& warning : job.warnings) say("warning: " + warning);
  }
  const bool refused = options.strict && !job.warnings.empty();
  return many.one_gpu.memory.fits && !refused ? kExitDone : kExitNo;
}

/// A transformer whose layers, stages or states are divided among GPUs.
int predict_layers_shared(const PredictOptions& options, const Hardware& hardware,
                          const Given& given) {
  refuse_idle(options, AnswerKind::Divided, given);
  if (given("--batch") && given("--micro-batch")) {
    throw InputError("--batch", std::to_string(options.job.batch) + " beside --micro-batch",
                     "one of the two: both are the sequences of a pass");
  }
  if (given("--accumulate") && given("--global-batch")) {
    throw InputError("--accumulate",
                     std::to_string(options.job.accumulate) + " beside --global-batch",
                     "one of the two");
  }
  Sharded division = options.sharded;
  division.fold = !options.no_fold;
  division.finds_largest_batch = options.largest_batch;
  const ShardedJob sharded = predict_sharded(options.job, options.job, division, hardware);
  write_answer(options.format == "json"  ? report_sharded_json(sharded, options.explain)
               : options.format == "csv" ? report_sharded_csv(sharded, options.explain)
                                         : report_sharded_text(sharded, options.explain));
  if (options.format != "text") {
    for (const std::string& warning : sharded.warnings) say("warning: " + warning);
  }
  const bool refused = options.strict && !sharded.warnings.empty();
  return sharded.prediction.memory.fits() && !refused ? kExitDone : kExitNo;
}

int predict_command(PredictOptions& options, const Given& given) {
  refuse_standard_output("--trace", options.trace);
  StandardInput input;
  input.resolve(options.job.network);
  if (!options.dump.empty() && options.format != "text") {
    throw InputError("--dump", "--format " + options.format, "--format text: a dump is text");
  }
  const Hardware hardware = load_hardware(options.sources);
  if (options.sharded.was_asked) return predict_layers_shared(options, hardware, given);
  if (to_lower(options.job.gpu).starts_with("cpu:")) {
    refuse_idle(options, AnswerKind::Cpu, given);
  } else if (asks_for_many(options) && options.dump != "graph") {
    return predict_on_many(options, hardware, given);
  } else {
    refuse_idle(options, AnswerKind::OneGpu, given);
  }
  ResolvedJob job = make_job(options.job, hardware);
  if (options.dump == "graph") {
    write_answer(graph_text(job.step));
    return kExitDone;
  }
  const Prediction prediction = predict(job, hardware);
  warn_of_power_limit(prediction.power, job.gpu.id, job);
  if (prediction.num_guessed_kernels > 0) {
    job.warnings.push_back(std::to_string(prediction.num_guessed_kernels) +
                           " kernels belong to operators without a cost model and are bounded by "
                           "the bytes they touch (" +
                           three_digits(prediction.guessed_time.in_ms()) + " ms of the step)");
  }
  if (!options.trace.empty()) {
    traces::write_chrome_trace(step_timeline(prediction.program, prediction.priced, job.step,
                                             prediction.timeline.steps_simulated, job.gpu.name),
                               options.trace);
  }
  write_answer(options.dump.empty()
                   ? answer(options, job, prediction, advise(options, job, hardware, prediction))
                   : dump(options.dump, job, prediction));
  if (options.format != "text" || options.explain || !options.dump.empty()) {
    for (const std::string& warning : job.warnings) say("warning: " + warning);
  }
  const bool refused = options.strict && !job.warnings.empty();
  return prediction.memory.fits && !refused ? kExitDone : kExitNo;
}

}  // namespace

void add_predict_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<PredictOptions>();
  PlacedJob& job = options->job;
  CLI::App* verb = app.add_subcommand("predict", "Predict speed, memory and power of a network");
  verb->add_option("network", job.network,
                   "Zoo name (see `networks`), path to an .onnx file, or - for such a file on "
                   "standard input")
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
  for (const std::string& id : framework_ids()) frameworks += (frameworks.empty() ? "" : ", ") + id;
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
  for (const std::string& id : data_set_ids()) data_sets += ", " + id;
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
  verb->add_option("--power-limit", job.power_limit_w, "Board power limit, W (nvidia-smi -pl)")
      ->type_name("W");
  verb->add_option("--clock", job.clock_mhz, "Clock the SMs are held at (nvidia-smi -ac, -lgc)")
      ->type_name("MHZ");
  verb->add_option("--memory-clock", job.memory_clock_mhz, "Memory clock, as nvidia-smi shows it")
      ->type_name("MHZ");
  verb->option_defaults()->group("Several GPUs");
  add_cluster_options(*verb, job);
  std::string strategies;
  for (const std::string& id : strategy_ids()) strategies += (strategies.empty() ? "" : ", ") + id;
  verb->add_option("--strategy", options->spread.strategy,
                   "How several GPUs train: " + strategies + "; default: the framework's")
      ->type_name("S");
  verb->add_option("--sample-sd", options->spread.sample_sd,
                   "Several GPUs: spread of a sample's time relative to its mean; sentences or "
                   "images of differing sizes about 0.25")
      ->type_name("SD")
      ->check(CLI::Range(0.0, 2.0));
  verb->add_flag("--no-fold", options->no_fold, "Simulate GPUs that are alike one by one");
  verb->option_defaults()->group("Transformers divided among GPUs");
  add_transformer_options(*verb, options->sharded);
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
