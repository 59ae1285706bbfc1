#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/timeline.hpp"
#include "sim/job/forecast.hpp"
#include "sim/step/interval.hpp"

namespace CLI {
class App;
}

/// The report page (`--report FILE`): a headline and sections, filled into the HTML that
/// tools/report/page is built to. What a page and each kind of section hold is said in
/// tools/report/page/src/data.ts; here are the ways to make them.
namespace tracecast {

using PageJson = nlohmann::ordered_json;

/// Adds --report FILE to a subcommand.
void add_report_option(CLI::App& subcommand, std::string& file);
/// Throws InputError, in a line, where `file` cannot become a page: "-", or this build has none.
/// Nothing for no file.
void check_report(std::string_view file);
/// Writes the page beside `file` and renames it. Whatever bytes its texts hold, they stay text.
/// Throws InputError when it cannot be written.
void write_page(PageJson page, const std::string& file);

/// What stands above all sections.
struct PageHead {
  std::string_view subcommand;
  std::string title, subtitle;
  std::string report;  ///< the answer as a sentence
};
/// A page without facts and sections: `headline` and `sections` are lists to be added to.
[[nodiscard]] PageJson new_page(const PageHead& head);
void add_inputs(PageJson& page, std::span<const InputRecord> inputs);

/// A figure with its interval and what it rests on; empty words are left out.
[[nodiscard]] PageJson page_fact(std::string_view label, const Interval& value,
                                 std::string_view unit, std::string_view basis = {},
                                 std::string_view note = {});
[[nodiscard]] PageJson page_fact(std::string_view label, double value, std::string_view unit,
                                 std::string_view note = {});
[[nodiscard]] PageJson page_words(std::string_view label, std::string_view words,
                                  std::string_view note = {});

/// A section of a kind with the words over it; its data are set by the caller.
struct SectionHead {
  std::string_view id, title, kind;
  std::string text{};   ///< what is shown, and how to read it
  std::string trust{};  ///< basis and interval, in words
};
[[nodiscard]] PageJson new_section(const SectionHead& head);

/// A section of bars: parts of a step, greatest first, or as they are.
[[nodiscard]] PageJson page_bars(const SectionHead& head, std::span<const StepPart> parts,
                                 Seconds whole);
/// Texts by number, each once: names and classes of a timeline's slices.
class PageWords {
 public:
  [[nodiscard]] std::size_t number_of(const std::string& text) {
    const auto [at, is_new] = known_.emplace(text, texts_.size());
    if (is_new) texts_.push_back(text);
    return at->second;
  }
  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::map<std::string, std::size_t> known_;
  std::vector<std::string> texts_;
};
/// A track of a timeline whose slices come in order of their begin.
class PageTrack {
 public:
  /// Ticks; name and class by PageWords.
  void add(std::int64_t begin, std::int64_t length, std::size_t name, std::size_t kind);
  [[nodiscard]] PageJson json(std::string_view group, std::string_view name) const;

 private:
  std::vector<std::int64_t> begins_, lengths_;  ///< begins as differences
  std::vector<std::size_t> names_, kinds_;
  std::int64_t before_ = 0;
};
/// Share of `values` that are at most so great, as a line of steps; of many values every so
/// many-th.
[[nodiscard]] PageJson page_uncertainty(std::string_view name, std::vector<double> values);

/// What ran when, at most `most` slices: of more the first ones, which it says. Names as in the
/// timeline.
[[nodiscard]] PageJson page_timeline(const SectionHead& head, const Timeline& timeline,
                                     std::size_t most = 200'000);

/// A prediction: headline, where a step goes, what ran when, roofline, layers, memory, utilisation
/// and power. `scaling`: the same job on fewer GPUs, fewest first, for a curve; empty: none.
struct ScalingPoint {
  std::int64_t gpus = 1;
  Interval samples_per_s;
  double efficiency = 1;
};
struct ScalingCurve {
  std::vector<ScalingPoint> points;
  std::vector<std::string> left_out;  ///< why a number of GPUs has no point, one line each
};
[[nodiscard]] PageJson forecast_page(const Forecast& forecast, const ScalingCurve& scaling);

}  // namespace tracecast
