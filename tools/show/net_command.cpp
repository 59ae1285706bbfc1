#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/job/channel.hpp"
#include "tools/command/amounts.hpp"
#include "tools/command/output.hpp"
#include "tools/command/subcommand.hpp"
#include "tools/show/net_report.hpp"

namespace tracecast {
namespace {

struct NetOptions {
  SourceOptions sources;
  std::string machine = "osu_ri2", link, payload = "uniform", format = "text";
  std::vector<std::string> channels;
  std::string small_size = "10", medium_size = "10K", large_size = "1M";
  std::int64_t buffers = 10, servers = 1, workers = 4, processes = 4, seed = 1;
  std::vector<std::string> sizes{"2", "32", "1K", "64K", "1M", "4M", "16M"};
  bool serialized = false;
};

constexpr double kMostBytes = 1e12;

int checked_count(const char* flag, std::int64_t value, std::int64_t least) {
  constexpr std::int64_t kMost = 100'000;
  if (value < least || value > kMost) {
    throw InputError(flag, std::to_string(value), fmt::format("{} to {}", least, kMost));
  }
  return static_cast<int>(value);
}

PayloadMix take_payload(const NetOptions& o) {
  const auto kind = find_payload(o.payload);
  if (!kind) {
    const std::vector<std::string> words{"uniform", "random", "skew"};
    throw InputError("--payload", '"' + o.payload + '"', describe_choices(o.payload, words));
  }
  PayloadMix mix{.kind = *kind,
                 .small = parse_size("--small", o.small_size, {1, kMostBytes}),
                 .medium = parse_size("--medium", o.medium_size, {1, kMostBytes}),
                 .large = parse_size("--large", o.large_size, {1, kMostBytes}),
                 .buffers = checked_count("--buffers", o.buffers, 1)};
  if (mix.medium < mix.small || mix.large < mix.medium) {
    throw InputError("--small, --medium, --large",
                     fmt::format("{}, {}, {}", o.small_size, o.medium_size, o.large_size),
                     "sizes in rising order");
  }
  return mix;
}

int net_command(const NetOptions& o) {
  refuse_software_settings(o.sources);
  const Hardware hardware = load_hardware(o.sources);
  NetSetting setting{.machine = hardware.machines().find(o.machine),
                     .paths = {},
                     .payload = take_payload(o),
                     .serialized = o.serialized,
                     .servers = checked_count("--servers", o.servers, 1),
                     .workers = checked_count("--workers", o.workers, 1),
                     .processes = checked_count("--processes", o.processes, 2),
                     .seed = static_cast<std::uint64_t>(o.seed),
                     .sizes = parse_sizes("--sizes", o.sizes, {0, kMostBytes})};
  for (const std::string& channel :
       o.channels.empty() ? hardware.specs().channel_ids() : o.channels) {
    setting.paths.push_back(take_channel(channel, setting.machine, o.link, hardware));
  }
  write_report(o.format == "json"  ? net_json(setting)
               : o.format == "csv" ? net_csv(setting)
                                   : net_text(setting));
  return kExitDone;
}

}  // namespace

void add_net_command(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<NetOptions>();
  CLI::App* subcommand = app.add_subcommand(
      "net", "Micro-benchmarks of channels between machines: latency, bandwidth, servers");
  std::string names;
  for (const std::string& id : SpecLibrary::embedded().channel_ids())
    names += (names.empty() ? "" : ", ") + id;
  subcommand->add_option("--machine", o->machine, "Machine whose CPU and NIC are used")
      ->type_name("ID")
      ->capture_default_str();
  subcommand
      ->add_option("--link", o->link, "Network instead of the machine's, such as ethernet_10g")
      ->type_name("ID");
  subcommand->add_option("--channel", o->channels, "Channels, with commas; all: " + names)
      ->type_name("C")
      ->delimiter(',');
  subcommand
      ->add_option("--payload", o->payload, "uniform, random or skew: sizes of a message's buffers")
      ->type_name("P")
      ->capture_default_str();
  subcommand->add_option("--small", o->small_size, "A small buffer")
      ->type_name("SIZE")
      ->capture_default_str();
  subcommand->add_option("--medium", o->medium_size, "A medium buffer")
      ->type_name("SIZE")
      ->capture_default_str();
  subcommand->add_option("--large", o->large_size, "A large buffer")
      ->type_name("SIZE")
      ->capture_default_str();
  subcommand->add_option("--buffers", o->buffers, "Buffers of one message")
      ->type_name("N")
      ->capture_default_str();
  subcommand->add_flag("--serialized", o->serialized, "Messages are serialised and parsed");
  subcommand->add_option("--servers", o->servers, "Parameter servers")
      ->type_name("N")
      ->capture_default_str();
  subcommand->add_option("--workers", o->workers, "Their workers")
      ->type_name("N")
      ->capture_default_str();
  subcommand->add_option("--processes", o->processes, "Fully connected processes")
      ->type_name("N")
      ->capture_default_str();
  subcommand
      ->add_option("--sizes", o->sizes,
                   "Messages of the latency table, with commas; " + std::string(kSizeUnits))
      ->type_name("SIZES")
      ->delimiter(',')
      ->default_str("2,32,1K,64K,1M,4M,16M");
  subcommand->add_option("--seed", o->seed, "Of a random payload")
      ->type_name("N")
      ->capture_default_str();
  add_source_options(*subcommand, o->sources);
  add_format_option(*subcommand, o->format);
  subcommand->footer("Example: tracecast net --machine osu_ri2 --channel grpc,rdma --payload skew");
  subcommand->callback([o, &exit_code] { exit_code = net_command(*o); });
}

}  // namespace tracecast
