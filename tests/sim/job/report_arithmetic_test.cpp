#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hwspecs/library.hpp"
#include "hwspecs/software/strategy_profile.hpp"
#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "sim/job/predictor.hpp"

namespace tracecast {
namespace {

constexpr int kJobs = 2000;
constexpr double kTolerance = 1e-9;
/// Twice the GPUs with the same work each: throughput is at most twice this. Not 1: an average over
/// buckets and rounds.
constexpr double kMostGain = 1.02;

struct Asked {
  std::string mode;
  Job job;
  Place place;
  Parallelism parallelism = Usual{};

  [[nodiscard]] std::string text() const {
    std::string s = mode + ": " + job.network + " batch " + std::to_string(job.batch) + ' ' +
                    job.phase + ' ' + job.precision + ' ' + job.software.framework + " on " +
                    place.gpu + " x " + std::to_string(place.gpus.value_or(1)) + " in " +
                    std::to_string(place.nodes.value_or(1)) + " nodes, accumulate " +
                    std::to_string(job.accumulate) + ", data " + job.data +
                    (job.software.xla ? ", XLA" : "");
    if (place.board.power_limit_w)
      s += ", limit " + std::to_string(*place.board.power_limit_w) + " W";
    if (place.cpu_threads) s += ", threads " + std::to_string(*place.cpu_threads);
    if (const auto* d = std::get_if<DataParallel>(&parallelism)) s += ", " + d->strategy;
    if (const auto* d = std::get_if<ParameterServers>(&parallelism))
      s += d->asynchronous ? ", asynchronous servers" : ", servers";
    if (const auto* d = std::get_if<Sharded>(&parallelism)) {
      s += ", zero " + std::to_string(d->plan.zero) + " tp " +
           std::to_string(d->plan.tensor.value_or(1)) + " pp " +
           std::to_string(d->plan.pipeline.value_or(1)) + ' ' + d->software;
    }
    return s;
  }
};

/// Draws jobs of all modes.
class Jobs {
 public:
  explicit Jobs(std::uint64_t seed)
      : random_(seed), strategies_(SpecLibrary::embedded().strategy_ids()) {}

  Asked next() {
    static constexpr std::array kModes{&Jobs::one_gpu,     &Jobs::compiled, &Jobs::loaded,
                                       &Jobs::cpu,         &Jobs::replicas, &Jobs::replicas,
                                       &Jobs::one_process, &Jobs::servers,  &Jobs::sharded};
    Asked asked = (this->*kModes[random_.below(kModes.size())])();
    return asked;
  }

 private:
  template <class T, std::size_t N>
  T pick(const std::array<T, N>& all) {
    return all[random_.below(N)];
  }
  bool chance(double p) { return random_.uniform() < p; }

