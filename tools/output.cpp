#include "tools/output.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

/// Columns of UTF-8 text without wide or combining letters.
std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

/// The first `count` characters.
std::string_view head(std::string_view text, std::size_t count) {
  std::size_t bytes = 0;
  while (bytes < text.size() && columns(text.substr(0, bytes + 1)) <= count) ++bytes;
  return text.substr(0, bytes);
}

}  // namespace

void write_answer(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EPIPE) {
      return;
    } else if (errno != EINTR) {
      throw InputError("standard output", std::strerror(errno), "a place that can be written");
    }
  }
}

void say_progress(std::string_view line) {
  if (::isatty(STDERR_FILENO) == 0) return;
  const std::string text = fmt::format("\r{:<79.79}{}", line, line.empty() ? "\r" : "");
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

void say(std::string_view line) {
  std::string text(line);
  text += '\n';
  // Nothing can be said about a stderr that cannot be written.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

std::string fit(std::string_view text, std::size_t width) {
  const std::size_t have = columns(text);
  if (have <= width) return std::string(text) + std::string(width - have, ' ');
  if (width < 5) return std::string(head(text, width));
  const std::size_t front = (width - 2) / 2, back = width - 2 - front;
  std::string_view tail = text;
  while (columns(tail) > back) {
    tail.remove_prefix(1);
    while (!tail.empty() && (static_cast<unsigned char>(tail.front()) & 0xC0) == 0x80) {
      tail.remove_prefix(1);
    }
  }
  return std::string(head(text, front)) + ".." + std::string(tail);
}

std::string cut(std::string_view text, std::size_t width) {
  if (columns(text) <= width) return std::string(text);
  std::string_view words = head(text, width - 2);
  const auto ends_word = [](char c) {
    return std::string_view(" ,;:").find(c) != std::string_view::npos;
  };
  if (!ends_word(text[words.size()])) words = words.substr(0, words.rfind(' '));
  while (!words.empty() && ends_word(words.back())) words.remove_suffix(1);
  return std::string(words) + "..";
}

std::string bar(double share, std::size_t width) {
  const double halves = std::clamp(share, 0.0, 1.0) * static_cast<double>(width) * 2;
  const auto count = static_cast<std::size_t>(std::lround(halves));
  std::string text;
  for (std::size_t i = 0; i < count / 2; ++i) text += "█";
  if (count % 2) text += "▌";
  return text;
}

std::string three_digits(double value) {
  if (!std::isfinite(value)) return "-";
  const double magnitude = std::abs(value);
  if (magnitude == 0) return "0";
  const int exponent = static_cast<int>(std::floor(std::log10(magnitude)));
  return fmt::format("{:.{}f}", value, std::clamp(2 - exponent, 0, 9));
}

std::string narrow(double value, std::size_t width) {
  std::string text = three_digits(value);
  if (text.size() > width && text.find('.') < width) text.resize(width);
  if (text.ends_with('.')) text.pop_back();
  return text.size() <= width ? text : fmt::format("{:.0e}", value);
}

std::string wrap(std::string_view text, std::size_t width, std::size_t indent) {
  std::string result;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t size = columns(word);
    if (column > 0 && column + 1 + size > width) {
      result += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > 0) {
      result += ' ';
      ++column;
    }
    result += word;
    column += size;
  }
  return result;
}

void add_line(std::string& page, std::string_view label, std::string_view value) {
  constexpr std::size_t kWidth = 80, kLabel = 16;
  page += fit(label, kLabel) + wrap(value, kWidth - kLabel, kLabel) + '\n';
}

std::string percent(double share) {
  return share > 0 && share < 0.005 ? "<1 %" : fmt::format("{:.0f} %", share * 100);
}

double share_of(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace tracecast
