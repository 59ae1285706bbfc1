#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/job/predictor.hpp"
#include "tools/predict/transformer_options.hpp"
#include "tools/predict/work_report.hpp"

namespace CLI {
class App;
}

namespace tracecast {

/// What the flags of `predict` say.
struct PredictOptions {
  PlacedJob job;
  SourceOptions sources;
  DataParallel replicas;
  ParameterServers servers;
  TransformerOptions sharded;
  WorkOptions work;
  bool no_fold = false;
  std::string format = "text";
  std::string dump;
  std::string trace, report, measured, host_from;  ///< files
  bool explain = false, strict = false, largest_batch = false, search = false;
};

/// Declares the subcommand with its flags, which are kept in `options`: that must not move.
CLI::App* add_predict_subcommand(CLI::App& app, PredictOptions& options);

/// Whether a flag stood on the command line.
using GivenFlags = std::function<bool(std::string_view flag)>;

struct SettledParallelism {
  Parallelism parallelism;
  ReportKind kind = ReportKind::OneGpu;
};
/// How the GPUs share the job, and what kind of answer that gets. Throws InputError: flags that
/// contradict each other or could only be ignored.
[[nodiscard]] SettledParallelism settle_parallelism(const PredictOptions& options,
                                                    const GivenFlags& given,
                                                    const Hardware& hardware);

/// A job at a place, as `predict` has it.
struct PredictQuestion {
  PlacedJob job;
  Parallelism parallelism;
};
/// What `predict` would do with these words, again and again: to declare its flags takes longer
/// than many an answer. One thread's.
class PredictFlags {
 public:
  PredictFlags();
  ~PredictFlags();
  PredictFlags(PredictFlags&&) noexcept;

  /// `words`: the network and flags, without "predict". Flags of the answer's form and of specs are
  /// not for here: `hardware` is what there is. Throws InputError with the command's line.
  [[nodiscard]] PredictQuestion read(const std::vector<std::string>& words,
                                     const Hardware& hardware);
  /// The same of `predict --search`: the job and what of its parallel layout is given.
  struct Search {
    PlacedJob job;
    Sharded base;
  };
  [[nodiscard]] Search read_search(const std::vector<std::string>& words);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace tracecast
