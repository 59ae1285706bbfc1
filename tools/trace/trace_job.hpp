#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/replay/replay_factors.hpp"
#include "sim/replay/replay_network.hpp"
#include "sim/replay/replay_ranks.hpp"
#include "sim/step/interval.hpp"
#include "tools/predict/cluster_options.hpp"
#include "traces/ranks/job.hpp"

namespace tracecast {

/// What is to be other than recorded.
struct JobChangeOptions {
  Place cluster;                  ///< to replay on; its machine is `--machine`
  std::string recorded_machine;   ///< empty: a usual one for the recorded GPU
  std::vector<std::string> sets;  ///< "link.bandwidth=2x"
};
/// Declares `--gpus`, `--nodes`, `--cluster`, `--machine` and `--recorded-machine`.
void add_job_change_options(CLI::App& subcommand, JobChangeOptions& options);
/// Moves what is said of the recorded job from `sets` (of SourceOptions, which know "cost." and the
/// like) to the options.
void take_job_changes(std::vector<std::string>& sets, JobChangeOptions& options);
/// Some of it was asked for.
[[nodiscard]] bool is_changed(const JobChangeOptions& options);

/// Ranks of a recording replayed together. Times in seconds.
struct RanksReplay {
  struct RankTimes {
    std::vector<double> steps;
    double step = 0;  ///< the usual one of them
    double busy = 0;
  };
  std::vector<RankTimes> ranks;
  std::int64_t recorded_gpus = 0, gpus = 0;
  double step = 0;          ///< mean over ranks of each one's median; 0 = no step marks
  bool is_changed = false;  ///< against the recording
  int rounds = 0;           ///< of the recorded steps until they were steady; 0: done once
  bool is_steady = true;
  double log_sd = 0;
  CriticalPath path;
  std::vector<MovingChange> collectives;  ///< empty when nothing was to change
  FactorChanges factors{};
  std::vector<std::string> account;  ///< what was scaled how, one line each
};

/// Ranks to replay together.
struct RecordedRanks {
  const std::vector<traces::Trace>& traces;
  const traces::KernelNames& names;
  std::vector<traces::ReplayBuild> ranks;  ///< rebuilt from them, perhaps moved to another GPU
  std::string recorded_gpu, gpu;           ///< ids; only needed for changes; alike: none is moved
  std::string gpu_name;                    ///< for a written trace
  bool goes_on = false;                    ///< its steps are done again until they are steady
};
/// Joins the ranks and runs them, on the network and with the changes asked for. `hardware`: needed
/// for changes. `trace`: file to write, or empty. Throws InputError: a change that is not known,
/// one GPU, a machine that cannot be told.
[[nodiscard]] RanksReplay replay_ranks(RecordedRanks job, const JobChangeOptions& options,
                                       const Hardware* hardware, const ReplayOptions& replay,
                                       const std::string& trace);

/// Text of 80 columns; `recorded_step` in seconds, 0 = not marked.
[[nodiscard]] std::string job_text(const RanksReplay& job, double recorded_step);
[[nodiscard]] nlohmann::ordered_json job_json(const RanksReplay& job, double recorded_step);

}  // namespace tracecast
