#include "calibrate/table/measurement_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/cost/sustained_clock.hpp"

namespace tracecast {
namespace {

constexpr double kTolerance = 1.1;  // over a peak: clocks and rounding
constexpr double kMostSlowdown =
    30;  // over the expected time: milliseconds taken for microseconds give 1000

/// Keeps every n-th row of a cell, n doubled each time the cell overflows: between `most` and 2
/// `most` rows stay.
class EvenSample {
 public:
  explicit EvenSample(std::size_t most) : most_(most) {}
  [[nodiscard]] bool takes_next() { return seen_++ % stride_ == 0; }
  /// Indices of the rows kept. True when some have to go.
  bool add(std::size_t index) {
    kept_.push_back(index);
    return most_ > 0 && kept_.size() > 2 * most_;
  }
  /// Drops every second one; gives those that went.
  std::vector<std::size_t> thin_out() {
    std::vector<std::size_t> residence, gone;
    for (std::size_t i = 0; i < kept_.size(); ++i)
      (i % 2 == 0 ? residence : gone).push_back(kept_[i]);
    kept_ = std::move(residence);
    stride_ *= 2;
    return gone;
  }

 private:
  std::size_t most_, seen_ = 0, stride_ = 1;
  std::vector<std::size_t> kept_;
};

using CellKey = std::tuple<std::string, std::string, std::string, std::string>;

/// Rows kept over all tables, thinned out cell by cell.
class Keeper {
 public:
  explicit Keeper(const MeasurementFilter& filter)
      : most_(filter.most_rows_per_cell), most_steps_(filter.most_steps_per_cell) {}
  void add(Measurement&& row) {
    const bool is_step = std::holds_alternative<FrameworkStep>(row.work);
    EvenSample& sample =
        cells_
            .try_emplace({row.gpu, row.source, row.group, row.split}, is_step ? most_steps_ : most_)
            .first->second;
    if (!sample.takes_next()) return;
    rows_.push_back(std::move(row));
    if (!sample.add(rows_.size() - 1)) return;
    for (const std::size_t gone : sample.thin_out()) rows_[gone].reset();
  }
  [[nodiscard]] std::vector<Measurement> take() && {
    std::vector<Measurement> result;
    for (std::optional<Measurement>& row : rows_) {
      if (row) result.push_back(std::move(*row));
    }
    return result;
  }

