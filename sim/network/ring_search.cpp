#include "sim/network/ring_search.hpp"

#include <algorithm>
#include <optional>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

class Search {
 public:
  Search(const LinkMesh& mesh, bool relay) : mesh_(mesh), left_(mesh.bricks), relay_(relay) {}

  /// Exactly `count` cycles, or none.
  std::vector<MeshCycle> find(std::size_t count) {
    wanted_ = count;
    steps_ = 0;
    cycles_.clear();
    return begin_cycle() ? cycles_ : std::vector<MeshCycle>{};
  }

 private:
  static constexpr int kMostSteps = 1'000'000;

  bool begin_cycle() {
    if (cycles_.size() == wanted_) return true;
    cycles_.emplace_back();
    cycles_.back().order.push_back(0);
    if (extend()) return true;
    cycles_.pop_back();
    return false;
  }

  bool extend() {
    if (++steps_ > kMostSteps) return false;
    MeshCycle& cycle = cycles_.back();
    const std::size_t index = cycles_.size() - 1;
    const std::uint32_t at = cycle.order.back();
    if (cycle.order.size() == mesh_.num_nodes) {
      return hop(at, 0, [&] { return begin_cycle(); });
    }
    for (std::uint32_t next = 1; next < mesh_.num_nodes; ++next) {
      const auto& order = cycles_[index].order;
      if (std::find(order.begin(), order.end(), next) != order.end()) continue;
      const bool found = hop(at, next, [&] {
        cycles_[index].order.push_back(next);
        if (extend()) return true;
        cycles_[index].order.pop_back();
        return false;
      });
      if (found) return true;
    }
    return false;
  }

  /// Tries the direct brick, then one over each third node; `then` goes on from there.
  template <class Then>
  bool hop(std::uint32_t a, std::uint32_t b, const Then& then) {
    const std::size_t index = cycles_.size() - 1;
    if (left(a, b) > 0) return with_bricks(index, {{a, b}}, then);
    if (!relay_ || mesh_.between(a, b) > 0) return false;
    for (std::uint32_t via = 0; via < mesh_.num_nodes; ++via) {
      if (via == a || via == b || left(a, via) == 0 || left(via, b) == 0) continue;
      if (with_bricks(index, {{a, via}, {via, b}}, then)) return true;
    }
    return false;
  }

  template <class Then>
  bool with_bricks(std::size_t index,
                   const std::vector<std::pair<std::uint32_t, std::uint32_t>>& taken,
                   const Then& then) {
    for (const auto& [a, b] : taken) {
      change(a, b, -1);
      cycles_[index].bricks.emplace_back(a, b);
    }
    if (then()) return true;
    for (const auto& [a, b] : taken) {
      change(a, b, 1);
      cycles_[index].bricks.pop_back();
    }
    return false;
  }

  [[nodiscard]] int left(std::uint32_t a, std::uint32_t b) const {
    return left_[a * mesh_.num_nodes + b];
  }
  void change(std::uint32_t a, std::uint32_t b, int by) {
    left_[a * mesh_.num_nodes + b] += by;
    left_[b * mesh_.num_nodes + a] += by;
  }

  const LinkMesh& mesh_;
  std::vector<int> left_;
  bool relay_;
  std::size_t wanted_ = 0;
  int steps_ = 0;
  std::vector<MeshCycle> cycles_;
};

}  // namespace

std::vector<MeshCycle> pack_cycles(const LinkMesh& mesh, bool relay) {
  TRACECAST_CHECK(mesh.num_nodes >= 3, "a cycle has three nodes or more");
  std::optional<int> least;
  for (std::uint32_t a = 0; a < mesh.num_nodes; ++a) {
    int degree = 0;
    for (std::uint32_t b = 0; b < mesh.num_nodes; ++b) degree += mesh.between(a, b);
    least = std::min(least.value_or(degree), degree);
  }
  for (int count = *least / 2; count > 0; --count) {
    auto cycles = Search(mesh, relay).find(static_cast<std::size_t>(count));
    if (!cycles.empty()) return cycles;
  }
  return {};
}

}  // namespace tracecast
