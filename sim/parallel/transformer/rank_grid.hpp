#pragma once
#include <span>
#include <vector>

#include "hwspecs/collective_library.hpp"
#include "hwspecs/cost_profile.hpp"
#include "models/transformer/shard.hpp"
#include "sim/network/collective.hpp"
#include "sim/network/fabric.hpp"
#include "sim/parallel/transformer/plan.hpp"

namespace tracecast {

/// One of the ways ranks talk in a step.
struct GroupCommunication {
  Seconds time{};
  int channels = 0;  ///< thread blocks that a collective keeps busy on each GPU
  Bytes bytes{};     ///< that an edge carries
  /// Of one board, over its active-idle power.
  [[nodiscard]] Joules energy(const GpuSpec& gpu, const CostProfile& cost) const;
};

/// The ranks of a plan on a fabric, and what their collectives take. Groups that talk at the same
/// time and share links, those with a rank on the node of rank 0, are reported together: each gets
/// its share of every link,
///   time = latency + bytes / min(rate cap, min over links of bandwidth / sum of weights)
class RankGrid {
 public:
  /// `ranks()` of the plan are those of the fabric (checked by who made the plan).
  RankGrid(const ParallelPlan& plan, const Fabric& fabric, const CollectiveLibrary& library)
      : plan_(plan), fabric_(fabric), library_(library) {}

  /// Of `whole` bytes (one rank's gathered buffer) inside a layer.
  [[nodiscard]] GroupCommunication communication(ShardGroup group, ShardCommunication what,
                                                 Bytes whole) const;
  /// Tokens to their experts or back, `whole` with a copy for each of a token's `per_token`
  /// experts. A rank gets one, and copies it to its experts; a node gets one, at the rank of the
  /// same place there, which hands it on while others arrive: of P parts and k experts those that
  /// get any are, routed evenly,
  ///   P (1 - (1 - 1 / P)^k)
  /// and the longer of both ways counts. Source: DeepEP, README (normal kernels, NVLink and RDMA).
  [[nodiscard]] GroupCommunication communication_tokens(Bytes whole, double per_token) const;
  /// Activations of a micro-batch from a stage to the next, all ranks of a node at once.
  [[nodiscard]] GroupCommunication send(Bytes message) const;
  /// Among the ranks that hold the same part of the network (data and context parallel), or the
  /// first `ranks` of them.
  [[nodiscard]] GroupCommunication reduce_gradients(Collective what, Bytes whole,
                                                    std::int64_t ranks) const;
  /// Among copies of sharing groups: every `sharing`-th of the data-parallel ranks.
  [[nodiscard]] GroupCommunication reduce_over_copies(Bytes part, std::int64_t sharing) const;
  /// Gradients of a rank's experts, or their weights back, among the ranks that hold the same ones.
  [[nodiscard]] GroupCommunication reduce_experts(Collective what, Bytes whole) const;
  /// First and last stage add up the gradients of the table they share.
  [[nodiscard]] GroupCommunication tie_embeddings(Bytes whole) const;

 private:
  struct Place {
    std::int64_t tensor, context, data, pipeline;
  };
  [[nodiscard]] Place place_of(std::int64_t rank) const;
  [[nodiscard]] Rank rank_at(const Place& place) const;
  /// Of the ranks of a stage that have tokens of their own (`ParallelPlan::ranks_with_tokens`),
  /// with this place's others.
  [[nodiscard]] std::int64_t token_index(const Place& place) const;
  [[nodiscard]] Rank with_tokens(Place place, std::int64_t index) const;
  [[nodiscard]] std::vector<Rank> group_of(ShardGroup group, Place place) const;
  using Groups = std::vector<std::vector<Rank>>;
  /// Groups, as `members` names that of a place, of all ranks on the first node.
  template <class Members>
  [[nodiscard]] Groups groups_on_first_node(Members members) const;
  [[nodiscard]] GroupCommunication together(const Groups& groups, Collective what,
                                            Bytes bytes) const;

  const ParallelPlan& plan_;
  const Fabric& fabric_;
  const CollectiveLibrary& library_;
};

}  // namespace tracecast
