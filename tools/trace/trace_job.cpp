#include "tools/trace/trace_job.hpp"
#include "sim/job/cluster.hpp"
#include "tools/command/cell.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/error.hpp"
#include "sim/job/hardware_factor.hpp"
#include "sim/replay/replay_rounds.hpp"
#include "tools/command/output.hpp"
#include "traces/chrome/writer.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

/// Standard deviations of ln(measured / predicted). Of work as recorded: what replays of recordings
/// are held to. The rest are guesses, that of prices the one of tools/many_gpus.cpp; kept
/// collectives of another job may take anything.
constexpr double kReplayLogSd = 0.02;
constexpr double kScaledLogSd = 0.3;
constexpr double kEstimatedLogSd = 0.5;
constexpr double kKeptLogSd = 0.7;
constexpr double kFactorLogSd = 0.5;  ///< of the time that a factor takes away

struct Change {
  std::string_view key;
  enum class What { Links, Latency, Memory, Compute, Host } what;
  std::vector<FabricLinkKind> kinds;
  std::string_view says;
};

const std::vector<Change>& known_changes() {
  using Kind = FabricLinkKind;
  using What = Change::What;
  static const std::vector<Kind> network{Kind::Ethernet, Kind::Infiniband, Kind::Ipoib,
                                         Kind::Uplink};
  static const std::vector<Kind> all{Kind::Pcie,       Kind::Nvlink, Kind::Socket, Kind::Ethernet,
                                     Kind::Infiniband, Kind::Ipoib,  Kind::C2c,    Kind::Uplink};
  static const std::vector<Change> changes{
      {"link.bandwidth", What::Links, all, "all links between GPUs"},
      {"nvlink.bandwidth", What::Links, {Kind::Nvlink}, "NVLink"},
      {"pcie.bandwidth",
       What::Links,
       {Kind::Pcie, Kind::C2c, Kind::Socket},
       "PCIe and links between sockets"},
      {"network.bandwidth", What::Links, network, "links between machines"},
      {"link.latency", What::Latency, {}, "latency of the collectives' steps"},
      {"gpu.memory_bandwidth",
       What::Memory,
       {},
       "kernels other than convolutions, GEMMs and collectives, as if bound by memory alone"},
      {"gpu.compute", What::Compute, {}, "convolutions and GEMMs, as if bound by arithmetic alone"},
      {"host.speed", What::Host, {}, "the host's work and calls"}};
  return changes;
}

struct AskedChange {
  const Change* change = nullptr;
  double factor = 1;
};

AskedChange parse_change(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string key = text.substr(0, equals);
  const auto at = std::find_if(known_changes().begin(), known_changes().end(),
                               [&key](const Change& change) { return change.key == key; });
  if (at == known_changes().end()) {
    std::vector<std::string_view> keys;
    for (const Change& change : known_changes()) keys.push_back(change.key);
    throw InputError("--set", '"' + key + '"', fmt::format("{}", fmt::join(keys, ", ")));
  }
  const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
  return {&*at, parse_factor(key, value)};
}

double seconds(engine::Picoseconds time) { return time.in_seconds().in_s(); }

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// GPUs of the recorded job.
std::int64_t recorded_gpus(const std::vector<traces::Trace>& recorded) {
  auto gpus = static_cast<std::int64_t>(recorded.size());
  for (const traces::Trace& trace : recorded) gpus = std::max(gpus, trace.world_size.value_or(0));
  return gpus;
}

class Replayer {
 public:
  Replayer(RecordedRanks job, const JobChangeOptions& options, const Hardware* hardware)
      : recorded_(std::move(job)), options_(options), hardware_(hardware) {
    for (const std::string& set : options.sets) changes_.push_back(parse_change(set));
    result_.recorded_gpus = recorded_gpus(recorded_.traces);
    result_.gpus = result_.recorded_gpus;
    is_changed_ = hardware && (is_changed(options) || recorded_.recorded_gpu != recorded_.gpu);
  }

  RanksReplay replay(const ReplayOptions& replay_options, const std::string& trace) {
    traces::RanksBuild build =
        traces::build_ranks_program(recorded_.traces, recorded_.names, recorded_.ranks);
    RanksProgram& job = build.job;
    if (is_changed_) {
      if (asks_for_network()) change_network(job);
      change_factors(job.program);
    }
    const RanksRun run = run_ranks(job, replay_options);
    if (!trace.empty())
      traces::write_chrome_trace(timeline_of(job.program, run.run, recorded_.gpu_name), trace);
    take_times(job, run);
    if (recorded_.goes_on) take_steady(job, replay_options);
    result_.path = run.path;
    result_.log_sd = log_sd();
    result_.is_changed = is_changed_;
    if (build.waiting) note_ranks(*build.waiting);
    return std::move(result_);
  }

