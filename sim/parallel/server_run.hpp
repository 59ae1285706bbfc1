#pragma once
#include <cstdint>
#include <vector>

#include "sim/parallel/multi_rank_program.hpp"
#include "sim/parallel/parameter_server.hpp"

namespace tracecast {

/// One variable's way to a worker and back in one step.
struct VariableCommunication {
  int step = 0;
  MultiRankProgram::Task read;    ///< the server's first work on the message with the variable
  MultiRankProgram::Task update;  ///< the server's last work on the gradient
};

/// What one server does. The copy engines are those of a GPU that holds its variables.
struct ServerUse {
  std::vector<MultiRankProgram::Task> sends, receives;
  MultiRankProgram::Lane update, copy_in, copy_out;
  Bytes bytes_in{}, bytes_out{};  ///< on its NIC
};

/// Steps of workers and servers as a program. An action's tag is its ServerPart.
struct ServerRun {
  MultiRankProgram program;
  std::vector<ServerUse> servers;
  std::vector<std::vector<VariableCommunication>>
      communications;                                          ///< by variable; asynchronous only
  std::vector<std::vector<MultiRankProgram::Task>> step_ends;  ///< by worker, by step
};
[[nodiscard]] ServerRun build_server_run(const ParameterServerRequest& request, int steps);

}  // namespace tracecast
