#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/job/mode/serving_job.hpp"
#include "sim/job/mode/serving_state.hpp"

/// Questions that take many answers: which rate meets limits, which factors explain a measurement.
namespace tracecast {
namespace {

constexpr double kNinety = 1.645;  // standard deviations to either end of a 90 % interval

/// Puts a value back at the end of its scope.
template <class T>
class Restored {
 public:
  explicit Restored(T& value) : value_(value), before_(value) {}
  ~Restored() { value_ = std::move(before_); }
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;

 private:
  T& value_;
  T before_;
};

}  // namespace

std::uint64_t steady_requests(std::int64_t in_flight) {
  constexpr std::uint64_t kRounds = 20, kLeast = 1000, kMost = 400'000;
  const auto at_once = static_cast<std::uint64_t>(std::max<std::int64_t>(1, in_flight));
  return std::max({kLeast, at_once, std::min(kMost, kRounds * at_once)});
}

double Served::State::saturated_rate(ServingLoad load) const {
  constexpr std::int64_t kRounds = 10;
  const serve::Pool pool = pool_of(main, memory_of(main, load.input + load.output), 1);
  const std::int64_t held =
      pool.limits.cache_blocks * engine.block_tokens / std::max<std::int64_t>(1, load.input) + 1;
  const std::int64_t at_once = pool.workers * std::min<std::int64_t>(pool.limits.sequences, held);
  load.requests = static_cast<std::uint64_t>(std::max<std::int64_t>(200, kRounds * at_once));
  load.per_second = 1e6;
  load.arrivals = "even";
  std::vector<serve::Request> kept;
  kept.reserve(load.requests);
  (void)simulate(load, 1, &kept);
  if (kept.size() < 10) return 0;
  std::sort(kept.begin(), kept.end(),
            [](const serve::Request& a, const serve::Request& b) { return a.last < b.last; });
  const serve::Request& from = kept[kept.size() / 10];
  const serve::Request& to = kept[kept.size() * 9 / 10];
  const auto between = static_cast<double>(to.last - from.last) * 1e-6;
  const auto completed = static_cast<double>(kept.size() * 9 / 10 - kept.size() / 10);
  return completed / std::max(between, 1e-6);
}

double Served::rate_within(ServingLoad load, std::optional<double> ttft_ms,
                           std::optional<double> tpot_ms, double ln_factor) {
  const Restored<double> slower(state_->fixed_ln_factor);
  state_->fixed_ln_factor = ln_factor;
  const Restored<bool> searching(state_->is_searching);
  state_->is_searching = true;
  load.intervals = false;
  load.batch.reset();
  load.concurrency.reset();
  load.trace.reset();
  const auto meets = [&](double rate) {
    load.per_second = rate;
    const ServingReport a = report(load);
    return a.fits && (!ttft_ms || a.ttft_ms.p90.interval.value <= *ttft_ms) &&
           (!tpot_ms || a.tpot_ms.p90.interval.value <= *tpot_ms);
  };
  double low = 0, high = 0.01;
  if (!meets(high)) return 0;
  const double most = state_->saturated_rate(load);
  for (low = high; (high = std::min(2 * low, most)) > low && meets(high); low = high) {
  }
  while (high / low > 1.02) {
    const double middle = std::sqrt(low * high);
    (meets(middle) ? low : high) = middle;
  }
  return low;
}

Served::Found Served::find_rate(ServingLoad load, std::optional<double> ttft_ms,
                                std::optional<double> tpot_ms) {
  Found found;
  found.per_second = rate_within(load, ttft_ms, tpot_ms, 0);
  load.batch.reset();
  load.concurrency.reset();
  load.trace.reset();
  load.per_second = found.per_second > 0 ? found.per_second : 0.01;
  load.intervals = true;
  found.report = report(load);
  return found;
}

Interval Served::rate_interval(const ServingLoad& load, std::optional<double> ttft_ms,
                               std::optional<double> tpot_ms, const Found& found) {
  const double rate = found.per_second, uncertainty = kNinety * found.report.log_sd;
  const double slow = rate_within(load, ttft_ms, tpot_ms, uncertainty);
  const double fast = rate_within(load, ttft_ms, tpot_ms, -uncertainty);
  const double least = rate / 1e3;  // where slower steps leave none
  return {rate, std::max(least, std::min(slow, rate)), std::max(fast, rate)};
}

void Served::correct(const ServedCorrection& correction, bool is_same_place) {
  state_->correction = correction;
  state_->correction_share = is_same_place ? state_->engine.load_share : state_->engine.place_share;
}

ServedCorrection Served::fit(const ServedMeasurement& measured) {
  State& s = *state_;
  ServedCorrection found;
  found.log_sd = measured.log_sd;
  ServingLoad load = measured.load;
  load.intervals = false;
  const Restored<std::optional<ServedCorrection>> correction(s.correction);
  const Restored<double> share(s.correction_share);
  // As it is: all of the factors, no spread of the measurement.
  ServedCorrection tried;
  tried.log_sd = 0;
  s.correction_share = 1;
  const auto report_with = [&](double prompt, double token) {
    tried.prompt_factor = prompt;
    tried.token_factor = token;
    s.correction = tried;
    return report(load);
  };
  constexpr double kMost = 5;
  const auto solve = [&](double target, const auto& value_at) {
    double low = 1 / kMost, high = kMost;
    if (value_at(low) > target || value_at(high) < target) found.is_met = false;
    for (int i = 0; i < 12; ++i) {
      const double middle = std::sqrt(low * high);
      (value_at(middle) < target ? low : high) = middle;
    }
    return std::sqrt(low * high);
  };
  const ServingReport plain = report_with(1, 1);
  if (!plain.fits)
    throw InputError("--measured", "a run of what does not fit here",
                     "a place with " + plain.change);
  // Prompts and tokens share steps: a change of one factor moves both figures. Two rounds leave
  // them within a thousandth.
  for (int round = 0; round < 2; ++round) {
    found.is_met = true;
    if (measured.tpot_ms) {
      found.token_factor = solve(*measured.tpot_ms, [&](double factor) {
        return report_with(measured.ttft_ms ? found.prompt_factor : factor, factor)
            .tpot_ms.mean.interval.value;
      });
      if (!measured.ttft_ms) found.prompt_factor = found.token_factor;
    }
    if (measured.ttft_ms) {
      found.prompt_factor = solve(*measured.ttft_ms, [&](double factor) {
        return report_with(factor, measured.tpot_ms ? found.token_factor : factor)
            .ttft_ms.mean.interval.value;
      });
      if (!measured.tpot_ms) found.token_factor = found.prompt_factor;
    }
  }
  return found;
}

}  // namespace tracecast
