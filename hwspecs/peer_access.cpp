#include "hwspecs/peer_access.hpp"

#include <span>

#include "hwspecs/proto/peer_access.pb.h"
#include "hwspecs/spec_reader.hpp"
#include "hwspecs/textproto.hpp"
#include "sim/base/embedded.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace embedded {
std::span<const EmbeddedFile> peer_access_rules();
}

PeerAccess parse_peer_access(std::string_view text, std::string_view where, const GpuSpec& gpu) {
  proto::PeerAccessRules message;
  parse_textproto(text, where, message);
  PeerAccess access;
  for (const auto& rule : message.rule()) {
    if (rule.product_line().empty()) {
      throw InputError(where, "a rule without product_line", "a word of the cards' names");
    }
    if (to_lower(gpu.name).find(to_lower(rule.product_line())) == std::string::npos) continue;
    if (rule.has_pcie_until()) {
      access.over_pcie &= gpu.architecture <= from_proto<Architecture>(rule.pcie_until());
    }
    if (rule.has_network()) access.to_network &= rule.network();
  }
  return access;
}

PeerAccess peer_access(const GpuSpec& gpu) {
  const EmbeddedFile& file = embedded::peer_access_rules().front();
  return parse_peer_access(file.content, file.path, gpu);
}

}  // namespace tracecast
