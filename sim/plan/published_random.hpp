#pragma once
#include <cstddef>
#include <cstdint>
#include <random>

namespace tracecast::plan {

/// The draws of Python's `random.Random(seed)`, which published simulators made theirs with:
/// MT19937 seeded through an array of one word (Matsumoto and Nishimura, "Mersenne twister", ACM
/// TOMACS 8(1), 1998), and `randrange` by rejection of as many bits as the bound has.
class PublishedRandom {
 public:
  explicit PublishedRandom(std::uint32_t seed);
  /// Uniform in [0, bound), bound > 0.
  [[nodiscard]] std::size_t below(std::size_t bound);
  /// Uniform in [0, 1), 53 bits.
  [[nodiscard]] double uniform();

 private:
  std::mt19937 twister_;
};

}  // namespace tracecast::plan
