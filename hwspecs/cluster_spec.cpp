#include "hwspecs/cluster_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/proto/cluster_spec.pb.h"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

constexpr std::int64_t kMostNodes = 1'000'000;
constexpr std::int64_t kMostGpus = 1024;
constexpr std::int64_t kMostNics = 1024;
constexpr std::int64_t kMostParallel = 100'000;
constexpr int kMostGroups = 4096;
constexpr int kMostSwitches = 4096;

class ClusterLoader {
 public:
  ClusterLoader(std::string_view text, std::string_view where) : where_(where) {
    parse_textproto(text, where, message_, &lines_);
  }

  ClusterSpec load() {
    spec_.id = message_.id();
    spec_.name = message_.has_name() ? message_.name() : message_.id();
    load_network();
    load_groups();
    load_failures();
    spec_.no_p2p = message_.no_p2p();
    return std::move(spec_);
  }

 private:
  using Network = proto::ClusterSpec::Network;

  [[nodiscard]] std::string place(const char* field, int index = 0) const {
    const int line = lines_.find(proto::ClusterSpec::descriptor()->FindFieldByName(field), index);
    return line > 0 ? fmt::format("{}:{}", where_, line) : where_;
  }
  [[noreturn]] void refuse(const std::string& place, const std::string& found,
                           const std::string& expected) const {
    throw InputError(place, found, expected);
  }
  [[nodiscard]] std::int64_t count(const std::string& place, const std::string& what,
                                   std::int64_t value, std::int64_t most) const {
    if (value >= 1 && value <= most) return value;
    refuse(place, fmt::format("{} {}", what, value), fmt::format("1 to {}", most));
  }
  [[nodiscard]] double number(const std::string& place, const std::string& what, double value,
                              double low, double high) const {
    if (value >= low && value <= high) return value;  // NaN fails
    refuse(place, fmt::format("{} {}", what, value), fmt::format("{} to {}", low, high));
  }

  void load_network() {
    const Network& network = message_.network();
    const std::string at = place("network");
    spec_.network.link = network.link();
    if (network.has_nics_per_node()) {
      spec_.network.nics_per_node =
          static_cast<int>(count(at, "network: nics_per_node", network.nics_per_node(), kMostNics));
    }
    if (network.has_nodes_per_leaf()) {
      spec_.network.nodes_per_leaf = static_cast<int>(
          count(at, "network: nodes_per_leaf", network.nodes_per_leaf(), kMostNodes));
    }
    if (network.has_oversubscription()) {
      spec_.network.oversubscription =
          number(at, "network: oversubscription", network.oversubscription(), 1, 1000);
    }
    spec_.network.rail_optimized = network.rail_optimized();
    if ((network.has_oversubscription() || network.rail_optimized()) &&
        !network.has_nodes_per_leaf()) {
      refuse(at, "network: oversubscription or rail_optimized without leaves", "nodes_per_leaf");
    }
    if (network.switch__size() > 0 && network.has_nodes_per_leaf()) {
      refuse(at, "network: both nodes_per_leaf and switches", "one of the two");
    }
    load_switches(network, at);
  }

  [[nodiscard]] const ClusterSwitch* find_switch(const std::string& name) const {
    const auto& all = spec_.network.switches;
    const auto it = std::find_if(all.begin(), all.end(),
                                 [&](const ClusterSwitch& s) { return s.name == name; });
    return it == all.end() ? nullptr : &*it;
  }
  [[nodiscard]] std::string choices(const std::string& word) const {
    std::vector<std::string> names;
    for (const ClusterSwitch& s : spec_.network.switches) names.push_back(s.name);
    return names.empty() ? "none: the network has no switches" : describe_choices(word, names);
  }

  void load_switches(const Network& network, const std::string& at) {
    if (network.switch__size() > kMostSwitches) {
      refuse(at, fmt::format("network: {} switches", network.switch__size()),
             fmt::format("at most {}", kMostSwitches));
    }
    for (const auto& drawn : network.switch_()) {
      if (drawn.name().empty()) refuse(at, "network: a switch without a name", "one");
      const std::string what = fmt::format("switch \"{}\"", drawn.name());
      if (find_switch(drawn.name()) != nullptr) {
        refuse(at, what + " a second time", "each name once");
      }
      if (drawn.has_parent() && drawn.link().empty()) {
        refuse(at, what + " without a link to its parent", "the id of a link");
      }
      const std::int64_t parallel =
          drawn.has_count() ? count(at, what + " count", drawn.count(), kMostParallel) : 1;
      spec_.network.switches.push_back(
          {drawn.name(), drawn.parent(), drawn.link(), static_cast<int>(parallel)});
    }
    check_tree(at);
  }

