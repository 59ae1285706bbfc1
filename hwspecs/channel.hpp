#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/loaders/spec_identity.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

enum class Transport {
  Tcp,   ///< the kernel's stack at both ends; on InfiniBand as IPoIB
  Rdma,  ///< the adapter moves the data
};
[[nodiscard]] std::string_view to_string(Transport transport);

/// What carries messages between processes on different machines: documented structure, and thread
/// times on a reference CPU. Sources, and what is a guess: in the profile's text file. One that
/// exists is valid.
struct ChannelProfile {
  std::string id;
  std::string name;
  std::vector<std::string> aliases;
  Transport transport{};
  double wire_efficiency =
      1;  ///< payload's share of the link, where the link's spec does not state one
  std::string reference_cpu;  ///< id of the CPU that the thread times belong to
  Seconds
      adapted_latency{};  ///< one way, over a link whose own latency belongs to the other transport

  Seconds send_message{}, receive_message{};  ///< thread time per message, at either end
  Seconds buffer{};    ///< further thread time at each end per buffer of a message beyond the first
  Bytes eager_most{};  ///< larger messages begin with a handshake
  Seconds handshake{};       ///< of those, before data moves
  int control_messages = 0;  ///< small messages that go with each payload

  Seconds send_per_byte{}, receive_per_byte{};  ///< thread time
  Seconds tensor_per_byte{};     ///< from what was received into a tensor, by the receiving thread
  Seconds serialize_per_byte{};  ///< at each end, of messages that are serialised
  Bytes chunk{};  ///< sender, wire and receiver work on chunks at the same time; 0: one after the
                  ///< other

  int send_threads = 1, receive_threads = 1;  ///< of one process, for all its peers
  bool one_thread = false;                    ///< the same thread sends and receives
  bool receive_blocks = false;  ///< the receiving thread is held while the wire moves the message
  Seconds scan{};  ///< thread time per message for each other one that waits for the process

  std::vector<SpecSource> sources;
  std::vector<SpecValue> values;
};

/// Reads text format (hwspecs/proto/channel.proto); `where` names it in errors. Throws InputError:
/// syntax, a missing or absurd value, a value without a source.
[[nodiscard]] ChannelProfile parse_channel(std::string_view text, std::string_view where);

}  // namespace tracecast
