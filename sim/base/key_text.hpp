#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tracecast {

/// Text that values of the same types share when they are equal and never else: what remembers
/// results finds them by it. Each text comes with its length and each list with its size, so that
/// no two values run into each other; a number that is not one is found as such. A plain struct is
/// added by a function `add_members(KeyText&, const T&)` beside it, made of TRACECAST_ADD_MEMBERS.
class KeyText {
 public:
  template <class... Values>
  KeyText& add(const Values&... values) {
    (add_one(values), ...);
    return *this;
  }
  [[nodiscard]] const std::string& text() const& { return text_; }
  [[nodiscard]] std::string text() && { return std::move(text_); }

 private:
  template <class T>
  void add_one(const T& value) {
    if constexpr (std::is_convertible_v<const T&, std::string_view>) {
      add_text(value);
    } else if constexpr (std::is_enum_v<T> || std::is_integral_v<T>) {
      add_whole(static_cast<std::int64_t>(value));
    } else if constexpr (std::is_floating_point_v<T>) {
      add_real(value);
    } else if constexpr (requires { value.in_si(); }) {
      add_real(value.in_si());
    } else if constexpr (requires { value.has_value(); }) {
      add_whole(value.has_value() ? 1 : 0);
      if (value) add_one(*value);
    } else if constexpr (requires { value.size(); }) {
      add_whole(static_cast<std::int64_t>(value.size()));
      for (const auto& one : value) add_one(one);
    } else {
      add_members(*this, value);
    }
  }
  void add_text(std::string_view value);
  void add_whole(std::int64_t value);
  void add_real(double value);

  std::string text_;
};

/// Adds all members of a plain struct, named one by one. Does not compile while one is missing, or
/// where one is not there.
#define TRACECAST_ADD_MEMBERS(key, value, ...) \
  do {                                         \
    const auto& [__VA_ARGS__] = value;         \
    (key).add(__VA_ARGS__);                    \
  } while (false)

}  // namespace tracecast
