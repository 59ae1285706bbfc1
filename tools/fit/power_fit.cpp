// Fits the power.* parameters of the cost profile to published tables and prints what they are
// worth:
//   power_fit components.csv e2e.csv [PROFILE [OUT DATE]]
// With the other parameters of PROFILE; without one, of the profile in the program. Begins with
// what is believed before any measurement (hwspecs/cost/prior.textproto), whatever PROFILE says of
// power. OUT is PROFILE with the parameters found, and may be the same file. Stage 1: what a board
// draws, from its average power at the highest limit of each configuration; each pair of GPU and
// network weighs the same, and the four boards and networks are left out in turn to judge. Stage 2:
// the voltage curve, from how the time of an epoch grows as the limit falls. Stage 3: what busy SMs
// draw from Ampere on where tensor cores take instructions of warps, from the boards of stage 1
// whose prices report power. See sim/step/notes/0001.
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
#include "hwspecs/parameter_access.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
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
  PlacedJob placed;
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
constexpr std::array<const char*, 7> kNames = {"power.node_exponent",
                                               "power.clocked_pj",
                                               "power.flop_pj",
                                               "power.tensor_flop_pj",
                                               "power.hbm_pj_per_byte",
                                               "power.gddr_pj_per_byte",
                                               "power.gddr_active_idle_pj_per_byte"};
using Vector = std::array<double, kNames.size()>;
/// What is believed of them before any measurement, and how surely.
struct PowerPriors {
  Vector value{}, log_sd{};
};
const PowerPriors& priors() {
  static const PowerPriors known = [] {
    PowerPriors p;
    for (const ProfileParameter& parameter : prior_cost_profile().parameters) {
      const auto at = std::find(kNames.begin(), kNames.end(), parameter.name);
      if (at == kNames.end()) continue;
      const auto i = static_cast<std::size_t>(at - kNames.begin());
      p.value[i] = parameter.value, p.log_sd[i] = parameter.log_sd;
    }
    return p;
  }();
  return known;
}

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
  const Watts demand = active_idle_power(gpu, profile) + active_power(causes, gpu, profile);
  // Prices that report power hold the limit kernel by kernel.
  return (causes.reported_w > 0 ? min(demand, Watts(row.limit_w))
                                : limited_power(demand, Watts(row.limit_w)))
      .in_w();
}

/// Cauchy loss of ln(measured / predicted) at 10 %, averaged within each pair of GPU and network.
double misfit(const std::vector<const Row*>& rows, const CostProfile& profile,
              double default_exponent) {
  constexpr double kError = 0.1;
  std::map<std::pair<std::string, std::string>, std::pair<double, int>> groups;
  for (const Row* row : rows) {
    const double miss =
        std::log(row->measured_w / predicted_w(*row, profile, default_exponent)) / kError;
    auto& [sum, n] = groups[{row->job->gpu.id, row->job->network}];
    sum += std::log1p(miss * miss);
    ++n;
  }
  double total = 0;
  for (const auto& [key, group] : groups) total += group.first / group.second;
  return total;
}

/// The same plus priors.
double loss(const Vector& values, const std::vector<const Row*>& rows, const CostProfile& base) {
  double total = misfit(rows, with(base, values), base.power.node_exponent);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double off = std::log(values[i] / priors().value[i]) / priors().log_sd[i];
    total += 0.5 * off * off;
  }
  return total;
}

