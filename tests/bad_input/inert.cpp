#include "tests/bad_input/inert.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/base/text.hpp"
#include "tests/bad_input/program.hpp"

namespace tracecast::test {
namespace {

/// The first thing in `text` that a terminal obeys, in words; empty: none.
std::string command_in(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f)
      return "byte " + std::to_string(byte);
  }
  for (const std::string_view direction :
       {"\u202A", "\u202B", "\u202C", "\u202D", "\u202E", "\u2066", "\u2067", "\u2068", "\u2069"}) {
    if (text.find(direction) != std::string_view::npos) return "a mark of direction";
  }
  for (std::size_t at = 0; (at = text.find('\xC2', at)) != std::string_view::npos; ++at) {
    if (at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) < 0xA0)
      return "a C1 control";
  }
  return "";
}

bool is_utf8(std::string_view text) {
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

std::vector<std::string> fields_of(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[++i];
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += line[i];
    }
  }
  return fields;
}

bool is_formula(std::string_view field) {
  const bool begins_so =
      !field.empty() && std::string_view("=+-@\t\r").find(field[0]) != std::string_view::npos;
  return begins_so && field != "-" && !parse_double(field);
}

void check_csv(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    CAPTURE(std::string(line));
    const std::vector<std::string> fields = fields_of(line);
    if (width == 0) width = fields.size();
    CHECK(fields.size() == width);
    for (const std::string& field : fields) CHECK_FALSE(is_formula(field));
  }
}

}  // namespace

std::string raw_json(std::string_view text) {
  std::string json = "\"";
  for (const char c : text) {
    constexpr char kDigits[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (byte < 0x20) {
      json += "\\u00";
      json += kDigits[byte >> 4];
      json += kDigits[byte & 15];
    } else {
      json += c;
    }
  }
  return json + '"';
}

std::string textproto_string(std::string_view text) {
  std::string literal = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\') {
      literal += c;
    } else {
      literal += '\\';
      for (const int shift : {6, 3, 0}) literal += static_cast<char>('0' + (byte >> shift & 7));
    }
  }
  return literal + '"';
}

std::string raw_csv(std::string_view text) {
  std::string field = "\"";
  for (const char c : text) field += c == '"' ? "\"\"" : std::string(1, c);
  return field + '"';
}

void check_inert(const ProcessResult& result, std::string_view format) {
  for (const std::string* text : {&result.out, &result.err}) {
    CAPTURE(text->substr(0, 3000));
    CHECK(command_in(*text) == "");
    CHECK(is_utf8(*text));
    CHECK_FALSE(text->starts_with("FORGED"));
    CHECK(text->find("\nFORGED") == std::string::npos);
  }
  CHECK_FALSE(result.timed_out);
  CHECK(result.exit_code <= 2);
  CHECK(result.exit_code >= 0);
  if (format == "json" && !result.out.empty()) CHECK(nlohmann::json::accept(result.out));
  if (format == "csv") check_csv(result.out);
}

std::string check_formats_inert(const std::vector<std::string>& arguments,
                                const std::vector<std::string>& formats) {
  std::string all;
  for (const std::string& format : formats) {
    std::vector<std::string> command = arguments;
    command.insert(command.end(), {"--format", format});
    const ProcessResult result = run_tracecast(command);
    std::string words;
    for (const std::string& word : command) words += word + ' ';
    CAPTURE(words);
    CAPTURE(result.err);
    CHECK(result.exit_code <= 1);
    check_inert(result, format);
    all += result.out;
  }
  return all;
}

}  // namespace tracecast::test
