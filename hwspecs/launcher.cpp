#include "hwspecs/launcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "hwspecs/proto/launcher.pb.h"
#include "hwspecs/textproto.hpp"
#include "sim/base/embedded.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace embedded {
std::span<const EmbeddedFile> launchers();
}  // namespace embedded
namespace {

using Message = proto::LauncherProfile;

double read(const char* field, bool present, const Message::Number& n, double least,
            std::string_view where, LauncherProfile& to) {
  constexpr double kMost = 1e9;
  if (!present || !n.has_value()) {
    throw InputError(where, fmt::format("no {}", field),
                     "every value of the schema, with its source");
  }
  if (!(n.value() >= least && n.value() <= kMost)) {
    throw InputError(where, fmt::format("{} = {}", field, n.value()),
                     fmt::format("a value from {} to {}", least, kMost));
  }
  const bool known = std::any_of(to.sources.begin(), to.sources.end(),
                                 [&](const SpecSource& s) { return s.key == n.source(); });
  if (!known) {
    throw InputError(where, fmt::format("{}: source \"{}\"", field, n.source()),
                     "the key of a source in the same file");
  }
  to.values.push_back({field, fmt::format("{}", n.value()), n.source()});
  return n.value();
}

#define TRACECAST_FIELD(name) #name, message.has_##name(), message.name()

const std::vector<LauncherProfile>& launchers() {
  static const std::vector<LauncherProfile> all = [] {
    std::vector<LauncherProfile> list;
    for (const EmbeddedFile& file : embedded::launchers()) {
      list.push_back(parse_launcher(file.content, file.path));
    }
    return list;
  }();
  return all;
}

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
  Message message;
  parse_textproto(text, where, message);
  LauncherProfile l;
  l.id = message.id();
  l.name = message.name();
  if (l.id.empty()) throw InputError(where, "no id", "an id such as \"spark_on_yarn\"");
  for (const auto& s : message.source()) l.sources.push_back({s.key(), s.title(), s.where()});
  l.node_heartbeat = Seconds(read(TRACECAST_FIELD(node_heartbeat_s), 0, where, l));
  l.first_request = Seconds(read(TRACECAST_FIELD(first_request_s), 0, where, l));
  l.container_start = Seconds(read(TRACECAST_FIELD(container_start_s), 0, where, l));
  l.context_start = Seconds(read(TRACECAST_FIELD(context_start_s), 0, where, l));
  l.worker_start = Seconds(read(TRACECAST_FIELD(worker_start_s), 0, where, l));
  l.task_launch = Seconds(read(TRACECAST_FIELD(task_launch_s), 0, where, l));
  l.records = Hertz(read(TRACECAST_FIELD(records_per_s), 1e-3, where, l));
  return l;
}

const LauncherProfile& find_launcher(std::string_view id) {
  std::vector<std::string> ids;
  for (const LauncherProfile& launcher : launchers()) {
    if (launcher.id == id) return launcher;
    ids.push_back(launcher.id);
  }
  throw InputError("launcher", '"' + std::string(id) + '"', describe_choices(id, ids));
}

}  // namespace tracecast
