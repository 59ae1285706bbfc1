#include "sim/base/units.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <type_traits>

namespace tracecast {
namespace {

template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept Comparable = requires(A a, B b) {
  a < b;
};
template <class A>
concept ReadsSeconds = requires(A a) {
  a.in_s();
};
template <class A>
concept ReadsBytes = requires(A a) {
  a.in_bytes();
};
template <class A>
concept ReadsWatts = requires(A a) {
  a.in_w();
};

// Likes mix.
static_assert(Addable<Seconds, Seconds> && Comparable<Bytes, Bytes>);
// What must not compile: adding or comparing unlikes, a bare number as a quantity, a quantity as a
// bare number.
static_assert(!Addable<Seconds, Bytes> && !Addable<Seconds, double> && !Addable<Flops, Bytes>);
static_assert(!Comparable<BytesPerSecond, FlopsPerSecond> && !Comparable<Seconds, double>);
static_assert(!Addable<Watts, FlopsPerSecond> && !Addable<Hertz, BytesPerSecond>);
static_assert(!std::is_convertible_v<double, Seconds> && !std::is_convertible_v<Seconds, double>);
static_assert(!std::is_constructible_v<double, Seconds> &&
              !std::is_constructible_v<Seconds, Bytes>);
// A reading exists for its own dimension only.
static_assert(ReadsSeconds<Seconds> && !ReadsSeconds<Bytes> && !ReadsSeconds<Hertz>);
static_assert(ReadsBytes<Bytes> && !ReadsBytes<BytesPerSecond> && !ReadsBytes<Flops>);
static_assert(ReadsWatts<Watts> && !ReadsWatts<Joules> && !ReadsWatts<Hertz>);
// Energy times time is neither an energy nor a time.
static_assert(!ReadsSeconds<decltype(Joules() * Seconds())>);

static_assert(std::is_same_v<decltype(Bytes() / Seconds()), BytesPerSecond>);
static_assert(std::is_same_v<decltype(Flops() / FlopsPerSecond()), Seconds>);
static_assert(std::is_same_v<decltype(Bytes() * FlopsPerByte()), Flops>);
static_assert(std::is_same_v<decltype(Watts() * Seconds()), Joules>);
static_assert(std::is_same_v<decltype(1.0 / Seconds()), Hertz>);
static_assert(std::is_same_v<decltype(Seconds() / Seconds()), double>);
static_assert(std::is_same_v<decltype(Hertz() * Seconds()), double>);

// It travels like the double it is.
static_assert(sizeof(Watts) == sizeof(double) && std::is_trivially_copyable_v<Watts>);

TEST_SUITE_BEGIN("sim/base/units");

TEST_CASE("a literal reads back in its own unit and converts by its prefix") {
  CHECK((3.5_us).in_us() == doctest::Approx(3.5));
  CHECK((3.5_us).in_s() == doctest::Approx(3.5e-6).scale(0));
  CHECK((2.0_ms).in_us() == doctest::Approx(2000));
  CHECK((250.0_ns).in_us() == doctest::Approx(0.25));
  CHECK((1.0_MiB).in_bytes() == 1048576.0);
  CHECK((1.0_MB).in_bytes() == 1e6);
  CHECK((2.0_GiB).in_mib() == 2048.0);
  CHECK((4.0_KiB).in_bytes() == 4096.0);
  CHECK((900.0_GBps).in_gb_per_s() == doctest::Approx(900));
  CHECK((15.7_TFLOPps).in_tflop_per_s() == doctest::Approx(15.7));
  CHECK((1530.0_MHz).in_mhz() == doctest::Approx(1530));
}

TEST_CASE("GEMMs and ratios carry their numbers and their dimensions") {
  // 900 MB at 900 GB/s is 1 ms; 8 GFLOP at 8 TFLOP/s is 1 ms; 250 W for 1 ms is 0.25 J.
  CHECK((900.0_MB / 900.0_GBps).in_ms() == doctest::Approx(1.0));
  CHECK((8.0_GFLOP / 8.0_TFLOPps).in_ms() == doctest::Approx(1.0));
  CHECK((250.0_W * 1.0_ms).in_j() == doctest::Approx(0.25));
  CHECK((8.0_GFLOP / 2.0_MB).in_flop_per_byte() == doctest::Approx(4000));
  CHECK(3.0_ms / 1.5_ms == doctest::Approx(2));
  CHECK(1000.0_MHz * 1.0_us == doctest::Approx(1000));  // cycles
}

TEST_CASE("arithmetic on likes is the arithmetic of their numbers") {
  Seconds time = 1.0_ms;
  time += 2.0_ms;
  time -= 0.5_ms;
  time *= 4;
  time /= 2;
  CHECK(time.in_ms() == doctest::Approx(5.0));  // (1 + 2 - 0.5) * 4 / 2
  CHECK((-time).in_ms() == doctest::Approx(-5.0));
  CHECK((2 * time - time * 0.5).in_ms() == doctest::Approx(7.5));
  CHECK(max(1.0_ms, 2.0_ms) == 2.0_ms);
  CHECK(min(1.0_ms, 2.0_ms) == 1.0_ms);
  CHECK(1.0_us < 1.0_ms);
}

TEST_CASE("a quantity starts at zero, and finiteness can be asked") {
  CHECK(Seconds().in_s() == 0.0);
  CHECK(is_finite(1.0_s));
  CHECK_FALSE(is_finite(Seconds(std::numeric_limits<double>::quiet_NaN())));
  CHECK_FALSE(is_finite(1.0_MB / BytesPerSecond(0)));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
