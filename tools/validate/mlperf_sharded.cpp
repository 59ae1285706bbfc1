#include "tools/validate/mlperf_sharded.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "hwspecs/collective_library.hpp"
#include "hwspecs/software/precision_recipe.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/parallel/transformer/step.hpp"
#include "tools/validate/published_cluster.hpp"

namespace tracecast {
namespace {

/// What a row says of its parallel layout; without degrees of tensors and stages nothing.
std::optional<PlanOptions> plan_of(const RowFields& row, const MlperfLayout& parallel_layout) {
  PlanOptions plan{.tensor = whole(row, "tp"),
                   .context = whole(row, "cp"),
                   .pipeline = whole(row, "pp"),
                   .micro_batch = whole(row, "mbs").value_or(1),
                   .global_batch = whole(row, "global_batch"),
                   .tokens = whole(row, "seq_len"),
                   .zero = 1};
  if (!plan.tensor || !plan.pipeline || !plan.global_batch || !plan.tokens) return std::nullopt;
  plan.sequence_parallel = *plan.tensor > 1;
  const std::int64_t chunks = whole(row, "vp").value_or(parallel_layout.chunks);
  if (*plan.pipeline > 1 && chunks > 1) plan.schedule = fmt::format("interleaved:{}", chunks);
  return plan;
}

/// The recipe that a row names, else the benchmark's; null: 8 bits without one, or 16.
const PrecisionRecipe* recipe_of(std::string_view precision, const MlperfBenchmark& benchmark,
                                 const SpecLibrary& specs) {
  const PrecisionRecipe* named = specs.find_precision_recipe_in(precision);
  return named != nullptr ? named : specs.find_precision_recipe_or_null(benchmark.precision);
}

RowResult predict_layout(const PlanOptions& options, const MlperfBenchmark& benchmark,
                         std::string_view month, const PublishedCluster& place,
                         const PrecisionRecipe* recipe, const Hardware& hardware) {
  const MlperfLayout& parallel_layout = *benchmark.parallel_layout;
  const ZooEntry* network = find_network(benchmark.network);
  if (network == nullptr || !network->transformer)
    return skip("network " + benchmark.network + " is no transformer of the zoo");
  TransformerLayout layout = *network->transformer;
  if (parallel_layout.dropout) layout.dropout = *parallel_layout.dropout;
  try {
    const Fabric fabric = build_fabric(read_published_cluster(place, hardware), hardware.specs());
    const GpuSpec& gpu = fabric.gpu_of(Rank{0});
    const bool eight = gpu.find_peak(Precision::Fp8, MathUnit::TensorCore).has_value();
    const ParallelPlan plan = resolve_plan(options, layout, fabric.num_ranks());
    const TrainingSoftware& software =
        hardware.specs().find_training_software(parallel_layout.software);
    FrameworkProfile framework =
        hardware.framework_of(software, {.version = {}, .date = month}, gpu);
    const bool runs =
        recipe != nullptr && gpu.find_peak(recipe->gemms.math, MathUnit::TensorCore).has_value();
    if (runs) framework.precision.recipe = recipe->gemms;
    const TransformerPrediction p =
        predict_transformer({.layout = layout,
                             .plan = plan,
                             .software = software,
                             .framework = framework,
                             .fabric = fabric,
                             .library = hardware.specs().find_collective_library("nccl"),
                             .cost = hardware.cost(),
                             .precision = eight ? PrecisionMode::Fp8 : PrecisionMode::Bf16,
                             .first_wide_layers = runs ? recipe->first_wide_layers : 0,
                             .last_wide_layers = runs ? recipe->last_wide_layers : 0,
                             .adapters = {.rank = parallel_layout.lora_rank}});
    const double tokens = static_cast<double>(plan.tokens);
    const Interval& rate = p.tokens_per_s;
    return {.measured = 0,
            .predicted = {rate.value / tokens, rate.low / tokens, rate.high / tokens},
            .basis = "transferred",
            .skipped = {}};
  } catch (const InputError& error) {
    return skip(error.what());
  }
}

}  // namespace

RowResult ShardedMlperf::predict(const RowFields& row, const MlperfBenchmark& benchmark,
                                 const MlperfRound& round) {
  const std::optional<PlanOptions> plan = plan_of(row, *benchmark.parallel_layout);
  if (!plan) return skip("the parallel layout into layers and tensors is not stated");
  const PublishedCluster place{
      .gpu = std::string(row.text("gpu_id")),
      .gpus = std::llround(row.positive("gpus")),
      .nodes = row.text("nodes").empty() ? 1 : std::llround(row.positive("nodes")),
      .description = std::string(row.text_or_empty("node_class")) + "; " +
                     std::string(row.text_or_empty("system"))};
  const PrecisionRecipe* recipe =
      recipe_of(row.text_or_empty("precision"), benchmark, hardware_.specs());
  const std::string key =
      fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", round.id, benchmark.name, place.gpu,
                  place.gpus, place.nodes, to_lower(place.description), *plan->tensor,
                  *plan->pipeline, plan->context.value_or(1), plan->schedule, *plan->micro_batch,
                  *plan->global_batch, *plan->tokens, recipe != nullptr ? recipe->id : "");
  auto known = reports_.find(key);
  if (known == reports_.end()) {
    known =
        reports_
            .emplace(key, predict_layout(*plan, benchmark, round.month, place, recipe, hardware_))
            .first;
  }
  RowResult report = known->second;
  report.measured = row.positive("throughput");
  return report;
}

}  // namespace tracecast
