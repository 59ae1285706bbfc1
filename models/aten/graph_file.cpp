#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>

#include "models/aten/program.hpp"
#include "models/ops.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast::aten {
namespace {

constexpr std::string_view kHeader = "tracecast graph 1";
constexpr std::size_t kMostRank = 32;
constexpr int kMostDepth = 4;  ///< of lists in lists
/// So that no file takes more than some 400 MB: tensors, and values of arguments.
constexpr std::size_t kMostTensors = 400'000, kMostArguments = 1'500'000;

struct TypeRow {
  std::string_view word;
  ElementType type;
};
constexpr std::array<TypeRow, 13> kTypes{{{"f32", {false, 4}},
                                          {"f16", {false, 2}},
                                          {"bf16", {false, 2}},
                                          {"f64", {false, 8}},
                                          {"f8", {false, 1}},
                                          {"c64", {false, 8}},
                                          {"c128", {false, 16}},
                                          {"i64", {true, 8}},
                                          {"i32", {true, 4}},
                                          {"i16", {true, 2}},
                                          {"i8", {true, 1}},
                                          {"u8", {true, 1}},
                                          {"bool", {true, 1}}}};

bool is_word_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == ':' || c == '/' || c == '-' || c == '+';
}

/// One line, read from left to right.
class Line {
 public:
  Line(std::string_view text, const std::string& file, std::size_t number)
      : text_(text), file_(file), number_(number) {}

