#include "hwspecs/channel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "hwspecs/loaders/sourced_reader.hpp"
#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/proto/channel.pb.h"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

using ChannelMessage = proto::ChannelProfile;

#define TRACECAST_FIELD(name) #name, message.name()

Transport transport_of(const std::string& word, std::string_view where) {
  if (word == "tcp") return Transport::Tcp;
  if (word == "rdma") return Transport::Rdma;
  throw InputError(where, "transport = \"" + word + '"',
                   describe_choices(word, std::vector<std::string>{"tcp", "rdma"}));
}

Seconds microseconds(double value) { return Seconds(value * 1e-6); }
Seconds nanoseconds(double value) { return Seconds(value * 1e-9); }

void read_costs(const ChannelMessage& message, SourcedReader& read, ChannelProfile& c) {
  constexpr double kMostUs = 1e6, kMostNs = 1e3, kMostBytes = 1e12;
  c.send_message = microseconds(read.number(TRACECAST_FIELD(send_message_us), 0, kMostUs));
  c.receive_message = microseconds(read.number(TRACECAST_FIELD(receive_message_us), 0, kMostUs));
  c.buffer = microseconds(read.number(TRACECAST_FIELD(buffer_us), 0, kMostUs));
  c.eager_most = Bytes(read.number(TRACECAST_FIELD(eager_most_bytes), 0, kMostBytes));
  c.handshake = microseconds(read.number(TRACECAST_FIELD(handshake_us), 0, kMostUs));
  c.control_messages = read.count(TRACECAST_FIELD(control_messages), 0, 100);
  c.send_per_byte = nanoseconds(read.number(TRACECAST_FIELD(send_ns_per_byte), 0, kMostNs));
  c.receive_per_byte = nanoseconds(read.number(TRACECAST_FIELD(receive_ns_per_byte), 0, kMostNs));
  c.tensor_per_byte = nanoseconds(read.number(TRACECAST_FIELD(tensor_ns_per_byte), 0, kMostNs));
  c.serialize_per_byte =
      nanoseconds(read.number(TRACECAST_FIELD(serialize_ns_per_byte), 0, kMostNs));
  c.chunk = Bytes(read.number(TRACECAST_FIELD(chunk_bytes), 0, kMostBytes));
  c.send_threads = read.count(TRACECAST_FIELD(send_threads), 1, 1024);
  c.receive_threads = read.count(TRACECAST_FIELD(receive_threads), 1, 1024);
  c.one_thread = read.flag(TRACECAST_FIELD(one_thread));
  c.receive_blocks = read.flag(TRACECAST_FIELD(receive_blocks));
  c.scan = nanoseconds(read.number(TRACECAST_FIELD(scan_ns), 0, 1e6));
}

}  // namespace

std::string_view to_string(Transport transport) {
  return transport == Transport::Tcp ? "tcp" : "rdma";
}

ChannelProfile parse_channel(std::string_view text, std::string_view where) {
  ChannelMessage message;
  parse_textproto(text, where, message);
  ChannelProfile channel;
  channel.id = message.id();
  channel.name = message.name();
  channel.aliases.assign(message.alias().begin(), message.alias().end());
  if (channel.id.empty()) throw InputError(where, "no id", "an id such as \"grpc\"");
  SourcedReader read(message.source(), where, channel.sources, channel.values);
  channel.transport = transport_of(read.word(TRACECAST_FIELD(transport)), where);
  channel.wire_efficiency = read.number(TRACECAST_FIELD(wire_efficiency), 0, 1);
  if (channel.wire_efficiency < 0.01) {
    throw InputError(where, fmt::format("wire_efficiency = {}", channel.wire_efficiency),
                     "a share from 0.01 to 1");
  }
  channel.reference_cpu = read.word(TRACECAST_FIELD(reference_cpu));
  channel.adapted_latency = microseconds(read.number(TRACECAST_FIELD(adapted_latency_us), 0, 1e6));
  read_costs(message, read, channel);
  return channel;
}
#undef TRACECAST_FIELD

}  // namespace tracecast
