#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <utility>

#include "hwspecs/loaders/textproto.hpp"
#include "sim/base/embedded.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "tools/serve/serve_flags.hpp"
#include "tools/validate/served.pb.h"
#include "tools/validate/validation.hpp"

namespace tracecast {
namespace embedded {
std::span<const EmbeddedFile> served_tables();
}  // namespace embedded
namespace {

using ServedTableText = proto::ServedTables::Table;

/// A whole number from a row's columns: sums, GEMMs, quotients rounded down, min(a,b), brackets.
class ColumnFormula {
 public:
  ColumnFormula(std::string_view text, const RowFields& row)
      : text_(text), left_(text), row_(row) {}
  /// Throws InputError: what is no such formula, a column that holds no whole number.
  std::int64_t value() {
    const std::int64_t whole = sum();
    if (!left_.empty()) refuse();
    return whole;
  }

 private:
  static constexpr std::int64_t kMost = 1'000'000'000;

  [[noreturn]] void refuse() const {
    throw InputError("tools/validate/served.textproto", '{' + std::string(text_) + '}',
                     "whole numbers and columns with + * / ( ) min(,)");
  }
  bool take(std::string_view word) {
    if (!left_.starts_with(word)) return false;
    left_.remove_prefix(word.size());
    return true;
  }
  std::int64_t sum() {
    std::int64_t value = gemm();
    while (take("+")) value = std::min(kMost, value + gemm());
    return value;
  }
  std::int64_t gemm() {
    std::int64_t value = factor();
    for (;;) {
      if (take("*")) {
        value = std::min(kMost, value * factor());
      } else if (take("/")) {
        const std::int64_t by = factor();
        if (by == 0) refuse();
        value /= by;
      } else {
        return value;
      }
    }
  }
  std::int64_t factor() {
    if (take("min(")) {
      const std::int64_t first = sum();
      if (!take(",")) refuse();
      const std::int64_t least = std::min(first, sum());
      if (!take(")")) refuse();
      return least;
    }
    if (take("(")) {
      const std::int64_t inner = sum();
      if (!take(")")) refuse();
      return inner;
    }
    const std::string_view word = left_.substr(0, left_.find_first_of("+*/(),"));
    if (word.empty()) refuse();
    left_.remove_prefix(word.size());
    if (const auto number = parse_integer(word)) return std::min<std::int64_t>(kMost, *number);
    return row_.integer(word, 0, kMost);
  }

  std::string_view text_, left_;
  const RowFields& row_;
};

bool applies(const proto::ServedTables::Where& where, const RowFields& row) {
  const std::string_view text = row.text_or_empty(where.column());
  const auto is = [&](const std::string& word) { return text == word; };
  if (std::any_of(where.is_not().begin(), where.is_not().end(), is)) return false;
  if (where.is_size() > 0 && std::none_of(where.is().begin(), where.is().end(), is)) return false;
  return where.begins_size() == 0 ||
         std::any_of(where.begins().begin(), where.begins().end(),
                     [&](const std::string& word) { return text.starts_with(word); });
}

/// A word with what its columns hold: "{tp}", "{isl+osl}".
std::string with_columns(std::string_view word, const RowFields& row) {
  if (!word.starts_with('{')) return std::string(word);
  const std::string_view formula = word.substr(1, word.size() - 2);
  if (formula.find_first_of("+*/(),") == formula.npos) return std::string(row.text(formula));
  return std::to_string(ColumnFormula(formula, row).value());
}

/// What is asked of a row, or why nothing is.
struct ServedQuestion {
  std::string network, skip;
  std::map<std::string, std::string> flags;
};

ServedQuestion question_behind(const ServedTableText& table, const RowFields& row) {
  ServedQuestion question;
  std::vector<const proto::ServedTables::Program*> programs;
  for (const auto& program : table.program()) {
    if (!std::all_of(program.where().begin(), program.where().end(),
                     [&](const auto& where) { return applies(where, row); }))
      continue;
    if (program.has_skip() && question.skip.empty()) question.skip = program.skip();
    programs.push_back(&program);
  }
  if (!question.skip.empty()) return question;
  for (const auto* each : programs) {
    const auto& program = *each;
    if (program.has_network()) question.network = program.network();
    for (const std::string& line : program.words()) {
      std::istringstream words(line);
      std::string flag, value;
      while (words >> flag >> value) question.flags[flag] = with_columns(value, row);
    }
  }
  if (question.network.empty())
    question.skip = "network " + std::string(row.text("model")) + " is not described";
  return question;
}

/// A figure of an answer: "ttft_mean", or as a column says it, "ttft_mean_ms". Throws InputError:
/// none of these.
const Interval& served_interval(const ServingReport& report, std::string_view name) {
  const std::array<std::pair<std::string_view, const ServedLatency*>, 4> latencies = {
      {{"ttft", &report.ttft_ms},
       {"tpot", &report.tpot_ms},
       {"itl", &report.itl_ms},
       {"e2e", &report.e2e_ms}}};
  if (name.ends_with("_ms")) name.remove_suffix(3);
  for (const auto& [word, latency] : latencies) {
    if (!name.starts_with(word)) continue;
    const std::string_view which = name.substr(word.size());
    if (which == "_mean") return latency->mean.interval;
    if (which == "_p50") return latency->p50.interval;
    if (which == "_p90") return latency->p90.interval;
    if (which == "_p99") return latency->p99.interval;
  }
  throw InputError("metric", '"' + std::string(name) + '"',
                   "ttft, tpot, itl or e2e with mean, p50, p90 or p99");
}

/// Served language models (data/serving): what each row was asked, as words of `serve`.
class ServedTable final : public RowPredictor {
 public:
  ServedTable(const ServedTableText& text, const Hardware& hardware)
      : text_(text), hardware_(hardware) {}
  std::string_view table() const override { return text_.name(); }
  std::string_view unit() const override { return "ms"; }
  std::string_view convention() const override { return text_.convention(); }
  bool has_figures() const override { return text_.figure_size() > 1; }

