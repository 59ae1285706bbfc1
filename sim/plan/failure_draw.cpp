#include "sim/plan/failure_draw.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/error.hpp"

namespace tracecast::plan {
namespace {

/// A job of a month on a million GPUs that fail every five years each meets 16,000. A failure looks
/// at every machine.
constexpr std::uint64_t kLeastFailures = 20'000, kMostFailures = 5'000'000;
constexpr std::uint64_t kMostLookedAt = 1'000'000'000;

/// Failures per second of all machines, and of all GPUs.
struct Rates {
  double machines = 0, gpus = 0;
};

Rates rates_of(const Fleet& fleet) {
  Rates rates;
  if (const auto& mtbf = fleet.failures->machine_mtbf)
    rates.machines = static_cast<double>(fleet.machines.size()) / mtbf->in_s();
  if (const auto& mtbf = fleet.failures->gpu_mtbf) rates.gpus = fleet.total_gpus() / mtbf->in_s();
  return rates;
}

}  // namespace

FailureDraw::FailureDraw(const Fleet& fleet, std::uint64_t seed)
    : fleet_(fleet),
      random_(seed),
      left_(
          std::clamp<std::uint64_t>(kMostLookedAt / std::max<std::size_t>(1, fleet.machines.size()),
                                    kLeastFailures, kMostFailures)) {}

Seconds FailureDraw::wait() {
  const Rates rates = rates_of(fleet_);
  return Seconds(-std::log(1 - random_.uniform()) / (rates.machines + rates.gpus));
}

Failure FailureDraw::what() {
  if (left_-- == 0)
    throw InputError(
        "failures", "jobs that do not end: they fail more often than they get on",
        "longer node_mtbf_hours or gpu_mtbf_hours, or a shorter checkpoint_interval_s");
  const Rates rates = rates_of(fleet_);
  Failure failure;
  failure.machine = static_cast<std::uint32_t>(random_.below(fleet_.machines.size()));
  failure.gpu = random_.below(static_cast<std::uint64_t>(fleet_.total_gpus()));
  if (rates.machines <= 0)
    failure.is_gpu = true;
  else if (rates.gpus > 0)
    failure.is_gpu = random_.uniform() * (rates.machines + rates.gpus) < rates.gpus;
  return failure;
}

FailureHits::FailureHits(const Fleet& fleet, const Failure& failure) : failure_(failure) {
  if (!failure.is_gpu) return;
  std::uint64_t first = 0;
  failure_.machine = 0;
  for (const FleetMachine& machine : fleet.machines) {
    if (failure.gpu < first + static_cast<std::uint64_t>(machine.gpus)) break;
    first += static_cast<std::uint64_t>(machine.gpus);
    ++failure_.machine;
  }
  number_ = failure.gpu - first;
}

bool FailureHits::strikes(const std::vector<HeldGpus>& held, int gpus) {
  last_ = before_;
  if (held.empty()) {
    before_ += static_cast<std::uint64_t>(gpus);
    return failure_.gpu >= last_ && failure_.gpu < before_;
  }
  bool strikes = false;
  for (const HeldGpus& part : held) {
    if (part.machine != failure_.machine) continue;
    const std::uint64_t from = before_;
    before_ += static_cast<std::uint64_t>(part.gpus);
    strikes = strikes || !failure_.is_gpu || (number_ >= from && number_ < before_);
  }
  return strikes;
}

}  // namespace tracecast::plan
