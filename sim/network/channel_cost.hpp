#pragma once
#include <optional>
#include <string>

#include "hwspecs/channel.hpp"
#include "hwspecs/link_spec.hpp"
#include "hwspecs/machine_spec.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// One message: `buffers` pieces of memory that together have `bytes`.
struct ChannelMessage {
  Bytes bytes{};
  int buffers = 1;
  bool serialized = false;   ///< made into one string and taken apart again
  bool into_tensor = false;  ///< what is received ends in a tensor
};

/// A channel between processes on two machines of one kind.
struct ChannelPath {
  ChannelProfile channel;  ///< its thread times per message are those of this machine's CPU
  std::string link;        ///< id of the link that the messages cross
  BytesPerSecond wire{};   ///< of payload, one direction
  Seconds latency{};       ///< one way, of the link
};

/// `cpu_speed`: of one thread of the machine's CPU over that of the channel's reference CPU. Times
/// per message scale with it; times per byte are copies, which memory bounds, and do not. The
/// latency is the link's, or the channel's `adapted_latency` where the link's belongs to the other
/// transport.
[[nodiscard]] ChannelPath make_channel_path(const ChannelProfile& channel, const LinkSpec& link,
                                            double cpu_speed = 1);

/// The link of a machine's first NIC, as the transport uses it: TCP runs over InfiniBand as IPoIB,
/// where there is a spec of it with the same rate. Throws InputError: the machine has no NIC, or an
/// id is not known.
[[nodiscard]] const LinkSpec& find_channel_link(const MachineSpec& machine, Transport transport,
                                                const LinkCatalog& links);

/// What one message costs where it is handled.
struct MessageCost {
  Seconds send{};     ///< of a sending thread
  Seconds wire{};     ///< bytes / wire rate
  Seconds receive{};  ///< of a receiving thread; with `receive_blocks` without the time on the wire
};
/// send    = send_message + (buffers - 1) * buffer + bytes * (send_per_byte [+ serialize_per_byte])
/// receive = receive_message + (buffers - 1) * buffer + bytes * (receive_per_byte [+ serialize] [+
/// tensor_per_byte])
[[nodiscard]] MessageCost cost_of(const ChannelPath& path, const ChannelMessage& message);
/// The same plus what the small messages that go with a tensor take of the threads at both ends:
/// control_messages * (send_message + receive_message) / 2 each.
[[nodiscard]] MessageCost cost_with_control(const ChannelPath& path, const ChannelMessage& message);

/// Time from the sender's call to the message in the receiver's hands, nothing else going on (half
/// the round trip of a message that is sent back). With s, w, r the cost per byte at the sender, on
/// the wire and at the receiver, and f = min(bytes, chunk), or all bytes without chunks:
///   fixed parts of both ends + latency + handshake (above eager_most) + f (s + w + r) + (bytes -
///   f) max(s, w, r)
[[nodiscard]] Seconds point_to_point_latency(const ChannelPath& path,
                                             const ChannelMessage& message);

/// Bandwidth of messages in a row from one process to another: bytes / max(send, wire, receive),
/// where a receiver that blocks is held for wire + receive.
[[nodiscard]] BytesPerSecond point_to_point_bandwidth(const ChannelPath& path,
                                                      const ChannelMessage& message);

/// Messages per second that `workers` processes bring to `servers`, each sending one to every
/// server at once and waiting for an answer from all of them before the next:
///   min(servers / server time, workers / worker time, workers * servers / time of one round alone)
/// with the server's time max(wire, receive / threads), the worker's max(wire, send / threads).
[[nodiscard]] Hertz server_throughput(const ChannelPath& path, const ChannelMessage& message,
                                      int servers, int workers);

/// `processes` that each send one message to every other at the same time.
struct FullyConnected {
  Seconds latency{};  ///< mean over the messages, from the common start to the receiver's hands
  BytesPerSecond throughput{};  ///< received by one process
};
/// Every process is as busy as any other, so one tells all: its k-th message is there k - 1 times
/// the slowest stage after the first; one thread that does both is busy for send + receive per
/// message. Needs 2 processes or more.
[[nodiscard]] FullyConnected fully_connected(const ChannelPath& path, const ChannelMessage& message,
                                             int processes);

}  // namespace tracecast
