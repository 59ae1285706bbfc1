#pragma once
#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "hwspecs/loaders/spec_text.hpp"
#include "hwspecs/loaders/textproto.hpp"
#include "sim/base/error.hpp"

namespace tracecast {

/// A round of a yearly benchmark is based on the one before.
inline constexpr int kMostBases = 64;

/// `message` with what it does not state taken from the file that its `based_on` names, and so on;
/// repeated fields of bases come first. `prepare(base, own)` may take away from a base what must
/// not pass on. Throws InputError: no such file, a circle. Private to this box.
template <class Message, class Prepare>
void complete_from_bases(Message& message, std::string_view where, const FindSpecText& find,
                         const Prepare& prepare) {
  Message own = message;
  std::string_view place = where;
  std::vector<SpecText> files;
  files.reserve(kMostBases);
  Message last = message;
  for (int depth = 0; !last.based_on().empty(); ++depth) {
    const auto found = last.based_on() == last.id() ? std::nullopt : find(last.based_on());
    if (!found || depth == kMostBases) {
      throw InputError(place, fmt::format("based_on \"{}\"", last.based_on()),
                       "the id of another file of this kind, and no circle");
    }
    files.push_back(*found);
    place = files.back().where;
    Message base;
    parse_textproto(files.back().text, place, base);
    last = base;
    prepare(base, own);
    base.MergeFrom(own);
    own = base;
  }
  message = own;
}

}  // namespace tracecast
