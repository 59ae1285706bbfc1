#include "sim/engine/time.hpp"

#include <charconv>
#include <string>

namespace tracecast::engine {
namespace {

std::string in_words(Seconds duration) {
  char text[32];
  const auto end =
      std::to_chars(text, text + sizeof text, duration.in_s(), std::chars_format::general, 6).ptr;
  return std::string(text, end) + " s";
}

}  // namespace

void fail_too_long(Seconds duration, Seconds longest) {
  throw InputError("simulated duration", in_words(duration),
                   "at most " + in_words(longest) + ", what the clock can count");
}

}  // namespace tracecast::engine
