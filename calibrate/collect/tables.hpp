#pragma once
#include <string>
#include <vector>

#include "calibrate/collect/journal.hpp"
#include "calibrate/collect/plan.hpp"
#include "calibrate/device/device.hpp"

namespace tracecast::calibrate {

/// A CSV file to be.
struct CollectedTable {
  std::string name;  ///< "gemm.csv"
  std::string content;
  std::size_t rows = 0;
};

/// The accepted measurements of a plan as tables, one per kind, rows in plan order. Columns are
/// those of data/kernels, then what only we record: SM and memory clock, temperature, power and
/// throttle reasons at the end of the timed part, the median's relative standard error,
/// repetitions, burst time, the experiment's name in the plan. `clock_mhz` stays empty unless the
/// user holds the clock there, as the tables of data/kernels mean it. `timing` says how: "cupti"
/// the kernels' own time, "evlib" between two events round the call (kernel records were refused),
/// "loop" the same with launches pipelined (recurrent layers, whose kernels overlap), "host" the
/// host's clock. Copies, launches, reductions, gathers and updates have tables of their own form.
[[nodiscard]] std::vector<CollectedTable> collected_tables(const Plan& plan, const Journal& journal,
                                                           const std::string& gpu,
                                                           const DeviceIdentity& device);

}  // namespace tracecast::calibrate
