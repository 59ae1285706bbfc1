// Fits the power.* parameters of the cost profile to published tables and prints them in the profile's format:
//   power_fit components.csv e2e.csv [PROFILE]
// With the other parameters of PROFILE; without one, of the profile in the program.
// Stage 1: what a board draws, from its average power at the highest limit of each configuration; each pair of GPU and
// network weighs the same, and the four boards and networks are left out in turn to judge. Stage 2: the voltage curve,
// from how the time of an epoch grows as the limit falls. See sim/step/notes/0001-power-and-memory.md.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "calibrate/table/csv_reader.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/job/resolved_job.hpp"
#include "sim/step/power.hpp"
#include "tools/validate/published_row.hpp"

namespace tracecast {
namespace {

constexpr Watts kNoLimit(1e9);

/// The step at one clock, at voltage 1 whatever the clock.
struct ClockPoint {
  double clock_share = 1, step_time_s = 0;
  PowerCauses causes;
};
/// A job without limit and clock, as the cost model sees it.
struct Configuration {
  GpuSpec gpu;
  std::string network;
  std::vector<ClockPoint> clocks;  ///< falling; the first is the free clock
};
struct Row {
  const Configuration* job = nullptr;
  double limit_w = 0, measured_w = 0, memory_share = 1;
  bool at_highest_limit = false;
  ClockPoint at;  ///< where the row runs before a limit acts
};

CostProfile at_voltage_one(CostProfile profile) {
  return with_parameter(std::move(profile), "power.voltage_floor", 1);
}

CostProfile with_voltage(CostProfile profile, double knee, double floor) {
  return with_parameter(with_parameter(std::move(profile), "power.voltage_knee", knee),
                        "power.voltage_floor", floor);
}

ClockPoint run(PlacedJob options, double clock_share, const Hardware& hardware) {
  options.board.power_limit_w.reset();
  ResolvedJob job = make_job(options, hardware);
  const Hertz free =
      job.gpu.set_clock > Hertz(0) ? job.gpu.set_clock : free_clock(job.gpu, hardware.cost());
  job.gpu.tdp = kNoLimit;
  job.gpu.set_clock = free * clock_share;
  const Prediction p = predict(job, hardware);
  return {clock_share, p.step_time_s.value, p.power_causes};
}

/// Parameters in the order of the vectors below.
constexpr std::array<const char*, 7> kNames = {
    "power.node_exponent",         "power.clocked_pj",      "power.flop_pj",
    "power.tensor_flop_pj",        "power.hbm_pj_per_byte", "power.gddr_pj_per_byte",
    "power.gddr_awake_pj_per_byte"};
using Vector = std::array<double, kNames.size()>;
// Priors: 7 pJ/bit of HBM2 and 15 of GDDR from O'Connor et al. 2017 and Horowitz 2014 with the controller's part, a GDDR
// interface that costs half of that while its clock runs; an operation at 16 nm some 10 pJ with its instruction.
constexpr Vector kPrior = {1.2, 6, 12, 1.5, 56, 120, 60};
constexpr Vector kPriorSd = {0.3, 0.5, 0.5, 0.6, 0.4, 0.4, 0.5};

CostProfile with(CostProfile profile, const Vector& values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    profile = with_parameter(std::move(profile), kNames[i], values[i]);
  return profile;
}

double predicted_w(const Row& row, const CostProfile& profile, double default_exponent) {
  GpuSpec gpu = row.job->gpu;
  gpu.dram_bandwidth = gpu.dram_bandwidth * row.memory_share;
  const double node =
      std::pow(gpu.process_nm / 16.0, profile.power.node_exponent - default_exponent);
  PowerCauses causes = row.at.causes;
  causes.lanes *= node;
  causes.flops *= node;
  causes.tensor_flops *= node;
  const Watts demand = awake_power(gpu, profile) + active_power(causes, gpu, profile);
  return limited_power(demand, Watts(row.limit_w)).in_w();
}

/// Cauchy loss of ln(measured / predicted) at 10 %, averaged within each pair of GPU and network, plus priors.
double loss(const Vector& values, const std::vector<const Row*>& rows, const CostProfile& base) {
  constexpr double kError = 0.1;
  const CostProfile profile = with(base, values);
  std::map<std::pair<std::string, std::string>, std::pair<double, int>> groups;
  for (const Row* row : rows) {
    const double miss =
        std::log(row->measured_w / predicted_w(*row, profile, base.power.node_exponent)) / kError;
    auto& [sum, n] = groups[{row->job->gpu.id, row->job->network}];
    sum += std::log1p(miss * miss);
    ++n;
  }
  double total = 0;
  for (const auto& [key, group] : groups) total += group.first / group.second;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double off = std::log(values[i] / kPrior[i]) / kPriorSd[i];
    total += 0.5 * off * off;
  }
  return total;
}

/// Coordinate descent in ln(value) with steps that shrink.
Vector fit(const std::vector<const Row*>& rows, const CostProfile& base) {
  Vector best = kPrior;
  double least = loss(best, rows, base);
  for (double step = 0.2; step > 0.002; step *= 0.7) {
    for (bool improved = true; improved;) {
      improved = false;
      for (double& value : best) {
        for (const double factor : {std::exp(step), std::exp(-step)}) {
          const double old = value;
          value *= factor;
          const double now = loss(best, rows, base);
          if (now < least - 1e-9) {
            least = now;
            improved = true;
          } else {
            value = old;
          }
        }
      }
    }
  }
  return best;
}

struct Errors {
  double sum = 0, bias = 0, square = 0;
  int n = 0;
  void add(double error) {
    sum += std::abs(error);
    bias += error;
    square += error * error;
    ++n;
  }
};

Errors judge(const std::vector<const Row*>& rows, const Vector& values, const CostProfile& base) {
  Errors errors;
  const CostProfile profile = with(base, values);
  for (const Row* row : rows) {
    errors.add(predicted_w(*row, profile, base.power.node_exponent) / row->measured_w - 1);
  }
  return errors;
}

std::vector<const Row*> select(const std::vector<Row>& rows,
                               const std::function<bool(const Row&)>& wanted) {
  std::vector<const Row*> result;
  for (const Row& row : rows) {
    if (wanted(row)) result.push_back(&row);
  }
  return result;
}

void print_left_out(const std::vector<Row>& rows, const Vector& all, const CostProfile& base,
                    const char* by, const std::function<std::string(const Row&)>& key_of) {
  std::map<std::string, bool> keys;
  for (const Row& row : rows) keys[key_of(row)] = true;
  fmt::print("# {:<22} rows  error %  bias %  | left out: error %  bias %\n", by);
  Errors total;
  for (const auto& [key, unused] : keys) {
    const auto judged = select(rows, [&](const Row& r) { return key_of(r) == key; });
    const auto others =
        select(rows, [&](const Row& r) { return r.at_highest_limit && key_of(r) != key; });
    const Errors in = judge(judged, all, base);
    const Errors out = judge(judged, fit(others, base), base);
    total.sum += out.sum, total.bias += out.bias, total.square += out.square, total.n += out.n;
    fmt::print("# {:<22} {:>4}  {:>7.1f} {:>7.1f}  | {:>17.1f} {:>7.1f}\n", key, in.n,
               100 * in.sum / in.n, 100 * in.bias / in.n, 100 * out.sum / out.n,
               100 * out.bias / out.n);
  }
  fmt::print("# {:<22} {:>4}  {:>15}  | {:>17.1f} {:>7.1f}   rms {:.3f}\n", "all, left out",
             total.n, "", 100 * total.sum / total.n, 100 * total.bias / total.n,
             std::sqrt(total.square / total.n));
}

/// Reads a table; `take(row, job)` for every row whose job is known.
void for_each_job(const std::string& path, const Hardware& hardware,
                  const std::function<void(const RowFields&, const PublishedJob&)>& take) {
  CsvReader reader(path);
  while (reader.next()) {
    const RowFields row(reader);
    const PublishedJob job = read_published_job(row, hardware.specs());
    if (job.unknown.empty() && job.options.batch > 0 &&
        (job.options.board.power_limit_w || job.options.board.clock_mhz)) {
      take(row, job);
    }
  }
}

using Key = std::tuple<std::string, std::string, std::int64_t>;
Key key_of(const PlacedJob& o) { return {o.gpu, o.network, o.batch}; }

class Fit {
 public:
  Fit(const std::string& components, const std::string& epochs, Hardware hardware)
      : hardware_(std::move(hardware)) {
    hardware_ = hardware_.with_profile(at_voltage_one(hardware_.cost()));
    read_power(components);
    read_times(epochs);
  }

