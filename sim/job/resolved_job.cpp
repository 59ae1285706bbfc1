#include "sim/job/resolved_job.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "hwspecs/library.hpp"
#include "hwspecs/software/precision_recipe.hpp"
#include "hwspecs/software/training_habits.hpp"
#include "models/compiler/image_layout.hpp"
#include "models/lowering/precision.hpp"
#include "models/recompute.hpp"
#include "models/training.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/job/input.hpp"
#include "sim/job/network_file.hpp"
#include "sim/job/newer_version.hpp"
#include "sim/job/placement.hpp"
#include "sim/job/shortage.hpp"
#include "sim/step/accumulation.hpp"
#include "sim/step/captured_step.hpp"
#include "sim/step/cpu_run.hpp"
#include "sim/step/scratch_shortage.hpp"

namespace tracecast {
namespace {

constexpr std::array<std::pair<const char*, PrecisionMode>, 12> kPrecisions{{
    {"fp32", PrecisionMode::Fp32},
    {"tf32", PrecisionMode::Tf32},
    {"amp", PrecisionMode::Amp},
    {"fp16", PrecisionMode::Fp16},
    {"bf16", PrecisionMode::Bf16},
    {"fp8", PrecisionMode::Fp8},
    {"int8", PrecisionMode::Int8},
    {"fp8_block", PrecisionMode::Fp8Block},
    {"nvfp4", PrecisionMode::Nvfp4},
    {"mxfp4", PrecisionMode::Mxfp4},
    {"int8_wo", PrecisionMode::Int8Weights},
    {"int4_wo", PrecisionMode::Int4Weights},
}};

/// Of a host whose costs were read off a step that it ran: profilers lengthen them, other batches
/// have other ops. A guess.
constexpr double kRecordedHostLogSd = 0.2;

bool has_backward(Phase phase) { return phase == Phase::Train || phase == Phase::ForwardBackward; }

void check_trains(const ResolvedJob& job) {
  if (job.framework.trains || !has_backward(job.phase)) return;
  throw InputError("--framework", job.framework.id + " with --phase " + job.options.phase,
                   "--phase infer: it does not train");
}

/// Replaces a mode that this GPU lacks, and hands integers to the engine that has kernels for them.
void settle_precision(ResolvedJob& job, const Hardware& hardware) {
  if (job.framework.precision.recipe && !job.cpu) {
    auto& recipe = job.framework.precision.recipe;
    PrecisionChoice choice = choose_recipe(recipe->math, job.gpu);
    job.precision = choice.mode;
    if (!choice.fallback.empty()) job.warnings.push_back(std::move(choice.fallback));
    if (!job.gpu.find_peak(recipe->math, MathUnit::TensorCore)) recipe.reset();
    check_trains(job);
    return;
  }
  const PrecisionChoice choice = choose_precision(job.precision, has_backward(job.phase), job.gpu);
  job.precision = choice.mode;
  if (!choice.fallback.empty()) job.warnings.push_back(choice.fallback);
  if (!choice.note.empty()) job.assumptions.push_back(choice.note);
  if (job.precision == PrecisionMode::Int8 && !job.cpu &&
      job.framework.precision.int8_engine != job.framework.id) {
    const std::string name = job.framework.name;
    FrameworkProfile engine = hardware.framework(job.framework.precision.int8_engine);
    const CpuSpec& reference = hardware.cpus().find(engine.host.reference_cpu);
    job.framework = hardware.with_settings(on_host(std::move(engine), reference, *job.host));
    job.assumptions.push_back(name + " has no 8-bit kernels on GPUs: its network runs in " +
                              job.framework.name);
  }
  check_trains(job);
}

/// What the framework makes of a network's code in a mode. Autocast and 8-bit modes cast by rules
/// of their own. `stepwise`: families whose code is older than their FusedSince.
NetworkCode code_of(const FrameworkProfile& framework, PrecisionMode mode, AttentionChoice choice,
                    std::vector<std::string> stepwise) {
  NetworkCode code{.attention = framework.kernels.attention,
                   .is_compiled = framework.compiler.has_value(),
                   .stepwise = std::move(stepwise)};
  if (choice == AttentionChoice::Fused) {
    code.stepwise.clear();
    if (code.attention == AttentionKernels::Steps) code.attention = AttentionKernels::Fused;
  } else if (choice == AttentionChoice::Composed) {
    code.attention = AttentionKernels::Steps;
  }
  switch (mode) {
    case PrecisionMode::Fp16:
    case PrecisionMode::Bf16:
      code.casts_as_written = framework.kernels.casts_as_written;
      break;
    case PrecisionMode::Fp32:
    case PrecisionMode::Tf32:
      if (choice != AttentionChoice::Composed) {
        code.grouped_attention = framework.kernels.wide_grouped_attention;
      }
      break;
    default:
      break;
  }
  return code;
}

/// Refuses a choice of attention for a network that has none, or knows one way alone.
void check_attention(const ResolvedJob& job, GraphStore& graphs) {
  const ForwardGraph fused = graphs.forward(
      job.options, job.phase, code_of(job.framework, job.precision, AttentionChoice::Fused, {}));
  for (const Op& op : fused.graph->ops()) {
    if (op.kind == OpKind::Attention) return;
  }
  throw InputError("--attention",
                   fmt::format("{} with {}", job.options.software.attention, job.options.network),
                   "a network whose attention is known both ways, such as gpt2 or llama3_8b");
}

/// A compiler's own layout of images, unless the job states one.
void lay_images(ResolvedJob& job, const SoftwareDefaults& defaults) {
  const auto& compiler = job.framework.compiler;
  if (!compiler || !compiler->image_layout || !defaults.chooses_image_layout) return;
  if (job.cpu || job.options.software.channels_last) return;
  if (!lays_channels_last(*job.forward, *compiler->image_layout, has_backward(job.phase))) return;
  job.framework.convolutions.image_layout = job.framework.convolutions.tensor_core_image_layout =
      ImageLayout::Nhwc;
  job.assumptions.push_back(compiler->name +
                            " lays the images of convolutions channels last (--no-channels-last)");
}

/// What a program whose loop is not described adds to a step: the median in the step, the whole
/// distribution in its interval.
void add_program_host(ResolvedJob& job, const Hardware& hardware) {
  const std::string& name = job.options.software.program;
  if (name.empty() || job.cpu) return;
  const ProgramHosts& hosts = hardware.specs().program_hosts();
  const bool infers = !has_backward(job.phase);
  FrameworkHost& host = job.framework.host;
  host.added = hosts.added_by(name, infers);
  if (!host.added.any()) return;
  host.step_overhead += host.added.median();
  host.synchronizes_each_step = true;
  const auto ms = [&](double probability) {
    return three_digits(host.added.quantile(probability).in_ms());
  };
  job.assumptions.push_back(
      hosts.knows(name)
          ? fmt::format("program {}: {} ms of the host in each step beside the framework's (90 %: "
                        "{} to {}), as runs of it on other machines had",
                        name, ms(0.5), ms(0.05), ms(0.95))
          : fmt::format("program {} is not known: {} ms of the host in each step beside the "
                        "framework's (90 %: {} to {}) are guessed from {} programs; one timed run "
                        "(--measured) or one recorded step (--host-from), on any GPU and at any "
                        "batch, removes most of this",
                        name, ms(0.5), ms(0.05), ms(0.95), hosts.programs.size()));
}

/// Host costs in proportion, so that a launch with all that comes with it takes as long as in a
/// recorded step.
void take_recorded_host(ResolvedJob& job, const Hardware& hardware) {
  const Software& software = job.options.software;
  if (!(software.host_us_per_launch > 0) || job.cpu) return;
  const Prediction plain = predict(job, hardware);
  if (plain.num_kernels == 0 || !(plain.timeline.host_busy > Seconds(0))) return;
  const Seconds each = plain.timeline.host_busy / static_cast<double>(plain.num_kernels);
  const double factor = software.host_us_per_launch * 1e-6 / each.in_s();
  FrameworkHost& host = job.framework.host;
  for (Seconds* cost : {&host.dispatch_per_op, &host.dispatch_per_backward_op,
                        &host.dispatch_per_optimizer_op, &host.dispatch_per_library_call,
                        &host.autograd_per_library_call, &host.view, &host.backward_view,
                        &host.update_per_parameter, &host.launch_per_kernel, &host.step_overhead}) {
    *cost = *cost * factor;
  }
  host.synchronizes_each_step = host.synchronizes_each_step || software.host_waits;
  host.log_sd = kRecordedHostLogSd;
  job.assumptions.push_back(fmt::format(
      "host costs of a recorded step: {} us for a launch and what comes with it, {} "
      "times those of {}",
      three_digits(software.host_us_per_launch), three_digits(factor), job.framework.name));
}

bool has_recurrent_layers(const NetworkGraph& graph) {
  const auto is_recurrent = [](const Op& op) { return op.kind == OpKind::Recurrent; };
  return std::any_of(graph.ops().begin(), graph.ops().end(), is_recurrent);
}

/// Whether `network` is a language model: a config.json, or one of the zoo that a config.json
/// states, whose layers can be shared or whose caches are known.
bool is_language_model(const std::string& network) {
  if (is_network_path(network)) return is_config_path(network);
  const ZooEntry* entry = find_network(network);
  return entry != nullptr &&
         (entry->is_configured || entry->transformer || entry->language != nullptr);
}

/// The word for a framework that nobody names: the profile of one of which nothing is known, run by
/// a program of which nothing is known.
constexpr std::string_view kUnknownFramework = "unknown";

/// Words that were left out. Language models run in 16 bits and train with AdamW, as sharded ones
/// do (sharded_job.cpp).
void fill_in_usual(Job& job) {
  const bool is_language = is_language_model(job.network);
  if (job.precision.empty()) job.precision = is_language ? "bf16" : "fp32";
  if (job.optimizer.empty()) job.optimizer = is_language ? "adamw" : "momentum";
  if (job.software.framework.empty()) job.software.framework = "pytorch";  // what most run today
  if (job.software.framework == kUnknownFramework) {
    job.software.framework = "generic";
    if (job.software.program.empty()) job.software.program = kUnknownFramework;
  }
}

/// What was assumed of a language model that `asked` leaves open: 16 bits as the job's GPU has
/// them, bf16 on tensor cores that take it, else fp16 on such, else none. Told first of all
/// assumptions.
void settle_usual(const Job& asked, ResolvedJob& job) {
  if (!is_language_model(asked.network)) return;
  std::vector<std::string> assumed, flags;
  if (asked.precision.empty()) {
    const bool brain = job.gpu.find_peak(Precision::Bf16, MathUnit::TensorCore).has_value();
    const bool half = job.gpu.find_peak(Precision::Fp16, MathUnit::TensorCore).has_value();
    job.options.precision = job.cpu ? "fp32" : brain ? "bf16" : half ? "fp16" : "fp32";
    job.precision = *find_precision(job.options.precision);
    assumed.push_back("precision " + job.options.precision);
    flags.emplace_back("--precision");
  }
  if (asked.optimizer.empty() && job.phase == Phase::Train) {
    assumed.push_back("optimizer " + job.options.optimizer);
    flags.emplace_back("--optimizer");
  }
  if (assumed.empty()) return;
  job.assumptions.insert(job.assumptions.begin(),
                         fmt::format("{}: assumed, usual for language models; {} changes it",
                                     fmt::join(assumed, ", "), fmt::join(flags, " or ")));
}

/// Network, framework, optimizer and data of a training program; flags that it leaves open stay.
void take_program(ResolvedJob& job, const Hardware& hardware) {
  PlacedJob& o = job.options;
  const std::string id = o.network.substr(kJobPrefix.size());
  job.program = hardware.specs().find_job_spec(id);
  const JobSpec& spec = *job.program;
  if (o.phase != "train") throw InputError("--phase", o.phase + " with job:" + id, "train");
  if (spec.batch && o.batch != *spec.batch) {
    throw InputError("--batch", std::to_string(o.batch) + " with job:" + id,
                     std::to_string(*spec.batch) + ", the only one its loop knows");
  }
  o.network = spec.network;
  o.software.framework = spec.framework;
  if (o.software.version.empty()) o.software.version = spec.framework_version;
  if (!spec.optimizer.empty()) o.optimizer = spec.optimizer;
  if (!spec.precision.empty()) o.precision = spec.precision;
  if (o.software.program.empty()) o.software.program = spec.host;
  if (!spec.data.empty()) o.data = spec.data;
  if (o.pipeline.empty()) o.pipeline = spec.pipeline;
  if (!o.workers && spec.workers) o.workers = spec.workers;
  if (!o.seq_len && spec.lengths) o.seq_len = spec.lengths->longest_of(o.batch);
  job.assumptions.push_back("training program " + spec.id + ": " + spec.name);
}

/// The waits and the host's work of the program's loop.
void enter_loop(ResolvedJob& job) {
  const JobSpec& spec = *job.program;
  if (spec.autotunes_convolutions && !job.options.software.cudnn_benchmark) {
    job.framework.convolutions.autotunes = *spec.autotunes_convolutions;
  }
  if (habits_of(spec).decays_weights && job.framework.optimizer.weight_decay == WeightDecay::None) {
    job.framework.optimizer.weight_decay = WeightDecay::OnGradient;
  }
  job.loop_core_speed = job.host->single_thread_speed();
  job.framework = in_loop(std::move(job.framework), spec.loop, loop_context(job));
  job.inputs.push_back({"job", spec.id, hash_of(spec.values)});
}

void check_training_options(const PlacedJob& o, Phase phase) {
  const bool goes_back = has_backward(phase);
  if (!find_recompute(o.recompute)) {
    const std::vector<std::string> names{"none", "selective", "full"};
    throw InputError("--recompute", "\"" + o.recompute + "\"",
                     describe_choices(o.recompute, names));
  }
  if (o.recompute != "none" && !goes_back) {
    throw InputError("--recompute", o.recompute + " in phase " + o.phase,
                     "none: without a backward pass nothing is kept");
  }
  if (adapters_of(o).any() && !goes_back) {
    throw InputError("--lora", std::to_string(o.lora_rank) + " in phase " + o.phase,
                     "a phase with a backward pass: merged adapters cost nothing");
  }
  if (o.accumulate < 1 || o.accumulate > kMostAccumulated) {
    throw InputError("--accumulate", std::to_string(o.accumulate), "1 to 100000 micro-batches");
  }
  if (o.accumulate > 1 && phase != Phase::Train) {
    throw InputError("--accumulate", std::to_string(o.accumulate) + " in phase " + o.phase,
                     "1: only training has updates");
  }
}

/// The step, and the micro-batch that comes before it several times.
void add_steps(ResolvedJob& job, GraphStore& graphs) {
  const PlacedJob& o = job.options;
  const bool unrolls =
      job.framework.recurrence.kind == Recurrence::Unrolled && has_recurrent_layers(*job.forward);
  if (unrolls) job.assumptions.push_back("recurrent layers run step by step as ordinary ops");
  StepOptions options{.optimizer = o.optimizer,
                      .recompute = *find_recompute(o.recompute),
                      .differentiates_input = differentiates_input(job.framework, o.network),
                      .copies_first_gradient = job.framework.backward.copies_first_gradient};
  if (o.accumulate > 1) {
    options.adds_gradients = true;
    options.with_update = false;
    job.micro_batch = graphs.step(job.forward, job.phase, options, unrolls);
    // Frameworks that always add do so in what the update is lowered to.
    options.adds_gradients = !job.framework.optimizer.accumulates_gradients;
    options.with_update = true;
  }
  job.step = graphs.step(job.forward, job.phase, options, unrolls);
  job.prepared = graphs.prepared();
}

/// What hands a program's own arrays to the GPU: the framework's loader, not one of files (DALI).
const InputPipelineProfile& loader_of_arrays(const PlacedJob& options, const SpecLibrary& specs) {
  return options.pipeline.empty()
             ? specs.input_pipeline_of(to_lower(options.software.framework), {})
             : specs.find_input_pipeline(options.pipeline);
}

std::shared_ptr<const PreparedStep> prepared_of(const ResolvedJob& job, const Hardware& hardware,
                                                const PrepareOptions& options) {
  if (!job.prepared) return nullptr;
  auto prepared = job.prepared->of(job.step, job.framework, job.gpu, options);
  if (!job.sold_gpu) return prepared;
  return with_algorithms_of(*job.sold_gpu, hardware.cost_of_sold(), *prepared);
}

PredictRequest request_of(const ResolvedJob& job, const Hardware& hardware) {
  const bool keeps_gradients = job.micro_batch != nullptr;
  const PrepareOptions options{.precision = job.precision, .keeps_gradients = keeps_gradients};
  return {.graph = *job.step,
          .gpu = job.gpu,
          .cost = hardware.cost(),
          .framework = job.framework,
          .precision = job.precision,
          .keeps_gradients = keeps_gradients,
          .input_from_host = job.options.data == "memory"
                                 ? &loader_of_arrays(job.options, hardware.specs())
                                 : nullptr,
          .input = job.input ? &*job.input : nullptr,
          .power_limit = job.options.board.power_limit_w
                             ? std::optional(Watts(*job.options.board.power_limit_w))
                             : std::nullopt,
          .cpu = job.cpu ? &*job.cpu : nullptr,
          .waits_after_forward = job.program && job.program->loop.waits_after_forward > 0,
          .prepared = prepared_of(job, hardware, options)};
}

/// Computing again is for memory: where it would take more, through workspaces in the backward pass
/// or since the allocator finds no room for what comes back, everything is kept.
void keep_where_it_saves_nothing(ResolvedJob& job, const Hardware& hardware, GraphStore& graphs) {
  if (job.options.recompute == to_string(Recompute::None)) return;
  ResolvedJob kept = job;
  kept.options.recompute = to_string(Recompute::None);
  add_steps(kept, graphs);
  const Bytes again = plan_memory(job, hardware).needed;
  const Bytes plain = plan_memory(kept, hardware).needed;
  if (again <= plain) {
    if (job.framework.memory.tensors != TensorMemory::UntilLastUse) {
      job.assumptions.push_back(job.framework.name +
                                " frees no activations: computing them again saves nothing");
    }
    return;
  }
  job.assumptions.push_back(fmt::format(
      "nothing is computed again: --recompute {} would take {} GiB for {}", job.options.recompute,
      three_digits(again.in_gib()), three_digits(plain.in_gib())));
  job.options.recompute = kept.options.recompute;
  job.step = std::move(kept.step);
  job.micro_batch = std::move(kept.micro_batch);
}

/// What the job's words mean wherever it runs.
void settle_words(ResolvedJob& job, const Hardware& hardware) {
  fill_in_usual(job.options);
  const PlacedJob& o = job.options;
  if (o.batch == kUsualBatch) {
    job.options.batch = usual_batch(o.network);
    if (o.batch != 1) {
      job.assumptions.push_back(
          fmt::format("batch {}, as the network's file fixes it (--batch)", o.batch));
    }
  }
  if (o.network.starts_with(kJobPrefix)) take_program(job, hardware);
  if (o.software.date.empty())
    job.options.software.date = month_of_container(o.software.version).value_or("");
  if (o.batch < 1 || o.batch > kMostBatch) {
    throw InputError("--batch", std::to_string(o.batch), "1 to 1000000 samples");
  }
  if (o.epoch_samples && (*o.epoch_samples < 1 || *o.epoch_samples > 1'000'000'000'000)) {
    throw InputError("--epoch-samples", std::to_string(*o.epoch_samples), "1 to 10^12 samples");
  }
  const auto phase = find_phase(o.phase);
  if (!phase) {
    const std::vector<std::string> names{"train", "infer", "forward", "forward_backward"};
    throw InputError("--phase", "\"" + o.phase + "\"", describe_choices(o.phase, names));
  }
  job.phase = *phase;
  if (!find_optimizer(o.optimizer)) {
    throw InputError("--optimizer", "\"" + o.optimizer + "\"",
                     describe_choices(o.optimizer, optimizer_names()));
  }
  check_training_options(o, job.phase);
  const PrecisionRecipe* recipe = hardware.specs().find_precision_recipe_or_null(o.precision);
  auto precision = find_precision(o.precision);
  if (recipe != nullptr && (has_backward(job.phase) || !precision)) {
    precision = PrecisionMode::Fp8;
  } else {
    recipe = nullptr;
  }
  if (!precision) {
    std::vector<std::string> names;
    for (const auto& [name, mode] : kPrecisions) names.emplace_back(name);
    for (const PrecisionRecipe& known : hardware.specs().precision_recipes()) {
      if (!find_precision(known.id)) names.push_back(known.id);
    }
    throw InputError("--precision", "\"" + o.precision + "\"",
                     describe_choices(o.precision, names));
  }
  job.precision = *precision;
  (void)attention_choice(o.software.attention);
  job.framework = hardware.framework(o.software);
  if (recipe != nullptr) job.framework.precision.recipe = recipe->gemms;
  if (auto newer = find_newer_version(job.framework, o.software.version)) {
    job.framework.system_log_sd = std::hypot(job.framework.system_log_sd, newer->log_sd);
    job.warnings.push_back(std::move(newer->note));
  }
  if (o.software.cudnn_benchmark)
    job.framework.convolutions.autotunes = *o.software.cudnn_benchmark;
  if (o.software.channels_last) {
    job.framework.convolutions.image_layout = job.framework.convolutions.tensor_core_image_layout =
        *o.software.channels_last ? ImageLayout::Nhwc : ImageLayout::Nchw;
  }
}

}  // namespace

AttentionChoice attention_choice(std::string_view word) {
  if (word.empty() || word == "auto") return AttentionChoice::Auto;
  if (word == "fused" || word == "flash") return AttentionChoice::Fused;
  if (word == "composed" || word == "unfused") return AttentionChoice::Composed;
  const std::vector<std::string> names{"auto", "fused", "composed"};
  throw InputError("--attention", "\"" + std::string(word) + "\"",
                   describe_choices(std::string(word), names));
}

GpuSpec with_settings(GpuSpec gpu, const BoardSettings& o) {
  if (o.power_limit_w) {
    // Guess where the spec says nothing: 40 % of the power limit, and a fifth more on boards sold
    // to gamers.
    const double low = gpu.min_power_limit.value_or(gpu.tdp * 0.4).in_w();
    const double high =
        gpu.max_power_limit.value_or(gpu.tdp * (gpu.ecc_default_on ? 1.0 : 1.2)).in_w();
    if (!(*o.power_limit_w >= low && *o.power_limit_w <= high)) {
      throw InputError("--power-limit", three_digits(*o.power_limit_w) + " W on " + gpu.id,
                       three_digits(low) + " to " + three_digits(high) + " W");
    }
  }
  const auto hold = [&](const char* flag, double mhz, Hertz usual) {
    const double low = 0.1 * usual.in_mhz(), high = 1.5 * usual.in_mhz();
    if (!(mhz >= low && mhz <= high)) {
      throw InputError(flag, three_digits(mhz) + " MHz on " + gpu.id,
                       three_digits(low) + " to " + three_digits(high) + " MHz");
    }
    return Hertz(mhz * 1e6);
  };
  if (o.clock_mhz) gpu.set_clock = hold("--clock", *o.clock_mhz, gpu.boost_clock);
  if (o.memory_clock_mhz) {
    if (!gpu.memory_clock) {
      throw InputError("--memory-clock", gpu.id, "a GPU whose spec has memory_clock_mhz");
    }
    const Hertz clock = hold("--memory-clock", *o.memory_clock_mhz, *gpu.memory_clock);
    gpu.dram_bandwidth = gpu.dram_bandwidth * (clock / *gpu.memory_clock);
  }
  return gpu;
}

Prediction predict(const ResolvedJob& job, const Hardware& hardware) {
  const PredictRequest request = request_of(job, hardware);
  if (!job.micro_batch) return predict_step(request);
  return predict_accumulated(request, *job.micro_batch, job.options.accumulate);
}

void warn_of_power_limit(const PowerRange& power, std::string_view gpu, ResolvedJob& job) {
  if (power.holds_limit) return;
  std::string warning = fmt::format(
      "the power limit of {} W cannot be held: at {:.0f} MHz, the lowest clock that it sets, {} "
      "draws {} W, at most {} W",
      three_digits(power.limit.in_w()), power.clock.in_mhz(), gpu, three_digits(power.avg.in_w()),
      three_digits(power.max.in_w()));
  const bool known =
      std::find(job.warnings.begin(), job.warnings.end(), warning) != job.warnings.end();
  if (!known) job.warnings.push_back(std::move(warning));
}

void warn_of_shortage(const ResolvedJob& own, const Prediction& prediction,
                      const Hardware& hardware, ResolvedJob& job) {
  constexpr double kWorthTelling = 0.01;
  const auto s = find_shortage(request_of(own, hardware), prediction);
  if (!s) return;
  const double share = s->longer.in_s() / prediction.step_time_s.value;
  if (share < kWorthTelling) return;
  std::string warning = fmt::format(
      "memory {}: {} ops run slower algorithms for want of workspace, {:.0f} % of the step; most "
      "\"{}\": {} for {}, which wants {} GiB",
      prediction.memory.fits ? "is nearly full" : "does not hold the step", s->ops, 100 * share,
      own.step->op(s->op).name, to_string(s->runs), to_string(s->fastest),
      three_digits(s->wanted.in_gib()));
  const bool known =
      std::find(job.warnings.begin(), job.warnings.end(), warning) != job.warnings.end();
  if (!known) job.warnings.push_back(std::move(warning));
}

MemoryPlan plan_memory(const ResolvedJob& job, const Hardware& hardware) {
  return plan_step_memory(request_of(job, hardware));
}

bool fits_in_memory(const ResolvedJob& job, const Hardware& hardware) {
  return step_fits(request_of(job, hardware));
}

LoopContext loop_context(const ResolvedJob& job) {
  return {.batch = job.options.batch,
          .weights = Bytes(4.0 * static_cast<double>(job.forward->parameter_count())),
          .core_speed = job.loop_core_speed};
}

bool is_network_path(std::string_view network) {
  for (const char* ending : {".onnx", ".onnx.gz", ".json", ".graph", ".pt2"}) {
    if (network.ends_with(ending)) return true;
  }
  return network.find('/') != std::string_view::npos && find_network(network) == nullptr;
}

std::optional<std::int64_t> epoch_samples(const ResolvedJob& job) {
  if (job.options.epoch_samples) return job.options.epoch_samples;
  if (job.input) return static_cast<std::int64_t>(job.input->data.samples);
  return std::nullopt;
}

std::optional<PrecisionMode> find_precision(std::string_view name) {
  for (const auto& [known, mode] : kPrecisions) {
    if (name == known) return mode;
  }
  return std::nullopt;
}

LowRankAdapters adapters_of(const Job& job) {
  constexpr std::int64_t kMostRank = 65536;
  if (job.lora_rank < 0 || job.lora_rank > kMostRank) {
    throw InputError("--lora", std::to_string(job.lora_rank), "a rank of 1 to 65536");
  }
  if (job.lora_rank == 0 && !job.lora_targets.empty()) {
    throw InputError("--lora-targets", job.lora_targets, "--lora beside it: a rank");
  }
  LowRankAdapters adapters{.rank = job.lora_rank};
  if (!job.base_precision.empty()) {
    const auto base = find_base_format(job.base_precision);
    if (!base) {
      throw InputError(
          "--base-precision", '"' + job.base_precision + '"',
          describe_choices(job.base_precision,
                           std::vector<std::string>{"same", "int8", "nf4", "nf4_double"}));
    }
    if (is_packed(*base) && job.lora_rank == 0) {
      throw InputError("--base-precision", job.base_precision, "--lora beside it: a rank");
    }
    adapters.base = *base;
  }
  if (job.lora_targets.empty()) return adapters;
  const auto targets = find_adapter_targets(job.lora_targets);
  if (!targets) {
    const std::vector<std::string> names{"attention", "linear"};
    throw InputError("--lora-targets", '"' + job.lora_targets + '"',
                     describe_choices(job.lora_targets, names));
  }
  adapters.targets = *targets;
  return adapters;
}

std::string describe(const LowRankAdapters& adapters) {
  return fmt::format(
      "LoRA of rank {} beside the GEMMs of {}, dropout before each; all other weights frozen{}",
      adapters.rank, adapters.targets == AdapterTargets::Attention ? "attention" : "all layers",
      is_packed(adapters.base)
          ? fmt::format(", those of the layers in {}", to_string(adapters.base))
          : "");
}

void check_words(const Job& asked, const Hardware& hardware, GraphStore& graphs) {
  ResolvedJob job;
  job.options = PlacedJob{asked, {}};
  settle_words(job, hardware);
  if (job.precision != PrecisionMode::Int8) check_trains(job);  // else another engine's kernels
  (void)graphs.forward(
      job.options, job.phase,
      code_of(job.framework, job.precision, attention_choice(asked.software.attention), {}));
}

ResolvedJob make_job(const PlacedJob& options, const Hardware& hardware) {
  GraphStore graphs;
  return make_job(options, hardware, graphs);
}

ResolvedJob make_job(const PlacedJob& options, const Hardware& hardware, GraphStore& graphs) {
  ResolvedJob job;
  job.options = options;
  job.assumptions = hardware.factors();
  settle_words(job, hardware);
  const PlacedJob& o = job.options;
  place_job(job, hardware);
  settle_usual(options, job);
  if (o.software.cuda_graphs && job.cpu) {
    throw InputError("--cuda-graphs", "a job without a GPU", "a GPU that the step is captured for");
  }
  // After the host's share: launches within a graph are the GPU's.
  if (o.software.cuda_graphs) job.framework = with_captured_step(std::move(job.framework));
  if (!job.cpu) {
    if (const GpuSpec* sold = hardware.find_sold(job.gpu.id))
      job.sold_gpu = with_settings(*sold, o.board);
    job.gpu = with_settings(std::move(job.gpu), o.board);
  }
  const std::string& family = family_of(job.framework);
  if (job.framework.era && !job.framework.era->is_newest) {
    job.assumptions.push_back("framework profile " + job.framework.id + ": as before " + family +
                              " " + job.framework.era->version);
  }
  if (job.framework.container_of) {
    job.assumptions.push_back("framework profile " + job.framework.id + ": " + family +
                              " in NVIDIA's container, run by NVIDIA's scripts");
  }
  const SoftwareDefaults defaults = hardware.specs().defaults_of(
      job.framework, {.version = o.software.version, .date = o.software.date}, job.gpu);
  if (job.precision == PrecisionMode::Fp32 && job.framework.precision.allows_tf32 &&
      defaults.fp32_runs_as_tf32) {
    job.precision = PrecisionMode::Tf32;
    job.framework.precision.tf32_gemms = !defaults.tf32_spares_gemms;
    job.assumptions.push_back(
        std::string("fp32 code runs ") +
        (job.framework.precision.tf32_gemms ? "as TF32"
                                            : "its convolutions as TF32, its GEMMs as FP32,") +
        " on this GPU with this framework; --set framework.tf32=0: all in FP32");
  }
  job.framework.convolutions.cudnn_version = defaults.cudnn_version;
  job.framework.fusion.gemm_bias = defaults.fuses_gemm_bias;
  if (!defaults.groups_attention) job.framework.kernels.wide_grouped_attention.reset();
  job.framework.kernels.early_gemms = defaults.early_gemms;
  job.framework.kernels.composed = defaults.composed;
  job.framework.kernels.early_attention = defaults.early_attention;
  if (defaults.early_gemms && job.gpu.architecture == Architecture::Hopper) {
    job.assumptions.push_back(
        "GEMMs of 16 bits run kernels that the matrix library had for Hopper before CUDA 12.8");
  }
  if (!o.software.version.empty()) {
    job.assumptions.push_back("version " + o.software.version + " decides " +
                              (defaults.states_cudnn ? "the convolution algorithms, " : "") +
                              "the framework's profile and the default of fp32 code");
  }
  const AttentionChoice attention = attention_choice(o.software.attention);
  if (attention != AttentionChoice::Auto) check_attention(job, graphs);
  ForwardGraph forward = graphs.forward(
      o, job.phase, code_of(job.framework, job.precision, attention, defaults.stepwise_attention));
  job.forward = std::move(forward.graph);
  lay_images(job, defaults);
  if (const LowRankAdapters adapters = adapters_of(o); adapters.any())
    job.assumptions.push_back(describe(adapters));
  job.from_file = forward.from_file;
  job.inputs.push_back(std::move(forward.record));
  for (std::string& warning : forward.warnings) job.warnings.push_back(std::move(warning));
  job.rewrites = std::move(forward.rewrites);
  settle_precision(job, hardware);
  if (job.program) enter_loop(job);
  // A recorded step has in it what the program adds.
  if (!(o.software.host_us_per_launch > 0)) add_program_host(job, hardware);
  add_steps(job, graphs);
  job.input = make_input(o, hardware, job);
  job.inputs.push_back({job.cpu ? "cpu" : "gpu", job.gpu.id, hash_of(job.gpu.values)});
  job.inputs.push_back({"framework", job.framework.id, hash_of(job.framework.values)});
  if (job.input) {
    job.inputs.push_back({"data_set", job.input->data.id, hash_of(job.input->data.values)});
    job.inputs.push_back(
        {"input_pipeline", job.input->pipeline.id, hash_of(job.input->pipeline.values)});
  }
  job.inputs.push_back(hardware.cost_record());
  take_recorded_host(job, hardware);
  keep_where_it_saves_nothing(job, hardware, graphs);
  return job;
}

}  // namespace tracecast
