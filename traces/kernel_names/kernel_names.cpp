#include "traces/kernel_names/kernel_names.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "sim/base/embedded.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast::embedded {
std::span<const EmbeddedFile> kernel_name_rules();
}

namespace tracecast::traces {
namespace {

constexpr std::array kPasses = {Pass::Forward, Pass::BackwardData, Pass::BackwardWeights,
                                Pass::Backward, Pass::Update};
constexpr std::array kPrecisions = {Precision::Fp64, Precision::Fp32, Precision::Tf32,
                                    Precision::Fp16, Precision::Bf16, Precision::Fp8,
                                    Precision::Int8};
constexpr std::array kUnits = {MathUnit::CudaCore, MathUnit::TensorCore};

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t first = line.find_first_not_of(" \t\r", at);
    if (first == std::string_view::npos) break;
    const std::size_t end = std::min(line.find_first_of(" \t\r", first), line.size());
    words.push_back(line.substr(first, end - first));
    at = end;
  }
  return words;
}

/// The value of `all` that prints as `word`.
template <class Values>
auto value_of(std::string_view word, const Values& all, const std::string& where) {
  std::vector<std::string> known;
  for (const auto value : all) {
    if (to_string(value) == word) return value;
    known.emplace_back(to_string(value));
  }
  throw InputError(where, "\"" + std::string(word) + "\"", describe_choices(word, known));
}

std::vector<KernelClass> all_classes() {
  std::vector<KernelClass> all;
  for (std::size_t i = 0; i < kKernelClassCount; ++i) all.push_back(static_cast<KernelClass>(i));
  return all;
}

std::vector<Algorithm> all_algorithms() {
  std::vector<Algorithm> all;
  for (std::size_t i = 0; i < kAlgorithmCount; ++i) all.push_back(static_cast<Algorithm>(i));
  return all;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// A number of 8 to 512 at `at`, which goes behind it; 0 when there is none.
int tile_side(std::string_view name, std::size_t& at) {
  const std::size_t first = at;
  int value = 0;
  for (; at < name.size() && is_digit(name[at]) && at - first < 4; ++at) {
    value = value * 10 + (name[at] - '0');
  }
  return value >= 8 && value <= 512 ? value : 0;
}

/// "128x64" that begins at `at`.
bool read_tile(std::string_view name, std::size_t at, int& m, int& n) {
  m = tile_side(name, at);
  if (m == 0 || at >= name.size() || name[at] != 'x') return false;
  n = tile_side(name, ++at);
  return n != 0;
}

/// The tile of a GEMM: behind a word that announces it, else the first "128x64" of the name.
void find_tile(std::string_view name, KernelNameInfo& info) {
  int m = 0, n = 0;
  for (const std::string_view mark : {"tilesize", "_mt", "_bt"}) {
    const std::size_t at = name.find(mark);
    if (at != std::string_view::npos && read_tile(name, at + mark.size(), m, n)) {
      info.tile_m = m, info.tile_n = n;
      return;
    }
  }
  for (std::size_t at = 0; at < name.size(); ++at) {
    if (!is_digit(name[at]) || (at > 0 && is_digit(name[at - 1]))) continue;
    if (read_tile(name, at, m, n)) {
      info.tile_m = m, info.tile_n = n;
      return;
    }
  }
}

}  // namespace

bool KernelNames::Rule::holds(std::string_view name, const std::vector<bool>& occurs) const {
  const auto is_there = [&occurs](std::size_t word) { return occurs[word]; };
  return name.starts_with(first) && std::all_of(words.begin(), words.end(), is_there) &&
         std::none_of(absent.begin(), absent.end(), is_there);
}

const KernelNames::Rule* KernelNames::first_of(const Rules& rules, std::string_view name,
                                               const std::vector<bool>& occurs) {
  const auto found = std::find_if(rules.begin(), rules.end(),
                                  [&](const Rule& rule) { return rule.holds(name, occurs); });
  return found == rules.end() ? nullptr : &*found;
}

