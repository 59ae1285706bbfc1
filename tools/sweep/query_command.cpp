#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/store/query.hpp"
#include "tools/command/cell.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/command/subcommand.hpp"
#include "tools/command/whole_number.hpp"
#include "tools/sweep/grid.hpp"

namespace tracecast {
namespace {

using store::Value;
constexpr std::size_t kFlushBytes = 1 << 20;
constexpr std::int64_t kMostRows = 1'000'000'000'000;
constexpr std::size_t kMostTableBytes = 128 << 20;
constexpr std::size_t kWidest = 40;  ///< column of a table

struct QueryFlags {
  std::string file, sql, format = "table";
  store::QueryLimits limits;
};

/// For people.
std::string brief(const Value& value) {
  const auto* number = std::get_if<double>(&value);
  if (number == nullptr) return value_text(value);
  const double size = std::fabs(*number);
  return size != 0 && (size < 1e-3 || size >= 1e7) ? fmt::format("{:.3g}", *number)
                                                   : three_digits(*number);
}

nlohmann::ordered_json json_of(const Value& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return *whole;
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return nullptr;
}

/// Writes rows as they come.
class Stream {
 public:
  ~Stream() = default;
  void add(const std::string& text) {
    text_ += text;
    if (text_.size() >= kFlushBytes) flush();
  }
  void flush() {
    write_report(text_);
    text_.clear();
  }

 private:
  std::string text_;
};

void report_csv(const QueryFlags& flags) {
  Stream out;
  store::query(
      flags.file, flags.sql, flags.limits,
      [&](const std::vector<std::string>& names) {
        std::string line;
        for (const std::string& name : names) line += (line.empty() ? "" : ",") + csv_field(name);
        out.add(line + '\n');
      },
      [&](const std::vector<Value>& row) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i)
          line += (i == 0 ? "" : ",") + csv_field(value_text(row[i]));
        out.add(line + '\n');
      });
  out.flush();
}

void common_json(const QueryFlags& flags) {
  Stream out;
  std::vector<std::string> keys;
  bool is_first = true;
  store::query(
      flags.file, flags.sql, flags.limits,
      [&](const std::vector<std::string>& names) { keys = names; },
      [&](const std::vector<Value>& row) {
        nlohmann::ordered_json object = nlohmann::ordered_json::object();
        for (std::size_t i = 0; i < row.size(); ++i) object[keys[i]] = json_of(row[i]);
        out.add((is_first ? "[\n" : ",\n") + json_text(object, -1));
        is_first = false;
      });
  out.add(is_first ? "[]\n" : "\n]\n");
  out.flush();
}

/// All rows, since widths depend on all.
void report_table(const QueryFlags& flags) {
  std::vector<std::vector<std::string>> lines;
  std::vector<bool> is_number;
  std::size_t bytes = 0;
  store::query(
      flags.file, flags.sql, flags.limits,
      [&](const std::vector<std::string>& names) {
        lines.push_back(names);
        is_number.assign(names.size(), true);
      },
      [&](const std::vector<Value>& row) {
        std::vector<std::string>& line = lines.emplace_back();
        for (std::size_t i = 0; i < row.size(); ++i) {
          line.push_back(brief(row[i]));
          bytes += line.back().size() + sizeof(std::string);
          if (std::holds_alternative<std::string>(row[i])) is_number[i] = false;
        }
        if (bytes > kMostTableBytes)
          throw InputError("query", fmt::format("a table of over {} MiB", kMostTableBytes >> 20),
                           "fewer rows, or --format csv or json, which keep none");
      });
  std::vector<std::size_t> widths(lines.front().size());
  for (const auto& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i)
      widths[i] = std::max(widths[i], std::min(kWidest, columns(printable(line[i]))));
  Stream out;
  for (const auto& line : lines) {
    std::string text;
    std::size_t at = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (i > 0) text += "  ";
      const std::string word = printable(line[i]);
      const std::size_t size = columns(word);
      text += is_number[i] && size < widths[i] ? std::string(widths[i] - size, ' ') + word
                                               : fit(word, widths[i], at);
      at += widths[i] + 2;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out.add(text + '\n');
  }
  out.flush();
}

}  // namespace

void add_query_command(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<QueryFlags>();
  CLI::App* subcommand =
      app.add_subcommand("query", "Ask a file of results in SQL; it stays as it is");
  subcommand->add_option("file", flags->file, "SQLite file, such as `sweep` makes")
      ->required()
      ->type_name("FILE");
  subcommand->add_option("sql", flags->sql, "One statement that reads")
      ->required()
      ->type_name("SQL");
  subcommand
      ->add_option("--format", flags->format, "table, csv or json; the last two to the last digit")
      ->type_name("F")
      ->capture_default_str()
      ->check(CLI::IsMember({"table", "csv", "json"}));
  subcommand->add_option("--limit", flags->limits.rows, "Rows of the answer; more end it")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number(1, kMostRows) & CLI::Range(std::int64_t{1}, kMostRows));
  subcommand->add_option("--time-limit", flags->limits.seconds, "Seconds that it may take")
      ->type_name("S")
      ->capture_default_str()
      ->check(number_within(0.001, 1e6));
  subcommand->footer(
      "Example: tracecast query results.db \"SELECT network, gpu, throughput_samples_per_s FROM "
      "predictions ORDER BY 3 DESC LIMIT 10\"");
  subcommand->callback([flags, &exit_code] {
    if (flags->format == "csv") {
      report_csv(*flags);
    } else if (flags->format == "json") {
      common_json(*flags);
    } else {
      report_table(*flags);
    }
    exit_code = kExitDone;
  });
}

}  // namespace tracecast
