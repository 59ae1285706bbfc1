#include "sim/job/mode/sharded_job.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <utility>

#include "hwspecs/collective_library.hpp"
#include "hwspecs/library.hpp"
#include "hwspecs/loaders/known_names.hpp"
#include "hwspecs/software/precision_recipe.hpp"
#include "models/language/config.hpp"
#include "models/language/graph.hpp"
#include "models/language/layout.hpp"
#include "models/lowering/precision.hpp"
#include "models/zoo/parts/network_word.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/base/text.hpp"
#include "sim/job/largest_batch.hpp"
#include "sim/job/network_file.hpp"
#include "sim/job/newer_version.hpp"
#include "sim/job/resolved_job.hpp"
#include "sim/job/sha256.hpp"
#include "sim/step/captured_step.hpp"

namespace tracecast {
namespace {

/// Mixed precision keeps 16-bit weights here: bf16 where tensor cores know it. What the GPU cannot
/// do is replaced as on one GPU. `recipe`: of fewer than 16 bits, becomes null where it is not run.
PrecisionMode settle_precision(const std::string& asked, const GpuSpec& gpu,
                               const SpecLibrary& specs, const PrecisionRecipe*& recipe,
                               ShardedStep& job) {
  recipe = specs.find_precision_recipe_or_null(asked);
  if (recipe != nullptr) {
    const PrecisionChoice choice = choose_recipe(recipe->gemms.math, gpu);
    if (!choice.fallback.empty()) job.warnings.push_back(choice.fallback);
    if (choice.mode != PrecisionMode::Fp8) {
      recipe = nullptr;
      return choice.mode;
    }
    if (!gpu.find_peak(recipe->gemms.math, MathUnit::TensorCore))
      recipe = specs.find_precision_recipe_or_null("fp8");
    if (recipe->first_wide_layers + recipe->last_wide_layers > 0) {
      job.assumptions.push_back(fmt::format("{}: the first {} and last {} layers stay in bf16",
                                            recipe->name, recipe->first_wide_layers,
                                            recipe->last_wide_layers));
    }
    return PrecisionMode::Fp8;
  }
  const auto precision = find_precision(asked.empty() ? "amp" : asked);
  if (!precision) {
    std::vector<std::string> names{"fp32", "tf32", "amp", "fp16", "bf16"};
    for (const PrecisionRecipe& known : specs.precision_recipes()) names.push_back(known.id);
    throw InputError("--precision", '"' + asked + '"', describe_choices(asked, names));
  }
  if (*precision == PrecisionMode::Amp) {
    const bool brain = gpu.find_peak(Precision::Bf16, MathUnit::TensorCore).has_value();
    job.assumptions.push_back(fmt::format(
        "{}: 16-bit weights in {}, fp32 in the optimizer",
        asked.empty() ? "precision, usual for language models; --precision names yours" : "amp",
        brain ? "bf16" : "fp16"));
    return brain ? PrecisionMode::Bf16 : PrecisionMode::Fp16;
  }
  const PrecisionChoice choice = choose_precision(*precision, true, gpu);
  if (!choice.fallback.empty()) job.warnings.push_back(choice.fallback);
  if (!choice.note.empty()) job.assumptions.push_back(choice.note);
  return choice.mode;
}

OptimizerKind settle_optimizer(const std::string& asked, ShardedStep& job) {
  if (asked.empty()) {
    job.assumptions.emplace_back(
        "optimizer adamw: usual for language models; --optimizer names yours");
    return OptimizerKind::AdamW;
  }
  const auto kind = find_optimizer(asked);
  if (!kind) {
    throw InputError("--optimizer", '"' + asked + '"', describe_choices(asked, optimizer_names()));
  }
  return *kind;
}

/// Sharded training is a PyTorch program's.
FrameworkProfile settle_framework(const Software& asked, const TrainingSoftware& software,
                                  const GpuSpec& gpu, const Hardware& hardware) {
  if (!asked.framework.empty() && asked.framework != "pytorch" &&
      asked.framework != software.framework) {
    throw InputError("--framework", asked.framework + " with --tp, --pp, --zero",
                     fmt::format("pytorch: {} is one of its programs (--software)", software.name));
  }
  FrameworkProfile framework =
      hardware.framework_of(software, {.version = asked.version, .date = asked.date}, gpu);
  return asked.cuda_graphs ? with_captured_step(std::move(framework)) : framework;
}

std::string describe_layout(const TransformerLayout& l) {
  std::string text = fmt::format(
      "layers {} width {} heads {} kv_heads {} head_width {} feed_forward {} vocabulary {} "
      "positions {} norm {} rotary {} gated {} biases {} tied {} causal {} dropout {}",
      l.layers, l.width, l.heads, l.kv_heads, l.head_width, l.feed_forward, l.vocabulary,
      l.positions, static_cast<int>(l.norm), l.rotary, l.gated, l.biases, l.tied, l.causal,
      l.dropout);
  if (l.latent) {
    text += fmt::format(" query_rank {} kv_rank {} nope {} rope {} value {}", l.latent->query_rank,
                        l.latent->kv_rank, l.latent->nope_width, l.latent->rope_width,
                        l.latent->value_width);
  }
  if (l.experts) {
    text += fmt::format(" experts {} per_token {} of {} shared {} dense_layers {} capacity {}",
                        l.experts->count, l.experts->per_token, l.experts->feed_forward,
                        l.experts->shared_feed_forward, l.experts->dense_layers,
                        l.experts->capacity_factor);
  }
  return text;
}

/// One pipeline of healthy nodes tells all: sharded steps are reported of clusters of one kind of
/// node only.
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

/// A transformer whose layers can be shared, from the zoo or a config.json.
struct FoundTransformer {
  std::string name;
  TransformerLayout layout;
  std::int64_t usual_tokens = 0, most_tokens = 0;  ///< of a sequence; most: 0: any number
  std::vector<std::string> left_out{};
  InputRecord record{};
};

FoundTransformer find_transformer(const std::string& network) {
  FoundTransformer found;
  refuse_other_file(network);
  if (is_network_path(network) && is_config_path(network)) {
    const std::string bytes = read_file(network, kMostConfigBytes);
    const LanguageNetwork language = read_config_json(bytes, network);
    ShardableNetwork whole = shardable(language, network);
    found = {.name = name_of_config(network),
             .layout = whole.layout,
             .usual_tokens = usual_tokens(language),
             .most_tokens = learned_positions(language),
             .left_out = left_out_of_graph(language)};
    if (!whole.left_out.empty()) {
      found.left_out.push_back(
          fmt::format("left out when shared among GPUs: {}", fmt::join(whole.left_out, ", ")));
    }
    found.record = {"network", std::filesystem::path(network).filename().string(), sha256(bytes)};
    return found;
  }
  const auto word = read_network_word(network);
  const ZooEntry* entry = word ? word->entry : nullptr;
  if (entry == nullptr || !entry->transformer) {
    throw InputError("--tp, --pp, --zero", "network " + network,
                     "a transformer of the zoo with alike layers, such as gpt3_175b or llama3_70b, "
                     "or a config.json of one");
  }
  found = {.name = std::string(entry->name),
           .layout = *entry->transformer,
           .usual_tokens = word->seq_len.value_or(entry->seq_len),
           .most_tokens = entry->most_tokens};
  if (entry->language != nullptr) {
    const ShardableNetwork whole = shardable(entry->language(), network);
    if (!whole.left_out.empty()) {
      found.left_out.push_back(
          fmt::format("left out when shared among GPUs: {}", fmt::join(whole.left_out, ", ")));
    }
  }
  found.record = {"network", "zoo:" + found.name, sha256(describe_layout(found.layout))};
  return found;
}

}  // namespace

ShardedStep predict_sharded(const Job& job, const Place& place, const Sharded& parallel_layout,
                            const Hardware& hardware) {
  FoundTransformer network = find_transformer(job.network);
  if (to_lower(place.gpu).starts_with("cpu:")) throw InputError("--gpu", place.gpu, "a GPU");
  if (job.phase != "train") throw InputError("--phase", job.phase, "train");
  Cluster cluster = make_cluster(place, place.gpu, hardware);
  refuse_unlike_nodes(cluster.fabric, place.cluster);
  const GpuSpec gpu = with_settings(cluster.fabric.gpu_of(Rank{0}), place.board);
  ShardedStep result{.network = network.name,
                     .gpu = gpu.id,
                     .gpu_name = gpu.name,
                     .machine = cluster.fabric.machine_of(FabricNodeId{0}).id,
                     .nodes = cluster.fabric.num_nodes(),
                     .nics = cluster.fabric.nics(),
                     .layout = network.layout,
                     .software = hardware.specs().find_training_software(parallel_layout.software)};
  result.assumptions = hardware.factors();
  result.assumptions.insert(result.assumptions.end(), cluster.assumptions.begin(),
                            cluster.assumptions.end());
  if (!place.gpu.empty() && place.gpu != gpu.id) {
    result.assumptions.push_back(fmt::format("gpu {} for \"{}\"", gpu.id, place.gpu));
  }
  result.assumptions.insert(result.assumptions.end(), network.left_out.begin(),
                            network.left_out.end());
  PlanOptions plan = parallel_layout.plan;
  const std::int64_t asked =
      job.batch == kUsualBatch ? usual_batch(std::string(job.network)) : job.batch;
  if (asked != 1 && plan.micro_batch) {
    throw InputError("--batch", fmt::format("{} beside --micro-batch", asked),
                     "one of the two: both are the sequences of a pass");
  }
  if (!plan.micro_batch) plan.micro_batch = asked;
  if (job.accumulate != 1) plan.micro_batches = job.accumulate;
  plan.tokens = job.seq_len.value_or(network.usual_tokens);
  plan.recompute = job.recompute;
  const AttentionChoice attention = attention_choice(job.software.attention);
  if (attention != AttentionChoice::Auto) {
    plan.attention = attention == AttentionChoice::Fused ? "flash" : "unfused";
  }
  if (network.most_tokens > 0 && *plan.tokens > network.most_tokens) {
    throw InputError("--seq-len", std::to_string(*plan.tokens),
                     "at most " + std::to_string(network.most_tokens) + " positions");
  }
  result.plan = resolve_plan(plan, result.layout, cluster.fabric.num_ranks());
  const PrecisionRecipe* recipe = nullptr;
  const PrecisionMode precision =
      settle_precision(job.precision, gpu, hardware.specs(), recipe, result);
  result.precision = recipe != nullptr ? recipe->id : to_string(precision);
  const OptimizerKind optimizer = settle_optimizer(job.optimizer, result);
  result.optimizer = to_string(optimizer);
  const LowRankAdapters adapters = adapters_of(job);
  if (adapters.any()) result.assumptions.push_back(describe(adapters));
  FrameworkProfile framework = settle_framework(job.software, result.software, gpu, hardware);
  if (recipe != nullptr) framework.precision.recipe = recipe->gemms;
  if (auto newer = find_newer_version(framework, job.software.version)) {
    framework.system_log_sd = std::hypot(framework.system_log_sd, newer->log_sd);
    result.warnings.push_back(std::move(newer->note));
  }
  result.framework = framework.id;
  const CollectiveLibrary library = hardware.specs().find_collective_library("nccl");
  const auto predict_with = [&](const ParallelPlan& parallel) {
    return predict_transformer(
        {.layout = result.layout,
         .plan = parallel,
         .software = result.software,
         .framework = framework,
         .fabric = cluster.fabric,
         .library = library,
         .cost = hardware.cost(),
         .precision = precision,
         .first_wide_layers = recipe != nullptr ? recipe->first_wide_layers : 0,
         .last_wide_layers = recipe != nullptr ? recipe->last_wide_layers : 0,
         .fold = parallel_layout.fold,
         .optimizer = optimizer,
         .adapters = adapters,
         .gpu = &gpu,
         .power_limit = place.board.power_limit_w ? std::optional(Watts(*place.board.power_limit_w))
                                                  : std::nullopt});
  };
  result.prediction = predict_with(result.plan);
  if (parallel_layout.finds_largest_batch) {
    // As many micro-batches of any size: the global batch grows with them.
    constexpr std::int64_t kMostMicroBatch = 4096;
    const auto largest = [&](double least_probability) {
      return find_largest(result.plan.micro_batch, kMostMicroBatch, [&](std::int64_t batch) {
        ParallelPlan tried = result.plan;
        tried.global_batch = result.plan.micro_batches() * batch * tried.data;
        tried.micro_batch = batch;
        return predict_with(tried).memory.fit().probability >= least_probability;
      });
    };
    result.largest_micro_batch = largest(kLikelyFits);
    result.sure_micro_batch = largest(kSurelyFits);
  }
  result.inputs.push_back(std::move(network.record));
  result.inputs.push_back({"gpu", gpu.id, hash_of(gpu.values)});
  result.inputs.push_back({"framework", framework.id, hash_of(framework.values)});
  if (recipe != nullptr) result.inputs.push_back({"recipe", recipe->id, hash_of(recipe->values)});
  result.inputs.push_back(hardware.cost_record());
  if (cluster.file) result.inputs.push_back(*cluster.file);
  return result;
}

Interval samples_per_s(const ShardedStep& job) {
  const Interval& tokens = job.prediction.tokens_per_s;
  const double length = static_cast<double>(job.plan.tokens);
  return {.value = tokens.value / length, .low = tokens.low / length, .high = tokens.high / length};
}

}  // namespace tracecast
