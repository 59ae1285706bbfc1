#pragma once
#include <string>

#include "sim/job/resolved_job.hpp"
#include "sim/network/channel_cost.hpp"

namespace tracecast {

/// A channel between two machines of a kind: its profile, the machine's NIC and the speed of its
/// CPU. `link`: instead of the machine's; empty: its own. Throws InputError naming the flag.
[[nodiscard]] ChannelPath take_channel(std::string_view channel, const MachineSpec& machine,
                                       std::string_view link, const Hardware& hardware);

}  // namespace tracecast
