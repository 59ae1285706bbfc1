#include "tools/command/only_rows.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "tools/command/output.hpp"

namespace tracecast {
namespace {

/// What a column holds: all of it, or the value that is nearest to `word`, or some.
std::string describe_values(const std::string& word, const std::vector<std::string>& values) {
  constexpr std::size_t kAll = 12, kSome = 8;
  if (values.size() <= kAll || find_nearest_word(word, values)) {
    return describe_choices(word, values);
  }
  return fmt::format("one of {} values such as {}", values.size(),
                     fmt::join(values.begin(), values.begin() + kSome, ", "));
}

}  // namespace

OnlyRows::OnlyRows(const std::vector<std::string>& only, const CsvReader& reader) {
  for (const std::string& text : only) {
    const std::size_t at = text.find('=');
    if (at == std::string::npos || at == 0) {
      throw InputError("--only", "\"" + text + "\"", "COLUMN=VALUE");
    }
    const std::string name = text.substr(0, at);
    const auto column = reader.find_column(name);
    if (!column) {
      throw InputError("--only", "column \"" + name + "\"",
                       describe_choices(name, reader.header()));
    }
    const auto known = std::find_if(wanted_.begin(), wanted_.end(),
                                    [&](const Wanted& w) { return w.column == *column; });
    if (known == wanted_.end()) {
      wanted_.push_back({name, *column, {text.substr(at + 1)}, {}, {}});
    } else {
      known->values.push_back(text.substr(at + 1));
    }
  }
}

bool OnlyRows::passes(const CsvReader& row) {
  bool all = true;
  for (Wanted& w : wanted_) {
    const std::string value(row.field(w.column));
    const bool is_wanted = std::find(w.values.begin(), w.values.end(), value) != w.values.end();
    if (is_wanted) w.found.insert(value);
    if (w.others.size() < kMostOthers) w.others.insert(value);
    all = all && is_wanted;
  }
  return all;
}

void OnlyRows::check(bool any) const {
  for (const Wanted& w : wanted_) {
    for (const std::string& value : w.values) {
      if (w.found.contains(value)) continue;
      const std::vector<std::string> others(w.others.begin(), w.others.end());
      const InputError absent("--only " + w.name + "=" + value, "no row with that value",
                              describe_values(value, others));
      if (w.found.empty()) throw absent;
      say(std::string("warning: ") + absent.what());
    }
  }
  if (any || wanted_.empty()) return;
  std::string together;
  for (const Wanted& w : wanted_) {
    for (const std::string& value : w.values) {
      together += (together.empty() ? "" : ", ") + w.name + "=" + value;
    }
  }
  throw InputError("--only", "no row with " + together + " at once", "values of some row");
}

}  // namespace tracecast
