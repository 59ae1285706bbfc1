#include "sim/job/mode/served_requests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

/// Seconds, 3000 years: the clock of microseconds goes on to ninety times that.
constexpr double kLatestArrival = 1e11;
/// Of a prompt or an answer, as with --input and --output.
constexpr std::int64_t kMostTokens = 1 << 24;

}  // namespace

std::vector<serve::Request> read_requests(const std::string& text, const std::string& where) {
  std::vector<serve::Request> requests;
  std::vector<std::string> header;
  std::array<std::size_t, 3> columns{};
  std::optional<std::size_t> prefix_column, shared_column;
  const std::array<std::string, 3> names = {"arrival_s", "input_tokens", "output_tokens"};
  std::size_t line_number = 0;
  double last = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line(text.data() + at, end - at);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    at = end + 1;
    ++line_number;
    if (line.empty()) continue;
    std::vector<std::string> fields(1);
    for (const char c : line) {
      if (c == ',')
        fields.emplace_back();
      else
        fields.back() += c;
    }
    const std::string place = where + ":" + std::to_string(line_number);
    if (header.empty()) {
      header = fields;
      const auto find = [&](const char* name) -> std::optional<std::size_t> {
        const auto it = std::find(header.begin(), header.end(), name);
        if (it == header.end()) return std::nullopt;
        return static_cast<std::size_t>(it - header.begin());
      };
      prefix_column = find("prefix");
      shared_column = find("shared_tokens");
      for (std::size_t i = 0; i < names.size(); ++i) {
        const auto it = std::find(header.begin(), header.end(), names[i]);
        if (it == header.end())
          throw InputError(place, "no column " + names[i],
                           "arrival_s, input_tokens, output_tokens");
        columns[i] = static_cast<std::size_t>(it - header.begin());
      }
      continue;
    }
    if (fields.size() != header.size())
      throw InputError(place, fmt::format("{} fields", fields.size()),
                       fmt::format("{}, as the header has", header.size()));
    const auto arrival = parse_double(fields[columns[0]]);
    const auto input = parse_integer(fields[columns[1]]),
               output = parse_integer(fields[columns[2]]);
    if (!arrival || !(*arrival >= last))
      throw InputError(place, "arrival_s " + fields[columns[0]],
                       "seconds, no less than those of the row before");
    if (*arrival > kLatestArrival)
      throw InputError(place, "arrival_s " + fields[columns[0]],
                       fmt::format("seconds, at most {:g}", kLatestArrival));
    const auto is_length = [](const std::optional<long long>& tokens) {
      return tokens && *tokens >= 1 && *tokens <= kMostTokens;
    };
    if (!is_length(input) || !is_length(output))
      throw InputError(place, fields[columns[1]] + " and " + fields[columns[2]] + " tokens",
                       fmt::format("whole numbers from 1 to {}", kMostTokens));
    last = *arrival;
    serve::Request r;
    r.number = requests.size();
    r.arrival = std::llround(*arrival * 1e6);
    r.input = *input;
    r.output = *output;
    const auto whole = [&](const std::optional<std::size_t>& column, std::int64_t most,
                           const char* name) -> std::int64_t {
      if (!column) return 0;
      const auto value = parse_integer(fields[*column]);
      if (!value || *value < 0 || *value > most)
        throw InputError(place, fmt::format("{} {}", name, fields[*column]),
                         fmt::format("a whole number from 0 to {}", most));
      return *value;
    };
    r.prefix = static_cast<std::uint32_t>(whole(prefix_column, 1 << 30, "prefix"));
    // One token at least is the request's own.
    r.shared = std::min(whole(shared_column, r.input, "shared_tokens"), r.input - 1);
    requests.push_back(r);
  }
  if (requests.empty()) throw InputError(where, "no requests", "a header and a row for each");
  return requests;
}

}  // namespace tracecast
