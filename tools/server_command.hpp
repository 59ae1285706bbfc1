#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "sim/job/largest_batch.hpp"
#include "sim/job/server_job.hpp"
#include "tools/cluster_options.hpp"

namespace CLI {
class App;
}

namespace tracecast {

/// `--servers`, `--channel` and what belongs to them, as given.
struct ServerFlags {
  std::optional<std::int64_t> servers;
  std::string channel, placement, link, device;  ///< empty: not given
  bool asynchronous = false;
  [[nodiscard]] bool any() const {
    return servers || !channel.empty() || !placement.empty() || !link.empty() || !device.empty() ||
           asynchronous;
  }
};
void add_server_flags(CLI::App& verb, ServerFlags& flags);

/// Whether parameter servers on nodes of their own are asked for: a flag of theirs, or variables on the CPU
/// (`--strategy ps`) on several nodes. Throws InputError: flags of theirs with another strategy, or on one node.
[[nodiscard]] bool asks_for_servers(const ServerFlags& flags, const std::string& strategy,
                                    std::int64_t nodes);

/// Predicts, and returns the answer in the format: text, json or csv. Adds to the job's assumptions what was chosen.
[[nodiscard]] std::string answer_with_servers(ResolvedJob& job, const Hardware& hardware,
                                              Fabric fabric, const ServerFlags& flags,
                                              const std::string& format, const MemoryAdvice& advice,
                                              bool& fits);

}  // namespace tracecast
