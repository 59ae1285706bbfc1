#include "sim/job/channel.hpp"

#include "sim/base/error.hpp"

namespace tracecast {

ChannelPath take_channel(std::string_view channel, const MachineSpec& machine,
                         std::string_view link, const Hardware& hardware) {
  const ChannelProfile* profile = nullptr;
  try {
    profile = &hardware.specs().find_channel(channel);
  } catch (const InputError& error) {
    throw InputError("--channel", error);
  }
  const LinkSpec& wire = link.empty()
                             ? find_channel_link(machine, profile->transport, hardware.links())
                             : hardware.links().find(link);
  if (wire.kind == LinkKind::Pcie || wire.kind == LinkKind::Nvlink || wire.kind == LinkKind::C2c ||
      wire.kind == LinkKind::Socket) {
    throw InputError("--link", wire.id, "a network: Ethernet, InfiniBand or IPoIB");
  }
  if (profile->transport == Transport::Rdma && wire.kind == LinkKind::Ipoib) {
    throw InputError("--link", wire.id + " with --channel " + profile->id,
                     "InfiniBand or Ethernet: IPoIB carries TCP");
  }
  const double speed = hardware.cpus().find(machine.cpu).single_thread_speed() /
                       hardware.cpus().find(profile->reference_cpu).single_thread_speed();
  return make_channel_path(*profile, wire, speed);
}

}  // namespace tracecast
