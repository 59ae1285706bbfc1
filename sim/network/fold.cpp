#include "sim/network/fold.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace tracecast {
namespace {

/// Numbers things by their first appearance.
template <class Key>
class Numbers {
 public:
  std::uint32_t of(const Key& key) {
    return known_.emplace(key, static_cast<std::uint32_t>(known_.size())).first->second;
  }

 private:
  std::map<Key, std::uint32_t> known_;
};

using SlowKey = std::tuple<std::string, std::string, double>;
/// Everything in which a node's ranks may differ from another's, its place apart.
struct NodeKey {
  std::string machine, gpu;
  std::uint32_t ranks = 0;
  double compute = 1;
  std::vector<SlowKey> slow;
  friend auto operator<=>(const NodeKey&, const NodeKey&) = default;
};

NodeKey key_of(const Fabric& fabric, FabricNodeId node) {
  const ClusterGroup& group = fabric.group_of(node);
  NodeKey key{fabric.machine_of(node).id, {}, fabric.ranks_of(node), group.compute_time_factor, {}};
  if (key.ranks > 0) key.gpu = fabric.gpu_of(fabric.first_rank(node)).id;
  for (const SlowLink& slow : group.slow_links) {
    key.slow.emplace_back(slow.a, slow.b, slow.bandwidth_factor);
  }
  return key;
}

/// Classes of nodes by what they are and where they stand.
class Places {
 public:
  explicit Places(const Fabric& fabric) : fabric_(fabric) {
    for (std::uint32_t n = 0; n < fabric.num_nodes(); ++n) {
      kind_.push_back(kinds_.of(key_of(fabric, {n})));
    }
    if (!fabric.spec().network.switches.empty()) {
      place_on_tree();
    } else if (fabric.spec().network.nodes_per_leaf > 0) {
      place_on_leaves();
    } else {
      place_.assign(fabric.num_nodes(), 0);
    }
  }

  [[nodiscard]] std::pair<std::uint32_t, std::uint32_t> of(FabricNodeId node) const {
    return {kind_[node.index], place_[node.index]};
  }

 private:
  /// Leaf groups are alike when the same kinds of nodes stand below them, each in the same number.
  void place_on_leaves() {
    const auto per_leaf = static_cast<std::uint32_t>(fabric_.spec().network.nodes_per_leaf);
    Numbers<std::vector<std::uint32_t>> leaves;
    for (std::uint32_t first = 0; first < fabric_.num_nodes(); first += per_leaf) {
      const std::uint32_t last = std::min(first + per_leaf, fabric_.num_nodes());
      std::vector<std::uint32_t> below(kind_.begin() + first, kind_.begin() + last);
      std::sort(below.begin(), below.end());
      place_.insert(place_.end(), last - first, leaves.of(below));
    }
  }

  /// Switches of a tree are alike when their subtrees are and their parents are: colours from the
  /// leaves up (Aho, Hopcroft, Ullman, 1974, tree isomorphism), then classes from the root down.
  void place_on_tree() {
    const std::vector<ClusterSwitch>& switches = fabric_.spec().network.switches;
    const std::size_t count = switches.size();
    std::map<std::string, std::size_t> by_name;
    for (std::size_t s = 0; s < count; ++s) by_name[switches[s].name] = s;
    std::vector<std::vector<std::size_t>> children(count);
    std::vector<std::vector<std::uint32_t>> below(count);
    std::size_t root = 0;
    for (std::size_t s = 0; s < count; ++s) {
      if (switches[s].parent.empty()) {
        root = s;
      } else {
        children[by_name[switches[s].parent]].push_back(s);
      }
    }
    for (std::uint32_t n = 0; n < fabric_.num_nodes(); ++n) {
      below[by_name[fabric_.group_of({n}).switch_name]].push_back(kind_[n]);
    }
    std::vector<std::size_t> order{root};  // parents first
    for (std::size_t i = 0; i < order.size(); ++i) {
      order.insert(order.end(), children[order[i]].begin(), children[order[i]].end());
    }
    using Colour =
        std::tuple<std::string, int, std::vector<std::uint32_t>, std::vector<std::uint32_t>>;
    Numbers<Colour> colours;
    std::vector<std::uint32_t> colour(count), place(count);
    for (auto s = order.rbegin(); s != order.rend(); ++s) {
      std::vector<std::uint32_t> subtrees;
      for (const std::size_t child : children[*s]) subtrees.push_back(colour[child]);
      std::sort(subtrees.begin(), subtrees.end());
      std::sort(below[*s].begin(), below[*s].end());
      colour[*s] = colours.of({switches[*s].link, switches[*s].count, below[*s], subtrees});
    }
    Numbers<std::pair<std::uint32_t, std::uint32_t>> places;
    for (const std::size_t s : order) {
      const std::uint32_t above =
          switches[s].parent.empty() ? 0 : 1 + place[by_name[switches[s].parent]];
      place[s] = places.of({above, colour[s]});
    }
    for (std::uint32_t n = 0; n < fabric_.num_nodes(); ++n) {
      place_.push_back(place[by_name[fabric_.group_of({n}).switch_name]]);
    }
  }

  const Fabric& fabric_;
  Numbers<NodeKey> kinds_;
  std::vector<std::uint32_t> kind_, place_;  ///< by node
};

class Folder {
 public:
  explicit Folder(const Fabric& fabric) : fabric_(fabric) {}

  RankClasses by_readiness() {
    return classify([&](Rank rank) {
      const FabricNodeId node = fabric_.node_of(rank);
      return std::tuple(fabric_.machine_of(node).id, fabric_.gpu_of(rank).id,
                        fabric_.group_of(node).compute_time_factor);
    });
  }

  RankClasses by_place() {
    const Places places(fabric_);
    return classify([&](Rank rank) {
      return std::tuple(places.of(fabric_.node_of(rank)), fabric_.slot_of(rank));
    });
  }

 private:
  template <class KeyOf>
  RankClasses classify(const KeyOf& key_of) {
    RankClasses classes;
    std::map<decltype(key_of(Rank{})), std::uint32_t> known;
    for (std::uint32_t r = 0; r < fabric_.num_ranks(); ++r) {
      const auto next = static_cast<std::uint32_t>(classes.representatives.size());
      const bool jittered = fabric_.group_of(fabric_.node_of({r})).start_jitter > Seconds(0);
      const std::uint32_t mine =
          jittered ? next : known.emplace(key_of(Rank{r}), next).first->second;
      if (mine == next) {
        classes.representatives.push_back({r});
        classes.sizes.push_back(0);
      }
      classes.class_of.push_back(mine);
      ++classes.sizes[mine];
    }
    return classes;
  }

  const Fabric& fabric_;
};

}  // namespace

RankClasses fold(const Fabric& fabric, Meeting meeting) {
  Folder folder(fabric);
  return meeting == Meeting::InCollectives ? folder.by_readiness() : folder.by_place();
}

}  // namespace tracecast
