#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "hwspecs/software/framework_profile.hpp"

namespace tracecast {

/// A version newer than all that the profile was made from: its steps may take more or less than the newest known one's, by a guessed standard
/// deviation that the profile states. Adds it to `framework` and says so; nothing: the version is known, or none is asked for.
[[nodiscard]] std::optional<std::string> widen_if_newer(FrameworkProfile& framework,
                                                        std::string_view version);

/// "2.13 is newer than 2.11, ...", as predictions and services say it.
[[nodiscard]] std::string newer_version_note(std::string_view software, std::string_view version,
                                             std::string_view known, double log_sd);

}  // namespace tracecast
