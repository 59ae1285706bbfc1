#pragma once
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "traces/bytes/output_file.hpp"

/// What the writers of Chrome trace events share (also cupti/).
namespace tracecast::traces::chrome {

/// A growing text that goes to the sink a megabyte at a time.
class EventText {
 public:
  explicit EventText(const ByteSink& sink) : sink_(sink) { text_.reserve(kPieceBytes + 4096); }

  /// The list's next event begins, so does a piece where the one before is full.
  void begin_event(std::string_view head) {
    if (text_.size() >= kPieceBytes) flush();
    text_ += is_first_ ? "\n" : ",\n";
    is_first_ = false;
    text_ += head;
  }
  EventText& operator+=(std::string_view piece) {
    text_ += piece;
    return *this;
  }
  EventText& operator+=(char c) {
    text_ += c;
    return *this;
  }
  void number(std::int64_t value) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    text_.append(digits, static_cast<std::size_t>(end - digits));
  }
  /// Nanoseconds as microseconds with three decimals.
  void microseconds(std::int64_t ns) {
    if (ns < 0) {
      text_ += '-';
      ns = -ns;
    }
    number(ns / 1000);
    const auto rest = static_cast<int>(ns % 1000);
    text_ += '.';
    text_ += static_cast<char>('0' + rest / 100);
    text_ += static_cast<char>('0' + rest / 10 % 10);
    text_ += static_cast<char>('0' + rest % 10);
  }
  /// Begin and length of a slice, microseconds, on a grid of 2^-12 of them (0.24 ns): readers that
  /// subtract and add doubles then find neighbours and nested slices exactly where they are
  /// (speedscope mends what overlaps by a rounding error into a pile). Rounded to nanoseconds they
  /// are `begin_ns` and `duration_ns`.
  void exact_span(std::int64_t begin_ns, std::int64_t duration_ns);
  void flush() {
    sink_(text_);
    text_.clear();
  }

 private:
  void grid_microseconds(std::int64_t steps);

  static constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
  const ByteSink& sink_;
  std::string text_;
  bool is_first_ = true;
};

}  // namespace tracecast::traces::chrome
