#pragma once
#include <string>
#include <string_view>

namespace tracecast {

/// The CPUs of a server: an assumption until somebody names them.
struct DefaultHost {
  std::string cpu;  ///< id of a CPU spec
  int sockets = 1;
  std::string reason;
};

/// Reads such a file; `where` names it in errors. Throws InputError: syntax, no era, years that do
/// not ascend from 0, an era without CPU, sockets out of 1 to 8.
[[nodiscard]] DefaultHost parse_default_host(std::string_view text, std::string_view where,
                                             int year);

}  // namespace tracecast
