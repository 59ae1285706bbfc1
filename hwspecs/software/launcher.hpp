#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/loaders/spec_identity.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// What starts a training job on a cluster and feeds it: a resource manager that gives out
/// containers, and a framework that runs tasks in them. Sources, and what is a guess: in the
/// profile's text file.
struct LauncherProfile {
  std::string id;
  std::string name;
  Seconds node_heartbeat{};   ///< containers are given out when a node reports
  Seconds first_request{};    ///< from a waiting request to the manager's next answer
  Seconds container_start{};  ///< files copied, process started
  Seconds context_start{};    ///< of the framework that runs tasks, executors registered
  Seconds worker_start{};     ///< of the training program in an executor
  Seconds task_launch{};      ///< each task, one after the other
  Hertz records{};            ///< that one worker is fed
  std::vector<SpecSource> sources;
  std::vector<SpecValue> values;

  /// Until all containers of `executors` run: the application's own comes with a node's report
  /// (half a heartbeat on average) and starts; it asks for the others, which come with the reports
  /// of as many nodes (the last of n uniform moments, n / (n + 1)), and start together.
  ///   heartbeat / 2 + container + first_request + heartbeat * n / (n + 1) + container
  [[nodiscard]] Seconds scheduling(int executors) const;
  /// Time of the framework before and beside training: context_start + worker_start + tasks *
  /// task_launch.
  [[nodiscard]] Seconds execution(int tasks) const;
};

/// Reads text format (hwspecs/proto/launcher.proto); `where` names it in errors. Throws InputError.
[[nodiscard]] LauncherProfile parse_launcher(std::string_view text, std::string_view where);

}  // namespace tracecast
