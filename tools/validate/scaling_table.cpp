#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "hwspecs/collective_library.hpp"
#include "hwspecs/software/precision_recipe.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "sim/parallel/transformer/step.hpp"
#include "tools/validate/published_cluster.hpp"
#include "tools/validate/validation.hpp"

namespace tracecast {
namespace {

/// Words of GPT-2's tokenizer: for rows of GPTs that state no vocabulary.
constexpr std::int64_t kUsualVocabulary = 50257;

/// What a row of either table says, ready to predict.
struct ScalingRow {
  TransformerLayout layout{};
  PlanOptions plan{};
  std::string software, precision = "bf16";
  std::string version, date;  ///< of the program; empty: not known
  std::string gpu, machine;
  std::string nic;                          ///< id of a LinkSpec; empty: the machine's own
  const PrecisionRecipe* recipe = nullptr;  ///< of fewer than 16 bits; null: none is named
  std::int64_t gpus = 1, gpus_per_node = 8;
};

/// Machines of one kind, with as many GPUs each.
ClusterSpec cluster_of(const ScalingRow& job, const Hardware& hardware) {
  const std::int64_t per_node = std::min(job.gpus, job.gpus_per_node);
  if (job.gpus % per_node != 0) throw InputError("gpus", std::to_string(job.gpus), "whole nodes");
  const std::int64_t machines =
      machines_of(job.gpus, job.gpus / per_node, hardware.machines().find(job.machine));
  if (job.gpus % machines != 0) {
    throw InputError("gpus",
                     std::to_string(job.gpus) + " on " + std::to_string(machines) + " racks",
                     "as many on each");
  }
  ClusterSpec spec = uniform_cluster(job.machine, static_cast<int>(job.gpus / machines),
                                     static_cast<int>(machines), job.gpu);
  spec.network.link = job.nic;
  return spec;
}

/// Prediction of a job on its machines; fabrics and collectives are made anew for each.
TransformerPrediction predict_job(const ScalingRow& job, const Hardware& hardware,
                                  ParallelPlan& plan) {
  const Fabric fabric = build_fabric(cluster_of(job, hardware), hardware.specs());
  plan = resolve_plan(job.plan, job.layout, job.gpus);
  const TrainingSoftware& software = hardware.specs().find_training_software(job.software);
  const GpuSpec& gpu = fabric.gpu_of(Rank{0});
  FrameworkProfile framework =
      hardware.framework_of(software, {.version = job.version, .date = job.date}, gpu);
  const bool runs = job.recipe != nullptr &&
                    gpu.find_peak(job.recipe->gemms.math, MathUnit::TensorCore).has_value();
  if (runs) framework.precision.recipe = job.recipe->gemms;
  const CollectiveLibrary library = hardware.specs().find_collective_library("nccl");
  return predict_transformer({.layout = job.layout,
                              .plan = plan,
                              .software = software,
                              .framework = framework,
                              .fabric = fabric,
                              .library = library,
                              .cost = hardware.cost(),
                              .precision = *find_precision(job.precision),
                              .first_wide_layers = runs ? job.recipe->first_wide_layers : 0,
                              .last_wide_layers = runs ? job.recipe->last_wide_layers : 0});
}

std::string_view basis_of(const std::string& gpu, const Hardware& hardware) {
  const auto architecture = static_cast<std::size_t>(hardware.gpus().find(gpu).architecture);
  return hardware.cost().fitted[static_cast<std::size_t>(CostForm::TensorCore)][architecture]
             ? "transferred"
             : "spec";
}

/// Iterations of GPTs by Megatron-DeepSpeed on A100s (published/vtrain.csv; its README says what is
/// assumed of it).
class IterationTable final : public RowPredictor {
 public:
  IterationTable(const CsvReader& reader, const Hardware& hardware)
      : hardware_(hardware), records_(hardware.specs(), reader) {}
  std::string_view table() const override { return "training iterations of sharded transformers"; }
  std::string_view unit() const override { return "ms"; }
  std::string_view convention() const override {
    return "A100 80 GB, 8 per node over NVLink, four 200 Gb/s adapters per node, fp16, 1F1B, full "
           "recomputation, "
           "attention step by step, gradients reduced after the last backward pass: assumed of all "
           "rows.";
  }

  bool honors(std::string_view column) const override { return column == "seq_len"; }

