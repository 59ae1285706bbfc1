#include "sim/parallel/sharded_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/parallel/kernels_of_ops.hpp"

namespace tracecast {
namespace {

/// What the ranks have got so far.
struct RankLoad {
  double ids = 0, vectors = 0, rows = 0, work = 0;
  std::size_t parts = 0;
};

/// Tables to ranks, one part after the other.
class TablePlacer {
 public:
  TablePlacer(std::span<const EmbeddingTable> tables, std::uint32_t ranks,
              const TableStrategy& strategy, double row_limit)
      : tables_(tables), loads_(ranks), strategy_(strategy), row_limit_(row_limit) {}

  void place(std::span<const std::uint32_t> sharded, TablePlacement& placement) {
    switch (strategy_.parallel_layout) {
      case TableSharding::Whole:
        place_whole(sharded, placement);
        break;
      case TableSharding::Rows:
        for (const std::uint32_t t : sharded) {
          placement.shards[t] = ranks();
          for (RankLoad& load : loads_) add(t, ranks(), load);
        }
        break;
      case TableSharding::Balanced:
        place_balanced(sharded, placement);
        break;
    }
    for (const RankLoad& load : loads_) {
      placement.ids = std::max(placement.ids, load.ids);
      placement.vectors = std::max(placement.vectors, load.vectors);
      placement.rows = std::max(placement.rows, load.rows);
    }
    for (const std::uint32_t t : sharded) {
      placement.received +=
          placement.shards[t] * share_of_bags(tables_[t].bag, placement.shards[t]);
    }
  }

 private:
  [[nodiscard]] std::uint32_t ranks() const { return static_cast<std::uint32_t>(loads_.size()); }
  [[nodiscard]] double rows_of(std::uint32_t t, std::uint32_t shards) const {
    return std::ceil(static_cast<double>(tables_[t].rows) / shards);
  }
  [[nodiscard]] double work_of(std::uint32_t t, std::uint32_t shards) const {
    return static_cast<double>(tables_[t].bag) / shards +
           strategy_.vector_cost * share_of_bags(tables_[t].bag, shards);
  }
  void add(std::uint32_t t, std::uint32_t shards, RankLoad& load) const {
    load.ids += static_cast<double>(tables_[t].bag) / shards;
    load.vectors += share_of_bags(tables_[t].bag, shards);
    load.rows += rows_of(t, shards);
    load.work += work_of(t, shards);
    ++load.parts;
  }

  void place_whole(std::span<const std::uint32_t> sharded, TablePlacement& placement) {
    std::vector<std::uint32_t> order(sharded.begin(), sharded.end());
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return tables_[a].rows > tables_[b].rows;
    });
    const std::size_t most = (order.size() + loads_.size() - 1) / loads_.size();
    for (const std::uint32_t t : order) {
      RankLoad* fewest = nullptr;
      for (RankLoad& load : loads_) {
        if (load.parts < most && (fewest == nullptr || load.rows < fewest->rows)) fewest = &load;
      }
      placement.shards[t] = 1;
      add(t, 1, *fewest);
    }
  }

  void place_balanced(std::span<const std::uint32_t> sharded, TablePlacement& placement) {
    double mean = 0;
    for (const std::uint32_t t : sharded) mean += work_of(t, 1) / ranks();
    std::vector<std::uint32_t> parts;
    for (const std::uint32_t t : sharded) {
      double shards = std::ceil(work_of(t, 1) / mean);
      if (row_limit_ > 0) {
        shards =
            std::max(shards, std::ceil(static_cast<double>(tables_[t].rows) / (row_limit_ / 2)));
      }
      placement.shards[t] =
          static_cast<std::uint32_t>(std::clamp(shards, 1.0, static_cast<double>(ranks())));
      parts.insert(parts.end(), placement.shards[t], t);
    }
    std::stable_sort(parts.begin(), parts.end(), [&](std::uint32_t a, std::uint32_t b) {
      return work_of(a, placement.shards[a]) > work_of(b, placement.shards[b]);
    });
    for (const std::uint32_t t : parts) {
      const std::uint32_t shards = placement.shards[t];
      const auto has_room = [&](const RankLoad& load) {
        return row_limit_ <= 0 || load.rows + rows_of(t, shards) <= row_limit_;
      };
      // Parts of one table may meet on a rank: their ids and sums are then as two parts'.
      const auto least =
          std::min_element(loads_.begin(), loads_.end(), [&](const RankLoad& a, const RankLoad& b) {
            if (has_room(a) != has_room(b)) return has_room(a);
            return has_room(a) ? a.work < b.work : a.rows < b.rows;
          });
      add(t, shards, *least);
    }
  }