 private:
  void say_so(std::string text) { result_.account.push_back(std::move(text)); }

  [[nodiscard]] Fabric network_of(const Place& cluster, const std::string& gpu,
                                  std::string_view which) {
    Cluster made = make_cluster(cluster, gpu, *hardware_);
    for (const std::string& assumption : made.assumptions)
      say_so(fmt::format("{} {}", which, assumption));
    return std::move(made.fabric);
  }

  /// A recording of one GPU has no collectives: there the GPU and the host alone can be changed.
  [[nodiscard]] bool asks_for_network() const {
    if (result_.recorded_gpus > 1) return true;
    const Place& c = options_.cluster;
    const bool has_link_change =
        std::any_of(changes_.begin(), changes_.end(), [](const AskedChange& asked) {
          return asked.change->what == Change::What::Links ||
                 asked.change->what == Change::What::Latency;
        });
    if (c.gpus || c.nodes || !c.machine.empty() || !c.cluster.empty() || !c.nic.empty() ||
        c.no_p2p || has_link_change)
      throw InputError(recorded_.traces.front().source, "a recording of a job on one GPU",
                       "one of several, whose collectives can go to other GPUs (else: predict)");
    return false;
  }

  void change_network(RanksProgram& job) {
    Place before;
    before.machine = options_.recorded_machine;
    before.gpus = result_.recorded_gpus;
    Place after = options_.cluster;
    const bool same_gpu = recorded_.gpu == recorded_.recorded_gpu;
    if (after.machine.empty() && after.cluster.empty() && same_gpu) after.machine = before.machine;
    if (after.cluster.empty() && !after.gpus && !after.nodes) after.gpus = result_.recorded_gpus;
    const Fabric from = network_of(before, recorded_.recorded_gpu, "recorded:");
    const Fabric to = network_of(after, recorded_.gpu, "replayed:");
    result_.gpus = to.num_ranks();
    if (result_.gpus < 2) throw InputError("--gpus", "1", "2 or more, whose collectives take time");
    LinkFactors factors;
    for (const AskedChange& asked : changes_) {
      for (const FabricLinkKind kind : asked.change->kinds)
        factors.bandwidth[static_cast<std::size_t>(kind)] *= asked.factor;
      if (asked.change->what == Change::What::Latency) factors.latency *= asked.factor;
    }
    const CollectiveLibrary& library = to.specs().find_collective_library("nccl");
    result_.collectives = move_collectives(job, {from, to, library, factors});
    say_so(fmt::format(
        "kernels and copies: each rank's {}; host work as recorded; every GPU's share of "
        "the work stays the same",
        same_gpu ? "as recorded" : "moved to the other GPU"));
    if (result_.gpus != result_.recorded_gpus) {
      say_so(fmt::format("waiting: as among the {} recorded {}; the slowest of {} may be slower",
                         recorded_.traces.size(), recorded_.traces.size() == 1 ? "rank" : "ranks",
                         result_.gpus));
    }
    if (recorded_.traces.size() == 1)
      say_so(
          "one rank is recorded: what its collectives waited for other ranks is taken to be what "
          "their price and the quickest of their like do not explain, and stays");
  }

  void change_factors(ReplayProgram& program) {
    ReplayFactors factors;
    for (const AskedChange& asked : changes_) {
      say_so(fmt::format("{} times {:g}: {}", asked.change->key, asked.factor, asked.change->says));
      if (asked.change->what == Change::What::Memory) factors.memory_bandwidth *= asked.factor;
      if (asked.change->what == Change::What::Compute) factors.compute *= asked.factor;
      if (asked.change->what == Change::What::Host) factors.host *= asked.factor;
    }
    result_.factors = apply_factors(program, factors);
  }

  void take_times(const RanksProgram& job, const RanksRun& run) {
    double sum = 0;
    std::size_t marked = 0;
    for (std::size_t r = 0; r < job.ranks.size(); ++r) {
      RanksReplay::RankTimes times;
      for (std::uint32_t i = job.ranks[r].first_step; i < job.ranks[r].end_step; ++i)
        times.steps.push_back(seconds(run.run.steps[i]));
      times.busy = seconds(run.kernel_busy[r]);
      times.step = median(times.steps);
      if (!times.steps.empty()) {
        sum += times.step;
        ++marked;
      }
      result_.ranks.push_back(std::move(times));
    }
    if (marked > 0) result_.step = sum / static_cast<double>(marked);
  }

