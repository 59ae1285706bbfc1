#include "sim/step/power_limit.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/cost/price.hpp"
#include "sim/cost/sustained_clock.hpp"

namespace tracecast {
namespace {

/// The lowest clock that a limit can set.
Hertz lowest_clock(const GpuSpec& gpu, const CostProfile& profile) {
  const Hertz free = cost::free_clock(gpu, profile);
  return min(gpu.set_clock > Hertz(0) ? gpu.set_clock : free, free * profile.power.min_clock);
}

/// No kernel draws more over the active-idle power at the lowest clock: its work takes no less time
/// there than it does now.
Watts most_at_lowest_clock(const PricedStep& priced, const GpuSpec& gpu,
                           const CostProfile& profile) {
  GpuSpec lowest = gpu;
  lowest.set_clock = lowest_clock(gpu, profile);
  const cost::SustainedBoard board(lowest, profile);
  const PowerScales scales(board);
  Watts most{};
  for (std::uint32_t op = 0; op < priced.choices.size(); ++op) {
    if (priced.first_alike(op) != op) continue;
    const cost::PricedCandidate& choice = priced.choices[op];
    for (std::size_t k = 0; k < choice.estimates.size(); ++k) {
      const cost::KernelEstimate& estimate = choice.estimates[k];
      if (!(estimate.duration > Seconds(0))) continue;
      const PowerCauses causes =
          power_causes(choice.candidate->kernels[k], estimate, board, scales);
      most = max(most, active_power(causes, lowest, profile));
    }
  }
  return most;
}

constexpr double kLowered = 0.98;  ///< a clock below this share of the usual one is a lowered one
constexpr double kLess = 0.999;    ///< a power below this share of the usual one is a lowered one

/// Mean clock of the kernels, by time; that of the board when there are none.
Hertz mean_clock(const PricedStep& priced, const cost::SustainedBoard& board) {
  double cycles = 0, time = 0;
  for (const cost::PricedCandidate& choice : priced.choices) {
    for (std::size_t k = 0; k < choice.estimates.size(); ++k) {
      const Kernel& kernel = choice.candidate->kernels[k];
      const double t = choice.estimates[k].duration.in_s();
      const cost::SustainedGpu& machine = board.at(kernel.math, kernel.unit);
      // Where each kernel is slowed by what it draws, its clock is not the board's.
      const double share = machine.kernel_power ? choice.estimates[k].throttle : 1.0;
      cycles += t * share * machine.clock.in_si();
      time += t;
    }
  }
  if (time > 0) return Hertz(cycles / time);
  const GpuSpec& gpu = board.gpu();
  return gpu.set_clock > Hertz(0) ? gpu.set_clock : cost::free_clock(gpu, board.profile());
}

/// The step at the clocks of `gpu`, with the algorithms it has.
void run_at(const GpuSpec& gpu, PricedStep& priced, StepProgram& program, StepTimeline& timeline,
            const CostProfile& profile, const RunStep& run) {
  const cost::SustainedBoard board(gpu, profile);
  for (std::uint32_t op = 0; op < priced.choices.size(); ++op) {
    cost::PricedCandidate& choice = priced.choices[op];
    if (const std::uint32_t first = priced.first_alike(op); first != op) {
      choice.estimates = priced.choices[first].estimates;
      choice.duration = priced.choices[first].duration;
      continue;
    }
    choice.duration = Seconds();
    for (std::size_t k = 0; k < choice.estimates.size(); ++k) {
      choice.estimates[k] = cost::estimate(choice.candidate->kernels[k], board);
      choice.duration += choice.estimates[k].duration;
    }
  }
  for (ProgramKernel& kernel : program.kernels) {
    kernel.duration = priced.choices[kernel.op].estimates[kernel.kernel].duration;
  }
  timeline = run(program);
}

/// What run_at changes.
struct RunState {
  std::vector<cost::PricedCandidate> choices;
  StepTimeline timeline;
};

/// Whether every kernel takes what its estimate says, as after run_at: none waits for its launches.
bool runs_as_priced(const PricedStep& priced, const StepProgram& program) {
  return std::all_of(
      program.kernels.begin(), program.kernels.end(), [&](const ProgramKernel& kernel) {
        return kernel.duration == priced.choices[kernel.op].estimates[kernel.kernel].duration;
      });
}

void return_to(const RunState& state, PricedStep& priced, StepProgram& program,
               StepTimeline& timeline) {
  priced.choices = state.choices;
  timeline = state.timeline;
  for (ProgramKernel& kernel : program.kernels) {
    kernel.duration = priced.choices[kernel.op].estimates[kernel.kernel].duration;
  }
}

class Governor {
 public:
  /// `last_time`: of the last run of `run`; at first of `own`. None: not told.
  Governor(const GpuSpec& gpu, Watts limit, const CostProfile& profile, const StepDraw& own,
           const DrawStep& run, const std::function<Watts()>& most_at_lowest,
           std::function<Seconds()> last_time = {})
      : gpu_(gpu),
        limit_(limit),
        profile_(profile),
        own_(own),
        run_(run),
        most_at_lowest_(most_at_lowest),
        last_time_(std::move(last_time)),
        own_time_(last_time_ ? last_time_() : Seconds()),
        active_idle_(cost::waiting_power(gpu, profile)),
        top_(gpu.set_clock > Hertz(0) ? gpu.set_clock : cost::free_clock(gpu, profile)) {
    set_ = gpu;
    result_.lowest_clock = lowest_clock(gpu, profile);
  }

