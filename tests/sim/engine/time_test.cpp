#include "sim/engine/time.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <type_traits>

namespace tracecast::engine {
namespace {

template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};

// The two clocks do not mix, nor does either with bare numbers.
static_assert(Addable<Picoseconds, Picoseconds> && !Addable<Picoseconds, Microseconds>);
static_assert(!Addable<Picoseconds, int> && !std::is_convertible_v<int, Picoseconds>);
static_assert(sizeof(Picoseconds) == 8 && std::is_trivially_copyable_v<Picoseconds>);

TEST_SUITE_BEGIN("sim/engine/time");

TEST_CASE(
    "a duration becomes the nearest number of clock steps, and never zero unless it is zero") {
  struct Row {
    const char* what;
    double seconds;
    std::int64_t picoseconds, microseconds;
  };
  const Row rows[] = {
      {"zero", 0.0, 0, 0},
      {"negative zero is zero", -0.0, 0, 0},
      {"the shortest positive double is still one step", std::numeric_limits<double>::denorm_min(),
       1, 1},
      {"under half a picosecond is one", 0.25e-12, 1, 1},
      {"1.25 ps rounds down; under a microsecond is one", 1.25e-12, 1, 1},
      {"1.75 ps rounds up", 1.75e-12, 2, 1},
      {"3.5 us: a half rounds up", 3.5e-6, 3'500'000, 4},
      {"1.25 us rounds down", 1.25e-6, 1'250'000, 1},
      {"one day", 86400.0, 86'400'000'000'000'000, 86'400'000'000},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK(to_ticks<Picoseconds>(Seconds(row.seconds)).count() == row.picoseconds);
    CHECK(to_ticks<Microseconds>(Seconds(row.seconds)).count() == row.microseconds);
  }
}

TEST_CASE("whole picoseconds survive the way to seconds and back") {
  // Up to 2^53 ps (2.5 h) a count is exact in a double; the quotient and the GEMM each round
  // once, to within 2^-53: together under half a step up to 2^51.
  for (std::int64_t count = 1; count < (std::int64_t{1} << 51); count = count * 3 + 1) {
    CAPTURE(count);
    CHECK(to_ticks<Picoseconds>(Picoseconds(count).in_seconds()).count() == count);
  }
}

TEST_CASE("what is no duration is our bug, what the clock cannot count is the input's") {
  CHECK_THROWS_AS((void)to_ticks<Picoseconds>(Seconds(std::nan(""))), InternalError);
  CHECK_THROWS_AS((void)to_ticks<Picoseconds>(Seconds(-1e-300)), InternalError);
  // 2^63 ps = 9.22337e6 s = 106.75 days.
  CHECK_NOTHROW((void)to_ticks<Picoseconds>(Seconds(106 * 86400.0)));
  CHECK_THROWS_AS((void)to_ticks<Picoseconds>(Seconds(107 * 86400.0)), InputError);
  CHECK_THROWS_AS((void)to_ticks<Picoseconds>(Seconds(0x1p63 * 1e-12)), InputError);
  CHECK_THROWS_AS((void)to_ticks<Microseconds>(Seconds(std::numeric_limits<double>::infinity())),
                  InputError);
  CHECK_THROWS_WITH_AS((void)to_ticks<Picoseconds>(Seconds(1e9)),
                       doctest::Contains("9.22337e+06 s"), InputError);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::engine