  [[nodiscard]] bool is_at_end() {
    skip_blanks();
    return at_ == text_.size();
  }
  bool take(char wanted) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted, std::string_view what) {
    if (!take(wanted)) fail(std::string("'") + wanted + "' " + std::string(what));
  }
  /// Letters, digits and a few signs; empty when there are none.
  std::string_view take_word() {
    skip_blanks();
    const std::size_t start = at_;
    while (at_ < text_.size() && is_word_letter(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }
  std::string_view word(std::string_view what) {
    const std::string_view word = take_word();
    if (word.empty()) fail(what);
    return word;
  }
  std::int64_t integer(std::string_view what) {
    const std::string_view digits = take_word();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      at_ -= digits.size();
      fail(what);
    }
    return value;
  }
  std::string quoted() {
    expect('"', "before a text");
    const std::size_t end = text_.find('"', at_);
    if (end == std::string_view::npos) fail("a '\"' that closes the text");
    std::string text(text_.substr(at_, end - at_));
    at_ = end + 1;
    return text;
  }
  [[nodiscard]] char peek() {
    skip_blanks();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  [[noreturn]] void fail(std::string_view expected) const {
    constexpr std::size_t kShown = 40;
    const std::string_view rest = text_.substr(std::min(at_, text_.size()), kShown);
    throw InputError(where(), rest.empty() ? "the end of the line" : '"' + std::string(rest) + '"',
                     expected);
  }
  [[nodiscard]] std::string where() const { return file_ + ':' + std::to_string(number_); }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  std::string_view text_;
  std::size_t at_ = 0;
  const std::string& file_;
  std::size_t number_;
};

class Reader {
 public:
  Reader(std::string_view text, std::string_view where) : text_(text), file_(where) {
    constexpr std::size_t kUsualLine = 80;
    const std::size_t lines = std::min(text.size() / kUsualLine, kMostTensors);
    by_name_.reserve(lines);
    program_.tensors.reserve(lines);
    program_.nodes.reserve(lines);
    program_.place_prefix = file_ + ':';
  }

  Program read(bool inputs_only) {
    for (std::size_t& number = number_; !text_.empty(); ++number) {
      const std::size_t end = std::min(text_.find('\n'), text_.size());
      std::string_view line = text_.substr(0, end);
      text_.remove_prefix(std::min(end + 1, text_.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (number == 1) {
        if (line != kHeader) {
          constexpr std::size_t kShown = 40;
          throw InputError(where(), '"' + std::string(line.substr(0, kShown)) + '"',
                           "a graph file, whose first line is \"" + std::string(kHeader) + '"');
        }
        continue;
      }
      if (inputs_only && line.starts_with('%')) return std::move(program_);
      read_line(line);
    }
    if (program_.outputs.empty()) {
      throw InputError(file_, "no line that begins with output",
                       "what the pass gives back at its end: the file is not whole");
    }
    return std::move(program_);
  }

 private:
  [[nodiscard]] std::string where() const { return file_ + ':' + std::to_string(number_); }

  void read_line(std::string_view text) {
    Line line(text, file_, number_);
    if (line.is_at_end() || line.peek() == '#') return;
    if (line.peek() == '%' || line.peek() == '_') return read_call(line);
    const std::string_view word = line.word("a word that begins a line");
    if (word == "network") {
      program_.name = line.word("the network's name");
    } else if (word == "traced") {
      program_.writes_attention_out =
          line.take_word() == "pytorch" && line.take_word().starts_with("1.");
      return;  // the rest is for people
    } else if (word == "mode") {
      const std::string_view mode = line.word("train or infer");
      if (mode != "train" && mode != "infer") throw InputError(where(), mode, "train or infer");
      program_.is_training_mode = mode == "train";
    } else if (word == "output") {
      program_.outputs.push_back(reference(line));
    } else if (const auto source = source_of(word)) {
      declare(line, *source);
    } else {
      const std::vector<std::string> words{"network", "traced", "mode",     "input", "parameter",
                                           "frozen",  "buffer", "constant", "output"};
      throw InputError(where(), '"' + std::string(word) + '"',
                       describe_choices(std::string(word), words));
    }
    if (!line.is_at_end()) line.fail("the end of the line");
  }

  static std::optional<Source> source_of(std::string_view word) {
    if (word == "input") return Source::Input;
    if (word == "parameter") return Source::Parameter;
    if (word == "frozen") return Source::Frozen;
    if (word == "buffer") return Source::Buffer;
    if (word == "constant") return Source::Constant;
    return std::nullopt;
  }

  /// %NAME TYPE[SIZES] and, where rows do not follow each other, {STRIDES}.
  TensorIndex declare(Line& line, Source source) {
    line.expect('%', "before a tensor's name");
    const std::string_view name = line.word("a tensor's name");
    TensorInfo tensor{.name = std::string(name), .source = source};
    tensor.type = element_type(line.word("an element type, such as f32"), where());
    line.expect('[', "before the tensor's sizes");
    if (!line.take(']')) {
      do {
        if (tensor.shape.size() > kMostRank) break;
        tensor.shape.push_back(line.integer("a size"));
      } while (line.take(','));
      line.expect(']', "after the tensor's sizes");
    }
    if (line.take('{')) {
      do {
        if (tensor.strides.size() > kMostRank) break;
        tensor.strides.push_back(line.integer("a stride"));
      } while (line.take(','));
      line.expect('}', "after the tensor's strides");
      if (tensor.strides.size() != tensor.shape.size()) {
        throw InputError(where(), std::to_string(tensor.strides.size()) + " strides",
                         "one for each size of " + to_string(tensor.shape));
      }
    }
    check_tensor(tensor, where());
    if (program_.tensors.size() >= kMostTensors) {
      throw InputError(where(), "more than " + std::to_string(kMostTensors) + " tensors", "fewer");
    }
    const auto index = static_cast<TensorIndex>(program_.tensors.size());
    if (!by_name_.emplace(name, index).second) {
      throw InputError(where(), "a second tensor %" + tensor.name, "another name");
    }
    program_.tensors.push_back(std::move(tensor));
    return index;
  }

  TensorIndex reference(Line& line) {
    line.expect('%', "before a tensor's name");
    const std::string_view name = line.word("a tensor's name");
    const auto known = by_name_.find(name);
    if (known == by_name_.end()) {
      throw InputError(where(), "%" + std::string(name), "a tensor that an earlier line declares");
    }
    return known->second;
  }

  Argument argument(Line& line, int depth) {
    if (++num_values_ > kMostArguments) {
      throw InputError(where(), "more than " + std::to_string(kMostArguments) + " values", "fewer");
    }
    const char first = line.peek();
    if (first == '%') return {TensorReference{reference(line)}};
    if (first == '"') return {line.quoted()};
    if (line.take('[')) {
      if (depth == kMostDepth) line.fail("at most 4 lists within each other");
      Argument::List list;
      if (!line.take(']')) {
        do list.push_back(argument(line, depth + 1));
        while (line.take(','));
        line.expect(']', "after a list");
      }
      return list_argument(std::move(list));
    }
    const std::string_view word = line.word("a value");
    if (word == "none") return {};
    if (word == "true") return {true};
    if (word == "false") return {false};
    std::int64_t whole = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), whole);
    if (error == std::errc() && end == word.data() + word.size()) return {whole};
    double real = 0;
    const auto [last, fault] = std::from_chars(word.data(), word.data() + word.size(), real);
    if (fault == std::errc() && last == word.data() + word.size()) return {real};
    return {Word{std::string(word)}};
  }

  /// RESULTS = OPERATOR(NAME=VALUE, ...) in MODULE
  void read_call(Line& line) {
    Node node{.place = number_};
    if (program_.nodes.size() >= kMostTensors) {
      throw InputError(where(), "more than " + std::to_string(kMostTensors) + " calls", "fewer");
    }
    // Results are declared behind what the call reads: no call reads its own.
    const std::size_t first = program_.tensors.size();
    do {
      if (line.peek() == '_') {
        if (line.take_word() != "_") line.fail("a tensor or _");
        node.results.push_back(kNoTensor);
      } else {
        node.results.push_back(declare(line, Source::Result));
      }
    } while (line.take(','));
    line.expect('=', "before the operator");
    const std::string_view operator_name = line.word("an operator, such as aten.relu.default");
    const std::size_t dot = operator_name.rfind('.');
    const bool has_overload = dot != std::string_view::npos && operator_name.find('.') != dot;
    node.target = operator_name.substr(0, has_overload ? dot : operator_name.size());
    node.overload = has_overload ? operator_name.substr(dot + 1) : "default";
    line.expect('(', "before the arguments");
    if (!line.take(')')) {
      do {
        std::string name(line.word("an argument's name"));
        line.expect('=', "after an argument's name");
        node.arguments.emplace_back(std::move(name), argument(line, 0));
      } while (line.take(','));
      line.expect(')', "after the arguments");
    }
    if (!line.is_at_end()) {
      if (line.take_word() != "in") line.fail("\"in\" and a module's name, or the end of the line");
      node.scope = line.word("a module's name");
      if (!line.is_at_end()) line.fail("the end of the line");
    }
    for (const auto& [name, value] : node.arguments) refuse_own_result(value, first, name);
    program_.nodes.push_back(std::move(node));
  }

  void refuse_own_result(const Argument& argument, std::size_t first,
                         const std::string& name) const {
    if (const auto* tensor = std::get_if<TensorReference>(&argument.value)) {
      if (tensor->index >= first) {
        throw InputError(where(), name + "=%" + program_.tensors[tensor->index].name,
                         "a tensor that an earlier line declares");
      }
    }
    if (const auto* list = list_of(argument)) {
      for (const Argument& part : *list) refuse_own_result(part, first, name);
    }
  }

  std::string_view text_;
  std::string file_;
  Program program_;
  std::size_t number_ = 1;  ///< of the line
  std::size_t num_values_ = 0;
  std::unordered_map<std::string_view, TensorIndex> by_name_;  ///< in the text
};

}  // namespace