  Asked some(std::string mode) {
    static constexpr std::array<const char*, 8> kNetworks{
        "alexnet", "resnet18", "vgg11", "minigo", "lenet5", "googlenet", "resnet50", "autoencoder"};
    static constexpr std::array<const char*, 9> kGpus{"k40m",
                                                      "k80",
                                                      "p100_sxm2_16gb",
                                                      "v100_sxm2_16gb",
                                                      "v100_pcie_16gb",
                                                      "t4",
                                                      "a100_sxm4_80gb",
                                                      "h100_sxm5_80gb",
                                                      "b200"};
    static constexpr std::array<const char*, 6> kFrameworks{"",      "pytorch", "tensorflow",
                                                            "mxnet", "caffe_0", "caffe2"};
    static constexpr std::array<const char*, 4> kPrecisions{"fp32", "fp32", "amp", "bf16"};
    static constexpr std::array<const char*, 5> kPhases{"train", "train", "train", "infer",
                                                        "forward_backward"};
    Asked asked{.mode = std::move(mode), .job = {}, .place = {}};
    asked.job.network = pick(kNetworks);
    asked.job.batch = std::int64_t{1} << random_.below(7);
    asked.job.software.framework = pick(kFrameworks);
    asked.job.precision = pick(kPrecisions);
    asked.job.phase = pick(kPhases);
    asked.place.gpu = pick(kGpus);
    if (chance(0.15) && asked.job.phase == "train")
      asked.job.accumulate = 2 + static_cast<std::int64_t>(random_.below(4));
    if (chance(0.15)) asked.place.board.power_limit_w = 100 + random_.uniform() * 200;
    return asked;
  }
  Asked one_gpu() { return some("one GPU"); }
  Asked compiled() {
    Asked asked = some("compiled");
    asked.job.software.framework = "tensorflow";
    asked.job.software.xla = true;
    if (chance(0.3)) uncertainty(asked, 2);
    return asked;
  }
  Asked loaded() {
    Asked asked = some("loaded");
    static constexpr std::array<const char*, 3> kData{"imagenet", "memory", "real"};
    asked.job.data = pick(kData);
    asked.place.cpu_threads = 1 + static_cast<std::int64_t>(random_.below(32));
    return asked;
  }
  Asked cpu() {
    Asked asked = some("CPU");
    asked.place = {};
    asked.place.gpu = "cpu:2xe5_2698_v4";
    asked.job.precision = "fp32";
    return asked;
  }
  void uncertainty(Asked& asked, std::int64_t most_nodes) {
    asked.place.nodes =
        1 + static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(most_nodes)));
    asked.place.gpus = *asked.place.nodes * (std::int64_t{1} << random_.below(4));
    if (*asked.place.gpus == 1) asked.place.gpus = asked.place.nodes = 2;
  }
  Asked replicas() {
    Asked asked = some("replicas");
    if (chance(0.25)) asked.job.data = "imagenet";
    if (chance(0.25)) asked.place.cpu_threads = 4 + static_cast<std::int64_t>(random_.below(30));
    uncertainty(asked, 3);
    DataParallel parallel_layout;
    if (chance(0.7)) parallel_layout.strategy = strategies_[random_.below(strategies_.size())];
    if (chance(0.2)) parallel_layout.sample_sd = 0.25;
    parallel_layout.fold = chance(0.9);
    asked.parallelism = parallel_layout;
    return asked;
  }
  /// nn.DataParallel.
  Asked one_process() {
    Asked asked = some("one process");
    asked.job.software.framework = "pytorch";
    if (chance(0.25)) asked.job.data = chance(0.5) ? "imagenet" : "memory";
    if (chance(0.25)) asked.place.cpu_threads = 4 + static_cast<std::int64_t>(random_.below(30));
    asked.place.gpus = 2 + static_cast<std::int64_t>(random_.below(3)) * 2;
    DataParallel parallel_layout{.strategy = "dataparallel"};
    parallel_layout.fold = chance(0.8);
    if (chance(0.2)) parallel_layout.sample_sd = 0.25;
    asked.parallelism = parallel_layout;
    return asked;
  }
  Asked servers() {
    Asked asked = some("servers");
    asked.job.phase = "train";
    asked.job.accumulate = 1;
    asked.place.nodes = 2 + static_cast<std::int64_t>(random_.below(4));
    asked.place.gpus = *asked.place.nodes * (chance(0.3) ? 2 : 1);
    ParameterServers parallel_layout;
    parallel_layout.servers = 1;
    parallel_layout.asynchronous = chance(0.3);
    asked.parallelism = parallel_layout;
    return asked;
  }
  Asked sharded() {
    static constexpr std::array<const char*, 3> kNetworks{"gpt3_125m", "gpt3_1.3b", "gpt3_13b"};
    static constexpr std::array<const char*, 3> kGpus{"a100_sxm4_80gb", "h100_sxm5_80gb",
                                                      "v100_sxm2_32gb"};
    static constexpr std::array<const char*, 3> kSoftware{"megatron", "fsdp", "internevo"};
    Asked asked{.mode = "sharded", .job = {}, .place = {}};
    asked.job.network = pick(kNetworks);
    asked.place.gpu = pick(kGpus);
    asked.place.gpus = std::int64_t{8} << random_.below(3);
    if (chance(0.2)) asked.place.board.power_limit_w = 200 + random_.uniform() * 200;
    Sharded parallel_layout;
    parallel_layout.software = pick(kSoftware);
    parallel_layout.plan.zero = static_cast<int>(random_.below(4));
    if (parallel_layout.plan.zero < 2 && chance(0.6)) {
      parallel_layout.plan.tensor = std::int64_t{1} << random_.below(3);
      parallel_layout.plan.pipeline = std::int64_t{1} << random_.below(3);
      parallel_layout.plan.sequence_parallel = *parallel_layout.plan.tensor > 1 && chance(0.5);
    }
    parallel_layout.plan.micro_batches = 1 + static_cast<std::int64_t>(random_.below(8));
    if (chance(0.3)) parallel_layout.plan.recompute = chance(0.5) ? "full" : "selective";
    asked.parallelism = parallel_layout;
    return asked;
  }

