#pragma once
#include <cstdint>
#include <string>

#include "sim/job/parallelism.hpp"

namespace CLI {
class App;
}

namespace tracecast {

/// Declares `--servers`, `--channel` and what belongs to them.
void add_server_flags(CLI::App& subcommand, ParameterServers& servers);

/// Whether parameter servers on nodes of their own are asked for: a flag of theirs, or variables on
/// the CPU
/// (`--strategy ps`) on several nodes. Throws InputError: flags of theirs with another strategy, or
/// on one node.
[[nodiscard]] bool asks_for_servers(const ParameterServers& servers, const std::string& strategy,
                                    std::int64_t nodes, const SpecLibrary& specs);
/// A flag of theirs was given.
[[nodiscard]] bool any_given(const ParameterServers& servers);

}  // namespace tracecast
