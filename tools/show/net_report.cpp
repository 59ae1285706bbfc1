#include "tools/show/net_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "tools/command/amounts.hpp"
#include "tools/command/csv.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/command/version.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

double in_mb_per_s(BytesPerSecond rate) { return rate.in_si() * 1e-6; }
double message_rate(const NetResult& r) { return r.server_messages.in_si(); }
double server_mb_per_s(const NetResult& r) { return in_mb_per_s(r.message * r.server_messages); }

/// A line of figures, one per channel.
template <class Value>
std::string line(const std::string& label, const std::vector<NetResult>& results, Value value) {
  std::string text = fit(label, 32);
  for (const NetResult& result : results)
    text += fmt::format(" {:>11}", low_precision(value(result), 11));
  return text + '\n';
}

std::vector<NetResult> measure_all(const NetSetting& setting) {
  std::vector<NetResult> results;
  for (const ChannelPath& path : setting.paths) results.push_back(measure_channel(setting, path));
  return results;
}

/// The channels of one block of the table, as many as 80 columns hold.
std::string block(const NetSetting& setting, std::size_t first, std::size_t count) {
  std::vector<NetResult> results;
  std::string text = fit("", 32);
  for (std::size_t i = first; i < first + count; ++i) {
    results.push_back(measure_channel(setting, setting.paths[i]));
    text += fmt::format(" {:>11}", fit(setting.paths[i].channel.id, 11));
  }
  text += '\n' + fit("link", 32);
  for (std::size_t i = first; i < first + count; ++i) {
    text += ' ' + fit(setting.paths[i].link, 11);
  }
  text += "\nPoint to point, one way, us\n";
  for (std::size_t s = 0; s < setting.sizes.size(); ++s) {
    text += line("  " + size_text(setting.sizes[s]), results,
                 [&](const NetResult& r) { return r.latency[s].in_us(); });
  }
  text += fmt::format("The payload, {}\n", size_text(results[0].message));
  text +=
      line("  one way, us", results, [](const NetResult& r) { return r.payload_latency.in_us(); });
  text += line("  bandwidth, MB/s", results,
               [](const NetResult& r) { return in_mb_per_s(r.bandwidth); });
  text += fmt::format("Parameter servers: {}, workers: {}\n", setting.servers, setting.workers);
  text += line("  messages/s", results, message_rate);
  text += line("  MB/s into all servers", results, server_mb_per_s);
  text += fmt::format("Fully connected processes: {}\n", setting.processes);
  text += line("  mean latency, us", results,
               [](const NetResult& r) { return r.connected.latency.in_us(); });
  text += line("  MB/s into each", results,
               [](const NetResult& r) { return in_mb_per_s(r.connected.throughput); });
  return text;
}

Json payload_json(const NetSetting& setting) {
  const PayloadMix& mix = setting.payload;
  return {{"kind", to_string(mix.kind)},         {"buffers", mix.buffers},
          {"small_bytes", mix.small.in_bytes()}, {"medium_bytes", mix.medium.in_bytes()},
          {"large_bytes", mix.large.in_bytes()}, {"serialized", setting.serialized}};
}

}  // namespace

NetResult measure_channel(const NetSetting& setting, const ChannelPath& path) {
  const std::vector<Bytes> buffers = draw_payload(setting.payload, setting.seed);
  const ChannelMessage payload{.bytes = std::accumulate(buffers.begin(), buffers.end(), Bytes()),
                               .buffers = static_cast<int>(buffers.size()),
                               .serialized = setting.serialized};
  NetResult result{
      .latency = {},
      .message = payload.bytes,
      .payload_latency = point_to_point_latency(path, payload),
      .bandwidth = point_to_point_bandwidth(path, payload),
      .server_messages = server_throughput(path, payload, setting.servers, setting.workers),
      .connected = fully_connected(path, payload, setting.processes)};
  for (const Bytes size : setting.sizes) {
    result.latency.push_back(
        point_to_point_latency(path, {.bytes = size, .serialized = setting.serialized}));
  }
  return result;
}

std::string net_text(const NetSetting& setting) {
  const PayloadMix& mix = setting.payload;
  std::string text =
      fmt::format("Machine    {} = {}\n", setting.machine.id, printable(setting.machine.name));
  text += wrap(fmt::format("Payload    {}: {} buffers of {}, {} or {}{}", to_string(mix.kind),
                           mix.buffers, size_text(mix.small), size_text(mix.medium),
                           size_text(mix.large), setting.serialized ? ", serialised" : ""),
               80, 11);
  text += "\n\n";
  constexpr std::size_t kChannelsPerBlock = 4;
  for (std::size_t i = 0; i < setting.paths.size(); i += kChannelsPerBlock) {
    if (i > 0) text += '\n';
    text += block(setting, i, std::min(kChannelsPerBlock, setting.paths.size() - i));
  }
  return text;
}

std::string net_json(const NetSetting& setting) {
  Json doc{{"schema", "tracecast.net/" + std::to_string(kSchema)},
           {"version", kVersion},
           {"machine", setting.machine.id},
           {"payload", payload_json(setting)},
           {"servers", setting.servers},
           {"workers", setting.workers},
           {"processes", setting.processes},
           {"seed", setting.seed},
           {"channels", Json::array()}};
  const std::vector<NetResult> results = measure_all(setting);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const NetResult& r = results[i];
    const ChannelPath& path = setting.paths[i];
    Json sizes = Json::array();
    for (std::size_t s = 0; s < setting.sizes.size(); ++s) {
      sizes.push_back(
          {{"message_bytes", setting.sizes[s].in_bytes()}, {"latency_us", r.latency[s].in_us()}});
    }
    doc["channels"].push_back({{"channel", path.channel.id},
                               {"link", path.link},
                               {"wire_gb_per_s", path.wire.in_gb_per_s()},
                               {"point_to_point", std::move(sizes)},
                               {"payload_bytes", r.message.in_bytes()},
                               {"payload_latency_us", r.payload_latency.in_us()},
                               {"bandwidth_mb_per_s", in_mb_per_s(r.bandwidth)},
                               {"parameter_server_messages_per_s", message_rate(r)},
                               {"parameter_server_mb_per_s", server_mb_per_s(r)},
                               {"fully_connected_latency_us", r.connected.latency.in_us()},
                               {"fully_connected_mb_per_s", in_mb_per_s(r.connected.throughput)}});
  }
  return json_text(doc) + '\n';
}

std::string net_csv(const NetSetting& setting) {
  std::string text = "machine,channel,link,figure,message_bytes,value,unit\n";
  const std::vector<NetResult> results = measure_all(setting);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const NetResult& r = results[i];
    const auto add = [&](std::string_view figure, Bytes size, double value, std::string_view unit) {
      text += csv_line(setting.machine.id, setting.paths[i].channel.id, setting.paths[i].link,
                       figure, size.in_bytes(), value, unit);
    };
    for (std::size_t s = 0; s < setting.sizes.size(); ++s) {
      add("latency", setting.sizes[s], r.latency[s].in_us(), "us");
    }
    add("payload_latency", r.message, r.payload_latency.in_us(), "us");
    add("bandwidth", r.message, in_mb_per_s(r.bandwidth), "MB/s");
    add("parameter_server_messages", r.message, message_rate(r), "1/s");
    add("parameter_server_throughput", r.message, server_mb_per_s(r), "MB/s");
    add("fully_connected_latency", r.message, r.connected.latency.in_us(), "us");
    add("fully_connected_throughput", r.message, in_mb_per_s(r.connected.throughput), "MB/s");
  }
  return text;
}

}  // namespace tracecast
