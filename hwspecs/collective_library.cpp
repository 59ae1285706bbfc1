#include "hwspecs/collective_library.hpp"

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {

CollectiveLibrary find_collective_library(std::string_view id, std::string_view version) {
  CollectiveLibrary library;
  library.id = std::string(id);
  if (id != "nccl") throw InputError("collective library", id, "nccl");
  if (!version.empty()) {
    const std::size_t dot = version.find('.');
    const auto major = parse_integer(version.substr(0, dot));
    const auto minor = dot == version.npos ? 0 : parse_integer(version.substr(dot + 1));
    if (!major || !minor) throw InputError("collective library", version, "a version such as 2.4");
    library.major = static_cast<int>(*major);
    library.minor = static_cast<int>(*minor);
  }
  library.launch = 6.6_us;
  library.step = 2.0_us;
  return library;
}

}  // namespace tracecast