  void take_steady(const RanksProgram& job, const ReplayOptions& replay_options) {
    const auto run = run_until_steady(job, replay_options);
    if (!run) return;
    result_.rounds = run->rounds;
    result_.is_steady = run->is_steady;
    result_.step = 0;
    for (std::size_t r = 0; r < run->ranks.size(); ++r) {
      const SteadySteps& steady = run->ranks[r];
      RanksReplay::RankTimes& times = result_.ranks[r];
      times.steps.clear();
      for (const engine::Picoseconds step : steady.steps) times.steps.push_back(seconds(step));
      times.step = seconds(steady.step());
      times.busy = seconds(steady.kernel_busy);
      result_.step += times.step / static_cast<double>(run->ranks.size());
    }
  }

  /// Errors of what the critical path consists of: collectives that were changed, and time that
  /// factors took away.
  [[nodiscard]] double log_sd() const {
    const double length = seconds(result_.path.length);
    if (!is_changed_ || length <= 0) return kReplayLogSd;
    double collective = 0;
    for (const PathShare& share : result_.path.shares) {
      if (share.kind == PathKind::Kernel && share.kernel_class == KernelClass::Collective)
        collective = share.share;
    }
    double moved = 0, uncertain = 0;
    for (const MovingChange& c : result_.collectives) {
      double sd = kKeptLogSd;
      if (c.basis == MovingBasis::Scaled) sd = kScaledLogSd;
      if (c.basis == MovingBasis::Estimated) sd = kEstimatedLogSd;
      // Prices alike on both networks cancel: only a change is uncertain.
      const double change =
          std::abs(std::log(std::max(c.moved.in_s(), 1e-9) / std::max(c.recorded.in_s(), 1e-9)));
      if (c.basis != MovingBasis::Kept) sd *= std::min(1.0, change / std::log(2.0));
      moved += c.moved.in_s();
      uncertain += c.moved.in_s() * sd;
    }
    double taken = 0;  // by factors, of one rank
    const auto ranks = static_cast<double>(std::max<std::size_t>(recorded_.traces.size(), 1));
    for (const FactorChange& f : result_.factors.kernels)
      taken += std::abs((f.moved - f.recorded).in_s()) / ranks;
    taken += std::abs((result_.factors.host.moved - result_.factors.host.recorded).in_s()) / ranks;
    const double of_collectives = moved > 0 ? collective * uncertain / moved : 0;
    return std::hypot(kReplayLogSd, of_collectives, kFactorLogSd * taken / length);
  }

  void note_ranks(const traces::CollectiveWaiting& waiting) {
    std::uint64_t left = 0;
    for (const auto& [why, kernels] : waiting.unmatched) left += kernels.count;
    say_so(
        fmt::format("ranks joined at {} collectives{}", waiting.collectives,
                    left > 0 ? fmt::format("; {} kernels of others keep their time", left) : ""));
  }

  RecordedRanks recorded_;
  const JobChangeOptions& options_;
  const Hardware* hardware_;
  bool is_changed_ = false;
  std::vector<AskedChange> changes_;
  RanksReplay result_;
};

std::string ms(double s) { return three_digits(s * 1e3) + " ms"; }

std::string line(std::string_view what, const std::string& text) {
  return fmt::format("{:<14}{}\n", what, wrap(text, 66, 14));
}

std::string collectives_text(const RanksReplay& job) {
  if (job.collectives.empty()) return "";
  std::string text = fmt::format("\n{:<24}{:>8}{:>13}{:>12}{:>12}  {}\n", "Collectives", "count",
                                 "ranks", "recorded", "replayed", "moving is");
  for (const MovingChange& c : job.collectives) {
    text += fmt::format("  {}{:>8}{:>13}{:>12}{:>12}  {}\n",
                        fit(c.kind ? to_string(*c.kind) : "kind not known", 22, 2), c.count,
                        fmt::format("{} -> {}", c.recorded_ranks, c.ranks), ms(c.recorded.in_s()),
                        ms(c.moved.in_s()), to_string(c.basis));
  }
  return text + "  sums of what each takes from its last arrival on, once for all its ranks\n";
}

std::string factors_text(const RanksReplay& job) {
  std::string text;
  const auto row = [&text](std::string_view name, const FactorChange& f) {
    if (f.count == 0) return;
    if (text.empty())
      text = fmt::format("\n{:<24}{:>8}{:>27}{:>13}\n", "Changed by --set", "count", "recorded",
                         "replayed");
    text += fmt::format("  {}{:>8}{:>27}{:>13}\n", fit(name, 22, 2), f.count, ms(f.recorded.in_s()),
                        ms(f.moved.in_s()));
  };
  for (std::size_t i = 0; i < kKernelClassCount; ++i)
    row(to_string(static_cast<KernelClass>(i)), job.factors.kernels[i]);
  row("host", job.factors.host);
  return text.empty() ? text : text + "  sums over the recorded ranks\n";
}

}  // namespace

