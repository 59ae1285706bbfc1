#include <fmt/format.h>

#include "sim/base/error.hpp"
#include "sim/cluster/payload.hpp"
#include "tools/channel_options.hpp"
#include "tools/output.hpp"
#include "tools/study.hpp"

namespace tracecast {
namespace {

ChannelPath path_of(const StudyArguments& args, std::string_view key, const StudyContext& context) {
  const MachineSpec& machine = context.sources.machines.find(args.text("machine"));
  return take_channel(args.text(key), machine, "", context.sources);
}

/// The message of "bytes=..." or "payload=skew" (ten buffers of the default sizes).
ChannelMessage message_of(const StudyArguments& args) {
  const std::string payload = args.text("payload", "");
  if (payload.empty()) return {.bytes = Bytes(args.number("bytes"))};
  const auto kind = find_payload(payload);
  if (!kind) throw InputError("study", "payload=" + payload, "uniform, random or skew");
  ChannelMessage message{.bytes = Bytes(0), .buffers = 0};
  for (const Bytes buffer : draw_payload({.kind = *kind}, 1)) {
    message.bytes += buffer;
    ++message.buffers;
  }
  return message;
}

/// "channel_latency machine= channel= over= bytes=|payload= as=ratio|saving": how much faster `channel` is.
StudyAnswer channel_latency(const StudyArguments& args, StudyContext& context) {
  const ChannelMessage message = message_of(args);
  const Seconds fast = point_to_point_latency(path_of(args, "channel", context), message);
  const Seconds slow = point_to_point_latency(path_of(args, "over", context), message);
  const bool saving = args.text("as", "ratio") == "saving";
  return {saving ? 100 * (fast / slow - 1) : slow / fast,
          fmt::format("{} us against {} us one way", three_digits(fast.in_us()),
                      three_digits(slow.in_us()))};
}

/// "channel_bandwidth machine= channel= over= bytes=|payload=": ratio of the two.
StudyAnswer channel_bandwidth(const StudyArguments& args, StudyContext& context) {
  const ChannelMessage message = message_of(args);
  const auto fast = point_to_point_bandwidth(path_of(args, "channel", context), message);
  const auto slow = point_to_point_bandwidth(path_of(args, "over", context), message);
  return {fast / slow,
          fmt::format("{} against {} GB/s: the receiving thread's work per byte limits both, on "
                      "RDMA one copy, on TCP the kernel's stack and gRPC's slices",
                      three_digits(fast.in_gb_per_s()), three_digits(slow.in_gb_per_s()))};
}

/// "channel_connected machine= channel= over= processes= bytes= figure=latency|throughput": fully connected processes.
StudyAnswer channel_connected(const StudyArguments& args, StudyContext& context) {
  const ChannelMessage message = message_of(args);
  const int processes = static_cast<int>(args.integer("processes"));
  const auto fast = fully_connected(path_of(args, "channel", context), message, processes);
  const auto slow = fully_connected(path_of(args, "over", context), message, processes);
  if (args.text("figure") == "latency") {
    return {100 * (fast.latency / slow.latency - 1),
            fmt::format("mean of {} messages into each process: {} against {} ms", processes - 1,
                        three_digits(fast.latency.in_ms()), three_digits(slow.latency.in_ms()))};
  }
  return {fast.throughput / slow.throughput,
          fmt::format("into each process: {} against {} GB/s",
                      three_digits(fast.throughput.in_gb_per_s()),
                      three_digits(slow.throughput.in_gb_per_s()))};
}

}  // namespace

std::vector<StudyExperiment> parameter_server_experiments() {
  return {{"channel_latency", channel_latency},
          {"channel_bandwidth", channel_bandwidth},
          {"channel_connected", channel_connected}};
}

}  // namespace tracecast
