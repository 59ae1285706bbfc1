#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tracecast {

/// The text of a spec file, and how errors name it.
struct SpecText {
  std::string_view text;
  std::string where;
};
/// Finds a file of the same kind by its id, for specs that build on others; nothing: no such file.
using FindSpecText = std::function<std::optional<SpecText>(std::string_view id)>;

}  // namespace tracecast
