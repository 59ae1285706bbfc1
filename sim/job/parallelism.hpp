#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "sim/base/units.hpp"
#include "sim/parallel/transformer/plan.hpp"

namespace tracecast {

/// What users of the framework take on so many GPUs; on one: nothing to divide.
struct Usual {};

/// Replicas of the whole network, one per GPU.
struct DataParallel {
  std::string strategy{};  ///< id; empty: what users of the framework took
  bool fold = true;        ///< ranks that provably do the same are simulated once
  /// Standard deviation of a sample's time relative to its mean: sentences or images of differing
  /// sizes about 0.25.
  double sample_sd = 0;
};

/// Workers and, on machines of their own, servers that hold the variables. What is left out is
/// usual.
struct ParameterServers {
  std::optional<std::int64_t> servers{};  ///< of the nodes; nothing: 1
  std::string channel{};                  ///< id; empty: grpc
  std::string link{};                     ///< network instead of the machine's; empty: its own
  std::string placement{};                ///< of variables: bytes or round_robin; empty: bytes
  std::string device{};                   ///< that holds the variables: cpu or gpu; empty: cpu
  bool asynchronous = false;
  Seconds feeding{};  ///< of each step, before a worker asks for anything
};

/// A transformer whose layers, stages or states are divided.
struct Sharded {
  PlanOptions plan{};                 ///< its micro-batch: Job::batch where it names none
  std::string software = "megatron";  ///< id of the training program
  bool fold = true;
  bool finds_largest_batch = false;
};

using Parallelism = std::variant<Usual, DataParallel, ParameterServers, Sharded>;

}  // namespace tracecast
