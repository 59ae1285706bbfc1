#include "hwspecs/default_host.hpp"

#include <fmt/format.h>

#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/proto/default_host.pb.h"
#include "sim/base/error.hpp"

namespace tracecast {
DefaultHost parse_default_host(std::string_view text, std::string_view where, int year) {
  proto::DefaultHosts message;
  parse_textproto(text, where, message);
  if (message.era_size() == 0 || message.era(0).from_year() != 0) {
    throw InputError(where, "no era from year 0", "one era for every GPU");
  }
  DefaultHost host;
  int before = -1;
  for (const auto& era : message.era()) {
    if (era.from_year() <= before) {
      throw InputError(where, fmt::format("from_year {} after {}", era.from_year(), before),
                       "ascending years");
    }
    before = era.from_year();
    if (era.cpu().empty() || era.sockets() < 1 || era.sockets() > 8) {
      throw InputError(where, fmt::format("era from {}", era.from_year()),
                       "a cpu and 1 to 8 sockets");
    }
    if (era.from_year() <= year) host = {era.cpu(), era.sockets(), era.reason()};
  }
  return host;
}

}  // namespace tracecast
