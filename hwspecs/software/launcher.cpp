#include "hwspecs/software/launcher.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "hwspecs/loaders/sourced_reader.hpp"
#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/proto/launcher.pb.h"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

using LauncherMessage = proto::LauncherProfile;

#define TRACECAST_FIELD(name) #name, message.name()

}  // namespace

Seconds LauncherProfile::scheduling(int executors) const {
  TRACECAST_CHECK(executors > 0, "a job has an executor");
  const double last = static_cast<double>(executors) / (executors + 1);
  return node_heartbeat * (0.5 + last) + first_request + 2.0 * container_start;
}

Seconds LauncherProfile::execution(int tasks) const {
  return context_start + worker_start + task_launch * static_cast<double>(tasks);
}

LauncherProfile parse_launcher(std::string_view text, std::string_view where) {
  LauncherMessage message;
  parse_textproto(text, where, message);
  LauncherProfile l;
  l.id = message.id();
  l.name = message.name();
  if (l.id.empty()) throw InputError(where, "no id", "an id such as \"spark_on_yarn\"");
  constexpr double kMost = 1e9;
  SourcedReader read(message.source(), where, l.sources, l.values);
  l.node_heartbeat = Seconds(read.number(TRACECAST_FIELD(node_heartbeat_s), 0, kMost));
  l.first_request = Seconds(read.number(TRACECAST_FIELD(first_request_s), 0, kMost));
  l.container_start = Seconds(read.number(TRACECAST_FIELD(container_start_s), 0, kMost));
  l.context_start = Seconds(read.number(TRACECAST_FIELD(context_start_s), 0, kMost));
  l.worker_start = Seconds(read.number(TRACECAST_FIELD(worker_start_s), 0, kMost));
  l.task_launch = Seconds(read.number(TRACECAST_FIELD(task_launch_s), 0, kMost));
  l.records = Hertz(read.number(TRACECAST_FIELD(records_per_s), 1e-3, kMost));
  return l;
}
#undef TRACECAST_FIELD

}  // namespace tracecast
