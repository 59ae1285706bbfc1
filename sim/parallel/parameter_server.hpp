#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "models/graph.hpp"
#include "sim/base/units.hpp"
#include "sim/network/channel_cost.hpp"
#include "sim/network/fabric.hpp"
#include "sim/step/prediction.hpp"
#include "sim/step/step_account.hpp"

namespace tracecast {

/// A trained tensor that lies on a server.
struct ServedVariable {
  Bytes bytes{};
  std::uint32_t needed_by = 0;    ///< first segment of the worker that reads it
  std::uint32_t ready_after = 0;  ///< segment after which its gradient is there
};

/// What a worker computes in one step, cut where it needs variables and where gradients are ready.
/// The update is not in it: servers make it.
struct ServerWorker {
  Seconds feeding{};  ///< the host prepares the batch before it asks for anything
  std::vector<Seconds> segments;
  std::vector<ServedVariable> variables;  ///< in the order of the network
  WorkMix mix{};                          ///< of all segments
};
/// From the kernels of one step alone, waiting for the worker's own host included. `element_bytes`:
/// as in find_gradients. Every time is `time_factor` times that of the prediction.
[[nodiscard]] ServerWorker cut_for_servers(const NetworkGraph& graph, const Prediction& prediction,
                                           std::span<const Bytes> element_bytes,
                                           double time_factor = 1);

/// Which server holds a variable.
enum class VariablePlacement {
  RoundRobin,  ///< in the order of the network (tf.train.replica_device_setter)
  ByBytes,     ///< each on the server with the fewest bytes so far (GreedyLoadBalancingStrategy)
};
/// Server of each variable.
[[nodiscard]] std::vector<std::uint32_t> place_variables(std::span<const ServedVariable> variables,
                                                         std::uint32_t servers,
                                                         VariablePlacement placement);

struct ParameterServerRequest {
  const Fabric& fabric;  ///< its first nodes are the servers; every rank of the others is a worker
  std::uint32_t servers = 1;  ///< fewer than the nodes
  const ChannelPath& channel;
  std::vector<ServerWorker> kinds;     ///< the same variables in each
  std::vector<std::uint32_t> kind_of;  ///< by worker: index into kinds
  VariablePlacement placement = VariablePlacement::ByBytes;
  bool asynchronous = false;
  /// Memory that the server's update touches per byte of a gradient: SGD reads gradient and weight
  /// and writes the weight.
  double update_accesses = 3;
  BytesPerSecond update_rate{};  ///< of the memory that holds variables
  /// Variables lie on the server's GPU: every message is copied from or to it at this rate. Zero:
  /// in host memory.
  BytesPerSecond server_copy{};
  BytesPerSecond device_copy{};  ///< between a worker's GPU and its host, each direction
  std::uint64_t seed = 1;        ///< of the order in which workers ask for variables
};

/// Who is at work in a parameter-server step.
enum class ServerPart {
  Feeding,  ///< a worker's host, before its step
  Compute,
  DeviceCopy,
  ServerSend,
  ServerReceive,
  Wire,
  WorkerSend,
  WorkerReceive,
  Update,
};
inline constexpr std::size_t kServerPartCount = 9;
[[nodiscard]] std::string_view to_string(ServerPart part);

struct ParameterServerStep {
  Seconds step_time{};     ///< of a worker, mean; of synchronous workers all alike
  Seconds compute{};       ///< of a worker's step alone, greatest over the kinds
  double steps_per_s = 0;  ///< of all workers together
  std::uint32_t workers = 0, variables = 0;
  Bytes pulled{};  ///< by one worker in a step, as much as it pushes
  /// Critical path of the step by who is at work; sums to the step time. Synchronous steps only.
  std::array<Seconds, kServerPartCount> critical{};
  // Shares of the time, of the busiest server.
  double send_busy = 0, receive_busy = 0;  ///< of its threads; of one that does both, each part
  double update_busy = 0;
  double wire_in = 0, wire_out = 0;  ///< of its NIC's bandwidth
  /// Updates by others between a worker's reading a variable and its own update of it, mean over
  /// variables, workers and steps. 0 when synchronous.
  double staleness = 0;
  StepAccount account{};  ///< of a worker's step, mean over the steps of all
};
/// Power of the mean worker's board: its kernels draw what they draw alone, else it waits
/// active-idle. A step shorter than a window looks the same in all; in a longer one the board is
/// seen waiting, and seen as busy as alone.
[[nodiscard]] PowerRange worker_power(const PowerRange& alone, Seconds step_alone,
                                      const ParameterServerStep& step);

/// Steps of workers and servers over a channel. Pure.
///   - at the begin of a step a worker asks for all variables; TensorFlow's executor starts its
///   receives in no
///     particular order (Hashemi et al., TicTac, SysML 2019), here shuffled by the seed, each
///     worker its own way
///   - a message takes its sender's threads, the links between the hosts (max-min fair with all
///   others), and its
///     receiver's threads; messages wait for threads in the order in which they are ready. In
///     channels with chunks, of which 1 MiB or more are taken at a time here, the three work at the
///     same time
///   - a segment waits for its variables, copied to the GPU; gradients go as soon as they are ready
///   - synchronous: the server adds the gradients of all workers and updates once; the next step
///   begins when all is
///     updated and every worker told. Asynchronous: each gradient is an update of its own, and a
///     worker goes on when its own are done; several steps, of which the later half count
/// Every other message that waits for a process costs `scan` per message: half of a step's on
/// average. Throws InputError when that is more than a million messages.
[[nodiscard]] ParameterServerStep simulate_parameter_server(const ParameterServerRequest& request);

}  // namespace tracecast
