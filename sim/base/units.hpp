#pragma once
#include <cmath>
#include <compare>

namespace tracecast {

/// A physical quantity: one double in SI units (seconds, bytes, operations), its dimension in the
/// type. Exponents are those of time, data and arithmetic operations; joules and watts have an
/// exponent of their own, so that a power cannot be mistaken for a rate. GEMMs and ratios get
/// the right type by themselves; the ratio of two likes is a plain double. There is no conversion
/// to double: reading out names the unit.
template <int Time, int Byte, int Flop, int Joule = 0>
class Quantity {
  template <int T, int B, int F, int J>
  static constexpr bool kIs = (Time == T) && (Byte == B) && (Flop == F) && (Joule == J);

 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double si) : si_(si) {}
  /// The value in the SI unit of this dimension.
  [[nodiscard]] constexpr double in_si() const { return si_; }

  constexpr Quantity operator-() const { return Quantity(-si_); }
  constexpr Quantity& operator+=(Quantity other) {
    si_ += other.si_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    si_ -= other.si_;
    return *this;
  }
  constexpr Quantity& operator*=(double factor) {
    si_ *= factor;
    return *this;
  }
  constexpr Quantity& operator/=(double divisor) {
    si_ /= divisor;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.si_ + b.si_); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.si_ - b.si_); }
  friend constexpr Quantity operator*(Quantity a, double factor) {
    return Quantity(a.si_ * factor);
  }
  friend constexpr Quantity operator*(double factor, Quantity a) {
    return Quantity(a.si_ * factor);
  }
  friend constexpr Quantity operator/(Quantity a, double divisor) {
    return Quantity(a.si_ / divisor);
  }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;

  // Readings; each exists only for the dimension it belongs to.
  [[nodiscard]] constexpr double in_s() const requires(kIs<1, 0, 0, 0>) { return si_; }
  [[nodiscard]] constexpr double in_ms() const requires(kIs<1, 0, 0, 0>) { return si_ * 1e3; }
  [[nodiscard]] constexpr double in_us() const requires(kIs<1, 0, 0, 0>) { return si_ * 1e6; }
  [[nodiscard]] constexpr double in_mhz() const requires(kIs<-1, 0, 0, 0>) { return si_ * 1e-6; }
  [[nodiscard]] constexpr double in_bytes() const requires(kIs<0, 1, 0, 0>) { return si_; }
  [[nodiscard]] constexpr double in_mb() const requires(kIs<0, 1, 0, 0>) { return si_ * 1e-6; }
  [[nodiscard]] constexpr double in_mib() const requires(kIs<0, 1, 0, 0>) {
    return si_ / 1048576.0;
  }
  [[nodiscard]] constexpr double in_gib() const requires(kIs<0, 1, 0, 0>) {
    return si_ / 1073741824.0;
  }
  [[nodiscard]] constexpr double in_gb_per_s() const requires(kIs<-1, 1, 0, 0>) {
    return si_ * 1e-9;
  }
  [[nodiscard]] constexpr double in_flop() const requires(kIs<0, 0, 1, 0>) { return si_; }
  [[nodiscard]] constexpr double in_gflop() const requires(kIs<0, 0, 1, 0>) { return si_ * 1e-9; }
  [[nodiscard]] constexpr double in_tflop_per_s() const requires(kIs<-1, 0, 1, 0>) {
    return si_ * 1e-12;
  }
  [[nodiscard]] constexpr double in_flop_per_byte() const requires(kIs<0, -1, 1, 0>) { return si_; }
  [[nodiscard]] constexpr double in_j() const requires(kIs<0, 0, 0, 1>) { return si_; }
  [[nodiscard]] constexpr double in_w() const requires(kIs<-1, 0, 0, 1>) { return si_; }

 private:
  double si_ = 0.0;
};

namespace detail {
/// A dimensionless result is a plain double.
template <int T, int B, int F, int J>
constexpr auto make_quantity(double si) {
  if constexpr (T == 0 && B == 0 && F == 0 && J == 0) {
    return si;
  } else {
    return Quantity<T, B, F, J>(si);
  }
}
}  // namespace detail

