#include "sim/plan/published_random.hpp"

#include <array>
#include <bit>
#include <sstream>

namespace tracecast::plan {
namespace {

constexpr std::size_t kWords = 624;

/// `init_by_array` of the generator's authors, for an array of one word.
std::array<std::uint32_t, kWords> state_of(std::uint32_t key) {
  std::array<std::uint32_t, kWords> s{};
  s[0] = 19650218U;
  for (std::uint32_t i = 1; i < kWords; ++i) s[i] = 1812433253U * (s[i - 1] ^ (s[i - 1] >> 30)) + i;
  std::size_t i = 1;
  const auto next = [&] {
    if (++i < kWords) return;
    s[0] = s[kWords - 1];
    i = 1;
  };
  for (std::size_t k = 0; k < kWords; ++k) {
    s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * 1664525U)) + key;
    next();
  }
  for (std::size_t k = 0; k + 1 < kWords; ++k) {
    s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * 1566083941U)) - static_cast<std::uint32_t>(i);
    next();
  }
  s[0] = 0x80000000U;
  return s;
}

}  // namespace

PublishedRandom::PublishedRandom(std::uint32_t seed) {
  std::stringstream text;
  for (const std::uint32_t word : state_of(seed)) text << word << ' ';
  text << kWords;  // all are used up: the next draw makes new ones
  text >> twister_;
}

std::size_t PublishedRandom::below(std::size_t bound) {
  const int bits = static_cast<int>(std::bit_width(bound));
  for (;;) {
    const std::size_t drawn = static_cast<std::uint32_t>(twister_()) >> (32 - bits);
    if (drawn < bound) return drawn;
  }
}

double PublishedRandom::uniform() {
  const auto high = static_cast<std::uint32_t>(twister_()) >> 5;
  const auto low = static_cast<std::uint32_t>(twister_()) >> 6;
  return (high * 67108864.0 + low) * 0x1.0p-53;
}

}  // namespace tracecast::plan
