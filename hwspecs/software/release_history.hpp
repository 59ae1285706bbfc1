#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/loaders/spec_identity.hpp"

namespace tracecast {

/// When the versions of a library came out, hwspecs/release/*.textproto.
struct ReleaseHistory {
  struct Release {
    double version = 0;  ///< 7.6
    std::string month;   ///< "2019-05"
  };
  std::string id;
  std::string name;
  std::vector<Release> releases;  ///< versions and months ascend
  std::vector<SpecSource> sources;

  /// The newest version released up to a month ("2016-04"); the first one before that.
  [[nodiscard]] double newest(std::string_view month) const;
};

/// Reads text format (hwspecs/proto/release_history.proto); `where` names it in errors. Throws
/// InputError: syntax, no release, versions or months that do not ascend, a source that is not
/// known.
[[nodiscard]] ReleaseHistory parse_release_history(std::string_view text, std::string_view where);

}  // namespace tracecast