/// Coordinate descent in ln(value) with steps that shrink.
Vector fit(const std::vector<const Row*>& rows, const CostProfile& base) {
  Vector best = priors().value;
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

/// Root mean square of the relative errors of rows left out.
double print_left_out(const std::vector<Row>& rows, const Vector& all, const CostProfile& base,
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
  return std::sqrt(total.square / total.n);
}

/// The profile as if nothing were known of power.
CostProfile forgetting_power(CostProfile profile) {
  for (const ProfileParameter& p : prior_cost_profile().parameters) {
    if (p.name.starts_with("power.")) profile = with_parameter(std::move(profile), p.name, p.value);
  }
  return profile;
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
    hardware_ = hardware_.with_profile(at_voltage_one(forgetting_power(hardware_.cost())));
    read_power(components);
    read_times(epochs);
  }

  /// Parameters found, by name.
  std::map<std::string, double> run_all() {
    const auto highest = select(rows_, [](const Row& r) { return r.at_highest_limit; });
    const Vector values = fit(highest, hardware_.cost());
    fmt::print("# {} rows, {} fitted (highest limit of each configuration, clock tables)\n",
               rows_.size(), highest.size());
    const double by_gpu = print_left_out(rows_, values, hardware_.cost(), "GPU",
                                         [](const Row& r) { return r.job->gpu.id; });
    const double by_network = print_left_out(rows_, values, hardware_.cost(), "network",
                                             [](const Row& r) { return r.job->network; });
    std::map<std::string, double> found;
    for (std::size_t i = 0; i < kNames.size(); ++i) found[kNames[i]] = values[i];
    found["power.log_sd"] = std::max(by_gpu, by_network);
    const auto [knee, floor] = fit_voltage(with(hardware_.cost(), values));
    found["power.voltage_knee"] = knee;
    found["power.voltage_floor"] = floor;
    found[kWarpBusy] = fit_warp_busy(with(hardware_.cost(), values));
    for (const auto& [name, value] : found) fmt::print("{:<32} {:.4g}\n", name, value);
    return found;
  }
  [[nodiscard]] std::size_t num_rows() const { return rows_.size(); }

 private:
  static constexpr const char* kWarpBusy = "power.warp_busy_of";

  /// Of boards whose prices report power, each configuration at its highest limit, with its prior.
  [[nodiscard]] double fit_warp_busy(const CostProfile& found) const {
    const auto reported = select(
        rows_, [](const Row& r) { return r.at_highest_limit && r.at.causes.reported_w > 0; });
    ProfileParameter prior;
    for (const ProfileParameter& p : prior_cost_profile().parameters) {
      if (p.name == kWarpBusy) prior = p;
    }
    double best = prior.value, least = 1e9;
    for (double factor = 0.02; factor < 3; factor *= 1.15) {
      const Hardware hardware = hardware_.with_profile(with_parameter(found, kWarpBusy, factor));
      std::map<Key, ClockPoint> points;
      std::vector<Row> rows;
      for (const Row* row : reported) {
        const Key key = key_of(row->placed);
        if (!points.contains(key)) points[key] = tracecast::run(row->placed, 1, hardware);
        rows.push_back(*row);
        rows.back().at = points[key];
      }
      const double off = std::log(factor / prior.value) / prior.log_sd;
      const double loss =
          0.5 * off * off + misfit(select(rows, [](const Row&) { return true; }), hardware.cost(),
                                   hardware.cost().power.node_exponent);
      if (loss < least) least = loss, best = factor;
    }
    return best;
  }

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
        r.placed = job.options;
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

  /// Time under `limit` over that under `highest`, for a voltage curve; the board runs at the clock
  /// that draws what the limit leaves.
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
      return active_idle_power(c.gpu, profile) + active_power(causes, c.gpu, profile);
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

  std::pair<double, double> fit_voltage(CostProfile profile) const {
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
    return {knee, floor};
  }

  Hardware hardware_;
  std::map<Key, Configuration> configurations_;
  std::vector<Row> rows_;
  std::vector<Key> keys_;
  std::map<Key, std::map<double, double>> times_;
};

/// The profile with what was found, and where it comes from.
CostProfile completed(CostProfile profile, const std::map<std::string, double>& found,
                      std::size_t num_rows, const std::string& date) {
  constexpr const char* kDataSet = "board_power";
  constexpr double kLogSd = 0.25;
  for (const auto& [name, value] : found) {
    profile = with_parameter(std::move(profile), name, value);
    for (ProfileParameter& p : profile.parameters) {
      if (p.name == name) p.log_sd = kLogSd, p.data_set = kDataSet;
    }
  }
  std::erase_if(profile.data_sets, [](const ProfileDataSet& set) { return set.key == kDataSet; });
  profile.data_sets.push_back(
      {kDataSet, "Average board power in training: Zeus (NSDI 2023), dlbench_dvfs",
       fmt::format("data/published/components.csv: each configuration at its highest power limit, "
                   "and GoogLeNet at set clocks, of {} rows of V100, "
                   "P100, Quadro RTX 6000, A40, GTX 1080 Ti, TITAN X Pascal; the voltage curve "
                   "from times per "
                   "epoch by limit in e2e.csv; what busy SMs draw from A40's rows; lower limits "
                   "and S-WISC's boards only judge; "
                   "power.log_sd from boards and networks left out",
                   num_rows),
       date});
  return profile;
}

}  // namespace
}  // namespace tracecast

int main(int argc, char** argv) {
  using namespace tracecast;
  if (argc != 3 && argc != 4 && argc != 6) {
    std::fputs("usage: power_fit components.csv e2e.csv [PROFILE [OUT DATE]]\n", stderr);
    return 2;
  }
  try {
    Hardware hardware = Hardware::embedded();
    if (argc > 3) hardware = hardware.with_profile(std::filesystem::path(argv[3]));
    Fit fit(argv[1], argv[2], hardware);
    const auto found = fit.run_all();
    if (argc == 6)
      write_file(argv[4],
                 format_cost_profile(completed(hardware.cost(), found, fit.num_rows(), argv[5])));
    return 0;
  } catch (const InputError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
