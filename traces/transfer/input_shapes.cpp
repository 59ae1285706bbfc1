#include "traces/transfer/input_shapes.hpp"

#include <charconv>
#include <optional>
#include <string>

namespace tracecast::traces {
namespace {

constexpr std::size_t kMostInputs = 10'000;
constexpr std::int64_t kLargestSize = std::int64_t{1} << 40;

/// Brackets, numbers and commas; anything else ends the walk.
class DimsReader {
 public:
  explicit DimsReader(std::string_view text) : text_(text) {}

  /// The inputs; of a list of tensors all of its entries share an index in `owner`.
  bool read(std::vector<InputTensor>& inputs, std::vector<std::size_t>& owner) {
    if (!take('[')) return false;
    for (std::size_t index = 0; !take(']'); ++index) {
      if (index > 0 && !take(',')) return false;
      if (!read_input(inputs) || inputs.size() > kMostInputs) return false;
      owner.resize(inputs.size(), index);
    }
    return true;
  }

 private:
  bool read_input(std::vector<InputTensor>& inputs) {
    if (!take('[')) return false;
    if (peek() != '[') return read_sizes(inputs);
    while (true) {
      if (!take('[') || !read_sizes(inputs) || inputs.size() > kMostInputs) return false;
      if (take(']')) return true;
      if (!take(',')) return false;
    }
  }
  /// Sizes up to the closing bracket.
  bool read_sizes(std::vector<InputTensor>& inputs) {
    InputTensor tensor;
    while (!take(']')) {
      if (!tensor.dims.empty() && !take(',')) return false;
      const auto size = read_number();
      if (!size || *size < 0 || *size > kLargestSize || tensor.dims.size() > 32) return false;
      tensor.dims.push_back(*size);
    }
    inputs.push_back(std::move(tensor));
    return true;
  }
  std::optional<std::int64_t> read_number() {
    skip_blanks();
    std::int64_t value = 0;
    const char* end = text_.data() + text_.size();
    const auto [after, error] = std::from_chars(text_.data(), end, value);
    if (error != std::errc()) return std::nullopt;
    text_.remove_prefix(static_cast<std::size_t>(after - text_.data()));
    return value;
  }
  void skip_blanks() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n'))
      text_.remove_prefix(1);
  }
  char peek() {
    skip_blanks();
    return text_.empty() ? '\0' : text_.front();
  }
  bool take(char c) {
    if (peek() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  std::string_view text_;
};

/// The quoted texts of a list.
std::vector<std::string_view> quoted(std::string_view text) {
  std::vector<std::string_view> found;
  while (found.size() < kMostInputs) {
    const std::size_t first = text.find('"');
    if (first == std::string_view::npos) break;
    const std::size_t last = text.find('"', first + 1);
    if (last == std::string_view::npos) break;
    found.push_back(text.substr(first + 1, last - first - 1));
    text.remove_prefix(last + 1);
  }
  return found;
}

struct ElementType {
  std::string_view word;
  Precision precision;
  int bytes;
};
/// Words of PyTorch's type names, old and new.
constexpr ElementType kTypes[] = {
    {"BFloat16", Precision::Bf16, 2},      {"Half", Precision::Fp16, 2},
    {"double", Precision::Fp64, 8},        {"long", Precision::Fp32, 8},
    {"Float8", Precision::Fp8, 1},         {"signed char", Precision::Int8, 1},
    {"unsigned char", Precision::Int8, 1}, {"bool", Precision::Int8, 1},
};

}  // namespace

double InputTensor::elements() const {
  if (dims.empty()) return 0;
  double gemm = 1;
  for (const std::int64_t size : dims) gemm *= static_cast<double>(size);
  return gemm;
}

std::vector<InputTensor> read_inputs(std::string_view dims, std::string_view types) {
  std::vector<InputTensor> inputs;
  std::vector<std::size_t> owner;
  if (!DimsReader(dims).read(inputs, owner)) return {};
  const auto words = quoted(types);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (owner[i] >= words.size()) continue;
    for (const ElementType& type : kTypes) {
      if (words[owner[i]].find(type.word) == std::string_view::npos) continue;
      inputs[i].precision = type.precision;
      inputs[i].element_bytes = type.bytes;
      break;
    }
  }
  return inputs;
}

std::vector<std::int64_t> read_value(std::string_view values, std::size_t index) {
  const auto texts = quoted(values);
  std::vector<std::int64_t> numbers;
  if (index >= texts.size()) return numbers;
  const std::string_view text = texts[index];
  for (std::size_t at = 0; at < text.size() && numbers.size() < 16;) {
    std::int64_t value = 0;
    const auto [after, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
    if (error == std::errc()) {
      numbers.push_back(value);
      at = static_cast<std::size_t>(after - text.data());
    } else {
      ++at;
    }
  }
  return numbers;
}

}  // namespace tracecast::traces