  Random random_;
  std::vector<std::string> strategies_;
};

std::optional<Forecast> predict(const Predictor& predictor, const Asked& asked) {
  try {
    return predictor.predict(asked.job, asked.place, asked.parallelism);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

bool is_close(double a, double b) {
  return std::abs(a - b) <= kTolerance * std::max(std::abs(a), std::abs(b));
}

double sum_of(const std::vector<StepPart>& parts) {
  double sum = 0;
  for (const StepPart& part : parts) sum += part.time.in_s();
  return sum;
}
bool none_negative(const std::vector<StepPart>& parts) {
  return std::all_of(parts.begin(), parts.end(),
                     [](const StepPart& part) { return part.time >= Seconds(0); });
}

bool is_asynchronous(const Asked& asked) {
  const auto* servers = std::get_if<ParameterServers>(&asked.parallelism);
  return servers != nullptr && servers->asynchronous;
}

void check_shares(const Asked& asked, const Forecast& f) {
  const double step = f.step_time_s.value;
  CHECK(is_close(sum_of(f.by_class), step));
  CHECK(is_close(sum_of(f.by_basis), step));
  CHECK(none_negative(f.by_class));
  CHECK(none_negative(f.by_basis));
  if (is_asynchronous(asked)) return;  // its workers have no path in common
  CHECK(is_close(sum_of(f.by_cause), step));
  CHECK(none_negative(f.by_cause));
}

void check_rates(const Forecast& f) {
  CHECK(is_close(f.throughput_samples_per_s.value * f.step_time_s.value, f.samples_per_step));
  CHECK(f.step_time_s.low <= f.step_time_s.value);
  CHECK(f.step_time_s.value <= f.step_time_s.high);
  if (f.gpu_utilization) {
    CHECK(f.gpu_utilization->avg <= 1 + kTolerance);
    CHECK(f.gpu_utilization->min <= f.gpu_utilization->avg + kTolerance);
    CHECK(f.gpu_utilization->avg <= f.gpu_utilization->max + kTolerance);
  }
}

void check_power(const Asked& asked, const Forecast& f) {
  if (asked.mode == "CPU") {
    CHECK(!f.power);
    return;
  }
  REQUIRE(f.power);
  const PowerRange& board = f.power->board;
  const double gpus = static_cast<double>(f.gpus);
  CHECK(is_close(f.power->boards_total.in_w(), board.avg.in_w() * gpus));
  CHECK(is_close(f.power->energy_per_sample.in_j() * f.throughput_samples_per_s.value,
                 f.power->boards_total.in_w()));
  CHECK(board.active_idle.in_w() > 0);
  CHECK(board.avg >= board.active_idle * (1 - kTolerance));
  CHECK(board.min <= board.avg * (1 + kTolerance));
  CHECK(board.avg <= board.max * (1 + kTolerance));
  if (board.holds_limit && board.limit > board.active_idle) {
    CHECK(board.avg <= board.limit * (1 + kTolerance));
    CHECK(board.max <= board.limit * (1 + kTolerance));
  }
}

/// The time in which something is communicated beside nothing is part of what is communicated, and
/// of the step.
void check_communication(const Forecast& f) {
  const auto* many = std::get_if<ManyGpusDetails>(f.details.get());
  if (many == nullptr) return;
  const DataParallelStep& step = many->prediction.step;
  CHECK(step.exposed >= 0);
  CHECK(step.exposed <= 1);
  const Seconds exposed = step.communication_busy * step.exposed;
  CHECK(exposed <= step.account.communication * (1 + kTolerance));
  CHECK(step.communication_busy <= step.step_time * (1 + kTolerance));
  CHECK(is_close(sum_of(f.by_cause), step.step_time.in_s()));
}

/// Of a step, what does not shrink because there are more GPUs that each do as before. Left out is
/// what kernels take longer beside collectives: NCCL opens fewer channels across nodes than within
/// one (16 for 24 on DGX A100), which leave them more SMs.
double constant_work(const Forecast& f) {
  double work = f.step_time_s.value;
  if (const auto* sharded = std::get_if<ShardedStep>(f.details.get())) {
    // Each rank's part of the update halves.
    const TransformerShares& shares = sharded->prediction.shares;
    work -= (shares.update + shares.slowed + shares.stragglers).in_s();
  }
  if (const auto* many = std::get_if<ManyGpusDetails>(f.details.get())) {
    const ManyGpus& p = many->prediction;
    work -= p.step.slowed.in_s();
    // In one box four GPUs of a mesh of NVLinks have more ways between them than two.
    if (p.process) work -= p.step.parts.communication.in_s();
  }
  return work;
}

/// Whether a job of twice as many GPUs does the same: each of them, and all that serves them.
bool scales(const Forecast& once, const Forecast& twice) {
  const auto* few = std::get_if<ManyGpusDetails>(once.details.get());
  const auto* many = std::get_if<ManyGpusDetails>(twice.details.get());
  if (few == nullptr || many == nullptr) return true;
  const StrategyProfile& strategy = *few->prediction.strategy;
  // What users take on several nodes may be another strategy; every further node serves a part of
  // the weights or sums; what is looked at every few milliseconds falls into one bucket or the
  // next; a board that waits longer for others may run faster under its limit.
  const bool is_other = strategy.id != many->prediction.strategy->id;
  const bool waits_faster = few->prediction.process && once.power->board.throttles;
  const bool is_served = strategy.communication == Communication::Served ||
                         strategy.communication == Communication::Copies;
  return !is_other && !is_served && !(strategy.cycle > Seconds(0)) && !waits_faster;
}

/// Twice the GPUs, the work of each as before; nothing: there is no such job.
std::optional<Asked> twice_as_many(Asked asked) {
  if (asked.place.gpus.value_or(1) < 2) return std::nullopt;
  if (const auto* servers = std::get_if<ParameterServers>(&asked.parallelism)) {
    // The same servers.
    const std::int64_t nodes = *asked.place.nodes, in_node = *asked.place.gpus / nodes;
    asked.place.nodes = 2 * nodes - servers->servers.value_or(1);
    asked.place.gpus = *asked.place.nodes * in_node;
    return asked;
  }
  const auto* sharded = std::get_if<Sharded>(&asked.parallelism);
  if (sharded != nullptr) {
    const bool has_stages = sharded->plan.pipeline.value_or(1) > 1;
    const bool has_groups = has_stages || sharded->plan.tensor.value_or(1) > 1;
    // In one box the neighbours of a stage stand elsewhere when there are two such boxes; in a mesh
    // of NVLinks the ranks of a group have other ways when they stand elsewhere.
    if (has_stages && *asked.place.gpus <= 8) return std::nullopt;
    if (has_groups && asked.place.gpu == "v100_sxm2_32gb") return std::nullopt;
  }
  asked.place.gpus = *asked.place.gpus * 2;
  if (asked.place.nodes) asked.place.nodes = *asked.place.nodes * 2;
  return asked;
}

/// Throughput is at most proportional to the number of GPUs. False: there is no job of twice as
/// many.
bool check_scaling(const Predictor& predictor, const Asked& asked, const Forecast& once) {
  const std::optional<Asked> more = twice_as_many(asked);
  if (!more) return false;
  const std::optional<Forecast> twice = predict(predictor, *more);
  if (!twice || !scales(once, *twice)) return false;
  CHECK(constant_work(*twice) >= constant_work(once) / kMostGain);
  return true;
}

}  // namespace

TEST_CASE("2,000 random jobs of all modes: one answer obeys the arithmetic") {
  const Predictor predictor(Hardware::embedded());
  Jobs jobs(19);
  std::map<std::string, int> reported;
  int refused = 0, doubled = 0;
  for (int i = 0; i < kJobs;) {
    const Asked asked = jobs.next();
    CAPTURE(asked.text());
    const std::optional<Forecast> f = predict(predictor, asked);
    if (!f) {
      REQUIRE(++refused < 2 * kJobs);
      continue;
    }
    ++i;
    ++reported[asked.mode];
    check_shares(asked, *f);
    check_rates(*f);
    check_power(asked, *f);
    check_communication(*f);
    if (i % 2 == 0 && check_scaling(predictor, asked, *f)) ++doubled;
  }
  for (const char* mode :
       {"one GPU", "compiled", "loaded", "CPU", "replicas", "one process", "servers", "sharded"}) {
    CAPTURE(mode);
    CHECK(reported[mode] > kJobs / 20);
  }
  CHECK(doubled > kJobs / 8);
}

}  // namespace tracecast
