#include "sim/parallel/sharded_tables.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "sim/step/prediction.hpp"
#include "tests/sim/hardware.hpp"
#include "tests/sim/layered_network.hpp"

namespace tracecast {
namespace {

std::vector<EmbeddingTable> tables_of(std::vector<std::pair<std::int64_t, std::int64_t>> sizes) {
  std::vector<EmbeddingTable> tables;
  for (const auto& [rows, bag] : sizes) {
    tables.push_back({.lookup = OpId{}, .rows = rows, .width = 2, .bag = bag});
  }
  return tables;
}

NetworkGraph dlrm_of(std::string_view name, std::int64_t batch) {
  return build_network(name, {.batch = batch, .training = true});
}

std::int64_t elements(const NetworkGraph& graph, TensorId tensor) {
  return element_count(graph.tensor(tensor).shape);
}

TEST_SUITE_BEGIN("sim/parallel/sharded_tables");

TEST_CASE("an average row repeats as a Poisson variable says, a bag misses a part as dice do") {
  CHECK(repeat_probability(1000, 1000) == doctest::Approx(1 - 2 / std::exp(1.0)));
  CHECK(repeat_probability(1, 1'000'000) < 1e-11);
  CHECK(share_of_bags(1, 4) == doctest::Approx(0.25));
  CHECK(share_of_bags(2, 2) == doctest::Approx(0.75));
  CHECK(share_of_bags(7, 1) == doctest::Approx(1.0));
}

TEST_CASE("where tables lie") {
  const auto four = tables_of({{100, 1}, {50, 1}, {10, 1}, {5, 1}});
  const auto bags = tables_of({{1000, 100}, {1000, 10}, {1000, 10}, {1000, 10}});
  struct Row {
    const char* what;
    std::span<const EmbeddingTable> tables;
    std::uint32_t ranks;
    TableStrategy strategy;
    double row_limit, ids, vectors, rows, received;
  };
  const Row rows[] = {
      {"two on each: 100 and 5, 50 and 10", four, 2, {}, 0, 2, 2, 105, 4},
      {"rows over four ranks: every id is on one of them",
       four,
       4,
       {.parallel_layout = TableSharding::Rows},
       0,
       1,
       1,
       25 + 13 + 3 + 2,
       4},
      {"a bag of two on two ranks: three of four have an id on either",
       std::span(bags).subspan(1, 1),
       2,
       {.parallel_layout = TableSharding::Rows},
       0,
       5,
       1 - std::pow(0.5, 10),
       500,
       2 * (1 - std::pow(0.5, 10))},
      // 65 ids a rank on average: the first table in halves of 50; then 10 to each, and 10 to the
      // first.
      {"the costliest in halves",
       bags,
       2,
       {.parallel_layout = TableSharding::Balanced, .vector_cost = 0},
       0,
       70,
       2 + (1 - std::pow(0.5, 100)),
       2500,
       3 + 2 * (1 - std::pow(0.5, 100))},
      // 43 ids a rank: the first table in three parts of 334 rows, the others in two of 500, two of
      // which go to each rank.
      {"no part larger than half the room",
       bags,
       3,
       {.parallel_layout = TableSharding::Balanced, .vector_cost = 0},
       1400,
       130 / 3.0,
       0,
       334 + 1000,
       0},
      {"small ones on all: 10 rows of 8 bytes",
       four,
       2,
       {.replicated = Bytes(80)},
       0,
       1,
       1,
       100,
       2},
      // 16 samples look up rows of 100: 1 - 1.16 exp(-0.16) = 0.0115; of 50: 0.041.
      {"those that repeat on all", four, 2, {.repeat_probability = 0.03}, 0, 1, 1, 100, 1},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const TablePlacement placed =
        place_tables(row.tables, row.ranks, 16, row.strategy, row.row_limit);
    CHECK(placed.ids == doctest::Approx(row.ids));
    CHECK(placed.rows == doctest::Approx(row.rows));
    if (row.vectors > 0) CHECK(placed.vectors == doctest::Approx(row.vectors));
    if (row.received > 0) CHECK(placed.received == doctest::Approx(row.received));
  }
}

TEST_CASE("a rank looks its own rows up for all samples and gets the sums of its own samples") {
  const NetworkGraph whole = dlrm_of("dlrm_kaggle", 64);  // 26 tables, one id each
  const ShardedNetwork sharded = divide_tables(whole, 4, {}, 0);
  REQUIRE(sharded.communication);
  // Seven tables on the fullest rank at most, 256 samples; 26 sums of 16 numbers for each of 64
  // samples.
  CHECK(elements(sharded.forward, sharded.ids) == 7 * 256);
  CHECK(elements(sharded.forward, sharded.sent) == 7 * 256 * 16);
  CHECK(elements(sharded.forward, sharded.received) == 26 * 64 * 16);
  CHECK(sharded.forward.forward_macs() == whole.forward_macs());
  CHECK(sharded.forward.parameter_count() < whole.parameter_count());
  double rows = 0;
  for (const EmbeddingTable& table : sharded.tables) rows += static_cast<double>(table.rows);
  CHECK(sharded.placement.rows >= rows / 4);
}

TEST_CASE("a rank updates its own rows in the backward pass, what all have at its end") {
  const NetworkGraph whole = dlrm_of("dlrm_kaggle", 64);
  const ShardedNetwork sharded = divide_tables(whole, 4, {.repeat_probability = 0.03}, 0);
  const NetworkGraph step = with_tables_updated_at_once(
      make_step_graph(sharded.forward, Phase::Train, {.optimizer = "sgd"}), sharded);
  std::vector<std::string> in_backward;
  std::size_t at_end = 0;
  bool ended = false;
  for (const Op& op : step.ops()) {
    ended = ended || op.pass == Pass::Update;
    if (op.kind != OpKind::Optimizer) continue;
    if (op.pass == Pass::Backward) {
      CHECK(!ended);
      in_backward.push_back(step.tensor(op.inputs.front()).name);
    } else {
      ++at_end;
    }
  }
  CHECK(in_backward == std::vector<std::string>{"tables.weight"});
  CHECK(at_end == 2 * 7 + 1);  // weight and bias of seven layers, and the replicated tables
}

TEST_CASE("networks whose tables cannot be divided say why") {
  CHECK_THROWS_WITH_AS(divide_tables(dlrm_of("lenet", 4), 2, {}, 0),
                       doctest::Contains("no embedding tables"), InputError);
}

TEST_CASE("what crosses in the midst of a step is waited for unless kernels hide it") {
  const test::Hardware hardware;
  const Fabric fabric = hardware.build("dgx1", 2, 1, "v100_sxm2_16gb");
  const test::LayeredNetwork network(
      {{.elements = 1000, .forward = 1.0_ms, .backward = 2.0_ms, .update = 0.1_ms},
       {.elements = 1000, .forward = 1.0_ms, .backward = 2.0_ms, .update = 0.1_ms}});
  StrategyProfile strategy;
  strategy.communication = Communication::AllReduce;
  strategy.library = "nccl";
  const auto step_with = [&](const std::vector<Crossing>& crossings) {
    DataParallelRequest request{
        .fabric = fabric, .strategy = strategy, .kinds = {}, .kind_of = {0, 0}, .host = {}};
    request.kinds.push_back(network.kind(fabric.gpu_of(Rank{0})));
    request.kinds.back().crossings = crossings;
    request.crossings.assign(crossings.size(), {.most = Bytes(4e6)});
    return simulate_data_parallel(request).step_time;
  };
  const std::vector<CrossingWork> sizes{{.most = Bytes(4e6)}};
  const Seconds alone =
      time_alone(plan_crossings(sizes, strategy, fabric, "").front().transfer, fabric);
  REQUIRE(alone > 50.0_us);
  const Seconds base = step_with({});
  const auto more = [&](Crossing crossing) { return step_with({crossing}) - base; };
  // Between the two layers nothing hides it; behind the second forward kernel only what SMs it
  // takes.
  CHECK(more({.ready_after = 0, .first_use = 1}).in_us() ==
        doctest::Approx(alone.in_us()).epsilon(1e-3));
  CHECK(more({.ready_after = 0, .first_use = 2}) < alone * 0.6);
  CHECK(more({.ready_after = 0, .first_use = 2}) >= Seconds(0));
  CHECK(more({.ready_after = {}, .first_use = 0}).in_us() ==
        doctest::Approx(alone.in_us()).epsilon(1e-3));
  CHECK(more({}) < alone * 0.6);
}

TEST_CASE("additions at the far end go number by number where the links cannot add") {
  const test::Hardware hardware;
  StrategyProfile strategy;
  strategy.communication = Communication::AllReduce;
  strategy.library = "nccl";
  const std::vector<CrossingWork> additions{{.additions = 1e6}};
  const auto alone = [&](const Fabric& fabric) {
    return time_alone(plan_crossings(additions, strategy, fabric, "").front().transfer, fabric);
  };
  // Seven eighths of a million numbers on other GPUs, the farthest 1.1 us away: twice there and
  // back, 256 at a time.
  const Fabric pcie = hardware.build("pcie_host_2020", 8, 1, "a100_pcie_40gb");
  const Seconds way = pcie.route(Rank{0}, Rank{7}).latency;
  CHECK(alone(pcie).in_us() == doctest::Approx(1e6 * 7 / 8 * 4 * way.in_us() / 256));
  const std::vector<CrossingWork> bytes{{.most = Bytes(4e6)}};
  const Fabric nvlink = hardware.build("dgx2", 8);
  CHECK(alone(nvlink) ==
        time_alone(plan_crossings(bytes, strategy, nvlink, "").front().transfer, nvlink));
  CHECK(alone(hardware.build("dgx2", 8, 2)) == Seconds(0));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