  LimitedStep hold() {
    StepDraw draw = own_;
    bool is_own = true;  // what ran last
    StepDraw demand = own_;
    if (own_.clock < top_ * kLowered) {
      GpuSpec unlimited = gpu_;
      unlimited.tdp = Watts(1e9);
      demand = run_(unlimited);
      is_own = false;
    }
    result_.demand_causes = demand.causes;
    result_.demand = total(demand);
    result_.average = left_by(limit_, demand);
    const Watts own_average = left_by(gpu_.tdp, demand);
    scale_ = own_average / total(own_);
    own_excess_ = std::max(1.0, range_of(own_, own_average).max / gpu_.tdp.in_w());
    asked_ = fullest(demand);

    const double left = held(limit_, demand) / held(gpu_.tdp, demand);
    if (limit_ > gpu_.tdp) {
      set_.tdp = limit_;
      draw = run_(set_);
    } else if (left < kLess) {
      const bool can_hold = remains_below(result_.average) || lowest_average() < result_.average;
      draw = lower_clock(left);
      if (!can_hold) return finish_unheld(draw);
    } else if (!is_own) {
      draw = run_(gpu_);
    }
    std::optional<double>
        unheld;  // the fullest window, where even the lowest clock leaves it above the limit
    if (exceeds(range_of(draw, result_.average).max / own_excess_) && !remains_below(limit_) &&
        !lowest_holds()) {
      unheld = fullest_at_lowest_clock();
    }
    if (ran_lowest_last_) draw = run_(set_);
    Range power = cut(draw);
    if (unheld) {
      power.max = *unheld;
      result_.holds_limit = false;
    }
    return finish(draw, power);
  }

 private:
  [[nodiscard]] Watts total(const StepDraw& draw) const {
    return active_idle_ + active_power(draw.causes, gpu_, profile_);
  }
  [[nodiscard]] static std::span<const double> means(const StepDraw& draw) {
    return draw.active_w.means;
  }
  /// By more than rounding.
  [[nodiscard]] bool exceeds(double watts) const { return watts > limit_.in_w() * (1 + 1e-12); }

  /// The mean of a demand whose windows are cut to `limit`.
  [[nodiscard]] Watts held(Watts limit, const StepDraw& demand) const {
    double above = 0;
    for (const double active : means(demand)) {
      above += std::max(active_idle_.in_w() + active - limit.in_w(), 0.0);
    }
    if (above > 0) above /= static_cast<double>(means(demand).size());
    return min(limit, total(demand) - Watts(above));
  }
  /// What the board shows of a demand whose windows are all held at `limit`, at most.
  [[nodiscard]] Watts left_by(Watts limit, const StepDraw& demand) const {
    // Prices that report power hold the board's own limit, kernel by kernel.
    const Watts mean = total(demand);
    const Watts left = !(demand.causes.reported_w > 0) ? limited_power(mean, limit)
                       : limit > gpu_.tdp              ? mean
                                                       : total(own_);
    return min(left, held(limit, demand));
  }
  /// The fullest window of a draw.
  [[nodiscard]] Watts fullest(const StepDraw& draw) const {
    Watts most = total(draw);
    for (const double active : means(draw)) most = max(most, active_idle_ + Watts(active));
    return most;
  }

