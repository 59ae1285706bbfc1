#include "tools/server_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <utility>

#include "hwspecs/strategy_profile.hpp"
#include "sim/base/error.hpp"
#include "tools/report_servers.hpp"
#include "tools/whole_number.hpp"

namespace tracecast {
namespace {

constexpr const char* kStrategy = "parameter_server";

/// The first flag that was given.
std::string first_flag(const ServerFlags& flags) {
  if (flags.servers) return "--servers";
  if (!flags.channel.empty()) return "--channel";
  if (!flags.placement.empty()) return "--placement";
  if (!flags.link.empty()) return "--link";
  return flags.device.empty() ? "--async" : "--server-device";
}

ParameterServers complete(const ServerFlags& flags, ResolvedJob& job) {
  ParameterServers options;
  options.servers = flags.servers.value_or(options.servers);
  options.link = flags.link;
  options.asynchronous = flags.asynchronous;
  if (!flags.channel.empty()) options.channel = flags.channel;
  if (!flags.placement.empty()) options.placement = flags.placement;
  if (!flags.device.empty()) options.device = flags.device;
  if (!flags.servers) job.assumptions.push_back("1 of the nodes is the server");
  if (flags.channel.empty()) job.assumptions.push_back("channel grpc, TensorFlow's default");
  if (job.framework.id != "tensorflow") {
    job.assumptions.push_back("servers and channel as TensorFlow 1.4 has them");
  }
  return options;
}

}  // namespace

void add_server_flags(CLI::App& verb, ServerFlags& flags) {
  std::string names;
  for (const std::string& id : channel_ids()) names += (names.empty() ? "" : ", ") + id;
  verb.add_option("--servers", flags.servers, "Nodes that are parameter servers; others work")
      ->type_name("S")
      ->check(whole_number(1, 1'000'000));
  verb.add_option("--channel", flags.channel, "Between workers and servers: " + names)
      ->type_name("C");
  verb.add_option("--placement", flags.placement,
                  "Variables on servers: bytes (balanced) or round_robin")
      ->type_name("P");
  verb.add_option("--server-device", flags.device,
                  "What holds a server's variables and updates them: cpu or gpu")
      ->type_name("D");
  verb.add_option("--link", flags.link, "Network of the channel instead of the machine's")
      ->type_name("ID");
  verb.add_flag("--async", flags.asynchronous, "Workers of a parameter server do not wait");
}

bool asks_for_servers(const ServerFlags& flags, const std::string& strategy, std::int64_t nodes) {
  const bool by_strategy = !strategy.empty() && find_strategy(strategy).id == kStrategy;
  if (!flags.any()) return by_strategy && nodes > 1;
  if (!strategy.empty() && !by_strategy) {
    throw InputError(first_flag(flags), "--strategy " + strategy, "--strategy ps");
  }
  if (nodes < 2) {
    throw InputError(first_flag(flags), fmt::format("{} node", nodes),
                     "--nodes 2 or more: servers are machines of their own");
  }
  return true;
}

std::string answer_with_servers(ResolvedJob& job, const Hardware& hardware, Fabric fabric,
                                const ServerFlags& flags, const std::string& format,
                                const MemoryAdvice& advice, bool& fits) {
  const ParameterServers options = complete(flags, job);
  const ServerPrediction p = predict_with_servers(job, hardware, std::move(fabric), options);
  warn_of_power_limit(p.one_gpu.power, job.gpu.id, job);
  fits = p.one_gpu.memory.fits;
  if (format == "json") return report_servers_json(job, p, advice);
  return format == "csv" ? report_servers_csv(job, p, advice) : report_servers_text(job, p, advice);
}

}  // namespace tracecast
