#include "hwspecs/machine_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "hwspecs/loaders/proto_units.hpp"
#include "hwspecs/loaders/spec_reader.hpp"
#include "hwspecs/proto/machine_spec.pb.h"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

/// Facts that may be left out.
constexpr std::string_view kMachineOptional[] = {"hosts", "slot"};
constexpr std::int64_t kMostParallelLinks = 1024;

static_assert(static_cast<int>(proto::FormFactor::SUPERCHIP) - 1 ==
              static_cast<int>(FormFactor::Superchip));
static_assert(static_cast<int>(proto::MachineSpec::NETWORK) - 1 ==
              static_cast<int>(NodeKind::Network));

class MachineLoader {
 public:
  MachineLoader(std::string_view text, std::string_view where)
      : reader_(text, where, kMachineOptional, message_, spec_) {}

  MachineSpec load() {
    spec_.cpu = message_.cpu().value();
    spec_.sockets = to_int(message_.sockets());
    spec_.hardware_threads = to_int(message_.hardware_threads());
    spec_.memory = Bytes(message_.memory_gib().value() * 1073741824.0);
    if (message_.has_hosts()) spec_.hosts = to_int(message_.hosts());
    if (message_.has_slot()) spec_.slot = from_proto<FormFactor>(message_.slot().value());
    load_gpus();
    load_disks();
    load_nodes();
    load_links();
    check_topology();
    check_hosts();
    return std::move(spec_);
  }

 private:
  void show(std::string field, std::string value, const std::string& source) {
    spec_.values.push_back({std::move(field), std::move(value), source});
  }

  void load_gpus() {
    for (int i = 0; i < message_.gpu_size(); ++i) {
      const proto::Text& gpu = message_.gpu(i);
      reader_.check_source("gpu", gpu.source(), i);
      reader_.check(!gpu.value().empty(), "gpu", "without a value", "the id of a GPU", i);
      spec_.gpus.push_back(gpu.value());
      show("gpu", gpu.value(), gpu.source());
    }
  }

  /// 1 when not said.
  int parallel(std::string_view field, bool said, std::int64_t count, int index) const {
    if (!said) return 1;
    reader_.check(count >= 1 && count <= kMostParallelLinks, field, fmt::format("count {}", count),
                  fmt::format("1 to {}", kMostParallelLinks), index);
    return static_cast<int>(count);
  }

  void load_disks() {
    for (int i = 0; i < message_.disk_size(); ++i) {
      const auto& disk = message_.disk(i);
      reader_.check_source("disk", disk.source(), i);
      reader_.check(!disk.id().empty(), "disk", "without an id", "the id of a disk", i);
      const int count = parallel("disk", disk.has_count(), disk.count(), i);
      spec_.disks.push_back({disk.id(), count});
      show("disk", count > 1 ? fmt::format("{} x {}", count, disk.id()) : disk.id(), disk.source());
    }
  }

  void load_nodes() {
    for (int i = 0; i < message_.node_size(); ++i) {
      const auto& node = message_.node(i);
      reader_.check_source("node", node.source(), i);
      reader_.check(!node.name().empty() && node.has_kind(), "node", "without name or kind", "both",
                    i);
      reader_.check(!find_node(node.name()), "node",
                    fmt::format("\"{}\" a second time", node.name()), "each name once", i);
      spec_.nodes.push_back({node.name(), from_proto<NodeKind>(node.kind())});
      show("node." + node.name(), std::string(to_string(spec_.nodes.back().kind)), node.source());
    }
  }

  [[nodiscard]] std::optional<std::uint32_t> find_node(std::string_view name) const {
    const auto it = std::find_if(spec_.nodes.begin(), spec_.nodes.end(),
                                 [&](const MachineNode& node) { return node.name == name; });
    if (it == spec_.nodes.end()) return std::nullopt;
    return static_cast<std::uint32_t>(it - spec_.nodes.begin());
  }

  [[nodiscard]] std::uint32_t end_of_link(const std::string& name, int index) const {
    if (const auto node = find_node(name)) return *node;
    std::vector<std::string> names;
    for (const MachineNode& node : spec_.nodes) names.push_back(node.name);
    reader_.refuse("link", fmt::format("to \"{}\"", name), describe_choices(name, names), index);
  }