ElementType element_type(std::string_view word, std::string_view where) {
  for (const TypeRow& row : kTypes) {
    if (row.word == word) return row.type;
  }
  std::vector<std::string> words;
  for (const TypeRow& row : kTypes) words.emplace_back(row.word);
  throw InputError(where, "element type \"" + std::string(word) + '"',
                   describe_choices(std::string(word), words));
}

void check_tensor(TensorInfo& tensor, std::string_view where) {
  if (tensor.shape.size() > kMostRank) {
    throw InputError(where, "a tensor of " + std::to_string(tensor.shape.size()) + " dimensions",
                     "at most 32");
  }
  if (!checked_element_count(tensor.shape)) {
    throw InputError(where, "a tensor of shape " + to_string(tensor.shape),
                     "sizes of at least 0, fewer than 2^62 elements");
  }
  constexpr std::int64_t kMostStride = std::int64_t{1} << 62;
  std::int64_t step = 1;
  bool is_contiguous = true;
  for (std::size_t i = tensor.strides.size(); i-- > 0;) {
    if (tensor.strides[i] < 0 || tensor.strides[i] > kMostStride) {
      throw InputError(where, "stride " + std::to_string(tensor.strides[i]), "0 to 2^62");
    }
    if (tensor.shape[i] != 1 && tensor.strides[i] != step) is_contiguous = false;
    step *= std::max<std::int64_t>(tensor.shape[i], 1);
  }
  if (is_contiguous) tensor.strides.clear();
}

Program read_graph_file(std::string_view text, std::string_view where, bool inputs_only) {
  return Reader(text, where).read(inputs_only);
}

}  // namespace tracecast::aten
