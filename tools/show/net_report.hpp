#pragma once
#include <string>
#include <vector>

#include "sim/job/resolved_job.hpp"
#include "sim/network/channel_cost.hpp"
#include "sim/network/payload.hpp"

namespace tracecast {

/// What the micro-benchmarks of channels are run with.
struct NetSetting {
  MachineSpec machine;
  std::vector<ChannelPath> paths;
  PayloadMix payload;
  bool serialized = false;
  int servers = 1, workers = 1, processes = 2;
  std::uint64_t seed = 1;
  std::vector<Bytes> sizes;  ///< of the latency table
};

/// One channel's answers.
struct NetResult {
  std::vector<Seconds> latency;  ///< as the sizes
  Bytes message{};               ///< of the payload
  Seconds payload_latency{};
  BytesPerSecond bandwidth{};
  Hertz server_messages{};
  FullyConnected connected;
};
[[nodiscard]] NetResult measure_channel(const NetSetting& setting, const ChannelPath& path);

[[nodiscard]] std::string net_text(const NetSetting& setting);
[[nodiscard]] std::string net_json(const NetSetting& setting);
[[nodiscard]] std::string net_csv(const NetSetting& setting);

}  // namespace tracecast