  RowResult predict(const CsvReader& reader) override {
    const RowFields row(reader);
    const double measured = row.positive("iteration_ms");
    if (row.text("gpu") != "A100") return skip("GPU is not A100");
    const PublishedProgram program = records_.program_of(reader);
    const ParallelFacts& parallel_layout = program.parallel_layout;
    if (parallel_layout.software.empty()) return skip("no record says what program ran");
    ScalingRow job{.software = parallel_layout.software,
                   .precision = parallel_layout.precision,
                   .version = program.version,
                   .date = program.date,
                   .gpu = program.gpu,
                   .machine = program.machine,
                   .nic = program.link};
    job.gpus = row.integer("gpus", 1, 1'000'000);
    const std::int64_t width = row.integer("hidden", 1, 1'000'000);
    const std::int64_t tokens = row.integer("seq_len", 1, 10'000'000);
    job.layout = {.layers = static_cast<int>(row.integer("layers", 1, 10'000)),
                  .width = width,
                  .heads = row.integer("heads", 1, 10'000),
                  .kv_heads = row.integer("heads", 1, 10'000),
                  .feed_forward = 4 * width,
                  .vocabulary = kUsualVocabulary,
                  .positions = tokens,
                  .dropout = true};
    job.plan = {.tensor = row.integer("tensor_parallel", 1, 100'000),
                .data = row.integer("data_parallel", 1, 100'000),
                .pipeline = row.integer("pipeline_parallel", 1, 100'000),
                .micro_batch = row.integer("micro_batch", 1, 1'000'000),
                .global_batch = row.integer("global_batch", 1, 100'000'000),
                .tokens = tokens,
                .recompute = parallel_layout.recompute,
                .attention = parallel_layout.attention};
    try {
      ParallelPlan plan;
      const TransformerPrediction p = predict_job(job, hardware_, plan);
      const Interval& time = p.step_time_s;
      return {.measured = measured,
              .predicted = {time.value * 1e3, time.low * 1e3, time.high * 1e3},
              .basis = basis_of(job.gpu, hardware_),
              .skipped = {}};
    } catch (const InputError& error) {
      return skip(error.what());
    }
  }

 private:
  const Hardware& hardware_;
  PublishedRows records_;
};

bool holds(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

/// Published scaling runs of language networks (published/llm_scaling.csv).
class ScalingTable final : public RowPredictor {
 public:
  ScalingTable(const CsvReader& reader, const Hardware& hardware)
      : hardware_(hardware), records_(hardware.specs(), reader) {}
  std::string_view table() const override { return "scaling of language networks"; }
  std::string_view unit() const override { return "tokens_per_s_per_gpu"; }
  std::string_view convention() const override {
    return "Where only TFLOP/s are published, tokens follow from 6 FLOPs per multiply-add (8 where "
           "recomputation is "
           "counted), attention whole.";
  }

  bool honors(std::string_view column) const override { return column == "seq_len"; }

  RowResult predict(const CsvReader& reader) override {
    const RowFields row(reader);
    try {
      ScalingRow job;
      if (const std::string reason = read_job(reader, job); !reason.empty()) return skip(reason);
      ParallelPlan plan;
      const TransformerPrediction p = predict_job(job, hardware_, plan);
      const double gpus = static_cast<double>(job.gpus);
      const double measured = measured_tokens(row, p, plan);
      if (!(measured > 0)) return skip("no speed is given");
      const Interval& rate = p.tokens_per_s;
      return {.measured = measured,
              .predicted = {rate.value / gpus, rate.low / gpus, rate.high / gpus},
              .basis = basis_of(job.gpu, hardware_),
              .skipped = {}};
    } catch (const InputError& error) {
      return skip(error.what());
    }
  }

 private:
  /// Why there is no job in the row; empty when there is.
  std::string read_job(const CsvReader& reader, ScalingRow& job) const {
    const RowFields row(reader);
    const PublishedProgram program = records_.program_of(reader);
    const auto gpus = whole(row, "gpus");
    if (!gpus) return "the number of GPUs is not given";
    job.gpus = *gpus;
    job.gpu = row.text("gpu_id");
    if (job.gpu.empty()) return "the GPU is not given";
    const GpuSpec& gpu = hardware_.gpus().find(job.gpu);  // throws where there is no spec
    if (!whole(row, "seq_len")) return "sequence length is not given";
    if (!program.unpredicted.empty()) return program.unpredicted;
    if (const std::string reason = read_layout(row, program, job); !reason.empty()) return reason;
    if (const std::string reason = read_plan(row, program.parallel_layout, job); !reason.empty())
      return reason;
    read_place(row, gpu, program, job);
    job.version = program.version;
    job.date = program.date;
    return read_software(row, program.parallel_layout, job);
  }

  std::string read_layout(const RowFields& row, const PublishedProgram& program,
                          ScalingRow& job) const {
    if (!program.network.empty()) return read_known_layout(program.network, job);
    const LayoutFacts& facts = program.layout;
    const auto layers = whole(row, "n_layers"), width = whole(row, "hidden");
    auto heads = whole(row, "heads"), vocabulary = whole(row, "vocab");
    if (!heads) heads = facts.heads;
    if (!vocabulary) vocabulary = facts.vocabulary;
    if (!layers || !width || !heads) {
      return "network " + std::string(row.text("model")) + ": its layers are not given";
    }
    const bool rotary = facts.rotary.value_or(false);
    job.layout = {.layers = static_cast<int>(*layers),
                  .width = *width,
                  .heads = *heads,
                  .kv_heads = *heads,
                  .feed_forward = 4 * *width,
                  .vocabulary = vocabulary.value_or(kUsualVocabulary),
                  .positions = rotary ? 0 : *whole(row, "seq_len"),
                  .norm = facts.rms_norm.value_or(false) ? TransformerNorm::RootMeanSquare
                                                         : TransformerNorm::LayerNorm,
                  .rotary = rotary,
                  .gated = facts.gated.value_or(false),
                  .biases = facts.biases.value_or(true),
                  .tied = facts.tied.value_or(true),
                  .causal = facts.causal.value_or(true),
                  .dropout = facts.dropout.value_or(true)};
    if (facts.feed_forward_thirds) {
      const std::int64_t multiple = facts.feed_forward_multiple.value_or(1);
      const std::int64_t wide = *width * *facts.feed_forward_thirds / 3;
      job.layout.feed_forward = (wide + multiple - 1) / multiple * multiple;
    }
    return "";
  }

  /// Of the zoo, else of the layouts without a graph there.
  static std::string read_known_layout(const std::string& name, ScalingRow& job) {
    if (const ZooEntry* entry = find_network(name); entry != nullptr && entry->transformer) {
      job.layout = *entry->transformer;
    } else {
      return "network " + name + " is not known";
    }
    return "";
  }

  static std::string read_plan(const RowFields& row, const ParallelFacts& facts, ScalingRow& job) {
    PlanOptions& plan = job.plan;
    plan.tokens = whole(row, "seq_len");
    plan.tensor = whole(row, "tp");
    plan.pipeline = whole(row, "pp");
    plan.context = whole(row, "cp");
    plan.expert = whole(row, "ep");
    plan.micro_batch = whole(row, "mbs");
    plan.global_batch = whole(row, "gbs");
    if (!plan.tensor || !plan.pipeline) return "the parallel layout is not given";
    if (!plan.global_batch) return "the batch is not given";
    if (!plan.micro_batch) plan.micro_batch = 1;  // what large networks run with; not stated
    if (*plan.pipeline > 1) {
      const std::int64_t chunks = facts.chunks.value_or(1);
      if (chunks > 1) plan.schedule = "interleaved:" + std::to_string(chunks);
      if (facts.batch_by_stages.value_or(false)) {
        plan.micro_batch = std::max<std::int64_t>(1, *plan.micro_batch / (*plan.pipeline * chunks));
      }
    }
    if (const auto chunks = whole(row, "vp"); chunks && *chunks > 1) {
      plan.schedule = "interleaved:" + std::to_string(*chunks);
    }
    const std::string_view checkpoint = row.text_or_empty("act_ckpt");
    plan.recompute = checkpoint == "True" || checkpoint == "full" ? "full"
                     : holds(checkpoint, "selective")             ? "selective"
                                                                  : "none";
    const std::string_view sharding = row.text_or_empty("sharding");
    if (holds(sharding, "offload")) return "states in host memory are not predicted";
    if (sharding == "FULL_SHARD" || sharding == "FSDP2" || sharding == "SHARD_GRAD_OP")
      plan.zero = *plan.pipeline > 1 ? 1 : 3;  // under stages weights stay gathered
    plan.keeps_gathered = sharding == "SHARD_GRAD_OP";
    if (sharding.starts_with("ZeRO-1")) plan.zero = 1;
    if (sharding == "ZeRO-1 over 8 ranks") plan.zero_ranks = 8;
    if (sharding == "ZeRO-1 over 4 ranks") plan.zero_ranks = 4;
    return "";
  }

  /// The machine assumed for the GPU, unless the source's record names one; its adapters alike.
  void read_place(const RowFields& row, const GpuSpec& gpu, const PublishedProgram& program,
                  ScalingRow& job) const {
    job.gpus_per_node = whole(row, "gpus_per_node").value_or(8);
    job.machine = program.machine;
    job.nic = program.link;
    if (job.machine.empty()) {
      const auto each = static_cast<int>(std::min(job.gpus, job.gpus_per_node));
      job.machine = hardware_.specs().default_machine(gpu, each).machine;
    }
  }

  std::string read_software(const RowFields& row, const ParallelFacts& facts,
                            ScalingRow& job) const {
    const std::string precision(row.text_or_empty("precision"));
    const bool eight =
        holds(precision, "fp8") || holds(precision, "FP8") || holds(precision, "float8");
    job.recipe = hardware_.specs().find_precision_recipe_in(precision);
    job.precision = eight || job.recipe != nullptr ? "fp8"
                    : holds(precision, "fp16")     ? "fp16"
                                                   : "bf16";
    PlanOptions& plan = job.plan;
    // A source without a record is taken for Megatron Core with its distributed optimizer.
    const bool is_known = !facts.software.empty();
    job.software = is_known ? facts.software : "megatron";
    if (!is_known && plan.zero == 0) plan.zero = 1;
    if (!facts.attention.empty()) plan.attention = facts.attention;
    if (!facts.recompute.empty() && plan.recompute == "none") plan.recompute = facts.recompute;
    if (facts.zero && plan.zero == 0) plan.zero = *facts.zero;
    if (facts.always_zero) plan.zero = *facts.always_zero;
    if (facts.tensor_sequence_parallel)
      plan.sequence_parallel = *facts.tensor_sequence_parallel && *plan.tensor > 1;
    if (facts.sequence_parallel) plan.sequence_parallel = *facts.sequence_parallel;
    return "";
  }

  [[nodiscard]] static double measured_tokens(const RowFields& row, const TransformerPrediction& p,
                                              const ParallelPlan& plan) {
    if (!row.text_or_empty("tokens_per_s_per_gpu").empty())
      return row.positive("tokens_per_s_per_gpu");
    const double gpus = static_cast<double>(plan.ranks());
    if (!row.text_or_empty("step_time_s").empty()) {
      return static_cast<double>(plan.global_batch) * static_cast<double>(plan.tokens) /
             row.positive("step_time_s") / gpus;
    }
    if (row.text_or_empty("tflops_per_gpu").empty()) return 0;
    const bool counts_again =
        holds(row.text_or_empty("tflops_kind"), "hardware") && plan.recompute == Recompute::Full;
    return row.positive("tflops_per_gpu") * 1e12 /
           (p.model_flops_per_token * (counts_again ? 8.0 / 6 : 1.0));
  }

  const Hardware& hardware_;
  PublishedRows records_;
};

}  // namespace

std::vector<TableKind> scaling_tables() {
  return {{.name = "training iterations of sharded transformers (vtrain.csv)",
           .required = {"layers", "hidden", "heads", "micro_batch", "tensor_parallel",
                        "pipeline_parallel", "iteration_ms"},
           .make = [](const CsvReader& reader,
                      const Hardware& hardware) -> std::unique_ptr<RowPredictor> {
             return std::make_unique<IterationTable>(reader, hardware);
           }},
          {.name = "scaling of language networks (llm_scaling.csv)",
           .required = {"n_layers", "hidden", "tp", "pp", "gbs", "mbs", "act_ckpt", "tflops_kind",
                        "step_time_s"},
           .make = [](const CsvReader& reader,
                      const Hardware& hardware) -> std::unique_ptr<RowPredictor> {
             return std::make_unique<ScalingTable>(reader, hardware);
           }}};
}

}  // namespace tracecast
