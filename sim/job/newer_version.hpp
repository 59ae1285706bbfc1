#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "hwspecs/software/framework_profile.hpp"

namespace tracecast {

/// What is not known of a version that is newer than all that a profile was made from.
struct NewerVersion {
  double log_sd =
      0;             ///< guessed: of ln(measured / predicted), beside what the newest known one has
  std::string note;  ///< says so
};
/// Nothing: the version is known, or none is asked for.
[[nodiscard]] std::optional<NewerVersion> find_newer_version(const FrameworkProfile& framework,
                                                             std::string_view version);

/// "2.13 is newer than 2.11, ...", as predictions and services say it.
[[nodiscard]] std::string newer_version_note(std::string_view software, std::string_view version,
                                             std::string_view known, double log_sd);

}  // namespace tracecast
