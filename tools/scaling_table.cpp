#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "hwspecs/collective_library.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "sim/cluster/transformer/step.hpp"
#include "tools/validation.hpp"

namespace tracecast {
namespace {

/// What a row of either table says, ready to predict.
struct ScalingJob {
  TransformerLayout layout{};
  PlanOptions plan{};
  std::string software, precision = "bf16";
  std::string gpu, machine;
  std::string nic;  ///< id of a LinkSpec; empty: the machine's own
  std::int64_t gpus = 1, gpus_per_node = 8;
};

/// Prediction of a job on nodes of one kind; fabrics and collectives are made anew for each.
TransformerPrediction predict_job(const ScalingJob& job, const Hardware& hardware,
                                  ParallelPlan& plan) {
  const std::int64_t per_node = std::min(job.gpus, job.gpus_per_node);
  if (job.gpus % per_node != 0) throw InputError("gpus", std::to_string(job.gpus), "whole nodes");
  ClusterSpec spec = uniform_cluster(job.machine, static_cast<int>(per_node),
                                     static_cast<int>(job.gpus / per_node), job.gpu);
  spec.network.link = job.nic;
  const Fabric fabric =
      build_fabric(spec, {hardware.gpus(), hardware.cpus(), hardware.links(), hardware.machines()});
  plan = resolve_plan(job.plan, job.layout, job.gpus);
  const TrainingSoftware& software = find_training_software(job.software);
  const FrameworkProfile framework = hardware.framework(software.framework);
  const CollectiveLibrary library = find_collective_library("nccl");
  return predict_transformer({.layout = job.layout,
                              .plan = plan,
                              .software = software,
                              .framework = framework,
                              .fabric = fabric,
                              .library = library,
                              .cost = hardware.cost(),
                              .precision = *find_precision(job.precision)});
}

std::string_view basis_of(const std::string& gpu, const Hardware& hardware) {
  const auto architecture = static_cast<std::size_t>(hardware.gpus().find(gpu).architecture);
  return hardware.cost().fitted[static_cast<std::size_t>(CostForm::TensorCore)][architecture]
             ? "transferred"
             : "spec";
}

/// Iterations of GPTs by Megatron-DeepSpeed on A100s (published/vtrain.csv; its README says what is assumed of it).
class IterationTable final : public RowPredictor {
 public:
  explicit IterationTable(const Hardware& hardware) : hardware_(hardware) {}
  std::string_view table() const override { return "training iterations of sharded transformers"; }
  std::string_view unit() const override { return "ms"; }
  std::string_view convention() const override {
    return "A100 80 GB, 8 per node over NVLink, four 200 Gb/s adapters per node, fp16, 1F1B, full "
           "recomputation, "
           "attention step by step, gradients reduced after the last backward pass: assumed of all "
           "rows.";
  }