  void load_links() {
    for (int i = 0; i < message_.link_size(); ++i) {
      const auto& link = message_.link(i);
      reader_.check_source("link", link.source(), i);
      reader_.check(!link.id().empty(), "link", "without an id", "the id of a link", i);
      const std::uint32_t a = end_of_link(link.a(), i), b = end_of_link(link.b(), i);
      reader_.check(a != b, "link", fmt::format("from \"{}\" to itself", link.a()),
                    "two different nodes", i);
      const auto same = [&](const MachineLink& l) {
        return l.link == link.id() && ((l.a == a && l.b == b) || (l.a == b && l.b == a));
      };
      reader_.check(std::none_of(spec_.links.begin(), spec_.links.end(), same), "link",
                    fmt::format("{} {} to {} a second time", link.id(), link.a(), link.b()),
                    "one, with its count", i);
      const int count = parallel("link", link.has_count(), link.count(), i);
      spec_.links.push_back({a, b, link.id(), count});
      show(fmt::format("link.{}.{}", link.a(), link.b()),
           count > 1 ? fmt::format("{} x {}", count, link.id()) : link.id(), link.source());
    }
  }

  void check_topology() const {
    const auto sockets = static_cast<int>(spec_.nodes_of(NodeKind::Socket).size());
    reader_.check(sockets == spec_.sockets, "sockets", fmt::format("{}", spec_.sockets),
                  fmt::format("as many as there are nodes of kind SOCKET, {}", sockets));
    for (const std::uint32_t gpu : spec_.nodes_of(NodeKind::Gpu)) {
      reader_.check(!spec_.path_to_socket(gpu).empty(), "node",
                    fmt::format("\"{}\" without a way to a socket", spec_.nodes[gpu].name),
                    "links to a socket, or over PCIe switches", static_cast<int>(gpu));
    }
  }

  void check_hosts() const {
    const auto gpus = static_cast<int>(spec_.nodes_of(NodeKind::Gpu).size());
    for (const auto& [what, count] :
         {std::pair{"sockets", spec_.sockets},
          std::pair{"hardware_threads", spec_.hardware_threads}, std::pair{"GPUs", gpus}}) {
      reader_.check(count % spec_.hosts == 0, "hosts", fmt::format("{}", spec_.hosts),
                    fmt::format("as many as divide the {} {}", count, what));
    }
  }

  proto::MachineSpec message_;
  MachineSpec spec_;
  SpecReader reader_;
};

}  // namespace

std::string_view to_string(NodeKind kind) {
  switch (kind) {
    case NodeKind::Socket:
      return "socket";
    case NodeKind::PcieSwitch:
      return "pcie_switch";
    case NodeKind::Gpu:
      return "gpu";
    case NodeKind::NvSwitch:
      return "nvswitch";
    case NodeKind::Nic:
      return "nic";
    case NodeKind::Network:
      return "network";
  }
  return "unknown";
}

std::size_t MachineSpec::slots_of_host() const {
  return nodes_of(NodeKind::Gpu).size() / static_cast<std::size_t>(hosts);
}

std::vector<std::uint32_t> MachineSpec::nodes_of(NodeKind kind) const {
  std::vector<std::uint32_t> found;
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].kind == kind) found.push_back(i);
  }
  return found;
}

int MachineSpec::links_between(std::uint32_t a, std::uint32_t b) const {
  int count = 0;
  for (const MachineLink& link : links) {
    if ((link.a == a && link.b == b) || (link.a == b && link.b == a)) count += link.count;
  }
  return count;
}

std::vector<const MachineLink*> MachineSpec::path_to_socket(std::uint32_t gpu) const {
  if (gpu >= nodes.size() || nodes[gpu].kind != NodeKind::Gpu) return {};
  // Breadth first; `came_by` is the link over which a node was first reached.
  std::vector<const MachineLink*> came_by(nodes.size(), nullptr);
  std::vector<bool> seen(nodes.size(), false);
  std::deque<std::uint32_t> next{gpu};
  seen[gpu] = true;
  while (!next.empty()) {
    const std::uint32_t at = next.front();
    next.pop_front();
    if (nodes[at].kind == NodeKind::Socket) {
      std::vector<const MachineLink*> path;
      for (std::uint32_t node = at; node != gpu;) {
        const MachineLink* link = came_by[node];
        path.push_back(link);
        node = link->a == node ? link->b : link->a;
      }
      std::reverse(path.begin(), path.end());
      return path;
    }
    if (at != gpu && nodes[at].kind != NodeKind::PcieSwitch) continue;
    for (const MachineLink& link : links) {
      if (link.a != at && link.b != at) continue;
      const std::uint32_t other = link.a == at ? link.b : link.a;
      if (seen[other]) continue;
      seen[other] = true;
      came_by[other] = &link;
      next.push_back(other);
    }
  }
  return {};
}

MachineSpec load_machine_spec(std::string_view text, std::string_view where) {
  return MachineLoader(text, where).load();
}

}  // namespace tracecast
