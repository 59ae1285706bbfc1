#include "tests/validation/validated_rows.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string_view>

#include "sim/base/text.hpp"
#include "tests/support/process.hpp"

namespace tracecast::test {

std::map<std::size_t, double> predict_rows(const std::string& table,
                                           const std::vector<std::string>& only) {
  std::vector<std::string> command{TRACECAST_PROGRAM, "validate", table, "--format", "csv"};
  for (const std::string& condition : only) {
    command.emplace_back("--only");
    command.push_back(condition);
  }
  const ProcessResult result = run_process(command, Seconds(120));
  REQUIRE(result.exit_code == 0);
  std::map<std::size_t, double> predicted;
  std::string_view rest = result.out;
  while (!rest.empty()) {  // id, measured, predicted, ...
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::size_t first = line.find(','), second = line.find(',', first + 1);
    if (second == std::string_view::npos) continue;
    const std::size_t third = line.find(',', second + 1);
    const auto id = parse_integer(line.substr(0, first));
    const auto time = parse_double(line.substr(second + 1, third - second - 1));
    if (id && time) predicted[static_cast<std::size_t>(*id)] = *time;
  }
  return predicted;
}

}  // namespace tracecast::test
