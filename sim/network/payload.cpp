#include "sim/network/payload.hpp"

#include <algorithm>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"

namespace tracecast {
namespace {

struct Counts {
  int small = 0, medium = 0, large = 0;
};

Counts count_uniform(int buffers) {
  const int third = buffers / 3, rest = buffers % 3;
  return {third, third + (rest > 1 ? 1 : 0), third + (rest > 0 ? 1 : 0)};
}

Counts count_skew(int buffers) {
  const int small = buffers / 10, medium = buffers * 3 / 10;
  return {small, medium, buffers - small - medium};
}

}  // namespace

std::string_view to_string(PayloadKind kind) {
  switch (kind) {
    case PayloadKind::Uniform:
      return "uniform";
    case PayloadKind::Random:
      return "random";
    case PayloadKind::Skew:
      return "skew";
  }
  return "";
}

std::optional<PayloadKind> find_payload(std::string_view word) {
  for (const PayloadKind kind : {PayloadKind::Uniform, PayloadKind::Random, PayloadKind::Skew}) {
    if (to_string(kind) == word) return kind;
  }
  return std::nullopt;
}

std::vector<Bytes> draw_payload(const PayloadMix& mix, std::uint64_t seed) {
  TRACECAST_CHECK(mix.buffers >= 1, "a message has a buffer");
  std::vector<Bytes> sizes;
  if (mix.kind == PayloadKind::Random) {
    Random random(seed);
    const Bytes choices[] = {mix.small, mix.medium, mix.large};
    for (int i = 0; i < mix.buffers; ++i) sizes.push_back(choices[random.below(3)]);
    return sizes;
  }
  const Counts counts =
      mix.kind == PayloadKind::Uniform ? count_uniform(mix.buffers) : count_skew(mix.buffers);
  sizes.insert(sizes.end(), static_cast<std::size_t>(counts.small), mix.small);
  sizes.insert(sizes.end(), static_cast<std::size_t>(counts.medium), mix.medium);
  sizes.insert(sizes.end(), static_cast<std::size_t>(counts.large), mix.large);
  return sizes;
}

}  // namespace tracecast
