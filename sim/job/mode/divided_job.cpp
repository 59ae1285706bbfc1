#include "sim/job/mode/divided_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "models/lowering/lower.hpp"
#include "models/optimizer.hpp"
#include "sim/base/error.hpp"

namespace tracecast {
namespace {

std::string_view name_of(TableDivision division) {
  switch (division) {
    case TableDivision::Whole:
      return "whole tables, as many on each";
    case TableDivision::Rows:
      return "each cut by rows over all";
    case TableDivision::Balanced:
      break;
  }
  return "by work, the costliest cut by rows";
}

}  // namespace

void divide_tables_of(ResolvedJob& job, const StrategyProfile& strategy, std::uint32_t ranks) {
  const PlacedJob& o = job.options;
  if (o.accumulate > 1 || o.recompute != "none") {
    throw InputError("--strategy " + strategy.id, o.accumulate > 1 ? "--accumulate" : "--recompute",
                     "neither: nothing is known of divided tables with them");
  }
  const int states = job.phase == Phase::Train ? state_count(*find_optimizer(o.optimizer)) : 0;
  const std::vector<EmbeddingTable> tables = find_tables(*job.forward);
  const double row_bytes =
      tables.empty() ? 4.0 : 4.0 * static_cast<double>(tables.front().width) * (1 + states);
  const double row_limit = strategy.tables->memory_share * job.gpu.memory.in_bytes() / row_bytes;
  auto network = std::make_shared<const DividedNetwork>(
      divide_tables(*job.forward, ranks, *strategy.tables, row_limit));
  const StepOptions options{.optimizer = o.optimizer,
                            .copies_first_gradient = job.framework.backward.copies_first_gradient};
  job.step = std::make_shared<const NetworkGraph>(
      with_tables_updated_at_once(make_step_graph(network->forward, job.phase, options), *network));
  const TablePlacement& placement = network->placement;
  const auto divided = std::count_if(placement.shards.begin(), placement.shards.end(),
                                     [](std::uint32_t shards) { return shards > 0; });
  job.assumptions.push_back(
      fmt::format("{} of {} embedding tables divided among {} GPUs ({}), the others on each; the "
                  "fullest has {:.1f} "
                  "million rows, looks up {:.1f} rows of a sample and sends {:.1f} sums",
                  divided, network->tables.size(), ranks, name_of(strategy.tables->division),
                  1e-6 * placement.rows, placement.ids, placement.vectors));
  job.tables = std::move(network);
}

TableCrossings crossings_of(const ResolvedJob& job, const StrategyProfile& strategy,
                            const Prediction& one_gpu) {
  if (!job.tables) return {};
  return find_crossings(*job.tables, *job.step, one_gpu.priced, one_gpu.program,
                        element_sizes(*job.step, job.framework, job.gpu, job.precision),
                        *strategy.tables);
}

}  // namespace tracecast
