#include "tools/predict/predict_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "tools/command/parse_flags.hpp"
#include "tools/command/subcommand.hpp"
#include "tools/command/whole_number.hpp"
#include "tools/predict/cluster_options.hpp"
#include "tools/predict/host_options.hpp"
#include "tools/predict/predict_flags.hpp"
#include "tools/predict/recorded_host.hpp"
#include "tools/predict/server_command.hpp"
#include "tools/report/page.hpp"

namespace tracecast {
namespace {

Parallelism parallelism_of(const PredictOptions& options) {
  if (options.sharded.was_asked) {
    Sharded parallel_layout = options.sharded;
    parallel_layout.fold = !options.no_fold;
    parallel_layout.finds_largest_batch = options.largest_batch;
    return parallel_layout;
  }
  if (any_given(options.servers)) return options.servers;
  DataParallel replicas = options.replicas;
  replicas.fold = !options.no_fold;
  return replicas;
}

/// What the flags ask for. Throws InputError: flags of parameter servers where there can be none.
ReportKind kind_of(const PredictOptions& options, const Parallelism& parallelism,
                   const Hardware& hardware) {
  const Place& place = options.job;
  const bool is_replicated = !std::holds_alternative<Sharded>(parallelism);
  const bool on_cpu = to_lower(place.gpu).starts_with("cpu:");
  if (is_replicated && !on_cpu && options.dump == "graph") return ReportKind::OneGpu;
  std::int64_t nodes = 1;
  if (is_replicated && !on_cpu && asks_for_many(place, parallelism) &&
      (any_given(options.servers) || !options.replicas.strategy.empty())) {
    nodes = make_cluster(place, place.gpu, hardware).fabric.num_nodes();
    (void)asks_for_servers(options.servers, options.replicas.strategy, nodes, hardware.specs());
  }
  return kind_of_report(place, parallelism, nodes, hardware.specs());
}

/// Two words for one number are refused, even when they say the same.
void refuse_twice(const PredictOptions& options, const GivenFlags& given) {
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

void refuse_idle(const PredictOptions& options, ReportKind kind, const GivenFlags& given,
                 const SpecLibrary& specs) {
  refuse_idle_flags({.kind = kind,
                     .job = options.job,
                     .format = options.format,
                     .dump = options.dump,
                     .stages = options.sharded.plan.pipeline.value_or(1),
                     .zero = options.sharded.plan.zero,
                     .explains = options.explain,
                     .counts_epochs = options.work.epochs.has_value(),
                     .sets = options.sources.sets,
                     .specs = specs},
                    given);
}

}  // namespace

SettledParallelism settle_parallelism(const PredictOptions& options, const GivenFlags& given,
                                      const Hardware& hardware) {
  // Nobody's batch is -1 inside: one that was given is never that.
  if (given("--batch") && options.job.batch < 1)
    throw InputError("--batch", std::to_string(options.job.batch), "1 to 1000000 samples");
  SettledParallelism settled{parallelism_of(options), ReportKind::OneGpu};
  settled.kind = kind_of(options, settled.parallelism, hardware);
  refuse_idle(options, settled.kind, given, hardware.specs());
  if (settled.kind == ReportKind::Sharded) refuse_twice(options, given);
  return settled;
}

CLI::App* add_predict_subcommand(CLI::App& app, PredictOptions& options) {
  PlacedJob& job = options.job;
  CLI::App* subcommand =
      app.add_subcommand("predict", "Predict speed, memory and power of a network");
  subcommand
      ->add_option(
          "network", job.network,
          "Zoo name (see `networks`), path to an .onnx, .pt2 or .graph file or a config.json, "
          "or - for an .onnx file on standard input")
      ->required()
      ->type_name("NETWORK");
  subcommand
      ->add_option("--gpu", job.gpu,
                   "GPU, such as v100_sxm2_16gb or v100 (see `gpus`), or cpu:2xe5_2667: no GPU, "
                   "two such CPUs")
      ->required()
      ->type_name("ID");
  subcommand
      ->add_option("--batch", job.batch, "Samples per step [what an .onnx file fixes, else 1]")
      ->type_name("N")
      ->check(whole_number(1, kMostBatch));
  subcommand->add_option("--phase", job.phase, "train, infer, forward or forward_backward")
      ->type_name("PHASE")
      ->capture_default_str();
  subcommand
      ->add_option(
          "--precision", job.precision,
          "fp32, tf32, amp, fp16, bf16; fp8, fp8_current, fp8_block, mxfp8, nvfp4 (training: GEMMs "
          "of a recipe, hwspecs/recipe); int8 (inference); default: fp32, of language models 16 "
          "bits")
      ->type_name("P");
  std::string frameworks;
  for (const std::string& id : SpecLibrary::embedded().framework_ids())
    frameworks += (frameworks.empty() ? "" : ", ") + id;
  subcommand
      ->add_option(
          "--framework", job.software.framework,
          frameworks +
              " (no host, all fused: ideal); default: pytorch, with parameter servers tensorflow")
      ->type_name("F");
  subcommand->add_flag("--xla", job.software.xla, "The framework compiles the graph with XLA");
  subcommand->add_flag("--cuda-graphs", job.software.cuda_graphs,
                       "A step is captured once as CUDA graphs and launched whole");
  subcommand->add_flag_function(
      "--cudnn-benchmark,!--no-cudnn-benchmark",
      [&job](std::int64_t times) { job.software.cudnn_benchmark = times > 0; },
      "Convolution algorithms are tried out, or named by cuDNN; default: as the framework does");
  subcommand->add_flag_function(
      "--channels-last,!--no-channels-last",
      [&job](std::int64_t times) { job.software.channels_last = times > 0; },
      "Images lie channels last in memory, or first; default: as the framework does");
  subcommand
      ->add_option("--attention", job.software.attention,
                   "fused (one kernel), composed (step by step) or auto: as the framework and the "
                   "network's code did in that version")
      ->type_name("A");
  subcommand->add_flag("--as-written", job.as_written,
                       "An .onnx file operator by operator, without putting back together what "
                       "exporters take apart");
  subcommand
      ->add_option("--framework-version", job.software.version,
                   "Version, such as \"1.15\" or \"1.6, cuDNN 7.0\"")
      ->check(CLI::Validator(
          [](const std::string& text) {
            const bool has_number = text.find_first_of("0123456789") != std::string::npos;
            return has_number || text == "NGC"
                       ? std::string()
                       : '"' + text + "\" not in range a number, such as 2.1";
          },
          ""))
      ->type_name("V");
  subcommand
      ->add_option(
          "--optimizer", job.optimizer,
          "sgd, momentum, adam, adamw, lamb, adagrad, rmsprop, adadelta, adam8bit, adafactor or "
          "none: gradients alone; default: momentum, of language models adamw")
      ->type_name("O");
  subcommand->add_option("--image-size", job.image_size, "Side of square images, pixels")
      ->type_name("S")
      ->check(whole_number(1, 1'000'000));
  subcommand->add_option("--seq-len", job.seq_len, "Tokens per sample")
      ->type_name("L")
      ->check(whole_number(1, 100'000'000));
  subcommand
      ->add_option("--fan-out", job.fan_out,
                   "In-neighbours drawn of each relation, hop by hop from the seeds: 15,10,5")
      ->delimiter(',')
      ->type_name("N,N,...");
  subcommand
      ->add_option("--recompute", job.recompute,
                   "Activations computed again, not kept: none, selective or full")
      ->type_name("R")
      ->capture_default_str();
  subcommand
      ->add_option("--lora", job.lora_rank,
                   "Train low-rank adapters of this rank; the network's weights stay as they are")
      ->type_name("RANK")
      ->check(whole_number(1, 65536) & CLI::Range(std::int64_t{1}, std::int64_t{65536}));
  subcommand
      ->add_option("--lora-targets", job.lora_targets,
                   "GEMMs that have adapters: attention or linear (all of the layers) "
                   "[attention]")
      ->type_name("T");
  subcommand
      ->add_option("--base-precision", job.base_precision,
                   "How weights under adapters lie in memory: same, int8, nf4 (QLoRA) or "
                   "nf4_double [same]")
      ->type_name("P");
  subcommand
      ->add_option("--accumulate", job.accumulate, "Batches whose gradients share an update [1]")
      ->type_name("N")
      ->check(whole_number(1, kMostAccumulated));
  subcommand->option_defaults()->group("Host and input");
  add_host_options(*subcommand, job, job);
  subcommand
      ->add_option("--epoch-samples", job.epoch_samples, "Samples of an epoch, for its energy")
      ->type_name("N")
      ->check(whole_number(1, 1'000'000'000'000));
  subcommand->option_defaults()->group("GPU");
  subcommand
      ->add_option("--power-limit", job.board.power_limit_w,
                   "Board power limit, W (nvidia-smi -pl)")
      ->type_name("W");
  subcommand
      ->add_option("--clock", job.board.clock_mhz,
                   "Clock the SMs are held at (nvidia-smi -ac, -lgc)")
      ->type_name("MHZ");
  subcommand
      ->add_option("--memory-clock", job.board.memory_clock_mhz,
                   "Memory clock, as nvidia-smi shows it")
      ->type_name("MHZ");
  subcommand->option_defaults()->group("Several GPUs");
  add_cluster_options(*subcommand, job);
  std::string strategies;
  for (const std::string& id : SpecLibrary::embedded().strategy_ids())
    strategies += (strategies.empty() ? "" : ", ") + id;
  subcommand
      ->add_option("--strategy", options.replicas.strategy,
                   "How several GPUs train: " + strategies + "; default: the framework's")
      ->type_name("S");
  subcommand
      ->add_option("--sample-sd", options.replicas.sample_sd,
                   "Several GPUs: spread of a sample's time relative to its mean; sentences or "
                   "images of differing sizes about 0.25")
      ->type_name("SD")
      ->check(number_within(0, 2));
  subcommand->add_flag("--no-fold", options.no_fold, "Simulate GPUs that are alike one by one");
  subcommand->option_defaults()->group("Transformers divided among GPUs");
  add_transformer_options(*subcommand, options.sharded);
  subcommand->add_flag(
      "--search", options.search,
      "Find the fastest parallel layout that fits, for --global-batch; what is given stays");
  subcommand->option_defaults()->group("Parameter servers");
  add_server_flags(*subcommand, options.servers);
  subcommand->option_defaults()->group("Work, time and money");
  add_work_options(*subcommand, options.work);
  subcommand->option_defaults()->group("Report");
  add_source_options(*subcommand, options.sources);
  add_format_option(*subcommand, options.format);
  subcommand->add_option("--dump", options.dump, "Print a stage instead: graph, kernels or program")
      ->type_name("STAGE")
      ->check(CLI::IsMember({"graph", "kernels", "program"}));
  subcommand
      ->add_option("--trace", options.trace,
                   "Write the simulated steps as a trace for ui.perfetto.dev")
      ->type_name("FILE");
  add_report_option(*subcommand, options.report);
  subcommand
      ->add_option("--measured", options.measured,
                   "Runs of this job that were timed (network,gpu,samples_per_s and others): they "
                   "correct the throughput")
      ->type_name("FILE");
  subcommand
      ->add_option("--host-from", options.host_from,
                   "A recorded step of the program, in any format of `trace`: its host costs")
      ->type_name("TRACE");
  subcommand->add_flag("--explain", options.explain,
                       "Table by layer; of several GPUs by kernel class");
  subcommand->add_flag("--largest-batch", options.largest_batch,
                       "Find the largest batch that fits");
  subcommand->add_flag("--strict", options.strict,
                       "Exit with 1 on any warning, and where it fits with less than 95 %");
  return subcommand;
}

struct PredictFlags::Parser {
  PredictOptions options;
  CLI::App app{"", "tracecast"};
  CLI::App* subcommand = add_predict_subcommand(app, options);