  RowAnswer predict(const CsvReader& reader) override {
    const RowFields row(reader);
    const double measured = row.positive("iteration_ms");
    if (row.text("gpu") != "A100") return skip("GPU is not A100");
    ScalingJob job{.software = "megatron_2021",
                   .precision = "fp16",
                   .gpu = "a100_sxm4_80gb",
                   .machine = "hgx_a100_4nic",
                   .nic = "infiniband_hdr"};
    job.gpus = row.integer("gpus", 1, 1'000'000);
    const std::int64_t width = row.integer("hidden", 1, 1'000'000);
    const std::int64_t tokens = row.integer("seq_len", 1, 10'000'000);
    job.layout = {.layers = static_cast<int>(row.integer("layers", 1, 10'000)),
                  .width = width,
                  .heads = row.integer("heads", 1, 10'000),
                  .kv_heads = row.integer("heads", 1, 10'000),
                  .feed_forward = 4 * width,
                  .vocabulary = 50257,
                  .positions = tokens,
                  .dropout = true};
    job.plan = {.tensor = row.integer("tensor_parallel", 1, 100'000),
                .data = row.integer("data_parallel", 1, 100'000),
                .pipeline = row.integer("pipeline_parallel", 1, 100'000),
                .micro_batch = row.integer("micro_batch", 1, 1'000'000),
                .global_batch = row.integer("global_batch", 1, 100'000'000),
                .tokens = tokens,
                .recompute = "full",
                .attention = "unfused"};
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
};

std::optional<std::int64_t> whole(const RowFields& row, std::string_view column) {
  if (row.text_or_empty(column).empty()) return std::nullopt;
  const double value = row.positive(column);
  if (value != std::floor(value) || value > 1e9) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

bool holds(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

/// Published scaling runs of language networks (published/llm_scaling.csv).
class ScalingTable final : public RowPredictor {
 public:
  explicit ScalingTable(const Hardware& hardware) : hardware_(hardware) {}
  std::string_view table() const override { return "scaling of language networks"; }
  std::string_view unit() const override { return "tokens_per_s_per_gpu"; }
  std::string_view convention() const override {
    return "Where only TFLOP/s are published, tokens follow from 6 FLOPs per multiply-add (8 where "
           "recomputation is "
           "counted), attention whole.";
  }

  RowAnswer predict(const CsvReader& reader) override {
    const RowFields row(reader);
    try {
      ScalingJob job;
      if (const std::string reason = read_job(row, job); !reason.empty()) return skip(reason);
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
  std::string read_job(const RowFields& row, ScalingJob& job) const {
    const std::string_view source = row.text("source"), note = row.text_or_empty("note");
    const auto gpus = whole(row, "gpus");
    if (!gpus) return "the number of GPUs is not given";
    job.gpus = *gpus;
    job.gpu = row.text("gpu_id");
    if (job.gpu.empty()) return "the GPU is not given";
    (void)hardware_.gpus().find(job.gpu);  // throws where there is no spec
    if (!whole(row, "seq_len")) return "sequence length is not given";
    if (const std::string reason = read_layout(row, job); !reason.empty()) return reason;
    if (const std::string reason = read_plan(row, job, source, note); !reason.empty())
      return reason;
    if (hardware_.gpus().find(job.gpu).architecture > Architecture::Hopper) {
      return "no machine is known with " + job.gpu;
    }
    read_place(row, job, source);
    return read_software(row, job, source);
  }

  std::string read_layout(const RowFields& row, ScalingJob& job) const {
    const std::string model(row.text("model"));
    static const std::map<std::string, std::string, std::less<>> kZoo = {
        {"Llama-3-70B", "llama3_70b"},      {"Llama-3.1-70B", "llama3_70b"},
        {"Llama-3.1-405B", "llama3_405b"},  {"Llama-3-8B", "llama3_8b"},
        {"Llama-3.1-8B", "llama3_8b"},      {"LLAMA2-7B", "llama2_7b"},
        {"LLAMA2-13B", "llama2_13b"},       {"LLAMA2-70B", "llama2_70b"},
        {"Qwen3_30B_a3B", "qwen3_30b_a3b"}, {"Qwen3_235B_a22B", "qwen3_235b_a22b"},
        {"GPT OSS 120B", "gpt_oss_120b"}};
    if (const auto known = kZoo.find(model); known != kZoo.end()) {
      job.layout = *find_network(known->second)->transformer;
      return "";
    }
    if (holds(model, "DeepSeek") || holds(model, "Kimi"))
      return "latent attention is not predicted";
    if (holds(model, "tokendrop")) return "experts that drop tokens are not predicted";
    // bigscience's 1.3B of tr3m and 104B of tr8: the repository's scripts.
    if (model == "GPT-1.3B" || model == "GPT-104B") {
      const bool large = model == "GPT-104B";
      const std::int64_t heads = large ? 32 : 16, wide = large ? 16384 : 2048;
      job.layout = {.layers = large ? 32 : 24,
                    .width = wide,
                    .heads = heads,
                    .kv_heads = heads,
                    .feed_forward = 4 * wide,
                    .vocabulary = 50257,
                    .positions = 2048,
                    .dropout = true};
      return "";
    }
    const auto layers = whole(row, "n_layers"), width = whole(row, "hidden"),
               heads = whole(row, "heads");
    if (!layers || !width || !heads) return "network " + model + ": its layers are not given";
    const std::int64_t tokens = *whole(row, "seq_len");
    job.layout = {.layers = static_cast<int>(*layers),
                  .width = *width,
                  .heads = *heads,
                  .kv_heads = *heads,
                  .feed_forward = 4 * *width,
                  .vocabulary = whole(row, "vocab").value_or(50257),
                  .positions = tokens,
                  .dropout = true};
    if (model.starts_with(
            "MPT")) {  // llm-foundry's yamls: no_bias, attention and residual dropout 0
      job.layout.biases = false;
      job.layout.dropout = false;
    }
    if (model.starts_with(
            "InternLM")) {  // internlm: SwiGLU of 8/3 rounded up to 256, rotary, RMS norm
      job.layout = {.layers = static_cast<int>(*layers),
                    .width = *width,
                    .heads = *heads,
                    .kv_heads = *heads,
                    .feed_forward = (*width * 8 / 3 + 255) / 256 * 256,
                    .vocabulary = whole(row, "vocab").value_or(103168),
                    .norm = TransformerNorm::RootMeanSquare,
                    .rotary = true,
                    .gated = true,
                    .biases = false,
                    .tied = false};
    }
    if (model.starts_with("BERT")) job.layout.causal = false;
    return "";
  }

  std::string read_plan(const RowFields& row, ScalingJob& job, std::string_view source,
                        std::string_view note) const {
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
    if (source == "pytorch/torchtitan" && *plan.pipeline > 1) {
      // training.batch_size is what a rank loads; by the default of 2024 a pipeline cuts it into as many micro-batches
      // as it has stages, two a rank where they are interleaved (config_manager.py: pipeline_parallel_microbatches).
      const bool interleaved = holds(note, "Interleaved");
      const std::int64_t stages = *plan.pipeline * (interleaved ? 2 : 1);
      if (interleaved) plan.schedule = "interleaved:2";
      plan.micro_batch = std::max<std::int64_t>(1, *plan.micro_batch / stages);
    }
    if (holds(note, "layout typo")) return "the author's layout has a typing error";
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
    if (source == "NVIDIA/Megatron-LM" || source == "NVIDIA/NeMo" ||
        source == "pytorch/torchtitan") {
      plan.sequence_parallel = *plan.tensor > 1;
    }
    return "";
  }

  /// Machines by GPU, adapters as the source's pages say.
  void read_place(const RowFields& row, ScalingJob& job, std::string_view source) const {
    job.gpus_per_node = whole(row, "gpus_per_node").value_or(8);
    const Architecture architecture = hardware_.gpus().find(job.gpu).architecture;
    job.machine = architecture == Architecture::Hopper   ? "dgx_h100"
                  : architecture == Architecture::Ampere ? "dgx_a100"
                  : job.gpus_per_node > 8                ? "dgx2"
                                                         : "dgx1_v100";
    const std::string_view network = row.text_or_empty("interconnect");
    if (holds(network, "4x100Gb")) {
      job.machine = "hgx_a100_4nic";
      job.nic = "ethernet_100g";
    }
    if (source == "mosaicml/llm-foundry" && architecture == Architecture::Ampere)
      job.nic = "ethernet_200g";
  }

  std::string read_software(const RowFields& row, ScalingJob& job, std::string_view source) const {
    const std::string precision(row.text_or_empty("precision"));
    const bool eight =
        holds(precision, "fp8") || holds(precision, "FP8") || holds(precision, "float8");
    if (holds(precision, "FP4") || holds(precision, "NVFP4")) return "fp4 is not predicted";
    job.precision = eight ? "fp8" : holds(precision, "fp16") ? "fp16" : "bf16";
    if (source == "mosaicml/llm-foundry") {
      job.software = row.text_or_empty("mp_mode") == "PURE" ? "llm_foundry_pure" : "llm_foundry";
    } else if (source == "pytorch/torchtitan") {
      job.software = "torchtitan";
    } else if (source == "InternLM/InternLM") {
      job.software = "internevo";
    } else if (source == "bigscience-workshop/bigscience" || source == "microsoft/DeepSpeed") {
      job.software = "megatron_2021";
      job.plan.attention = "unfused";
      if (job.plan.recompute == "none")
        job.plan.recompute = "full";  // their scripts checkpoint activations
    } else {
      job.software = "megatron";
      if (job.plan.zero == 0) job.plan.zero = 1;
    }
    if (holds(row.text_or_empty("source_path"),
              "README.md @46c2928e62")) {  // 2022, before fused attention
      job.software = "megatron_2021";
      job.plan.attention = "unfused";
      job.plan.sequence_parallel = true;
      job.plan.zero = 0;
    }
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
};

}  // namespace

std::vector<TableKind> scaling_tables() {
  return {{.name = "training iterations of sharded transformers (vtrain.csv)",
           .required = {"layers", "hidden", "heads", "micro_batch", "tensor_parallel",
                        "pipeline_parallel", "iteration_ms"},
           .make = [](const CsvReader&, const Hardware& hardware) -> std::unique_ptr<RowPredictor> {
             return std::make_unique<IterationTable>(hardware);
           }},
          {.name = "scaling of language networks (llm_scaling.csv)",
           .required = {"n_layers", "hidden", "tp", "pp", "gbs", "mbs", "act_ckpt", "tflops_kind",
                        "step_time_s"},
           .make = [](const CsvReader&, const Hardware& hardware) -> std::unique_ptr<RowPredictor> {
             return std::make_unique<ScalingTable>(hardware);
           }}};
}

}  // namespace tracecast