KernelNames KernelNames::parse(std::string_view text, const std::string& where) {
  KernelNames table;
  std::string section;
  std::vector<std::string> all_words;
  const auto number_of = [&all_words](std::string_view word) {
    const std::string lower = to_lower(word);
    const auto known = std::find(all_words.begin(), all_words.end(), lower);
    const auto number = static_cast<std::size_t>(known - all_words.begin());
    if (known == all_words.end()) all_words.push_back(lower);
    return number;
  };
  const auto classes = all_classes();
  const auto algorithms = all_algorithms();
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string place = where + ":" + std::to_string(++number);
    const auto words = words_of(line);
    if (words.empty() || words[0].starts_with('#')) continue;
    if (words[0].starts_with('[')) {
      section = words[0];
      if (section != "[class]" && section != "[precision]" && section != "[unit]") {
        throw InputError(place, section, "[class], [precision] or [unit]");
      }
      continue;
    }
    const auto arrow = std::find(words.begin(), words.end(), "=>");
    const auto values = static_cast<std::size_t>(words.end() - arrow);
    const bool has_class = section == "[class]";
    if (section.empty() || arrow == words.begin() || values < 2 || values > (has_class ? 4u : 2u)) {
      throw InputError(place, std::string(line), "a section, then rules: words => what they say");
    }
    Rule rule;
    for (auto word = words.begin(); word != arrow; ++word) {
      if (word->starts_with('.')) {
        rule.first = to_lower(word->substr(1));
      } else if (word->starts_with('!')) {
        rule.absent.push_back(number_of(word->substr(1)));
      } else {
        rule.words.push_back(number_of(*word));
      }
    }
    if (has_class) {
      rule.kernel_class = value_of(arrow[1], classes, place);
      if (values > 2) rule.algorithm = value_of(arrow[2], algorithms, place);
      rule.has_pass = values > 3;
      if (rule.has_pass) rule.pass = value_of(arrow[3], kPasses, place);
      table.classes_.push_back(std::move(rule));
    } else if (section == "[precision]") {
      rule.precision = value_of(arrow[1], kPrecisions, place);
      table.precisions_.push_back(std::move(rule));
    } else {
      rule.unit = value_of(arrow[1], kUnits, place);
      table.units_.push_back(std::move(rule));
    }
  }
  table.finder_ = WordFinder(all_words);
  return table;
}

KernelNames KernelNames::builtin() {
  const EmbeddedFile& file = embedded::kernel_name_rules().front();
  return parse(file.content, std::string(file.path));
}

KernelNameInfo KernelNames::find(std::string_view full_name) const {
  std::string name = to_lower(full_name);
  if (name.starts_with("void ")) name.erase(0, 5);
  const std::vector<bool> occurs = finder_.find(name);
  KernelNameInfo info;
  if (const Rule* rule = first_of(classes_, name, occurs)) {
    info.kernel_class = rule->kernel_class;
    info.algorithm = rule->algorithm;
    info.pass = rule->pass;
    info.has_pass = rule->has_pass;
  }
  if (const Rule* rule = first_of(precisions_, name, occurs)) info.precision = rule->precision;
  if (const Rule* rule = first_of(units_, name, occurs)) info.unit = rule->unit;
  const bool has_tile = info.kernel_class == KernelClass::Gemm ||
                        info.kernel_class == KernelClass::BatchedGemm ||
                        info.kernel_class == KernelClass::GroupedGemm ||
                        info.kernel_class == KernelClass::Convolution;
  if (has_tile) find_tile(name, info);
  return info;
}

std::string short_kernel_name(std::string_view name) {
  for (const std::string_view prefix : {"void ", "at::native::", "at::"}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  std::string text;
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (name.substr(i).starts_with("(anonymous namespace)::")) {
      i += std::string_view("(anonymous namespace)::").size() - 1;
    } else if (c == '<') {
      ++depth;
    } else if (c == '>') {
      if (depth > 0) --depth;
    } else if (c == '(' && depth == 0) {
      break;
    } else if (depth == 0) {
      text += c;
    }
  }
  return text.empty() ? std::string(name) : text;
}

}  // namespace tracecast::traces