  std::span<const EmbeddingTable> tables_;
  std::vector<RankLoad> loads_;
  const TableStrategy& strategy_;
  double row_limit_;
};

std::int64_t rounded_up(double count) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(count)));
}

/// Copies a network without its lookups, and with those of one rank.
class TableDivider {
 public:
  TableDivider(const NetworkGraph& forward, std::uint32_t ranks, ShardedNetwork& network,
               const TableStrategy& strategy)
      : forward_(forward), ranks_(ranks), network_(network), strategy_(strategy) {}

  void divide() {
    NetworkGraph& g = network_.forward;
    g.name = forward_.name;
    g.batch = forward_.batch;
    g.training_mode = forward_.training_mode;
    const OpId join = find_join();
    const std::vector<TensorId> looked_up = add_lookups();
    copy_tensors();
    for (std::uint32_t i = 0; i < forward_.ops().size(); ++i) {
      const Op& op = forward_.op(OpId{i});
      if (op.kind == OpKind::EmbeddingBag) continue;
      Op copy = op;
      copy.inputs.clear();
      for (const TensorId input : op.inputs) {
        if (!is_sum(input)) copy.inputs.push_back(*renamed_[input.index]);
      }
      if (OpId{i} == join) {
        copy.inputs.insert(copy.inputs.end(), looked_up.begin(), looked_up.end());
      }
      for (TensorId& output : copy.outputs) output = *renamed_[output.index];
      g.add_op(std::move(copy));
    }
    for (const TensorId output : forward_.outputs) g.outputs.push_back(*renamed_[output.index]);
  }

 private:
  [[nodiscard]] bool is_sum(TensorId tensor) const {
    const auto producer = forward_.producer(tensor);
    return producer && forward_.op(*producer).kind == OpKind::EmbeddingBag;
  }

  /// The one op that reads sums of rows.
  [[nodiscard]] OpId find_join() const {
    std::optional<OpId> join;
    for (std::uint32_t i = 0; i < forward_.ops().size(); ++i) {
      const Op& op = forward_.op(OpId{i});
      const bool reads = std::any_of(op.inputs.begin(), op.inputs.end(),
                                     [&](TensorId input) { return is_sum(input); });
      if (!reads) continue;
      if (join || op.kind != OpKind::Concat) {
        throw InputError("network " + forward_.name, "rows of tables read by " + op.name,
                         "one Concat that joins what is looked up in all tables");
      }
      join = OpId{i};
    }
    if (!join)
      throw InputError("network " + forward_.name, "lookups that nothing reads", "a reader");
    return *join;
  }

  TensorId add_sums(const std::string& name, double ids, double rows, double sums,
                    TensorId& id_list) {
    NetworkGraph& g = network_.forward;
    const std::int64_t width = network_.tables.front().width;
    const Op& lookup = forward_.op(network_.tables.front().lookup);
    const Tensor& one_id = forward_.tensor(lookup.inputs.front());
    id_list = g.add_tensor({.name = name + ".ids",
                            .shape = {rounded_up(ids), 1},
                            .role = TensorRole::Input,
                            .is_integer = true,
                            .integer_bytes = one_id.integer_bytes});
    const TensorId table = g.add_tensor({.name = name + ".weight",
                                         .shape = {rounded_up(rows), width},
                                         .role = TensorRole::Weight,
                                         .is_wide = strategy_.keeps_wide});
    const TensorId out = g.add_tensor({.name = name, .shape = {rounded_up(sums), width}});
    g.add_op(
        {.name = name, .kind = OpKind::EmbeddingBag, .inputs = {id_list, table}, .outputs = {out}});
    return out;
  }

  /// What takes the place of the sums in the join.
  std::vector<TensorId> add_lookups() {
    NetworkGraph& g = network_.forward;
    const TablePlacement& placement = network_.placement;
    const auto batch = static_cast<double>(forward_.batch);
    const std::int64_t width = network_.tables.front().width;
    std::int64_t sharded = 0, replicated = 0, replicated_rows = 0, replicated_ids = 0;
    for (std::size_t t = 0; t < network_.tables.size(); ++t) {
      if (placement.shards[t] > 0) {
        ++sharded;
        continue;
      }
      ++replicated;
      replicated_rows += network_.tables[t].rows;
      replicated_ids += network_.tables[t].bag;
    }
    std::vector<TensorId> looked_up;
    if (sharded > 0) {
      const double all = batch * ranks_;
      network_.sent = add_sums("tables", placement.ids * all, placement.rows,
                               placement.vectors * all, network_.ids);
      network_.received =
          g.add_tensor({.name = "tables.received", .shape = {forward_.batch, sharded * width}});
      network_.communication = g.add_op({.name = "tables.communication",
                                         .kind = OpKind::Reshape,
                                         .inputs = {network_.sent},
                                         .outputs = {network_.received}});
      looked_up.push_back(network_.received);
    }
    if (replicated > 0) {
      TensorId ids;
      const TensorId sums = add_sums("replicated", batch * static_cast<double>(replicated_ids),
                                     static_cast<double>(replicated_rows),
                                     batch * static_cast<double>(replicated), ids);
      network_.replicated = sums;
      const TensorId view =
          g.add_tensor({.name = "replicated.view", .shape = {forward_.batch, replicated * width}});
      g.add_op({.name = "replicated.view",
                .kind = OpKind::Reshape,
                .inputs = {sums},
                .outputs = {view}});
      looked_up.push_back(view);
    }
    return looked_up;
  }