  /// Power of the windows at this mean, each in proportion to what it asks.
  [[nodiscard]] Range range_of(const StepDraw& draw, Watts average) const {
    const double active_idle = active_idle_.in_w(), mean = std::max(average.in_w(), active_idle);
    const Range active = draw.active_w.range();
    const double scale = active.avg > 0 ? (mean - active_idle) / active.avg : 0.0;
    return {.min = active.avg > 0 ? active_idle + scale * active.min : mean,
            .avg = mean,
            .max = active.avg > 0 ? active_idle + scale * active.max : mean};
  }

  /// The same with no window above the limit: the others draw what that leaves of the mean, but
  /// none more than without a limit.
  [[nodiscard]] Range cut(const StepDraw& draw) const {
    Range range = range_of(draw, result_.average);
    const double limit = limit_.in_w(), active_idle = active_idle_.in_w();
    if (!exceeds(range.max)) return range;
    const Range active = draw.active_w.range();
    const auto mean_at = [&](double scale) {
      double sum = 0;
      for (const double window : means(draw)) sum += std::min(limit, active_idle + scale * window);
      return sum / static_cast<double>(means(draw).size());
    };
    double low = 0, high = std::max(range.avg, result_.demand.in_w()) - active_idle;
    high /= active.avg;
    for (int i = 0; i < 50; ++i) {
      const double middle = 0.5 * (low + high);
      (mean_at(middle) < range.avg ? low : high) = middle;
    }
    range.avg = std::min(range.avg, mean_at(high));
    range.min = std::min(range.avg, active_idle + high * active.min);
    range.max = std::max(range.avg, std::min(limit, active_idle + high * active.max));
    return range;
  }

  /// Every window at the lowest clock, told without running it; false when it cannot be told.
  [[nodiscard]] bool remains_below(Watts power) {
    if (!most_at_lowest_ || scale_ > 1) return false;
    if (!most_) most_ = active_idle_ + most_at_lowest_();
    return *most_ < power;
  }

  const StepDraw& lowest() {
    if (!lowest_) {
      GpuSpec lowest = gpu_;
      lowest.set_clock = result_.lowest_clock;
      lowest_ = run_(lowest);
      ran_lowest_last_ = true;
    }
    return *lowest_;
  }
  [[nodiscard]] Watts lowest_average() { return max(active_idle_, total(lowest()) * scale_); }
  [[nodiscard]] double fullest_at_lowest_clock() {
    const Watts average = lowest_average();
    return range_of(lowest(), average).max / own_excess_;
  }
  [[nodiscard]] bool lowest_holds() { return !exceeds(fullest_at_lowest_clock()); }

  /// To where the step draws `left` of its power, or takes 1 / left times as long, whichever is
  /// higher. Power rises with the clock, so halving the interval finds it; 8 steps leave 0.3 % of
  /// the clock.
  StepDraw lower_clock(double left) {
    const Watts target = total(own_) * left;
    double low = result_.lowest_clock / top_, high = 1;
    StepDraw draw;
    for (int i = 0; i < 8; ++i) {
      const double share = 0.5 * (low + high);
      set_.set_clock = top_ * share;
      draw = run_(set_);
      (total(draw) > target && slowdown(draw) * left < 1 ? high : low) = share;
    }
    ran_lowest_last_ = false;
    return draw;
  }

  /// Of the run that `draw` is of; of one whose time is not told, as if clocks alone mattered.
  [[nodiscard]] double slowdown(const StepDraw& draw) const {
    return last_time_ ? last_time_() / own_time_ : own_.clock / draw.clock;
  }

  /// What a limit that the lowest clock does not hold either leaves of the clock.
  LimitedStep finish_unheld(const StepDraw& draw) {
    result_.lowest_clock = max(result_.lowest_clock, draw.clock);
    result_.average = max(active_idle_, total(draw) * scale_);
    const Range power = range_of(draw, result_.average);
    result_.holds_limit = !exceeds(power.max / own_excess_);
    return finish(draw, result_.holds_limit ? cut(draw) : power);
  }

  LimitedStep finish(const StepDraw& draw, const Range& power) {
    result_.gpu = set_;
    result_.gpu.tdp = limit_;
    result_.least = Watts(power.min);
    result_.average = Watts(power.avg);
    result_.greatest = Watts(power.max);
    result_.clock = draw.clock;
    result_.throttles = draw.clock < top_ * kLowered && exceeds(asked_.in_w());
    result_.kernel_w = draw.kernel_w;
    return std::move(result_);
  }

