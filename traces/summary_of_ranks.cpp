#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "traces/summary.hpp"

namespace tracecast::traces {
namespace {

const Tally& tally_of(const NamedTime& entry) { return entry.tally; }
const Tally& tally_of(const auto& entry) { return entry.kernels; }
Tally& tally_of(NamedTime& entry) { return entry.tally; }
Tally& tally_of(auto& entry) { return entry.kernels; }

/// Adds the entries of `from` to those of `to` that are `same`, or at the end.
template <class Entry, class Same>
void merge(std::vector<Entry>& to, const std::vector<Entry>& from, Same same) {
  for (const Entry& entry : from) {
    const auto found =
        std::find_if(to.begin(), to.end(), [&](const Entry& e) { return same(e, entry); });
    if (found == to.end()) {
      to.push_back(entry);
    } else {
      tally_of(*found).add(tally_of(entry));
    }
  }
}

/// Likewise for lists of names, of which each rank may bring new ones: in the time of a look-up.
template <class Entry>
class NamedLists {
 public:
  explicit NamedLists(std::vector<Entry>& to) : to_(to) {
    for (std::size_t i = 0; i < to.size(); ++i) places_.emplace(key_of(to[i]), i);
  }
  void add(const std::vector<Entry>& from) {
    for (const Entry& entry : from) {
      const auto [at, is_new] = places_.emplace(key_of(entry), to_.size());
      if (is_new) {
        to_.push_back(entry);
      } else {
        tally_of(to_[at->second]).add(tally_of(entry));
      }
    }
  }

 private:
  using Key = std::pair<std::string, KernelClass>;
  static Key key_of(const Entry& entry) {
    if constexpr (requires { entry.kernel_class; }) {
      return {entry.name, entry.kernel_class};
    } else {
      return {entry.name, KernelClass::Other};
    }
  }
  std::vector<Entry>& to_;
  std::map<Key, std::size_t> places_;
};

/// A list in which entries come longest first again.
template <class Entry>
void sort_longest(std::vector<Entry>& list) {
  std::stable_sort(list.begin(), list.end(),
                   [](const Entry& a, const Entry& b) { return tally_of(a).ns > tally_of(b).ns; });
}

template <class Entry>
void set_shares(std::vector<Entry>& list, std::int64_t total_ns) {
  for (Entry& entry : list) {
    entry.share =
        total_ns > 0 ? static_cast<double>(entry.kernels.ns) / static_cast<double>(total_ns) : 0.0;
  }
}

void merge_copies(std::vector<CopyTime>& to, const std::vector<CopyTime>& from) {
  for (const CopyTime& entry : from) {
    const auto found = std::find_if(to.begin(), to.end(), [&entry](const CopyTime& c) {
      return c.kind == entry.kind && c.memory == entry.memory;
    });
    if (found == to.end()) {
      to.push_back(entry);
      continue;
    }
    found->copies.add(entry.copies);
    found->bytes += entry.bytes;
    found->sized += entry.sized;
    found->sized_ns = saturating_sum(found->sized_ns, entry.sized_ns);
    found->beside_kernels_ns = saturating_sum(found->beside_kernels_ns, entry.beside_kernels_ns);
  }
}

}  // namespace

Summary summarize_ranks(const std::vector<Summary>& ranks) {
  Summary sum = ranks.front();
  NamedLists kernels(sum.top_kernels);
  NamedLists calls(sum.top_calls);
  NamedLists collectives(sum.collectives);
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    const Summary& rank = ranks[i];
    sum.kernels += rank.kernels;
    sum.overrunning += rank.overrunning;
    sum.overrun += rank.overrun;
    sum.collective_kernels += rank.collective_kernels;
    sum.copies += rank.copies;
    sum.memsets += rank.memsets;
    sum.calls += rank.calls;
    sum.ops += rank.ops;
    sum.gpu_time_ns = saturating_sum(sum.gpu_time_ns, rank.gpu_time_ns);
    merge(sum.classes, rank.classes,
          [](const ClassTime& a, const ClassTime& b) { return a.kernel_class == b.kernel_class; });
    merge(sum.algorithms, rank.algorithms, [](const AlgorithmTime& a, const AlgorithmTime& b) {
      return a.algorithm == b.algorithm;
    });
    kernels.add(rank.top_kernels);
    calls.add(rank.top_calls);
    collectives.add(rank.collectives);
    merge_copies(sum.copy_kinds, rank.copy_kinds);
    sum.memset_time.add(rank.memset_time);
    for (std::size_t kind = 0; kind < kCallKindCount; ++kind)
      sum.call_kinds[kind].add(rank.call_kinds[kind]);
    sum.nodes += rank.nodes;
    sum.gpu_nodes += rank.gpu_nodes;
    sum.gpu_nodes_ns = saturating_sum(sum.gpu_nodes_ns, rank.gpu_nodes_ns);
    for (const NodeTime& kind : rank.node_kinds) {
      const auto found = std::find_if(sum.node_kinds.begin(), sum.node_kinds.end(),
                                      [&kind](const NodeTime& n) { return n.kind == kind.kind; });
      if (found == sum.node_kinds.end()) {
        sum.node_kinds.push_back(kind);
      } else {
        found->nodes.add(kind.nodes);
        found->message_bytes += kind.message_bytes;
      }
    }
    for (const auto& [kind, left_out] : rank.left_out) {
      LeftOut& entry = sum.left_out[kind];
      entry.count += left_out.count;
      entry.is_damage |= left_out.is_damage;
    }
  }
  set_shares(sum.classes, sum.gpu_time_ns);
  set_shares(sum.algorithms, sum.gpu_time_ns);
  sort_longest(sum.classes);
  sort_longest(sum.algorithms);
  sort_longest(sum.top_kernels);
  sort_longest(sum.top_calls);
  sort_longest(sum.collectives);
  return sum;
}

}  // namespace tracecast::traces
