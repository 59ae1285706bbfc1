#include "traces/trace.hpp"

namespace tracecast::traces {

std::string_view to_string(CopyKind kind) {
  switch (kind) {
    case CopyKind::Unknown:
      return "unknown";
    case CopyKind::HostToDevice:
      return "host_to_device";
    case CopyKind::DeviceToHost:
      return "device_to_host";
    case CopyKind::DeviceToDevice:
      return "device_to_device";
    case CopyKind::PeerToPeer:
      return "peer_to_peer";
    case CopyKind::HostToHost:
      return "host_to_host";
  }
  return "?";
}

std::string_view to_string(HostMemory memory) {
  switch (memory) {
    case HostMemory::Unknown:
      return "unknown";
    case HostMemory::Pageable:
      return "pageable";
    case HostMemory::Pinned:
      return "pinned";
    case HostMemory::Managed:
      return "managed";
  }
  return "?";
}

std::string_view to_string(SyncKind kind) {
  switch (kind) {
    case SyncKind::Unknown:
      return "unknown";
    case SyncKind::Event:
      return "event";
    case SyncKind::StreamWaitEvent:
      return "stream_wait_event";
    case SyncKind::Stream:
      return "stream";
    case SyncKind::Context:
      return "context";
  }
  return "?";
}

std::string_view to_string(NodeKind kind) {
  switch (kind) {
    case NodeKind::Unknown:
      return "unknown";
    case NodeKind::Operator:
      return "operator";
    case NodeKind::Metadata:
      return "metadata";
    case NodeKind::MemoryLoad:
      return "memory_load";
    case NodeKind::MemoryStore:
      return "memory_store";
    case NodeKind::Compute:
      return "compute";
    case NodeKind::Send:
      return "send";
    case NodeKind::Receive:
      return "receive";
    case NodeKind::Collective:
      return "collective";
  }
  return "?";
}

void Trace::leave_out(std::string_view kind, bool is_damage) {
  constexpr std::size_t kMostKinds = 256;
  auto found = left_out.find(kind);
  if (found == left_out.end() && left_out.size() >= kMostKinds) {
    kind = "of further kinds";
    found = left_out.find(kind);
  }
  if (found == left_out.end()) found = left_out.emplace(std::string(kind), LeftOut{}).first;
  ++found->second.count;
  found->second.is_damage |= is_damage;
}

}  // namespace tracecast::traces
