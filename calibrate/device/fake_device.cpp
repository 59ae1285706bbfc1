#include "calibrate/device/fake_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "calibrate/device/experiment_kernels.hpp"
#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "sim/cost/price.hpp"

namespace tracecast::calibrate {
namespace {

/// FNV-1a, 64 bit.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

DeviceIdentity identity_of(const GpuSpec& gpu) {
  DeviceIdentity id;
  id.name = gpu.name;
  id.serial = "rehearsal";
  id.driver = "rehearsal";
  id.cuda = "0.0", id.cudnn = "9.0", id.cublas = "0.0";
  id.compute_capability = gpu.compute_capability;
  id.sm_count = gpu.sm_count;
  id.sm_clock = gpu.boost_clock;
  id.memory_clock = gpu.memory_clock.value_or(Hertz(0));
  id.memory = gpu.memory;
  id.l2 = gpu.l2;
  id.power_limit = gpu.tdp;
  id.ecc = gpu.ecc_default_on;
  id.remarks = {"a rehearsal: durations come from the cost model under hidden parameters"};
  return id;
}

}  // namespace

struct FakeDevice::State {
  FakeTruth truth;
  FakeFaults faults;
  std::uint64_t seed;
  DeviceIdentity identity;
  std::map<std::string, int, std::less<>> runs;  ///< of each experiment so far
  Seconds clock{};

  /// True duration, or why there is none.
  std::variant<Seconds, Unsupported> duration(const Experiment& experiment) const;
};

FakeDevice::FakeDevice(FakeTruth truth, FakeFaults faults, std::uint64_t seed)
    : state_(std::make_unique<State>()) {
  state_->truth = std::move(truth);
  state_->faults = faults;
  state_->seed = seed;
  state_->identity = identity_of(state_->truth.gpu);
}
FakeDevice::~FakeDevice() = default;

const DeviceIdentity& FakeDevice::identity() const { return state_->identity; }
Seconds FakeDevice::elapsed() const { return state_->clock; }
void FakeDevice::rest(Seconds time) { state_->clock += time; }

OfferedAlgorithms FakeDevice::offered(const ConvolutionShape& shape, Precision precision) {
  ConvolutionShape any = shape;
  any.algorithm = Algorithm::None;
  OfferedAlgorithms result;
  const auto ops = lower_experiment({any, precision}, state_->truth.gpu);
  for (const LoweredOp& op : ops) {
    for (const Candidate& candidate : op.candidates) {
      if (std::find(result.algorithms.begin(), result.algorithms.end(), candidate.algorithm) ==
          result.algorithms.end())
        result.algorithms.push_back(candidate.algorithm);
    }
    // Its heuristic is as good as the public profile's knowledge.
    result.heuristic =
        cost::choose(op, state_->truth.gpu, default_cost_profile()).candidate->algorithm;
  }
  return result;
}

std::variant<Seconds, Unsupported> FakeDevice::State::duration(const Experiment& experiment) const {
  if (const auto* copy = std::get_if<CopyShape>(&experiment.shape)) {
    const double bytes = static_cast<double>(copy->bytes);
    if (copy->direction == CopyDirection::Peer) return Unsupported{"one GPU only"};
    if (copy->direction == CopyDirection::DeviceToDevice) {
      return truth.empty_kernel +
             Bytes(2 * bytes) / (truth.gpu.effective_bandwidth() * truth.copy_efficiency);
    }
    const double share = truth.copy_efficiency * (copy->pinned ? 1.0 : 0.5);
    return Seconds(1e-6) + Bytes(bytes) / (truth.gpu.pcie_bandwidth * share);
  }
  if (const auto* launch = std::get_if<LaunchShape>(&experiment.shape)) {
    return launch->launches > 1 ? truth.launch : truth.empty_kernel;
  }
  if (std::holds_alternative<AllReduceShape>(experiment.shape)) {
    return Unsupported{"one GPU only"};
  }
  const auto time = expected_time(experiment, truth.gpu, truth.profile);
  if (!time) return Unsupported{"no kernel for this shape"};
  return *time;
}

RunResult FakeDevice::run(const Experiment& experiment, int warm_up, int repetitions) {
  TRACECAST_CHECK(warm_up >= 0 && repetitions > 0, "a run has repetitions");
  const auto base = state_->duration(experiment);
  if (const auto* why = std::get_if<Unsupported>(&base)) return *why;
  const Seconds truth = std::get<Seconds>(base);

  const std::string name = describe(experiment);
  const int attempt = state_->runs[name]++;
  Random random(state_->seed ^ hash_of(fmt::format("{}#{}", name, attempt)));
  const double fate = random.uniform();
  const FakeFaults& faults = state_->faults;
  const bool shown = fate < faults.throttle_share;
  const bool slow = fate < faults.throttle_share + faults.quiet_throttle_share;

  DeviceRun run;
  run.method = std::holds_alternative<CopyShape>(experiment.shape) ? TimingMethod::Events
                                                                   : TimingMethod::Kernels;
  run.durations.reserve(static_cast<std::size_t>(repetitions));
  for (int i = 0; i < repetitions; ++i) {
    double factor = std::exp(faults.noise_log_sd * random.normal()) * (slow ? 1.6 : 1.0);
    if (random.uniform() < faults.outlier_share) factor *= 3 + 7 * random.uniform();
    run.durations.push_back(truth * factor);
    state_->clock += run.durations.back() + Seconds(4e-6);
  }
  state_->clock += (truth + Seconds(4e-6)) * warm_up + Seconds(10e-3);  // buffers, descriptors
  const Hertz clock = state_->truth.gpu.boost_clock * (0.98 * (slow ? 0.6 : 1.0));
  run.before = {.sm_clock = clock,
                .memory_clock = state_->truth.gpu.memory_clock,
                .temperature_c = slow ? 92.0 : 65.0,
                .power = state_->truth.gpu.tdp * 0.8,
                .throttle = {.thermal = shown}};
  run.after = run.before;
  run.kernel_name = "rehearsal";
  return run;
}

FakeTruth rehearsal_truth(const GpuSpec& gpu, const CostProfile& profile) {
  FakeTruth truth{.gpu = gpu, .profile = profile};
  truth.profile.clock.ceiling *= kRehearsalCeiling;
  truth.gpu.dram_bandwidth = truth.gpu.dram_bandwidth * kRehearsalMemory;
  return truth;
}

}  // namespace tracecast::calibrate
