#include "hwspecs/software/release_history.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/proto/release_history.pb.h"
#include "sim/base/error.hpp"

namespace tracecast {

double ReleaseHistory::newest(std::string_view month) const {
  double newest = releases.front().version;
  for (const Release& release : releases) {
    if (release.month <= month) newest = release.version;
  }
  return newest;
}

ReleaseHistory parse_release_history(std::string_view text, std::string_view where) {
  proto::ReleaseHistory message;
  parse_textproto(text, where, message);
  ReleaseHistory history;
  history.id = message.id();
  history.name = message.name();
  if (history.id.empty()) throw InputError(where, "no id", "an id such as \"cudnn\"");
  for (const auto& s : message.sources())
    history.sources.push_back({s.key(), s.title(), s.where()});
  for (const auto& release : message.release()) {
    const auto is_its_source = [&](const SpecSource& s) { return s.key == release.source(); };
    if (std::none_of(history.sources.begin(), history.sources.end(), is_its_source)) {
      throw InputError(where, fmt::format("release: source \"{}\"", release.source()),
                       "the key of a source in the same file");
    }
    if (!history.releases.empty() && (release.version() <= history.releases.back().version ||
                                      release.month() <= history.releases.back().month)) {
      throw InputError(where, fmt::format("release {} of {}", release.version(), release.month()),
                       "versions and months that ascend");
    }
    history.releases.push_back({release.version(), release.month()});
  }
  if (history.releases.empty()) throw InputError(where, "no release", "at least one");
  return history;
}

}  // namespace tracecast
