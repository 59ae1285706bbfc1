#include "sim/job/newer_version.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "hwspecs/software/software_version.hpp"
#include "sim/base/text.hpp"
#include "sim/step/interval.hpp"

namespace tracecast {
namespace {

std::string_view value_of(const FrameworkProfile& framework, std::string_view field) {
  const auto found = std::find_if(framework.values.begin(), framework.values.end(),
                                  [&](const SpecValue& value) { return value.field == field; });
  return found == framework.values.end() ? std::string_view() : std::string_view(found->value);
}

/// Of releases alone: a container's name is a month. "3" is 3.0.
std::pair<int, int> release_of(std::string_view text) {
  const VersionNumber version = parse_version(text);
  if (version.is_container) return {};
  if (version.major == 0 && version.minor == 0) {
    const auto whole = parse_integer(text);
    return {static_cast<int>(std::clamp<long long>(whole.value_or(0), 0, 99999)), 0};
  }
  return {version.major, version.minor};
}

}  // namespace

std::string newer_version_note(std::string_view software, std::string_view version,
                               std::string_view known, double log_sd) {
  return fmt::format(
      "{} {} is newer than {}, the newest that is known: priced as that one; its steps may take "
      "{:.0f} % more or less (guessed), which the interval holds",
      software, version, known, 100 * (interval90(1, log_sd).high - 1));
}

std::optional<NewerVersion> find_newer_version(const FrameworkProfile& framework,
                                               std::string_view version) {
  const std::string_view known = value_of(framework, "known.version");
  if (known.empty() || release_of(version) <= release_of(known)) return std::nullopt;
  const double log_sd = parse_double(value_of(framework, "known.newer_log_sd")).value_or(0);
  return NewerVersion{log_sd, newer_version_note(family_of(framework), version, known, log_sd)};
}

}  // namespace tracecast