  /// Every switch has a way to the only root.
  void check_tree(const std::string& at) const {
    const auto& all = spec_.network.switches;
    if (all.empty()) return;
    const ClusterSwitch* root = nullptr;
    for (const ClusterSwitch& s : all) {
      if (!s.parent.empty()) {
        if (find_switch(s.parent) == nullptr) {
          refuse(at, fmt::format("switch \"{}\" below \"{}\"", s.name, s.parent),
                 choices(s.parent));
        }
        continue;
      }
      if (root != nullptr) {
        refuse(at,
               fmt::format("switches \"{}\" and \"{}\", neither with a parent", root->name, s.name),
               "one root, so that every node reaches every other");
      }
      root = &s;
    }
    for (const ClusterSwitch& s : all) {
      const ClusterSwitch* above = &s;
      for (std::size_t steps = 0; !above->parent.empty(); ++steps) {
        if (steps > all.size()) {
          refuse(at, fmt::format("switch \"{}\" on a cycle or above one", s.name),
                 "parents that end at a root");
        }
        above = find_switch(above->parent);
      }
    }
  }

  void load_groups() {
    if (message_.group_size() == 0) refuse(where_, "no group", "at least one group of nodes");
    if (message_.group_size() > kMostGroups) {
      refuse(where_, fmt::format("{} groups", message_.group_size()),
             fmt::format("at most {}", kMostGroups));
    }
    for (int i = 0; i < message_.group_size(); ++i) load_group(i);
  }

  void load_group(int i) {
    const auto& drawn = message_.group(i);
    const std::string at = place("group", i);
    if (drawn.name().empty()) refuse(at, "a group without a name", "one");
    const std::string what = fmt::format("group \"{}\"", drawn.name());
    for (const ClusterGroup& other : spec_.groups) {
      if (other.name == drawn.name()) refuse(at, what + " a second time", "each name once");
    }
    if (drawn.machine().empty()) refuse(at, what + " without a machine", "the id of one");
    ClusterGroup group;
    group.name = drawn.name();
    group.machine = drawn.machine();
    group.gpu = drawn.gpu();
    if (drawn.has_count()) {
      group.count = static_cast<int>(count(at, what + " count", drawn.count(), kMostNodes));
    }
    if (drawn.has_gpus()) {
      group.gpus = static_cast<int>(count(at, what + " gpus", drawn.gpus(), kMostGpus));
    }
    if (drawn.has_compute_time_factor()) {
      group.compute_time_factor =
          number(at, what + " compute_time_factor", drawn.compute_time_factor(), 0.01, 1000);
    }
    if (drawn.has_start_jitter_us()) {
      group.start_jitter =
          Seconds(1e-6 * number(at, what + " start_jitter_us", drawn.start_jitter_us(), 0, 1e9));
    }
    for (const auto& slow : drawn.slow_link()) {
      group.slow_links.push_back(
          {slow.a(), slow.b(),
           number(at, what + " slow_link bandwidth_factor", slow.bandwidth_factor(), 1e-6, 1)});
    }
    group.switch_name = drawn.switch_();
    if (group.switch_name.empty() != spec_.network.switches.empty() ||
        (!group.switch_name.empty() && find_switch(group.switch_name) == nullptr)) {
      refuse(at, fmt::format("{} on switch \"{}\"", what, group.switch_name),
             choices(group.switch_name));
    }
    spec_.groups.push_back(std::move(group));
  }

  void load_failures() {
    if (!message_.has_failures()) return;
    const auto& drawn = message_.failures();
    const std::string at = place("failures");
    ClusterFailures failures;
    failures.node_mtbf =
        Seconds(3600 * number(at, "failures: node_mtbf_hours", drawn.node_mtbf_hours(), 1e-3, 1e9));
    failures.checkpoint_write =
        Seconds(number(at, "failures: checkpoint_s", drawn.checkpoint_s(), 1e-6, 1e7));
    failures.restart = Seconds(number(at, "failures: restart_s", drawn.restart_s(), 0, 1e7));
    spec_.failures = failures;
  }

  std::string where_;
  proto::ClusterSpec message_;
  TextprotoLines lines_;
  ClusterSpec spec_;
};

}  // namespace

ClusterSpec load_cluster_spec(std::string_view text, std::string_view where) {
  return ClusterLoader(text, where).load();
}

}  // namespace tracecast
