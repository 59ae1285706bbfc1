#include "tools/predict/server_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "hwspecs/library.hpp"
#include "sim/base/error.hpp"
#include "tools/command/whole_number.hpp"

namespace tracecast {
namespace {

constexpr const char* kStrategy = "parameter_server";

/// The first flag that was given.
std::string first_flag(const ParameterServers& flags) {
  if (flags.servers) return "--servers";
  if (!flags.channel.empty()) return "--channel";
  if (!flags.placement.empty()) return "--placement";
  if (!flags.link.empty()) return "--link";
  return flags.device.empty() ? "--async" : "--server-device";
}

}  // namespace

void add_server_flags(CLI::App& subcommand, ParameterServers& flags) {
  std::string names;
  for (const std::string& id : SpecLibrary::embedded().channel_ids())
    names += (names.empty() ? "" : ", ") + id;
  subcommand
      .add_option("--servers", flags.servers, "Nodes that are parameter servers; others work")
      ->type_name("S")
      ->check(whole_number(1, 1'000'000));
  subcommand.add_option("--channel", flags.channel, "Between workers and servers: " + names)
      ->type_name("C");
  subcommand
      .add_option("--placement", flags.placement,
                  "Variables on servers: bytes (balanced) or round_robin")
      ->type_name("P");
  subcommand
      .add_option("--server-device", flags.device,
                  "What holds a server's variables and updates them: cpu or gpu")
      ->type_name("D");
  subcommand.add_option("--link", flags.link, "Network of the channel instead of the machine's")
      ->type_name("ID");
  subcommand.add_flag("--async", flags.asynchronous, "Workers of a parameter server do not wait");
}

bool asks_for_servers(const ParameterServers& flags, const std::string& strategy,
                      std::int64_t nodes, const SpecLibrary& specs) {
  const bool by_strategy = !strategy.empty() && specs.find_strategy(strategy).id == kStrategy;
  if (!any_given(flags)) return by_strategy && nodes > 1;
  if (!strategy.empty() && !by_strategy) {
    throw InputError(first_flag(flags), "--strategy " + strategy, "--strategy ps");
  }
  if (nodes < 2) {
    throw InputError(first_flag(flags), fmt::format("{} node", nodes),
                     "--nodes 2 or more: servers are machines of their own");
  }
  return true;
}

bool any_given(const ParameterServers& s) {
  return s.servers || !s.channel.empty() || !s.placement.empty() || !s.link.empty() ||
         !s.device.empty() || s.asynchronous;
}

}  // namespace tracecast