template <int T1, int B1, int F1, int J1, int T2, int B2, int F2, int J2>
constexpr auto operator*(Quantity<T1, B1, F1, J1> a, Quantity<T2, B2, F2, J2> b) {
  return detail::make_quantity<T1 + T2, B1 + B2, F1 + F2, J1 + J2>(a.in_si() * b.in_si());
}
template <int T1, int B1, int F1, int J1, int T2, int B2, int F2, int J2>
constexpr auto operator/(Quantity<T1, B1, F1, J1> a, Quantity<T2, B2, F2, J2> b) {
  return detail::make_quantity<T1 - T2, B1 - B2, F1 - F2, J1 - J2>(a.in_si() / b.in_si());
}
template <int T, int B, int F, int J>
constexpr auto operator/(double a, Quantity<T, B, F, J> b) {
  return detail::make_quantity<-T, -B, -F, -J>(a / b.in_si());
}

using Seconds = Quantity<1, 0, 0>;
using Hertz = Quantity<-1, 0, 0>;
using Bytes = Quantity<0, 1, 0>;
using Flops = Quantity<0, 0, 1>;  ///< arithmetic operations; a multiply-add counts as two
using BytesPerSecond = Quantity<-1, 1, 0>;
using FlopsPerSecond = Quantity<-1, 0, 1>;
using FlopsPerByte = Quantity<0, -1, 1>;
using Joules = Quantity<0, 0, 0, 1>;
using Watts = Quantity<-1, 0, 0, 1>;

static_assert(sizeof(Seconds) == sizeof(double));

inline namespace literals {
constexpr Seconds operator""_s(long double v) { return Seconds(static_cast<double>(v)); }
constexpr Seconds operator""_ms(long double v) { return Seconds(static_cast<double>(v) * 1e-3); }
constexpr Seconds operator""_us(long double v) { return Seconds(static_cast<double>(v) * 1e-6); }
constexpr Seconds operator""_ns(long double v) { return Seconds(static_cast<double>(v) * 1e-9); }
constexpr Bytes operator""_B(long double v) { return Bytes(static_cast<double>(v)); }
constexpr Bytes operator""_KiB(long double v) { return Bytes(static_cast<double>(v) * 1024.0); }
constexpr Bytes operator""_MB(long double v) { return Bytes(static_cast<double>(v) * 1e6); }
constexpr Bytes operator""_MiB(long double v) { return Bytes(static_cast<double>(v) * 1048576.0); }
constexpr Bytes operator""_GiB(long double v) {
  return Bytes(static_cast<double>(v) * 1073741824.0);
}
constexpr Flops operator""_FLOP(long double v) { return Flops(static_cast<double>(v)); }
constexpr Flops operator""_GFLOP(long double v) { return Flops(static_cast<double>(v) * 1e9); }
constexpr BytesPerSecond operator""_GBps(long double v) {
  return BytesPerSecond(static_cast<double>(v) * 1e9);
}
constexpr FlopsPerSecond operator""_TFLOPps(long double v) {
  return FlopsPerSecond(static_cast<double>(v) * 1e12);
}
constexpr Hertz operator""_MHz(long double v) { return Hertz(static_cast<double>(v) * 1e6); }
constexpr Watts operator""_W(long double v) { return Watts(static_cast<double>(v)); }
}  // namespace literals

/// The larger of two like quantities.
template <int T, int B, int F, int J>
constexpr Quantity<T, B, F, J> max(Quantity<T, B, F, J> a, Quantity<T, B, F, J> b) {
  return a < b ? b : a;
}
template <int T, int B, int F, int J>
constexpr Quantity<T, B, F, J> min(Quantity<T, B, F, J> a, Quantity<T, B, F, J> b) {
  return b < a ? b : a;
}
template <int T, int B, int F, int J>
inline bool is_finite(Quantity<T, B, F, J> a) {
  return std::isfinite(a.in_si());
}

}  // namespace tracecast