  void run_all() {
    const auto highest = select(rows_, [](const Row& r) { return r.at_highest_limit; });
    const Vector values = fit(highest, hardware_.cost());
    fmt::print("# {} rows, {} fitted (highest limit of each configuration, clock tables)\n",
               rows_.size(), highest.size());
    print_left_out(rows_, values, hardware_.cost(), "GPU",
                   [](const Row& r) { return r.job->gpu.id; });
    print_left_out(rows_, values, hardware_.cost(), "network",
                   [](const Row& r) { return r.job->network; });
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      fmt::print(
          "parameter {{ name: \"{}\" value: {:.3g} log_sd: 0.25 data_set: \"board_power\" }}\n",
          kNames[i], values[i]);
    }
    fit_voltage(with(hardware_.cost(), values));
  }

 private:
  const Configuration& configuration(const PlacedJob& options) {
    const auto known = configurations_.find(key_of(options));
    if (known != configurations_.end()) return known->second;
    Configuration c;
    c.gpu = hardware_.gpus().find(options.gpu);
    c.network = options.network;
    PlacedJob free = options;
    free.board.clock_mhz.reset(), free.board.memory_clock_mhz.reset();
    for (const double share : {1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.15, 0.1}) {
      c.clocks.push_back(tracecast::run(free, share, hardware_));
    }
    return configurations_.emplace(key_of(options), std::move(c)).first->second;
  }

