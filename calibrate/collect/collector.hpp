#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/collect/journal.hpp"
#include "calibrate/collect/measure.hpp"
#include "calibrate/collect/plan.hpp"
#include "calibrate/device/device.hpp"
#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"

namespace tracecast::calibrate {

/// Why `collect` returned.
enum class CollectEnd {
  Complete,     ///< every experiment of the plan is done
  Budget,       ///< the time is over; the same call goes on
  Interrupted,  ///< was asked to stop
  DeviceLost,   ///< the device failed; see `loss`
};

/// One more experiment is done.
struct CollectProgress {
  std::size_t done = 0, planned = 0;
  Seconds elapsed{};
  const TimedExperiment* last = nullptr;
};

struct CollectOptions {
  SamplingRules rules{};
  /// Of the device's time in this call; nothing more is begun that does not fit. Empty: no limit.
  std::optional<Seconds> budget{};
  std::function<bool()> should_stop{};  ///< asked before each experiment; may be empty
  std::function<void(const CollectProgress&)> on_progress{};  ///< may be empty
};

/// What a journal holds of a plan.
struct CollectCounts {
  std::size_t planned = 0, done = 0;
  std::size_t accepted = 0, rejected = 0, unsupported = 0;
  std::size_t repeated = 0;      ///< needed more than one attempt
  std::size_t power_capped = 0;  ///< accepted, at the board's power limit
  std::size_t outliers = 0, repetitions = 0;
  std::size_t by_events =
      0;  ///< accepted kernels timed by events since kernel records were refused
};
[[nodiscard]] CollectCounts count(const Plan& plan, const Journal& journal);

struct CollectResult {
  CollectEnd end = CollectEnd::Complete;
  std::size_t measured = 0;  ///< experiments done in this call
  Seconds elapsed{};
  std::string loss;
};

/// Measures what of the plan is not in the journal yet, in the scheduler's order, and appends each
/// measurement when it is done. A measurement in the journal is never made again, nor changed.
/// Throws InputError when the journal cannot be written.
[[nodiscard]] CollectResult collect(Device& device, const Plan& plan, const GpuSpec& gpu,
                                    const CostProfile& profile, Journal& journal,
                                    const CollectOptions& options);

/// Shorter sampling for the quick plan.
[[nodiscard]] SamplingRules rules_for(PlanSize size);

}  // namespace tracecast::calibrate
