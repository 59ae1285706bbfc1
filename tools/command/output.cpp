#include "tools/command/output.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "sim/base/error.hpp"
#include "tools/command/captured_output.hpp"
#include "tools/command/cell.hpp"

namespace tracecast {
namespace {

/// Writes to a descriptor; what the system says when it cannot.
int write_bytes(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

thread_local CapturedOutput* captured = nullptr;

}  // namespace

CapturedOutput::CapturedOutput() : outer_(captured) { captured = this; }
CapturedOutput::~CapturedOutput() { captured = outer_; }

void write_report(std::string_view text) {
  if (captured != nullptr) {
    captured->report += printable_page(text);
    return;
  }
  const int error = write_bytes(STDOUT_FILENO, printable_page(text));
  if (error != 0 && error != EPIPE)
    throw InputError("standard output", std::strerror(error), "a place that can be written");
}

void refuse_standard_output(std::string_view flag, std::string_view file) {
  if (file == "-")
    throw InputError(flag, "\"-\", but standard output holds the answer", "the name of a file");
}

void say_progress(std::string_view line) {
  if (captured != nullptr || ::isatty(STDERR_FILENO) == 0) return;
  write_bytes(STDERR_FILENO, '\r' + fit(fit_within(line, 79), 79) + (line.empty() ? "\r" : ""));
}

void say(std::string_view line) {
  if (captured != nullptr) {
    captured->talk += printable(line) + '\n';
    return;
  }
  // Nothing can be said about a stderr that cannot be written.
  write_bytes(STDERR_FILENO, printable(line) + '\n');
}

namespace {

constexpr std::size_t kPageWidth = 80;

/// The longest beginning of a name in `width` columns, where it can behind a character that
/// separates its parts.
std::string_view first_line(std::string_view name, std::size_t width) {
  const std::string_view all = first_columns(name, width);
  if (all.size() == name.size()) return all;
  const std::size_t end = all.find_last_of(" ,:<(/_");
  return end == all.npos || end + 1 < all.size() / 2 ? all : all.substr(0, end + 1);
}

}  // namespace

std::string fit(std::string_view text, std::size_t width) { return fit(text, width, 0); }

std::string fit(std::string_view text, std::size_t width, std::size_t at) {
  const std::string whole = printable(text);
  if (columns(whole) <= width) return whole + std::string(width - columns(whole), ' ');
  const std::size_t room =
      std::max(at < kPageWidth ? kPageWidth - at : 0, std::max<std::size_t>(width, 8));
  const std::string margin(at, ' ');
  std::string lines;
  for (std::string_view rest = whole; !rest.empty();) {
    const std::string_view line = first_line(rest, room);
    if (!lines.empty()) lines += margin;
    lines.append(line) += '\n';
    rest.remove_prefix(line.size());
  }
  return lines + margin + std::string(width, ' ');
}

std::string last_cell(std::string_view text, std::size_t at) {
  const std::string printed = printable(text);
  const std::size_t room = at < kPageWidth ? kPageWidth - at : 1;
  std::string result;
  std::size_t column = 0;
  for (std::string_view rest = printed; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    if (column > 0 && column + 1 + columns(word) > room) {
      result += '\n' + std::string(at, ' ');
      column = 0;
    } else if (column > 0) {
      result += ' ';
      ++column;
    }
    result += word;
    column += columns(word);
  }
  return result;
}

std::string fit_within(std::string_view foreign, std::size_t width) {
  const std::string text = printable(foreign);
  if (columns(text) <= width) return text;
  if (width < 5) return std::string(first_columns(text, width));
  const std::string front = std::string(first_columns(text, (width - 2) / 2)) + "..";
  return front + std::string(last_columns(text, width - columns(front)));
}

std::string cut_text(std::string_view foreign, std::size_t width) {
  const std::string text = printable(foreign);
  if (columns(text) <= width) return text;
  std::string_view words = first_columns(text, width - 2);
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

std::string low_precision(double value, std::size_t width) {
  std::string text = three_digits(value);
  if (text.size() > width && text.find('.') < width) text.resize(width);
  if (text.ends_with('.')) text.pop_back();
  return text.size() <= width ? text : fmt::format("{:.0e}", value);
}

std::string wrap(std::string_view foreign, std::size_t width, std::size_t indent) {
  const std::string printed = printable(foreign);
  std::string_view text = printed;
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
  constexpr std::size_t kLabel = 16;
  page += fit(label, kLabel) + wrap(value, kPageWidth - kLabel, kLabel) + '\n';
}

std::string percent(double share) {
  return share > 0 && share < 0.005 ? "<1 %" : fmt::format("{:.0f} %", share * 100);
}

double share_of(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

}  // namespace tracecast