  void read_power(const std::string& path) {
    std::map<Key, double> highest;
    for_each_job(path, hardware_, [&](const RowFields& row, const PublishedJob& job) {
      if (!is_board_power(row.text("metric"), row.text("unit"))) return;
      try {
        Row r;
        r.job = &configuration(job.options);
        r.measured_w = parse_double(row.text("value")).value_or(0);
        r.limit_w = job.options.board.power_limit_w.value_or(r.job->gpu.tdp.in_w());
        if (job.options.board.clock_mhz) {
          // The board's highest voltage belongs to its own clock; a clock above it needs more.
          r.at = tracecast::run(job.options, 1, hardware_);
          r.memory_share = *job.options.board.memory_clock_mhz / r.job->gpu.memory_clock->in_mhz();
        } else {
          r.at = r.job->clocks.front();
        }
        double& most = highest[key_of(job.options)];
        most = std::max(most, r.limit_w);
        rows_.push_back(r);
        keys_.push_back(key_of(job.options));
      } catch (const InputError& error) {
        fmt::print(stderr, "left out: {}\n", error.what());
      }
    });
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      rows_[i].at_highest_limit = rows_[i].limit_w == highest[keys_[i]];
    }
  }

  /// Time of an epoch by limit, per configuration.
  void read_times(const std::string& path) {
    for_each_job(path, hardware_, [&](const RowFields& row, const PublishedJob& job) {
      if (row.text("metric") != "time per epoch" || !job.options.board.power_limit_w) return;
      const auto seconds = parse_double(row.text("value"));
      if (seconds && configurations_.contains(key_of(job.options))) {
        times_[key_of(job.options)][*job.options.board.power_limit_w] = *seconds;
      }
    });
  }

  /// Time under `limit` over that under `highest`, for a voltage curve; the board runs at the clock that draws what
  /// the limit leaves.
  double slowdown(const Configuration& c, double highest, double limit,
                  const CostProfile& profile) const {
    const auto power_at = [&](std::size_t i) {
      const double v = voltage_share(c.clocks[i].clock_share, profile);
      const double node =
          std::pow(c.gpu.process_nm / 16.0,
                   profile.power.node_exponent - hardware_.cost().power.node_exponent);
      PowerCauses causes = c.clocks[i].causes;
      for (double* part : {&causes.lanes, &causes.flops, &causes.tensor_flops}) {
        *part *= v * v * node;
      }
      return awake_power(c.gpu, profile) + active_power(causes, c.gpu, profile);
    };
    const Watts demand = power_at(0);
    const auto time_at = [&](double limit_w) {
      const double target = limited_power(demand, Watts(limit_w)).in_w();
      for (std::size_t i = 1; i < c.clocks.size(); ++i) {
        const double low = power_at(i).in_w(), high = power_at(i - 1).in_w();
        if (low > target) continue;
        const double share = high > low ? (target - low) / (high - low) : 1;
        return c.clocks[i].step_time_s +
               share * (c.clocks[i - 1].step_time_s - c.clocks[i].step_time_s);
      }
      return c.clocks.back().step_time_s;
    };
    return time_at(limit) / time_at(highest);
  }

  Errors judge_times(const CostProfile& profile, const std::string& gpu, bool print) const {
    Errors errors;
    for (const auto& [key, by_limit] : times_) {
      if (!gpu.empty() && std::get<0>(key) != gpu) continue;
      const Configuration& c = configurations_.at(key);
      const auto [highest, time] = *by_limit.rbegin();
      if (time < 60) continue;  // whole seconds, too coarse for ratios
      for (const auto& [limit, seconds] : by_limit) {
        if (limit == highest) continue;
        const double expected = slowdown(c, highest, limit, profile);
        errors.add(std::log(expected / (seconds / time)));
        if (print && seconds / time > 1.05) {
          fmt::print("#   {} {} b{} {:.0f} W: measured {:.2f} predicted {:.2f}\n", c.gpu.id,
                     c.network, std::get<2>(key), limit, seconds / time, expected);
        }
      }
    }
    return errors;
  }

  void fit_voltage(CostProfile profile) const {
    double least = 1e9, knee = 0, floor = 0;
    for (double k = 0.3; k < 0.91; k += 0.05) {
      for (double f = 0.5; f < 0.96; f += 0.025) {
        profile = with_voltage(std::move(profile), k, f);
        const double error = judge_times(profile, "", false).sum;
        if (error < least) least = error, knee = k, floor = f;
      }
    }
    profile = with_voltage(std::move(profile), knee, floor);
    const Errors all = judge_times(profile, "", true);
    fmt::print("# slowdown under limits: {} rows, error {:.1f} %, bias {:.1f} %\n", all.n,
               100 * all.sum / all.n, 100 * all.bias / all.n);
    fmt::print(
        "parameter {{ name: \"power.voltage_knee\" value: {:.2f} log_sd: 0.1 data_set: "
        "\"board_power\" }}\n",
        knee);
    fmt::print(
        "parameter {{ name: \"power.voltage_floor\" value: {:.3f} log_sd: 0.1 data_set: "
        "\"board_power\" }}\n",
        floor);
  }

  Hardware hardware_;
  std::map<Key, Configuration> configurations_;
  std::vector<Row> rows_;
  std::vector<Key> keys_;
  std::map<Key, std::map<double, double>> times_;
};

}  // namespace
}  // namespace tracecast

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::fputs("usage: power_fit components.csv e2e.csv [PROFILE]\n", stderr);
    return 2;
  }
  try {
    tracecast::Hardware hardware = tracecast::Hardware::embedded();
    if (argc == 4) hardware = hardware.with_profile(std::filesystem::path(argv[3]));
    tracecast::Fit(argv[1], argv[2], std::move(hardware)).run_all();
    return 0;
  } catch (const tracecast::InputError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
