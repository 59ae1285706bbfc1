#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/table/measurement.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// A row that must not be fitted, and why.
struct RefusedRow {
  std::size_t line = 0;
  std::string reason;  ///< "time_us \"nan\", expected a number above 0"
};

/// What became of one table's rows.
struct TableAccount {
  std::string file;  ///< name without folders
  std::string table;
  std::filesystem::path path;
  std::size_t num_rows = 0;
  std::size_t num_usable = 0;  ///< good measurements, whatever their length
  std::size_t num_unpredicted =
      0;  ///< rows of kinds that have no cost model, or of GPUs without a spec
  std::vector<std::pair<std::string, std::size_t>>
      unpredicted;                  ///< reasons and their counts, most frequent first
  std::vector<RefusedRow> refused;  ///< bad measurements, in order
};

struct MeasurementFilter {
  /// Keeps at most this many rows of a cell (GPU, source, group, split), evenly spread over the
  /// table; 0 = all.
  std::size_t most_rows_per_cell = 0;
  std::size_t most_steps_per_cell =
      0;               ///< the same for whole steps of a framework, which take longer to price
  Seconds min_time{};  ///< shorter rows are usable but not kept
  std::function<bool(const Measurement&)> wanted;  ///< unset: all
};

/// Measurements of several tables.
struct MeasurementSet {
  std::vector<Measurement> rows;
  std::vector<TableAccount> tables;
};

/// Reads tables of measurements. Refused, with the reason, and never part of the result:
///   - fields that are no numbers, not finite, not above zero or out of range; unknown words
///   - a second row with the same fields as one before
///   - rates above the card's physical limits: arithmetic over 1.1 x its peak at the row's clock
///   under every algorithm that could
///     have run, or compulsory bytes beyond twice its L2 over 1.1 x its DRAM bandwidth
///   - times over 30 times what the cost model expects of a kernel of over 100 us: another unit,
///   most likely
/// Throws InputError when a file cannot be read, has no header that is known, or when nothing
/// usable is left in all of them.
[[nodiscard]] MeasurementSet load_measurements(std::span<const std::filesystem::path> files,
                                               const MeasurementContext& context,
                                               const CostProfile& profile,
                                               const MeasurementFilter& filter);

/// Why a measurement cannot be true on its GPU; empty when it can.
[[nodiscard]] std::string physical_fault(const Measurement& measurement,
                                         const CostProfile& profile);

}  // namespace tracecast
