#pragma once
#include <cstdint>
#include <vector>

#include "sim/cluster/parameter_server.hpp"
#include "sim/engine/task_graph.hpp"

namespace tracecast {

/// One variable's way to a worker and back in one step.
struct VariableExchange {
  int step = 0;
  engine::TaskId read;    ///< the server's first work on the message with the variable
  engine::TaskId update;  ///< the server's last work on the gradient
};

/// What one server does. The copy engines are those of a GPU that holds its variables.
struct ServerUse {
  std::vector<engine::TaskId> sends, receives;
  engine::ResourceId update, copy_in, copy_out;
  Bytes bytes_in{}, bytes_out{};  ///< on its NIC
};

/// Steps of workers and servers as tasks of the engine.
struct ServerRun {
  engine::TaskGraph graph;
  std::vector<ServerPart> parts;  ///< by task
  std::vector<ServerUse> servers;
  std::vector<std::vector<VariableExchange>> exchanges;  ///< by variable; asynchronous only
  std::vector<std::vector<engine::TaskId>> step_ends;    ///< by worker, by step
};
[[nodiscard]] ServerRun build_server_run(const ParameterServerRequest& request, int steps);

}  // namespace tracecast