  void copy_tensors() {
    renamed_.resize(forward_.tensors().size());
    std::vector<bool> dropped(renamed_.size());
    for (const Op& op : forward_.ops()) {
      if (op.kind != OpKind::EmbeddingBag) continue;
      for (const TensorId input : op.inputs) dropped[input.index] = true;
      for (const TensorId output : op.outputs) dropped[output.index] = true;
    }
    for (std::size_t t = 0; t < renamed_.size(); ++t) {
      if (!dropped[t]) renamed_[t] = network_.forward.add_tensor(forward_.tensors()[t]);
    }
  }

  const NetworkGraph& forward_;
  std::uint32_t ranks_;
  ShardedNetwork& network_;
  const TableStrategy& strategy_;
  std::vector<std::optional<TensorId>> renamed_;
};

/// The first op behind `from` that reads a tensor.
std::optional<OpId> reader_of(const NetworkGraph& graph, TensorId tensor, std::uint32_t from) {
  for (std::uint32_t i = from; i < graph.ops().size(); ++i) {
    const auto& inputs = graph.op(OpId{i}).inputs;
    if (std::find(inputs.begin(), inputs.end(), tensor) != inputs.end()) return OpId{i};
  }
  return std::nullopt;
}

}  // namespace

std::vector<EmbeddingTable> find_tables(const NetworkGraph& forward) {
  std::vector<EmbeddingTable> tables;
  for (std::uint32_t i = 0; i < forward.ops().size(); ++i) {
    const Op& op = forward.op(OpId{i});
    if (op.kind != OpKind::EmbeddingBag || op.pass != Pass::Forward) continue;
    const Shape& ids = forward.tensor(op.inputs[0]).shape;
    const Shape& table = forward.tensor(op.inputs[1]).shape;
    tables.push_back({.lookup = OpId{i}, .rows = table[0], .width = table[1], .bag = ids[1]});
  }
  return tables;
}

double share_of_bags(std::int64_t bag, std::uint32_t shards) {
  return 1 - std::pow(1 - 1.0 / shards, static_cast<double>(bag));
}

double repeat_probability(double lookups, std::int64_t rows) {
  const double mean = lookups / static_cast<double>(std::max<std::int64_t>(rows, 1));
  return 1 - (1 + mean) * std::exp(-mean);
}

TablePlacement place_tables(std::span<const EmbeddingTable> tables, std::uint32_t ranks,
                            std::int64_t batch, const TableStrategy& strategy, double row_limit) {
  TablePlacement placement;
  placement.shards.assign(tables.size(), 0);
  std::vector<std::uint32_t> sharded;
  for (std::uint32_t t = 0; t < tables.size(); ++t) {
    const EmbeddingTable& table = tables[t];
    const Bytes size(4.0 * static_cast<double>(table.rows) * static_cast<double>(table.width));
    const double lookups = static_cast<double>(batch) * static_cast<double>(table.bag);
    const bool repeats = strategy.repeat_probability < 1 &&
                         repeat_probability(lookups, table.rows) > strategy.repeat_probability;
    if (size > strategy.replicated && !repeats) sharded.push_back(t);
  }
  TablePlacer(tables, ranks, strategy, row_limit).place(sharded, placement);
  return placement;
}

ShardedNetwork divide_tables(const NetworkGraph& forward, std::uint32_t ranks,
                             const TableStrategy& strategy, double row_limit) {
  ShardedNetwork network;
  network.tables = find_tables(forward);
  if (network.tables.empty()) {
    throw InputError("network " + forward.name, "no embedding tables to divide",
                     "a network that looks up and adds rows of tables, such as dlrm");
  }
  for (const EmbeddingTable& table : network.tables) {
    if (table.width == network.tables.front().width) continue;
    throw InputError(
        "network " + forward.name,
        fmt::format("tables of widths {} and {}", network.tables.front().width, table.width),
        "tables of one width");
  }
  network.placement = place_tables(network.tables, ranks, forward.batch, strategy, row_limit);
  TableDivider(forward, ranks, network, strategy).divide();
  return network;
}

