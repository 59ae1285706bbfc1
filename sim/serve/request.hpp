#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sim/base/random.hpp"

namespace tracecast::serve {

using Microseconds = std::int64_t;

/// One request, and what became of it.
struct Request {
  std::uint64_t number = 0;  ///< in order of arrival
  Microseconds arrival = 0;
  std::int64_t input = 1,
               output = 1;   ///< tokens; the first of the output comes from the prompt's step
  std::int64_t shared = 0;   ///< leading tokens of the input that other requests have, too
  std::uint32_t prefix = 0;  ///< which of them: requests of one number begin alike
  std::optional<Microseconds> start{},
      first{};            ///< its first step begins; its first token is there
  Microseconds last = 0;  ///< and its last
  int preemptions = 0;
  bool is_filled = false;  ///< its prompt was computed elsewhere
};

/// Requests in order of arrival. A stream: nothing is kept.
class RequestSource {
 public:
  virtual ~RequestSource() = default;
  /// The next one; nothing: no more. Arrivals never fall.
  virtual std::optional<Request> next() = 0;
};

enum class Arrivals {
  Poisson,  ///< gaps are exponential
  Bursty,   ///< gaps are gamma of shape 1/4: a coefficient of variation of 2
  Even,     ///< gaps are alike
};

/// Tokens of requests.
struct Lengths {
  std::int64_t input = 1, output = 1;
  double least_share =
      1;  ///< drawn evenly from this share of the length to the whole; 1: always the whole
  std::int64_t shared = 0;
  std::uint32_t prefixes = 1;  ///< different ones, drawn evenly
};

struct LoadOptions {
  Arrivals arrivals = Arrivals::Poisson;
  double per_second = 1;
  std::uint64_t requests = 1000;
  Lengths lengths;
  std::uint64_t seed = 1;
};
/// Needs per_second > 0.
[[nodiscard]] std::unique_ptr<RequestSource> make_load(const LoadOptions& options);
/// All at time 0 as far as arrivals go: for closed loops, whose arrivals are completions.
[[nodiscard]] std::unique_ptr<RequestSource> make_closed_load(const LoadOptions& options);
/// Those of a vector, sorted by arrival.
[[nodiscard]] std::unique_ptr<RequestSource> replay(std::vector<Request> requests);

}  // namespace tracecast::serve
