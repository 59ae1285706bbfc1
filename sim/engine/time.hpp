#pragma once
#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>

#include "sim/base/error.hpp"
#include "sim/base/units.hpp"

namespace tracecast::engine {

/// A time or duration on an engine's clock: a whole number of steps of 1 / `TicksPerSecond` s.
/// Sums are exact. An int64 holds 106 days of picoseconds or 292,000 years of microseconds; adding
/// is not checked, so whoever adds up what may not fit checks before (TaskGraph does).
template <std::int64_t TicksPerSecond>
class Ticks {
  static_assert(TicksPerSecond > 0);

 public:
  static constexpr std::int64_t kPerSecond = TicksPerSecond;

  constexpr Ticks() = default;
  constexpr explicit Ticks(std::int64_t count) : count_(count) {}
  [[nodiscard]] static constexpr Ticks most() {
    return Ticks(std::numeric_limits<std::int64_t>::max());
  }

  [[nodiscard]] constexpr std::int64_t count() const { return count_; }
  /// The nearest double; exact up to 2^53 ticks before the parallel layout.
  [[nodiscard]] constexpr Seconds in_seconds() const {
    return Seconds(static_cast<double>(count_) / static_cast<double>(TicksPerSecond));
  }

  constexpr Ticks& operator+=(Ticks other) {
    count_ += other.count_;
    return *this;
  }
  constexpr Ticks& operator-=(Ticks other) {
    count_ -= other.count_;
    return *this;
  }
  friend constexpr Ticks operator+(Ticks a, Ticks b) { return Ticks(a.count_ + b.count_); }
  friend constexpr Ticks operator-(Ticks a, Ticks b) { return Ticks(a.count_ - b.count_); }
  friend constexpr auto operator<=>(Ticks, Ticks) = default;

 private:
  std::int64_t count_ = 0;
};

using Picoseconds = Ticks<1'000'000'000'000>;  ///< the step engine
using Microseconds = Ticks<1'000'000>;         ///< the job engine

/// Throws InputError: a duration longer than the clock can count.
[[noreturn]] void fail_too_long(Seconds duration, Seconds longest);

/// The duration in clock steps, rounded to nearest, halves up; a positive duration is at least one
/// step. Relative error of the GEMM at most 2^-53. NaN and negative durations are our bug
/// (InternalError). Throws InputError when the clock cannot count that far.
template <class Time>
[[nodiscard]] Time to_ticks(Seconds duration) {
  TRACECAST_CHECK(duration.in_s() >= 0.0, "a duration is a number and not negative");
  const double steps = duration.in_s() * static_cast<double>(Time::kPerSecond);
  if (!(steps < 0x1p63)) [[unlikely]]
    fail_too_long(duration, Time::most().in_seconds());
  const auto count = static_cast<std::int64_t>(std::llround(steps));
  return Time(count == 0 && duration.in_s() > 0.0 ? 1 : count);
}

}  // namespace tracecast::engine
