#include "models/topological_order.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "sim/base/random.hpp"

using namespace tracecast;

TEST_SUITE_BEGIN("models/topological_order");

TEST_CASE("nodes that are ready go in the order of their numbers") {
  CHECK(topological_order(4, {}).order == std::vector<std::uint32_t>{0, 1, 2, 3});
  const Precedence edges[] = {{3, 0}, {0, 2}, {3, 0}};
  CHECK(topological_order(4, edges).order == std::vector<std::uint32_t>{1, 3, 0, 2});
  CHECK(topological_order(0, {}).order.empty());
}

TEST_CASE("a cycle is named node by node") {
  const Precedence edges[] = {{0, 1}, {1, 2}, {2, 3}, {3, 1}, {3, 4}};
  const TopologicalOrder result = topological_order(5, edges);
  CHECK(result.order.empty());
  REQUIRE(result.cycle.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    const Precedence step{result.cycle[i], result.cycle[(i + 1) % 3]};
    CHECK(std::find(std::begin(edges), std::end(edges), step) != std::end(edges));
  }
  const Precedence self[] = {{1, 1}};
  CHECK(topological_order(2, self).cycle == std::vector<std::uint32_t>{1});
}

TEST_CASE("every edge of a random graph is respected, in whatever order edges come") {
  Random random(7);
  std::vector<Precedence> edges;
  constexpr std::uint32_t kNodes = 200;
  for (int i = 0; i < 600; ++i) {
    const auto a = static_cast<std::uint32_t>(random.below(kNodes));
    const auto b = static_cast<std::uint32_t>(random.below(kNodes));
    // The hidden order is that of 7 * node mod 200 (7 and 200 have no common divisor).
    if (a != b)
      edges.push_back(a * 7 % kNodes < b * 7 % kNodes ? Precedence{a, b} : Precedence{b, a});
  }
  const TopologicalOrder result = topological_order(kNodes, edges);
  REQUIRE(result.order.size() == kNodes);
  std::vector<std::size_t> place(kNodes);
  for (std::size_t i = 0; i < kNodes; ++i) place[result.order[i]] = i;
  for (const auto& [from, to] : edges) CHECK(place[from] < place[to]);
  std::reverse(edges.begin(), edges.end());
  CHECK(topological_order(kNodes, edges).order == result.order);
}

TEST_CASE("a chain of a million nodes needs no deep stack") {
  std::vector<Precedence> edges;
  constexpr std::uint32_t kNodes = 1'000'000;
  for (std::uint32_t i = 1; i < kNodes; ++i) edges.emplace_back(i, i - 1);
  CHECK(topological_order(kNodes, edges).order.front() == kNodes - 1);
  edges.emplace_back(0, kNodes - 1);
  CHECK(topological_order(kNodes, edges).cycle.size() == kNodes);
}

TEST_SUITE_END();
