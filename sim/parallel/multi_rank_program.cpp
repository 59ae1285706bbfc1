#include "sim/parallel/multi_rank_program.hpp"

#include "sim/base/error.hpp"

namespace tracecast {

engine::LinkId MultiRankProgram::link(FabricLinkId id, BytesPerSecond bandwidth) {
  if (links_.size() <= id.index) links_.resize(id.index + 1, kNoLink);
  std::uint32_t& known = links_[id.index];
  if (known == kNoLink) known = graph_.add_link(bandwidth).index;
  return engine::LinkId{known};
}

MultiRankProgram::Task MultiRankProgram::add_transfer(const ActionInfo& info,
                                                      std::optional<Lane> lane,
                                                      const CollectivePlan& plan, Seconds host) {
  uses_.clear();
  for (const FabricUse& use : plan.uses) {
    const std::uint32_t i = use.link.index;
    const bool known = i < links_.size() && links_[i] != kNoLink;
    if (!known) TRACECAST_CHECK(fabric_ != nullptr, "plans are over links of a fabric");
    uses_.push_back(
        {known ? engine::LinkId{links_[i]} : link(use.link, fabric_->link(use.link).bandwidth),
         use.weight});
  }
  return add_transfer(info, lane, uses_, plan.bytes, plan.latency + host, plan.rate_cap);
}

}  // namespace tracecast