  Parser() { add_version_flag(app); }
  [[nodiscard]] bool given(std::string_view flag) const {
    return subcommand->get_option(std::string(flag))->count() > 0;
  }
  /// Flags of the answer's form would be ignored.
  void parse(const std::vector<std::string>& words) {
    app.clear();
    options = PredictOptions{};
    std::vector<std::string> all{"predict"};
    all.insert(all.end(), words.begin(), words.end());
    parse_words(app, std::move(all));
    for (const char* flag : {"--format", "--dump", "--trace", "--report", "--explain", "--strict",
                             "--search", "--measured", "--profile", "--set", "--hwspecs"}) {
      if (given(flag))
        throw InputError(flag, "a question without its command", "flags of the job and its place");
    }
  }
};

PredictFlags::PredictFlags() : parser_(std::make_unique<Parser>()) {}
PredictFlags::~PredictFlags() = default;
PredictFlags::PredictFlags(PredictFlags&&) noexcept = default;

PredictQuestion PredictFlags::read(const std::vector<std::string>& words,
                                   const Hardware& hardware) {
  parser_->parse(words);
  PredictOptions& options = parser_->options;
  refuse_work(options.work);
  const auto given = [this](std::string_view flag) { return parser_->given(flag); };
  if (!options.host_from.empty()) take_recorded_host(options.host_from, options.job.software);
  return {options.job, settle_parallelism(options, given, hardware).parallelism};
}

PredictFlags::Search PredictFlags::read_search(const std::vector<std::string>& words) {
  parser_->parse(words);
  const PredictOptions& options = parser_->options;
  refuse_work(options.work);
  Search search{options.job, options.sharded};
  search.base.fold = !options.no_fold;
  return search;
}

}  // namespace tracecast
