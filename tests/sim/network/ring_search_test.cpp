#include "sim/network/ring_search.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/base/random.hpp"

namespace tracecast {
namespace {

using Edge = std::tuple<std::uint32_t, std::uint32_t, int>;

LinkMesh mesh_of(std::uint32_t n, std::initializer_list<Edge> edges) {
  LinkMesh mesh{n, std::vector<int>(n * n, 0)};
  for (const auto& [a, b, count] : edges) {
    if (a >= n || b >= n) continue;
    mesh.bricks[a * n + b] += count;
    mesh.bricks[b * n + a] += count;
  }
  return mesh;
}

/// The hybrid cube mesh of DGX-1 with V100: six links a GPU. The first n GPUs of it.
LinkMesh cube_mesh(std::uint32_t n) {
  return mesh_of(n, {{0, 1, 1},
                     {0, 2, 1},
                     {0, 3, 2},
                     {1, 2, 2},
                     {1, 3, 1},
                     {2, 3, 2},
                     {4, 5, 1},
                     {4, 6, 1},
                     {4, 7, 2},
                     {5, 6, 2},
                     {5, 7, 1},
                     {6, 7, 2},
                     {0, 4, 2},
                     {1, 5, 2},
                     {2, 6, 1},
                     {3, 7, 1}});
}

void check_valid(const LinkMesh& mesh, const std::vector<MeshCycle>& cycles) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, int> taken;
  for (const MeshCycle& cycle : cycles) {
    std::vector<std::uint32_t> order = cycle.order;
    std::sort(order.begin(), order.end());
    REQUIRE(order.size() == mesh.num_nodes);
    for (std::uint32_t i = 0; i < order.size(); ++i) CHECK(order[i] == i);
    for (const auto& [a, b] : cycle.bricks) ++taken[{std::min(a, b), std::max(a, b)}];
  }
  for (const auto& [pair, count] : taken) CHECK(count <= mesh.between(pair.first, pair.second));
}

TEST_SUITE_BEGIN("sim/network/ring_search");

TEST_CASE("the hybrid cube mesh holds as many cycles as its weakest GPU has pairs of links") {
  struct Row {
    const char* what;
    std::uint32_t gpus;
    std::size_t cycles;
  };
  const Row rows[] = {
      {"0,1,2: GPU 0 has one link to each", 3, 1},
      {"a quad: GPUs 0 and 1 have four links in it", 4, 2},
      {"GPU 4 reaches GPU 0 alone: no way through", 5, 0},
      {"GPUs 4 and 5 have three links each", 6, 1},
      {"GPU 4 has 2 + 1 + 1 links", 7, 2},
      {"all: six links each", 8, 3},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const LinkMesh mesh = cube_mesh(row.gpus);
    const auto cycles = pack_cycles(mesh, false);
    CHECK(cycles.size() == row.cycles);
    check_valid(mesh, cycles);
  }
}

TEST_CASE("a GPU with one neighbour joins a cycle over it when relays are allowed") {
  // GPU 4 has two links, both to GPU 0: out and back take both.
  const LinkMesh mesh = cube_mesh(5);
  const auto cycles = pack_cycles(mesh, true);
  REQUIRE(cycles.size() == 1);
  check_valid(mesh, cycles);
  CHECK(cycles[0].bricks.size() == 6);  // five hops, one of them over a third GPU
}

TEST_CASE("cycles of random meshes pass every node once and never take a brick twice") {
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    const auto n = static_cast<std::uint32_t>(3 + random.below(6));
    LinkMesh mesh{n, std::vector<int>(n * n, 0)};
    for (std::uint32_t a = 0; a < n; ++a) {
      for (std::uint32_t b = a + 1; b < n; ++b) {
        const int count = std::max(0, static_cast<int>(random.below(4)) - 1);
        mesh.bricks[a * n + b] = mesh.bricks[b * n + a] = count;
      }
    }
    CAPTURE(round);
    const auto direct = pack_cycles(mesh, false);
    check_valid(mesh, direct);
    check_valid(mesh, pack_cycles(mesh, true));
    for (std::uint32_t a = 0; a < n; ++a) {
      int degree = 0;
      for (std::uint32_t b = 0; b < n; ++b) degree += mesh.between(a, b);
      CHECK(2 * direct.size() <= static_cast<std::size_t>(degree));
    }
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
