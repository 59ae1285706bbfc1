#include "tools/report/page.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "sim/base/embedded.hpp"
#include "sim/base/error.hpp"
#include "sim/base/new_file.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/command/version.hpp"

namespace tracecast {

namespace embedded {
std::span<const EmbeddedFile> report_page();
}

namespace {

constexpr std::string_view kPlace = "@@DATA@@";

/// The page without data; empty: the build had no npm.
std::string_view empty_page() {
  const auto files = embedded::report_page();
  return files.empty() ? std::string_view() : files.front().content;
}

/// A word as a shell takes it.
std::string shell_word(const std::string& word) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_./=:,+@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

/// The command that is running, as it was typed; empty where the system does not tell.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text = file ? "tracecast" : "";
  std::string word;
  for (bool is_name = true; std::getline(file, word, '\0'); is_name = false) {
    if (!is_name) text += ' ' + shell_word(word);
  }
  return text;
}

/// Every string as `printable_page` has it: what would turn the direction of a page's writing
/// stands there in letters.
void make_printable(PageJson& page) {
  if (page.is_string()) {
    page = printable_page(page.get_ref<const std::string&>());
  } else if (page.is_structured()) {
    for (PageJson& part : page) make_printable(part);
  }
}

/// JSON that can stand in HTML: what could end the script element or begin a comment, and line
/// separators that old parsers of scripts end a line at, as escapes. All of them stand in strings
/// only.
std::string inert(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  for (std::size_t i = 0; i < json.size(); ++i) {
    const std::string_view rest = json.substr(i, 3);
    if (json[i] == '<') {
      text += "\\u003c";
    } else if (json[i] == '>') {
      text += "\\u003e";
    } else if (json[i] == '&') {
      text += "\\u0026";
    } else if (rest == "\xe2\x80\xa8" || rest == "\xe2\x80\xa9") {
      text += rest[2] == '\xa8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      text += json[i];
    }
  }
  return text;
}

}  // namespace

void add_report_option(CLI::App& subcommand, std::string& file) {
  subcommand.add_option("--report", file, "Write the report as a page with charts, one HTML file")
      ->type_name("FILE");
}

void check_report(std::string_view file) {
  if (file.empty()) return;
  refuse_standard_output("--report", std::string(file));
  if (empty_page().empty()) {
    throw InputError("--report", "this build has no page: npm was not there to make it",
                     "a build where node and npm are (tools/setup.sh)");
  }
}

void write_page(PageJson page, const std::string& file) {
  check_report(file);
  page["command"] = command_line();
  make_printable(page);
  const std::string_view html = empty_page();
  const std::size_t place = html.find(kPlace);
  TRACECAST_CHECK(place != std::string_view::npos, "the page has a place for its data");
  NewFile out(file);
  out.write(html.substr(0, place));
  out.write(inert(json_text(page, -1)));
  out.write(html.substr(place + kPlace.size()));
  out.put_in_place();
}

PageJson new_page(const PageHead& head) {
  return {{"schema", "tracecast.page/" + std::to_string(kSchema)},
          {"version", kVersion},
          {"subcommand", head.subcommand},
          {"title", head.title},
          {"subtitle", head.subtitle},
          {"report", head.report},
          {"headline", PageJson::array()},
          {"sections", PageJson::array()}};
}

void add_inputs(PageJson& page, std::span<const InputRecord> inputs) {
  page["inputs"] = PageJson::array();
  for (const InputRecord& input : inputs) {
    page["inputs"].push_back(
        {{"kind", input.kind}, {"name", input.name}, {"sha256", input.sha256.text()}});
  }
}

PageJson page_fact(std::string_view label, const Interval& value, std::string_view unit,
                   std::string_view basis, std::string_view note) {
  PageJson fact = page_fact(label, value.value, unit, note);
  fact["low"] = value.low;
  fact["high"] = value.high;
  if (!basis.empty()) fact["basis"] = basis;
  return fact;
}

PageJson page_fact(std::string_view label, double value, std::string_view unit,
                   std::string_view note) {
  PageJson fact{{"label", label}, {"value", value}, {"unit", unit}};
  if (!note.empty()) fact["note"] = note;
  return fact;
}

PageJson page_words(std::string_view label, std::string_view words, std::string_view note) {
  PageJson fact{{"label", label}, {"text", words}};
  if (!note.empty()) fact["note"] = note;
  return fact;
}

PageJson new_section(const SectionHead& head) {
  PageJson section{{"id", head.id}, {"title", head.title}, {"kind", head.kind}};
  if (!head.text.empty()) section["text"] = head.text;
  if (!head.trust.empty()) section["trust"] = head.trust;
  return section;
}

PageJson page_bars(const SectionHead& head, std::span<const StepPart> parts, Seconds whole) {
  PageJson section = new_section(head);
  section["unit"] = "s";
  section["whole"] = whole.in_s();
  section["bars"] = PageJson::array();
  for (const StepPart& part : parts) {
    if (!(part.time > Seconds(0))) continue;
    section["bars"].push_back({{"name", part.name}, {"value", part.time.in_s()}});
  }
  return section;
}

void PageTrack::add(std::int64_t begin, std::int64_t length, std::size_t name, std::size_t kind) {
  begins_.push_back(begin - before_);
  lengths_.push_back(length);
  names_.push_back(name);
  kinds_.push_back(kind);
  before_ = begin;
}

PageJson PageTrack::json(std::string_view group, std::string_view name) const {
  return {{"name", name},       {"group", group},    {"begin", begins_},
          {"length", lengths_}, {"name_of", names_}, {"class_of", kinds_}};
}

PageJson page_uncertainty(std::string_view name, std::vector<double> values) {
  constexpr std::size_t kMostPoints = 2000;
  std::sort(values.begin(), values.end());
  const std::size_t stride = values.size() / kMostPoints + 1;
  PageJson x = PageJson::array(), y = PageJson::array();
  for (std::size_t i = 0; i < values.size(); i += stride) {
    x.push_back(values[i]);
    y.push_back(static_cast<double>(i + 1) / static_cast<double>(values.size()));
  }
  return {{"name", name}, {"form", "steps"}, {"x", std::move(x)}, {"y", std::move(y)}};
}

}  // namespace tracecast