NetworkGraph with_tables_updated_at_once(const NetworkGraph& step, const ShardedNetwork& network) {
  if (!network.communication) return step;
  const TensorId own = step.op(*step.producer(network.sent)).inputs[1];
  std::optional<std::uint32_t> update;
  for (std::uint32_t i = 0; i < step.ops().size(); ++i) {
    const Op& op = step.op(OpId{i});
    if (op.kind == OpKind::Optimizer && op.inputs.front() == own) update = i;
  }
  if (!update) return step;
  NetworkGraph moved;
  moved.name = step.name;
  moved.batch = step.batch;
  moved.training_mode = step.training_mode;
  moved.reserve(step.tensors().size(), step.ops().size());
  for (const Tensor& tensor : step.tensors()) moved.add_tensor(tensor);
  const auto gradient_of = step.producer(step.op(OpId{*update}).inputs[1]);
  for (std::uint32_t i = 0; i < step.ops().size(); ++i) {
    if (i != *update) moved.add_op(step.op(OpId{i}));
    if (gradient_of && gradient_of->index == i) {
      Op at_once = step.op(OpId{*update});
      at_once.pass = Pass::Backward;
      moved.add_op(std::move(at_once));
    }
  }
  moved.outputs = step.outputs;
  return moved;
}

namespace {

/// Numbers of the rows that a rank's samples look up in tables that all ranks have.
double numbers_looked_up(const ShardedNetwork& network, double batch) {
  double numbers = 0;
  for (std::size_t t = 0; t < network.tables.size(); ++t) {
    if (network.placement.shards[t] > 0) continue;
    const EmbeddingTable& table = network.tables[t];
    const double rows = static_cast<double>(table.rows);
    const double lookups = batch * static_cast<double>(table.bag);
    numbers += rows * (1 - std::exp(-lookups / rows)) * static_cast<double>(table.width);
  }
  return numbers;
}

}  // namespace

TableCrossings find_crossings(const ShardedNetwork& network, const NetworkGraph& step,
                              const PricedStep& priced, const StepProgram& program,
                              std::span<const Bytes> element_bytes, const TableStrategy& strategy) {
  TableCrossings crossings;
  if (!network.communication) return crossings;
  const KernelsOfOps kernels(step, priced, program);
  const auto bytes = [&](TensorId tensor) {
    return element_bytes[tensor.index] *
           static_cast<double>(element_count(step.tensor(tensor).shape));
  };
  const OpId lookup = *step.producer(network.sent);
  crossings.works.push_back({.most = bytes(network.ids)});
  crossings.by_kernels.push_back(
      {.ready_after = {},
       .first_use = strategy.prefetches_ids ? std::nullopt : std::optional(kernels.first(lookup))});
  const auto sharded =
      std::count_if(network.placement.shards.begin(), network.placement.shards.end(),
                    [](std::uint32_t shards) { return shards > 0; });
  const double parts = network.placement.received / static_cast<double>(sharded);
  const Bytes vectors = max(bytes(network.sent), bytes(network.received) * parts);
  const auto add = [&](OpId producer, std::optional<OpId> reader) {
    Crossing crossing{.ready_after = kernels.last(producer), .first_use = {}};
    if (reader) crossing.first_use = std::max(kernels.first(*reader), *crossing.ready_after + 1);
    crossings.works.push_back({.most = vectors});
    crossings.by_kernels.push_back(crossing);
  };
  add(lookup, reader_of(step, network.received, network.communication->index + 1));
  for (std::uint32_t i = network.communication->index + 1; i < step.ops().size(); ++i) {
    const Op& op = step.op(OpId{i});
    if (op.forward != network.communication || op.pass == Pass::Forward) continue;
    if (const auto producer = step.producer(op.inputs.front())) {
      add(*producer, reader_of(step, op.outputs.front(), i + 1));
    }
  }
  if (!strategy.adds_remotely || !network.replicated) return crossings;
  const OpId rows = *step.producer(*network.replicated);
  for (std::uint32_t i = 0; i < step.ops().size(); ++i) {
    const Op& op = step.op(OpId{i});
    if (op.kind != OpKind::EmbeddingBag || op.forward != rows) continue;
    crossings.works.push_back(
        {.additions = numbers_looked_up(network, static_cast<double>(step.batch))});
    crossings.by_kernels.push_back({.ready_after = kernels.last(OpId{i}), .first_use = {}});
  }
  return crossings;
}

}  // namespace tracecast
