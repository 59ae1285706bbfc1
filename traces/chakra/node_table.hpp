#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "traces/trace.hpp"
#include "traces/trace_builder.hpp"

namespace tracecast::traces::chakra {

/// One node before it is added; reused for the next one.
struct NodeRecord {
  std::uint64_t id = 0;
  std::string name;
  NodeKind kind = NodeKind::Unknown;
  bool on_gpu = false;
  std::int64_t duration_ns = -1;
  std::string dims, types, values;
  std::uint64_t message_bytes = 0;
  std::vector<std::uint64_t> dependencies;
  void clear() { *this = {}; }
};

/// `bytes`: of the file up to the node's end.
inline void add_node(Trace& trace, TraceBuilder& builder, const NodeRecord& node,
                     std::uint64_t bytes) {
  constexpr std::uint64_t kLeastBytes = 8;  // an id, a name, a kind
  builder.count_record(bytes, kLeastBytes);
  Nodes& nodes = trace.nodes;
  nodes.id.push_back(node.id);
  nodes.name.push_back(trace.names.intern(node.name));
  nodes.kind.push_back(node.kind);
  nodes.on_gpu.push_back(node.on_gpu);
  nodes.duration_ns.push_back(node.duration_ns);
  nodes.dims.push_back(trace.names.intern(node.dims));
  nodes.types.push_back(trace.names.intern(node.types));
  nodes.values.push_back(trace.names.intern(node.values));
  nodes.message_bytes.push_back(node.message_bytes);
  nodes.first_dependency.push_back(static_cast<std::uint32_t>(nodes.dependency.size()));
  nodes.dependency.insert(nodes.dependency.end(), node.dependencies.begin(),
                          node.dependencies.end());
}

/// Node types of the schema's enumeration.
inline NodeKind node_kind(std::int64_t type) {
  switch (type) {
    case 1:
      return NodeKind::Metadata;
    case 2:
      return NodeKind::MemoryLoad;
    case 3:
      return NodeKind::MemoryStore;
    case 4:
      return NodeKind::Compute;
    case 5:
      return NodeKind::Send;
    case 6:
      return NodeKind::Receive;
    case 7:
      return NodeKind::Collective;
    default:
      return NodeKind::Unknown;
  }
}

/// Whole microseconds in nanoseconds; -1 when they are out of range.
inline std::int64_t whole_us(std::uint64_t us) {
  return us <= 2'300'000'000'000'000 ? static_cast<std::int64_t>(us) * 1000 : -1;
}

}  // namespace tracecast::traces::chakra