  const GpuSpec& gpu_;
  Watts limit_;
  const CostProfile& profile_;
  const StepDraw& own_;
  const DrawStep& run_;
  const std::function<Watts()>& most_at_lowest_;
  std::function<Seconds()> last_time_;
  Seconds own_time_;
  std::optional<Watts> most_;
  Watts active_idle_;
  Watts asked_{};  ///< in the fullest window, without a limit
  Hertz top_;
  GpuSpec set_;
  double scale_ = 1;  ///< of what is shown to what causes say
  /// Of the fullest window under the board's own limit to that limit. A board holds its own: what
  /// is beyond is our error.
  double own_excess_ = 1;
  std::optional<StepDraw> lowest_;
  bool ran_lowest_last_ = false;
  LimitedStep result_;
};

}  // namespace

StepDraw draw_of(const PricedStep& priced, const StepProgram& program, const StepTimeline& timeline,
                 const GpuSpec& gpu, const CostProfile& profile) {
  const cost::SustainedBoard board(gpu, profile);
  const PowerScales scales(board);
  StepDraw draw{.causes = {}, .clock = mean_clock(priced, board), .active_w = {}};
  if (!(timeline.step_time > Seconds(0))) return draw;
  /// Of one kernel while it runs.
  struct Draw {
    PowerCauses causes;
    double watts = 0;
  };
  std::vector<Draw> draws;            // of all kernels, op by op; like ops share theirs
  std::vector<std::size_t> first_of;  // by op
  first_of.reserve(priced.choices.size());
  for (std::uint32_t op = 0; op < priced.choices.size(); ++op) {
    const cost::PricedCandidate& choice = priced.choices[op];
    const std::uint32_t first = priced.first_alike(op);
    first_of.push_back(first == op ? draws.size() : first_of[first]);
    for (std::size_t k = 0; k < choice.estimates.size(); ++k) {
      const cost::KernelEstimate& estimate = choice.estimates[k];
      const bool works = estimate.duration > Seconds(0);
      if (first == op) {
        Draw& one = draws.emplace_back();
        if (works) {
          one.causes = power_causes(choice.candidate->kernels[k], estimate, board, scales);
          one.watts = active_power(one.causes, gpu, profile).in_w();
        }
      }
      if (!works) continue;
      draw.causes += draws[first_of[op] + k].causes * (estimate.duration / timeline.step_time);
    }
  }
  std::vector<double> active_w;
  active_w.reserve(program.kernels.size());
  for (const ProgramKernel& kernel : program.kernels) {
    // A kernel that waits for its launches does its work in more time.
    const Seconds working = priced.choices[kernel.op].estimates[kernel.kernel].duration;
    const double share = kernel.duration > working ? working / kernel.duration : 1.0;
    active_w.push_back(draws[first_of[kernel.op] + kernel.kernel].watts * share);
  }
  draw.active_w = windows_of(timeline, active_w, kPowerWindow);
  draw.kernel_w = std::move(active_w);
  return draw;
}

LimitedStep hold_power_limit(const GpuSpec& gpu, Watts limit, const CostProfile& profile,
                             const StepDraw& own, const DrawStep& run,
                             const std::function<Watts()>& most_at_lowest) {
  return Governor(gpu, limit, profile, own, run, most_at_lowest).hold();
}

LimitedStep hold_power_limit(PricedStep& priced, StepProgram& program, StepTimeline& timeline,
                             const GpuSpec& gpu, Watts limit, const CostProfile& profile,
                             const RunStep& run, bool last_run_counts) {
  const StepDraw own = draw_of(priced, program, timeline, gpu, profile);
  const bool can_return = !last_run_counts && runs_as_priced(priced, program);
  std::optional<RunState> at_own;
  const DrawStep run_on = [&](const GpuSpec& set) {
    const bool is_own = set.set_clock == gpu.set_clock && set.tdp == gpu.tdp;
    if (is_own && can_return && at_own) {
      return_to(*at_own, priced, program, timeline);
      return own;
    }
    if (can_return && !at_own) at_own = RunState{priced.choices, timeline};
    run_at(set, priced, program, timeline, profile, run);
    return draw_of(priced, program, timeline, set, profile);
  };
  const std::function<Watts()> most = [&] { return most_at_lowest_clock(priced, gpu, profile); };
  return Governor(gpu, limit, profile, own, run_on, most, [&] { return timeline.step_time; })
      .hold();
}

}  // namespace tracecast
