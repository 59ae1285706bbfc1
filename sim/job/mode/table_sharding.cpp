#include "sim/job/mode/table_sharding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "models/lowering/lower.hpp"
#include "models/optimizer.hpp"
#include "sim/base/error.hpp"

namespace tracecast {
namespace {

std::string_view name_of(TableSharding parallel_layout) {
  switch (parallel_layout) {
    case TableSharding::Whole:
      return "whole tables, as many on each";
    case TableSharding::Rows:
      return "each cut by rows over all";
    case TableSharding::Balanced:
      break;
  }
  return "by work, the costliest cut by rows";
}

NetworkGraph with_stores_sharded(NetworkGraph step, std::uint32_t ranks) {
  for (std::uint32_t t = 0; t < step.tensors().size(); ++t) {
    const Tensor& tensor = step.tensors()[t];
    if (tensor.role != TensorRole::Store) continue;
    step.place_store(TensorId{t}, (tensor.shape.front() + ranks - 1) / ranks);
  }
  return step;
}

}  // namespace

void divide_tables_of(ResolvedJob& job, const StrategyProfile& strategy, std::uint32_t ranks) {
  const PlacedJob& o = job.options;
  if (o.accumulate > 1 || o.recompute != "none") {
    throw InputError("--strategy " + strategy.id, o.accumulate > 1 ? "--accumulate" : "--recompute",
                     "neither: nothing is known of sharded tables with them");
  }
  const int states = job.phase == Phase::Train ? state_count(*find_optimizer(o.optimizer)) : 0;
  const std::vector<EmbeddingTable> tables = find_tables(*job.forward);
  const double row_bytes =
      tables.empty() ? 4.0 : 4.0 * static_cast<double>(tables.front().width) * (1 + states);
  const double row_limit = strategy.tables->memory_share * job.gpu.memory.in_bytes() / row_bytes;
  auto network = std::make_shared<const ShardedNetwork>(
      divide_tables(*job.forward, ranks, *strategy.tables, row_limit));
  const StepOptions options{.optimizer = o.optimizer,
                            .copies_first_gradient = job.framework.backward.copies_first_gradient};
  job.step = std::make_shared<const NetworkGraph>(
      with_tables_updated_at_once(make_step_graph(network->forward, job.phase, options), *network));
  const TablePlacement& placement = network->placement;
  const auto sharded = std::count_if(placement.shards.begin(), placement.shards.end(),
                                     [](std::uint32_t shards) { return shards > 0; });
  job.assumptions.push_back(
      fmt::format("{} of {} embedding tables sharded over {} GPUs ({}), the others on each; the "
                  "fullest has {:.1f} "
                  "million rows, looks up {:.1f} rows of a sample and sends {:.1f} sums",
                  sharded, network->tables.size(), ranks, name_of(strategy.tables->parallel_layout),
                  1e-6 * placement.rows, placement.ids, placement.vectors));
  job.tables = std::move(network);
}

void place_stores_of(ResolvedJob& job, const StrategyProfile& strategy, std::uint32_t ranks,
                     const Hardware& hardware) {
  const Bytes read = bytes_from_stores(*job.forward);
  if (!(read > Bytes(0))) return;
  Bytes all{};
  for (const Tensor& tensor : job.forward->tensors()) {
    if (tensor.role != TensorRole::Store) continue;
    all += Bytes(static_cast<double>(element_count(tensor.shape)) * tensor.integer_bytes);
  }
  bool fits = false;
  if (strategy.divides_stores && ranks > 1) {
    ResolvedJob placed = job;
    placed.step = std::make_shared<const NetworkGraph>(with_stores_sharded(*job.step, ranks));
    fits = fits_in_memory(placed, hardware);
    if (fits) job.step = placed.step;
  }
  if (fits) job.read_from_stores = read;
  job.assumptions.push_back(fmt::format(
      "{:.0f} GB of the data set's rows and edges in {}, {:.2f} GB of them read for each step "
      "ahead of it",
      1e-9 * all.in_bytes(),
      fits ? fmt::format("the memory of all {} GPUs", ranks) : std::string("pinned host memory"),
      1e-9 * read.in_bytes()));
}

TableCrossings crossings_of(const ResolvedJob& job, const StrategyProfile& strategy,
                            const Prediction& one_gpu) {
  TableCrossings stores;
  if (job.read_from_stores > Bytes(0)) {
    stores.works.push_back({.most = job.read_from_stores});
    stores.by_kernels.emplace_back();  // for the next step, beside all of this one
  }
  if (!job.tables) return stores;
  return find_crossings(*job.tables, *job.step, one_gpu.priced, one_gpu.program,
                        element_sizes(*job.step, job.framework, job.gpu, job.precision),
                        *strategy.tables);
}

}  // namespace tracecast
