#include "tools/study/study.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <sstream>
#include <utility>

#include "hwspecs/loaders/textproto.hpp"
#include "sim/base/embedded.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/job/sha256.hpp"
#include "tools/study/study.pb.h"

namespace tracecast {
namespace embedded {
std::span<const EmbeddedFile> studies();
}  // namespace embedded
namespace {

using RowMessage = proto::Study::Row;

std::optional<double> optional(bool present, double value) {
  return present ? std::optional(value) : std::nullopt;
}

void check_row(const StudyRow& row, const std::string& where) {
  if (row.id.empty()) throw InputError(where, "a row without id", "an id for every row");
  if (row.experiment.empty()) throw InputError(where, "no experiment", "what to run for this row");
  const bool compares = row.factor || row.points || row.neutral;
  if (compares && !row.published) {
    throw InputError(where, "factor, points or neutral without published",
                     "a published number to compare with");
  }
  if (!compares && !row.at_least && !row.at_most) {
    throw InputError(where, "no test", "factor, points, neutral, at_least or at_most");
  }
  if (row.factor && !(*row.factor >= 1)) {
    throw InputError(where, fmt::format("factor = {}", *row.factor), "1 or more");
  }
  if (row.points && !(*row.points >= 0)) {
    throw InputError(where, fmt::format("points = {}", *row.points), "0 or more");
  }
}

StudyRow read_row(const RowMessage& m) {
  return {.id = m.id(),
          .finding = m.finding(),
          .printed = m.printed(),
          .unit = m.unit(),
          .experiment = m.experiment(),
          .published = optional(m.has_published(), m.published()),
          .fitted = m.fitted(),
          .factor = optional(m.has_factor(), m.factor()),
          .points = optional(m.has_points(), m.points()),
          .neutral = optional(m.has_neutral(), m.neutral()),
          .at_least = optional(m.has_at_least(), m.at_least()),
          .at_most = optional(m.has_at_most(), m.at_most())};
}

template <class Number>
Number checked(std::optional<Number> value, std::string_view row, std::string_view key,
               const std::string& found, std::string_view expected) {
  if (!value) throw InputError(fmt::format("{}, {}", row, key), '"' + found + '"', expected);
  return *value;
}

StudyReport report(const StudyRow& row, const std::vector<StudyExperiment>& experiments,
                   StudyContext& context) {
  const StudyArguments arguments(row.experiment, row.id);
  std::vector<std::string> names;
  for (const StudyExperiment& e : experiments) {
    if (e.name == arguments.experiment()) {
      StudyReport result = e.run(arguments, context);
      arguments.check_all_used();
      return result;
    }
    names.emplace_back(e.name);
  }
  throw InputError("study row " + row.id, "experiment \"" + arguments.experiment() + "\"",
                   describe_choices(arguments.experiment(), names));
}

}  // namespace

Study parse_study(std::string_view text, std::string_view where) {
  proto::Study message;
  parse_textproto(text, where, message);
  Study study{.id = message.id(),
              .title = message.title(),
              .question = message.question(),
              .setting = {message.setting().begin(), message.setting().end()},
              .rows = {},
              .record = {"study", message.id(), sha256(text)}};
  if (study.id.empty()) throw InputError(where, "no id", "an id such as \"s_osu\"");
  if (message.row().empty()) throw InputError(where, "no row", "at least one");
  for (const RowMessage& m : message.row()) {
    StudyRow row = read_row(m);
    const std::string place = fmt::format("{}, row {}", where, row.id);
    check_row(row, place);
    for (const StudyRow& other : study.rows) {
      if (other.id == row.id) throw InputError(place, "the id twice", "an id of its own");
    }
    study.rows.push_back(std::move(row));
  }
  return study;
}

const std::vector<Study>& studies() {
  static const std::vector<Study> all = [] {
    std::vector<Study> list;
    for (const EmbeddedFile& file : embedded::studies()) {
      list.push_back(parse_study(file.content, file.path));
    }
    std::sort(list.begin(), list.end(), [](const Study& a, const Study& b) { return a.id < b.id; });
    return list;
  }();
  return all;
}

const Study& find_study(std::string_view id) {
  std::string word = to_lower(id);
  std::replace(word.begin(), word.end(), '-', '_');
  std::vector<std::string> ids;
  for (const Study& study : studies()) {
    if (study.id == word) return study;
    ids.push_back(study.id);
  }
  throw InputError("study", '"' + std::string(id) + '"', describe_choices(word, ids));
}

StudyArguments::StudyArguments(std::string_view text, std::string_view row)
    : row_("study row " + std::string(row)) {
  std::istringstream words{std::string(text)};
  words >> experiment_;
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw InputError(row_, '"' + word + '"', "KEY=VALUE");
    }
    if (!values_.emplace(word.substr(0, equals), word.substr(equals + 1)).second) {
      throw InputError(row_, word.substr(0, equals) + " twice", "each key once");
    }
  }
}

