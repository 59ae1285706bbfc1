#include "sim/network/channel_cost.hpp"

#include <algorithm>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

/// Thread time per byte at the sender and at the receiver.
Seconds send_per_byte(const ChannelProfile& c, const ChannelMessage& m) {
  return c.send_per_byte + (m.serialized ? c.serialize_per_byte : Seconds());
}
Seconds receive_per_byte(const ChannelProfile& c, const ChannelMessage& m) {
  return c.receive_per_byte + (m.serialized ? c.serialize_per_byte : Seconds()) +
         (m.into_tensor ? c.tensor_per_byte : Seconds());
}
Seconds buffers_time(const ChannelProfile& c, const ChannelMessage& m) {
  return c.buffer * static_cast<double>(std::max(m.buffers - 1, 0));
}

/// Whether the link's latency is that of messages of the transport.
bool is_native(Transport transport, const LinkSpec& link) {
  if (transport == Transport::Tcp) return !link.has_gpu_direct();
  return link.kind != LinkKind::Ethernet || link.has_gpu_direct();
}

/// How long a message holds its receiving thread.
Seconds receiver_held(const ChannelPath& path, const MessageCost& cost) {
  return path.channel.receive_blocks ? cost.wire + cost.receive : cost.receive;
}

/// Between two messages that one process both sends and receives, when its threads never wait.
Seconds interval_of(const ChannelPath& path, const MessageCost& cost) {
  const ChannelProfile& c = path.channel;
  const Seconds receive = receiver_held(path, cost);
  if (c.one_thread) return max(cost.wire, cost.send + receive);
  return max(cost.wire, max(cost.send / c.send_threads, receive / c.receive_threads));
}

}  // namespace

ChannelPath make_channel_path(const ChannelProfile& channel, const LinkSpec& link,
                              double cpu_speed) {
  TRACECAST_CHECK(cpu_speed > 0, "a CPU has a speed");
  ChannelPath path{
      .channel = channel,
      .link = link.id,
      .wire = link.bandwidth * link.efficiency.value_or(channel.wire_efficiency),
      .latency = is_native(channel.transport, link) ? link.latency : channel.adapted_latency};
  for (Seconds* time : {&path.channel.send_message, &path.channel.receive_message,
                        &path.channel.buffer, &path.channel.handshake, &path.channel.scan}) {
    *time /= cpu_speed;
  }
  return path;
}

const LinkSpec& find_channel_link(const MachineSpec& machine, Transport transport,
                                  const LinkCatalog& links) {
  for (const MachineLink& edge : machine.links) {
    if (machine.nodes[edge.a].kind != NodeKind::Network &&
        machine.nodes[edge.b].kind != NodeKind::Network) {
      continue;
    }
    const LinkSpec& link = links.find(edge.link);
    if (transport == Transport::Tcp && link.kind == LinkKind::Infiniband) {
      for (const LinkSpec& other : links.all()) {
        if (other.kind == LinkKind::Ipoib && other.bandwidth == link.bandwidth) return other;
      }
    }
    return link;
  }
  throw InputError("machine " + machine.id, "no network", "a machine with a NIC");
}

MessageCost cost_of(const ChannelPath& path, const ChannelMessage& message) {
  const ChannelProfile& c = path.channel;
  const double bytes = message.bytes.in_bytes();
  const Seconds buffers = buffers_time(c, message);
  return {.send = c.send_message + buffers + send_per_byte(c, message) * bytes,
          .wire = message.bytes / path.wire,
          .receive = c.receive_message + buffers + receive_per_byte(c, message) * bytes};
}

MessageCost cost_with_control(const ChannelPath& path, const ChannelMessage& message) {
  MessageCost cost = cost_of(path, message);
  const ChannelProfile& c = path.channel;
  const Seconds control = (c.send_message + c.receive_message) * (0.5 * c.control_messages);
  cost.send += control;
  cost.receive += control;
  return cost;
}

Seconds point_to_point_latency(const ChannelPath& path, const ChannelMessage& message) {
  const ChannelProfile& c = path.channel;
  const double bytes = message.bytes.in_bytes(), chunk = c.chunk.in_bytes();
  const double first = chunk > 0 ? std::min(bytes, chunk) : bytes;
  const Seconds send = send_per_byte(c, message), receive = receive_per_byte(c, message);
  const Seconds wire = Bytes(1) / path.wire;
  const Seconds fixed = c.send_message + c.receive_message + 2.0 * buffers_time(c, message) +
                        path.latency + (message.bytes > c.eager_most ? c.handshake : Seconds());
  return fixed + first * (send + wire + receive) + (bytes - first) * max(send, max(wire, receive));
}

BytesPerSecond point_to_point_bandwidth(const ChannelPath& path, const ChannelMessage& message) {
  const MessageCost cost = cost_of(path, message);
  return message.bytes / max(max(cost.send, cost.wire), receiver_held(path, cost));
}

Hertz server_throughput(const ChannelPath& path, const ChannelMessage& message, int servers,
                        int workers) {
  const ChannelProfile& c = path.channel;
  const MessageCost cost = cost_of(path, message);
  const double receivers = c.one_thread ? 1 : c.receive_threads;
  const double senders = c.one_thread ? 1 : c.send_threads;
  const Seconds server = max(cost.wire, receiver_held(path, cost) / receivers);
  const Seconds worker = max(cost.wire, cost.send / senders);
  const Seconds report = point_to_point_latency(path, {.bytes = Bytes(0)});
  const Seconds round =
      point_to_point_latency(path, message) + worker * static_cast<double>(servers - 1) + report;
  const double s = servers, w = workers;
  return min(s / server, min(w / worker, w * s / round));
}

FullyConnected fully_connected(const ChannelPath& path, const ChannelMessage& message,
                               int processes) {
  TRACECAST_CHECK(processes >= 2, "fully connected processes are two or more");
  const double others = processes - 1;
  const Seconds first = point_to_point_latency(path, message);
  const Seconds interval = interval_of(path, cost_of(path, message));
  const Seconds last = first + interval * (others - 1);
  return {.latency = first + interval * (0.5 * (others - 1)),
          .throughput = message.bytes * others / last};
}

}  // namespace tracecast
