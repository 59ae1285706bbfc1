#include "tools/transformer_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "hwspecs/collective_library.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"

namespace tracecast {
namespace {

/// Mixed precision keeps 16-bit weights here: bf16 where tensor cores know it.
PrecisionMode format_of(const std::string& name, const GpuSpec& gpu,
                        std::vector<std::string>& assumptions) {
  const auto precision = find_precision(name);
  if (!precision) throw InputError("--precision", name, "fp32, tf32, amp, fp16, bf16 or fp8");
  if (*precision == PrecisionMode::Int8) throw InputError("--precision", "int8", "one that trains");
  if (*precision != PrecisionMode::Amp) return *precision;
  const bool brain = gpu.find_peak(Precision::Bf16, MathUnit::TensorCore).has_value();
  assumptions.emplace_back(brain ? "amp: 16-bit weights in bf16, fp32 in the optimizer"
                                 : "amp: 16-bit weights in fp16, fp32 in the optimizer");
  return brain ? PrecisionMode::Bf16 : PrecisionMode::Fp16;
}

/// One pipeline of healthy nodes tells all: sharded steps are told of clusters of one kind of node only.
void refuse_unlike_nodes(const Fabric& fabric, const std::string& file) {
  const ClusterGroup& first = fabric.group_of(FabricNodeId{0});
  for (std::uint32_t n = 0; n < fabric.num_nodes(); ++n) {
    const ClusterGroup& group = fabric.group_of(FabricNodeId{n});
    const bool alike = group.machine == first.machine && group.gpu == first.gpu &&
                       fabric.ranks_of(FabricNodeId{n}) == fabric.ranks_of(FabricNodeId{0});
    if (alike && group.compute_time_factor == 1 && group.slow_links.empty()) continue;
    throw InputError(
        file, fmt::format("group \"{}\"", group.name),
        "healthy nodes of one kind for --tp, --pp, --zero; without these flags data-parallel "
        "training runs on any");
  }
}

}  // namespace

void add_transformer_options(CLI::App& verb, TransformerOptions& options) {
  PlanOptions& plan = options.plan;
  const auto asked = [&options](CLI::Option* option) {
    option->each([&options](const std::string&) { options.was_asked = true; });
  };
  asked(verb.add_option("--tp", plan.tensor, "Transformers: ranks that share each layer")
            ->type_name("N"));
  asked(verb.add_option("--pp", plan.pipeline, "Stages of layers")->type_name("N"));
  asked(verb.add_option("--dp", plan.data, "Ranks with other samples; follows from the rest")
            ->type_name("N"));
  asked(verb.add_option("--cp", plan.context, "Ranks that share each sequence")->type_name("N"));
  asked(verb.add_option("--ep", plan.expert, "Data-parallel ranks that share the experts")
            ->type_name("N"));
  asked(verb.add_option("--micro-batch", plan.micro_batch, "Sequences per pass and rank")
            ->type_name("N"));
  asked(verb.add_option("--global-batch", plan.global_batch, "Sequences per step, all GPUs")
            ->type_name("N"));
  asked(verb.add_option("--schedule", plan.schedule, "Of the stages: gpipe, 1f1b or interleaved:V")
            ->type_name("S"));
  asked(verb.add_option(
                "--zero", plan.zero,
                "Shared among data-parallel ranks: 1 optimizer, 2 gradients, 3 weights (FSDP)")
            ->type_name("0..3"));
  asked(verb.add_option("--zero-ranks", plan.zero_ranks, "That share; others hold copies")
            ->type_name("N"));
  verb.add_flag("--sequence-parallel", plan.sequence_parallel,
                "Norms and residuals are divided among the --tp ranks too");
  asked(verb.add_option("--attention", plan.attention, "flash (one kernel) or unfused")
            ->type_name("A"));
  std::string known;
  for (const std::string& id : training_software_ids()) known += (known.empty() ? "" : ", ") + id;
  asked(verb.add_option("--software", options.software, "Of the sharded training: " + known)
            ->type_name("ID"));
}

ShardedJob predict_sharded(const TransformerOptions& options, const JobOptions& job,
                           const ClusterOptions& cluster_options, const Sources& sources,
                           bool fold) {
  const ZooEntry* entry = find_network(job.network);
  if (entry == nullptr || !entry->transformer) {
    throw InputError("--tp, --pp, --zero", "network " + job.network,
                     "a transformer of the zoo with alike layers, such as gpt3_175b or llama3_70b");
  }
  if (job.gpu.starts_with("cpu:")) throw InputError("--gpu", job.gpu, "a GPU");
  if (job.phase != "train") throw InputError("--phase", job.phase, "train");
  ClusterOptions wanted = cluster_options;
  wanted.machine = job.machine;
  Cluster cluster = make_cluster(wanted, job.gpu, sources);
  refuse_unlike_nodes(cluster.fabric, cluster_options.file);
  const GpuSpec& gpu = cluster.fabric.gpu_of(Rank{0});
  ShardedJob result{.network = std::string(entry->name),
                    .gpu = gpu.id,
                    .gpu_name = gpu.name,
                    .layout = *entry->transformer,
                    .software = find_training_software(options.software)};
  result.assumptions = cluster.assumptions;
  if (!job.gpu.empty() && job.gpu != gpu.id) {
    result.assumptions.push_back(fmt::format("gpu {} for \"{}\"", gpu.id, job.gpu));
  }
  PlanOptions plan = options.plan;
  plan.tokens = job.seq_len.value_or(entry->seq_len);
  plan.recompute = job.recompute;
  if (entry->most_tokens > 0 && *plan.tokens > entry->most_tokens) {
    throw InputError("--seq-len", std::to_string(*plan.tokens),
                     "at most " + std::to_string(entry->most_tokens) + " positions");
  }
  result.plan = resolve_plan(plan, result.layout, cluster.fabric.num_ranks());
  const std::string wanted_precision = job.precision == "fp32" ? "amp" : job.precision;
  if (job.precision == "fp32") {
    result.assumptions.emplace_back("precision amp: large transformers train in 16 bit");
  }
  const PrecisionMode precision = format_of(wanted_precision, gpu, result.assumptions);
  result.precision = to_string(precision);
  const FrameworkProfile framework = take_framework(result.software.framework, sources);
  const CollectiveLibrary library = find_collective_library("nccl");
  result.prediction = predict_transformer({.layout = result.layout,
                                           .plan = result.plan,
                                           .software = result.software,
                                           .framework = framework,
                                           .fabric = cluster.fabric,
                                           .library = library,
                                           .cost = sources.cost,
                                           .precision = precision,
                                           .fold = fold});
  result.inputs.push_back(sources.cost_record);
  if (cluster.file) result.inputs.push_back(*cluster.file);
  return result;
}

}  // namespace tracecast
