#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hwspecs/gpu_spec.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {

/// Reads values of a profile, each with a check of its presence, its source and its bounds, and
/// records it. Works on messages with `value` and `source`. Throws InputError. Private to this box.
class SourcedReader {
 public:
  /// `sources`: messages with key, title and where, which are appended to `to`.
  template <class List>
  SourcedReader(const List& sources, std::string_view where, std::vector<SpecSource>& to,
                std::vector<SpecValue>& values)
      : where_(where), sources_(to), values_(values) {
    for (const auto& s : sources) sources_.push_back({s.key(), s.title(), s.where()});
  }

  template <class Number>
  double number(std::string_view field, const Number& n, double low, double high) {
    check_present(field, n.has_value());
    if (!(n.value() >= low && n.value() <= high)) {
      throw InputError(where_, fmt::format("{} = {}", field, n.value()),
                       fmt::format("a value from {} to {}", low, high));
    }
    record(field, fmt::format("{}", n.value()), n.source());
    return n.value();
  }
  template <class Number>
  int count(std::string_view field, const Number& n, int low, int high) {
    const double value = number(field, n, low, high);
    if (value != std::floor(value)) {
      throw InputError(where_, fmt::format("{} = {}", field, value), "a whole number");
    }
    return static_cast<int>(value);
  }
  template <class Flag>
  bool flag(std::string_view field, const Flag& f) {
    check_present(field, f.has_value());
    record(field, f.value() ? "true" : "false", f.source());
    return f.value();
  }
  /// Any word but none.
  template <class Word>
  std::string word(std::string_view field, const Word& w) {
    check_present(field, w.has_value() && !w.value().empty());
    record(field, w.value(), w.source());
    return w.value();
  }
  /// The index of the word among `choices`.
  template <class Word>
  std::size_t choice(std::string_view field, const Word& w, std::span<const std::string> choices) {
    check_present(field, w.has_value());
    const auto it = std::find(choices.begin(), choices.end(), w.value());
    if (it == choices.end()) {
      throw InputError(where_, fmt::format("{} = \"{}\"", field, w.value()),
                       describe_choices(w.value(), choices));
    }
    record(field, w.value(), w.source());
    return static_cast<std::size_t>(it - choices.begin());
  }

 private:
  void check_present(std::string_view field, bool present) {
    if (present) return;
    throw InputError(where_, fmt::format("no {}", field),
                     "every value of the schema, with its source");
  }
  void record(std::string_view field, std::string value, const std::string& source) {
    const bool known = std::any_of(sources_.begin(), sources_.end(),
                                   [&](const SpecSource& s) { return s.key == source; });
    if (!known) {
      throw InputError(where_, fmt::format("{}: source \"{}\"", field, source),
                       "the key of a source in the same file");
    }
    values_.push_back({std::string(field), std::move(value), source});
  }

  std::string_view where_;
  std::vector<SpecSource>& sources_;
  std::vector<SpecValue>& values_;
};

}  // namespace tracecast