 private:
  std::size_t most_, most_steps_;
  std::map<CellKey, EvenSample> cells_;
  std::vector<std::optional<Measurement>> rows_;
};

/// Fields of a row but its position, as one string.
std::string fields_of(const CsvReader& reader) {
  std::string all;
  for (std::size_t c = 0; c < reader.header().size(); ++c) {
    all += reader.field(c);
    all += '\x1f';
  }
  return all;
}

/// Text of an error without the place, which the account has already.
std::string without_place(const InputError& error, const std::string& place) {
  std::string text = error.what();
  if (text.starts_with(place)) text.erase(0, place.size());
  while (!text.empty() && (text.front() == ':' || text.front() == ',' || text.front() == ' '))
    text.erase(0, 1);
  return text;
}

void sort_reasons(TableAccount& account, const std::map<std::string, std::size_t>& reasons) {
  account.unpredicted.assign(reasons.begin(), reasons.end());
  std::stable_sort(account.unpredicted.begin(), account.unpredicted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
}

TableAccount read_table(const std::filesystem::path& path, const MeasurementContext& context,
                        const CostProfile& profile, const MeasurementFilter& filter,
                        Keeper& keeper) {
  TableAccount account;
  account.file = path.filename().string();
  account.path = path;
  CsvReader csv(path);
  const auto reader = find_measurement_reader(csv, context);
  if (!reader) {
    throw InputError(csv.where(),
                     fmt::format("a header of {} columns that I do not know", csv.header().size()),
                     "a table of measured kernels or layers");
  }
  account.table = reader->table();
  std::unordered_set<std::size_t> seen;
  std::map<std::string, std::size_t> reasons;
  const std::hash<std::string> hash;
  while (csv.next()) {
    ++account.num_rows;
    const auto refuse = [&](std::string reason) {
      account.refused.push_back({csv.line(), std::move(reason)});
    };
    try {
      MeasurementOrReason read = reader->read(csv);
      if (const auto* reason = std::get_if<std::string>(&read)) {
        ++reasons[*reason];
        ++account.num_unpredicted;
        continue;
      }
      auto& row = std::get<Measurement>(read);
      if (!seen.insert(hash(fields_of(csv))).second) {
        refuse("the same row a second time");
        continue;
      }
      if (std::string fault = physical_fault(row, profile); !fault.empty()) {
        refuse(std::move(fault));
        continue;
      }
      ++account.num_usable;
      if (row.time < filter.min_time || (filter.wanted && !filter.wanted(row))) continue;
      keeper.add(std::move(row));
    } catch (const InputError& error) {
      refuse(without_place(error, csv.where()));
    }
  }
  sort_reasons(account, reasons);
  return account;
}

/// Least arithmetic and bytes of the op over its candidates, and the highest peak any of them runs
/// at.
struct LeastWork {
  double flops = 0, bytes = 0, peak = 0;
};
LeastWork least_work(const IsolatedOp& work, const GpuSpec& gpu) {
  LeastWork least;
  for (const LoweredOp& op : work.step.ops) {
    double flops = 1e300, bytes = 1e300;
    for (const Candidate& candidate : op.candidates) {
      double f = 0, b = 0;
      for (const Kernel& kernel : candidate.kernels) {
        f += kernel.flops.in_flop();
        b += kernel.bytes().in_bytes();
        const auto peak = gpu.find_peak(kernel.math, kernel.unit);
        least.peak = std::max(least.peak, peak.value_or(gpu.peak_fp32()).in_si());
      }
      flops = std::min(flops, f);
      bytes = std::min(bytes, b);
    }
    if (op.candidates.empty()) continue;
    least.flops += flops;
    least.bytes += bytes;
  }
  return least;
}

}  // namespace

std::string physical_fault(const Measurement& measurement, const CostProfile& profile) {
  const GpuSpec& gpu = *measurement.spec;
  if (const auto* op = std::get_if<IsolatedOp>(&measurement.work)) {
    const LeastWork least = least_work(*op, gpu);
    const double clock = cost::free_clock(gpu, profile) / gpu.boost_clock;
    const double flops = least.flops / measurement.time.in_s();
    if (flops > kTolerance * least.peak * clock) {
      return fmt::format("{:.3g} TFLOP/s, above the card's peak of {:.3g}", flops * 1e-12,
                         least.peak * clock * 1e-12);
    }
    // What L2 may hold from one call to the next, read and written, does not count.
    const double bytes = (least.bytes - 2 * gpu.l2.in_bytes()) / measurement.time.in_s();
    const double dram = gpu.dram_bandwidth.in_si();
    if (bytes > kTolerance * dram) {
      return fmt::format("{:.3g} GB/s, above the card's memory bandwidth of {:.3g}", bytes * 1e-9,
                         dram * 1e-9);
    }
  }
  if (measurement.time > Seconds(100e-6)) {
    const auto expected = estimate_measurement(measurement, gpu, profile);
    if (expected && measurement.time > Seconds(100e-6) + expected->time * kMostSlowdown) {
      return fmt::format("{:.3g} us, over {:.0f} times the {:.3g} us expected: another unit?",
                         measurement.time.in_us(), kMostSlowdown, expected->time.in_us());
    }
  }
  return {};
}

MeasurementSet load_measurements(std::span<const std::filesystem::path> files,
                                 const MeasurementContext& context, const CostProfile& profile,
                                 const MeasurementFilter& filter) {
  MeasurementSet set;
  Keeper keeper(filter);
  std::size_t usable = 0, refused = 0, rows = 0;
  for (const std::filesystem::path& file : files) {
    set.tables.push_back(read_table(file, context, profile, filter, keeper));
    usable += set.tables.back().num_usable;
    refused += set.tables.back().refused.size();
    rows += set.tables.back().num_rows;
  }
  if (usable == 0) {
    const std::string first = [&]() -> std::string {
      for (const TableAccount& table : set.tables) {
        if (!table.refused.empty()) {
          return fmt::format("; first: {}:{}: {}", table.file, table.refused[0].line,
                             table.refused[0].reason);
        }
        if (!table.unpredicted.empty()) return "; first: " + table.unpredicted[0].first;
      }
      return "";
    }();
    throw InputError(
        files.empty() ? "--from" : files.front().string(),
        fmt::format("no usable measurement in {} rows, {} refused{}", rows, refused, first),
        "at least one");
  }
  set.rows = std::move(keeper).take();
  return set;
}

}  // namespace tracecast