void add_job_change_options(CLI::App& subcommand, JobChangeOptions& options) {
  add_cluster_options(subcommand, options.cluster);
  subcommand.add_option("--machine", options.cluster.machine, "Machine to replay on")
      ->type_name("ID");
  subcommand
      .add_option("--recorded-machine", options.recorded_machine,
                  "Machine of the recording; else a usual one for its GPU")
      ->type_name("ID");
}

void take_job_changes(std::vector<std::string>& sets, JobChangeOptions& options) {
  const auto is_mine = [](const std::string& set) {
    return !set.starts_with("cost.") && !set.starts_with("framework.") &&
           !set.starts_with("sharing.");
  };
  const auto mine = std::stable_partition(sets.begin(), sets.end(),
                                          [&](const std::string& set) { return !is_mine(set); });
  options.sets.assign(mine, sets.end());
  sets.erase(mine, sets.end());
}

bool is_changed(const JobChangeOptions& options) {
  const Place& c = options.cluster;
  return c.gpus || c.nodes || !c.machine.empty() || !c.cluster.empty() || !c.nic.empty() ||
         c.no_p2p || !options.sets.empty() || !options.recorded_machine.empty();
}

RanksReplay replay_ranks(RecordedRanks job, const JobChangeOptions& options,
                         const Hardware* hardware, const ReplayOptions& replay,
                         const std::string& trace) {
  return Replayer(std::move(job), options, hardware).replay(replay, trace);
}

std::string job_text(const RanksReplay& job, double recorded_step) {
  const bool is_as_recorded = !job.is_changed;
  std::string text =
      line("Job", is_as_recorded ? fmt::format("{} ranks replayed together", job.ranks.size())
                                 : fmt::format("{} of {} GPUs recorded, replayed on {}",
                                               job.ranks.size(), job.recorded_gpus, job.gpus));
  if (job.step > 0) {
    const Interval step = interval90(job.step, job.log_sd);
    std::string value = ms(step.value);
    if (!is_as_recorded) value += fmt::format(" ({} to {})", ms(step.low), ms(step.high));
    if (recorded_step > 0)
      value += fmt::format(", recorded {} ({:+.1f} %)", ms(recorded_step),
                           (step.value / recorded_step - 1) * 100);
    text += line("Step", value + (job.ranks.size() > 1 ? ", mean of the ranks" : ""));
    if (job.gpus != job.recorded_gpus && recorded_step > 0)
      text += line("Throughput",
                   fmt::format("{} times the recorded one with {} times the GPUs, each with the "
                               "work it had",
                               three_digits(static_cast<double>(job.gpus) /
                                            static_cast<double>(job.recorded_gpus) * recorded_step /
                                            step.value),
                               three_digits(static_cast<double>(job.gpus) /
                                            static_cast<double>(job.recorded_gpus))));
  } else {
    text += line("Step", "not marked in the recording");
  }
  text += collectives_text(job) + factors_text(job);
  if (!job.account.empty()) text += "\nAccount\n";
  for (const std::string& entry : job.account) text += "  " + wrap(entry, 76, 4) + '\n';
  return text;
}

Json job_json(const RanksReplay& job, double recorded_step) {
  const Interval step = interval90(job.step, job.log_sd);
  Json json{
      {"recorded_ranks", job.ranks.size()},
      {"recorded_gpus", job.recorded_gpus},
      {"gpus", job.gpus},
      {"recorded_step_s", recorded_step > 0 ? Json(recorded_step) : Json()},
      {"step_time_s",
       job.step > 0 ? Json{{"value", step.value}, {"low", step.low}, {"high", step.high}} : Json()},
      {"basis", job.is_changed ? "transferred" : "measured"},
      {"collectives", Json::array()},
      {"account", job.account}};
  for (const MovingChange& c : job.collectives) {
    json["collectives"].push_back({{"kind", c.kind ? Json(to_string(*c.kind)) : Json()},
                                   {"recorded_ranks", c.recorded_ranks},
                                   {"ranks", c.ranks},
                                   {"count", c.count},
                                   {"recorded_s", c.recorded.in_s()},
                                   {"replayed_s", c.moved.in_s()},
                                   {"priced_s", c.priced.in_s()},
                                   {"moving", to_string(c.basis)}});
  }
  return json;
}

}  // namespace tracecast