  RowResult predict(const CsvReader& reader) override { return predict_all(reader).front(); }
  std::vector<RowResult> predict_all(const CsvReader& reader) override {
    const RowFields row(reader);
    const ServedQuestion question = question_behind(text_, row);
    std::vector<RowResult> rows;
    for (const auto& figure : text_.figure()) {
      RowResult r = skip("");
      r.metric = figure.has_report() ? std::string_view(figure.column()) : row.text("metric");
      r.flag = row.text_or_empty("flag");
      if (std::find(figure.sound_with().begin(), figure.sound_with().end(), r.flag) !=
          figure.sound_with().end())
        r.flag.clear();
      if (question.skip.empty()) r.measured = row.positive(figure.column());
      rows.push_back(std::move(r));
    }
    const Known& known = report_to(question);
    for (int i = 0; i < text_.figure_size(); ++i) {
      RowResult& r = rows[static_cast<std::size_t>(i)];
      const auto& figure = text_.figure(i);
      r.skipped = known.refused;
      if (!r.skipped.empty()) continue;
      r.predicted =
          served_interval(*known.report, figure.has_report() ? figure.report() : r.metric);
      r.basis = known.report->guessed_share > 0.5 ? "unknown" : "transferred";
    }
    return rows;
  }

 private:
  struct Known {
    std::optional<ServingReport> report;
    std::string refused;
  };

  const Known& report_to(const ServedQuestion& question) {
    if (!question.skip.empty()) return known_[question.skip] = {{}, question.skip};
    std::vector<std::string> words = {question.network};
    std::string line = question.network;
    for (const auto& [flag, value] : question.flags) {
      words.push_back(flag);
      words.push_back(value);
      line += ' ' + flag + ' ' + value;
    }
    const auto found = known_.find(line);
    if (found != known_.end()) return found->second;
    Known known;
    try {
      const ServedPlace asked = flags_.read(words);
      known.report = Served(asked.question.job, asked.place, hardware_).report(asked.question.load);
      if (!known.report->fits) known.refused = "does not fit; " + known.report->change + " would";
    } catch (const InputError& error) {
      known.refused = error.what();
    }
    return known_[line] = std::move(known);
  }

  ServedTableText text_;
  const Hardware& hardware_;
  ServeFlags flags_;
  std::map<std::string, Known> known_;  ///< by the command's line
};

}  // namespace

std::vector<TableKind> served_tables() {
  const auto text = std::make_shared<proto::ServedTables>();
  for (const EmbeddedFile& file : embedded::served_tables())
    parse_textproto(file.content, file.path, *text);
  std::vector<TableKind> kinds;
  for (const ServedTableText& table : text->table()) {
    TableKind kind;
    kind.name = table.name();
    kind.required.assign(table.column().begin(), table.column().end());
    // The text lives as long as the views of it.
    kind.make = [text, &table](const CsvReader&,
                               const Hardware& hardware) -> std::unique_ptr<RowPredictor> {
      return std::make_unique<ServedTable>(table, hardware);
    };
    kinds.push_back(std::move(kind));
  }
  return kinds;
}

}  // namespace tracecast
