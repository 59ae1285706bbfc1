#include "hwspecs/peer_access.hpp"

#include <algorithm>

#include "hwspecs/loaders/gpu_base.hpp"
#include "hwspecs/loaders/spec_reader.hpp"
#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/proto/peer_access.pb.h"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
PeerAccess parse_peer_access(std::string_view text, std::string_view where, const GpuSpec& gpu) {
  proto::PeerAccessRules message;
  parse_textproto(text, where, message);
  PeerAccess access;
  const std::vector<SpecBase> bases = bases_of(gpu);
  for (const auto& rule : message.rule()) {
    if (rule.product_line().empty()) {
      throw InputError(where, "a rule without product_line", "a word of the cards' names");
    }
    const auto is_of_line = [line = to_lower(rule.product_line())](std::string_view name) {
      return to_lower(name).find(line) != std::string::npos;
    };
    // A variant of a card has what its maker leaves out of the line, whatever it is called.
    if (!is_of_line(gpu.name) &&
        std::none_of(bases.begin(), bases.end(),
                     [&](const SpecBase& base) { return is_of_line(base.name); }))
      continue;
    if (rule.has_pcie_until()) {
      access.over_pcie &= gpu.architecture <= from_proto<Architecture>(rule.pcie_until());
    }
    if (rule.has_network()) access.to_network &= rule.network();
  }
  return access;
}

}  // namespace tracecast
