#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "hwspecs/strategy_profile.hpp"
#include "sim/base/units.hpp"
#include "sim/cluster/collective.hpp"
#include "sim/cluster/fabric.hpp"
#include "sim/cluster/gradients.hpp"

namespace tracecast {

/// Who works through exchanges in the order in which they are issued.
enum class ExchangeStream : std::uint8_t {
  Collective,  ///< collectives, or copies towards the GPU that adds
  Out,         ///< copies of sums and weights to the GPUs
  Network,     ///< between hosts
  Host,        ///< additions and updates on the CPU
};
inline constexpr std::size_t kExchangeStreamCount = 4;

/// One part of the exchange of a bucket: a coupled transfer, or work of the host.
struct ExchangeStage {
  ExchangeStream stream{};
  CollectivePlan transfer{};
  Seconds host{};  ///< before the transfer, on the same stream
};

/// What happens to one bucket, beside computing.
struct BucketExchange {
  std::vector<ExchangeStage> fetch;  ///< of its weights, at the begin of a step
  std::vector<ExchangeStage> push;   ///< from the gradients to what the next step reads
  Bytes bytes{};                     ///< of its gradients, on their way
};

/// The exchange of every bucket under a strategy. Within a node as the strategy says; where the strategy knows hosts
/// only (OnHost, Spread, Copies, FirstGpu without a library) and there are several nodes, the hosts then exchange the
/// node's sum with servers spread over all of them: each NIC carries 2 (m - 1) / m of the bytes, in and out.
/// Copies and Spread give the next bucket to the GPU that has the fewest bytes so far.
[[nodiscard]] std::vector<BucketExchange> plan_exchange(std::span<const GradientBucket> buckets,
                                                        double wire_share,
                                                        const StrategyProfile& strategy,
                                                        const Fabric& fabric);

}  // namespace tracecast