const std::string* StudyArguments::find(std::string_view key) const {
  const auto it = values_.find(key);
  if (it == values_.end()) return nullptr;
  used_[it->first] = true;
  return &it->second;
}

std::string StudyArguments::text(std::string_view key) const {
  const std::string* value = find(key);
  if (value == nullptr) {
    throw InputError(row_, fmt::format("no {}", key), fmt::format("{}=VALUE", key));
  }
  return *value;
}
std::string StudyArguments::text(std::string_view key, std::string_view otherwise) const {
  const std::string* value = find(key);
  return value == nullptr ? std::string(otherwise) : *value;
}
double StudyArguments::number(std::string_view key) const {
  const std::string value = text(key);
  return checked(parse_double(value), row_, key, value, "a number");
}
double StudyArguments::number(std::string_view key, double otherwise) const {
  return find(key) == nullptr ? otherwise : number(key);
}
std::int64_t StudyArguments::integer(std::string_view key) const {
  const std::string value = text(key);
  return checked(parse_integer(value), row_, key, value, "a whole number");
}
std::int64_t StudyArguments::integer(std::string_view key, std::int64_t otherwise) const {
  return find(key) == nullptr ? otherwise : integer(key);
}
std::vector<std::int64_t> StudyArguments::integers(std::string_view key) const {
  std::istringstream list(text(key));
  std::vector<std::int64_t> result;
  for (std::string item; std::getline(list, item, ',');) {
    result.push_back(checked(parse_integer(item), row_, key, item, "whole numbers, as 8,16"));
  }
  if (result.empty()) throw InputError(row_, fmt::format("{} without a number", key), "8,16");
  return result;
}
void StudyArguments::check_all_used() const {
  for (const auto& [key, value] : values_) {
    if (!used_.contains(key)) {
      throw InputError(row_, fmt::format("{}={}", key, value),
                       "a key that " + experiment_ + " knows");
    }
  }
}

std::vector<StudyExperiment> study_experiments() {
  std::vector<StudyExperiment> all;
  for (auto family : {parameter_server_experiments, resource_experiments, profile_experiments,
                      schedule_experiments}) {
    for (StudyExperiment& experiment : family()) all.push_back(std::move(experiment));
  }
  return all;
}

bool agrees(const StudyRow& row, std::optional<double> predicted) {
  if (!predicted || !std::isfinite(*predicted)) return false;
  const double p = *predicted;
  if (row.at_least && p < *row.at_least) return false;
  if (row.at_most && p > *row.at_most) return false;
  if (!row.published) return true;
  const double q = *row.published;
  if (row.factor && !(p > 0 && q > 0 && std::max(p / q, q / p) <= *row.factor)) return false;
  if (row.points && std::abs(p - q) > *row.points) return false;
  return !row.neutral || (p > *row.neutral) == (q > *row.neutral);
}

std::vector<StudyResult> run_study(const Study& study, const Hardware& hardware) {
  StudyContext context{hardware, {}};
  const std::vector<StudyExperiment> experiments = study_experiments();
  std::vector<StudyResult> results;
  for (const StudyRow& row : study.rows) {
    StudyReport found = report(row, experiments, context);
    results.push_back({&row, found.value, agrees(row, found.value), std::move(found.why)});
  }
  return results;
}

}  // namespace tracecast
