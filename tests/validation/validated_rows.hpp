#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace tracecast::test {

/// Line of a table of kernels -> predicted time in us, as `tracecast validate --format csv` says
/// it; rows that it skips are missing. `only`: rows as COLUMN=VALUE. Fails the test when the
/// program does.
[[nodiscard]] std::map<std::size_t, double> predict_rows(const std::string& table,
                                                         const std::vector<std::string>& only);

}  // namespace tracecast::test
