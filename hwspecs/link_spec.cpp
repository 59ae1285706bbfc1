#include "hwspecs/link_spec.hpp"

#include "hwspecs/loaders/proto_units.hpp"
#include "hwspecs/loaders/spec_reader.hpp"
#include "hwspecs/proto/link_spec.pb.h"

namespace tracecast {
namespace {

/// Facts that may be left out.
constexpr std::string_view kLinkOptional[] = {"efficiency", "kernel_bypass", "gpu_direct"};

static_assert(static_cast<int>(proto::LinkSpec::C2C) - 1 == static_cast<int>(LinkKind::C2c));

}  // namespace

std::string_view to_string(LinkKind kind) {
  switch (kind) {
    case LinkKind::Pcie:
      return "pcie";
    case LinkKind::Nvlink:
      return "nvlink";
    case LinkKind::Socket:
      return "socket";
    case LinkKind::Ethernet:
      return "ethernet";
    case LinkKind::Infiniband:
      return "infiniband";
    case LinkKind::Ipoib:
      return "ipoib";
    case LinkKind::C2c:
      return "c2c";
  }
  return "unknown";
}

LinkSpec load_link_spec(std::string_view text, std::string_view where) {
  proto::LinkSpec message;
  LinkSpec spec;
  const SpecReader reader(text, where, kLinkOptional, message, spec);
  spec.kind = from_proto<LinkKind>(message.kind().value());
  spec.bandwidth = from_gb_per_s(message.gb_per_s());
  spec.latency = from_us(message.latency_us());
  if (message.has_efficiency()) spec.efficiency = message.efficiency().value();
  if (message.has_kernel_bypass()) spec.bypasses_kernel = message.kernel_bypass().value();
  if (message.has_gpu_direct()) spec.reaches_gpus = message.gpu_direct().value();
  spec.words.assign(message.word().begin(), message.word().end());
  return spec;
}

}  // namespace tracecast
