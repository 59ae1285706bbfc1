#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "sim/job/predictor.hpp"
#include "tools/sweep/grid.hpp"

namespace tracecast {

class SweepRanks;

/// How far a sweep is.
struct SweepProgress {
  std::int64_t points = 0;     ///< of the grid
  std::int64_t known = 0;      ///< that the file had already
  std::int64_t predicted = 0;  ///< by this run, in the file
  double seconds = 0;          ///< since it began to predict
};

/// What a sweep came to.
struct SweepSummary {
  std::int64_t points = 0, known = 0, predicted = 0;
  std::int64_t succeeded = 0, too_large = 0, refused = 0, bugs = 0;  ///< of `known` and `predicted`
  std::map<std::string, std::int64_t> reasons;                       ///< of refusals
  bool interrupted = false;
  double seconds = 0;
};

struct SweepOptions {
  std::filesystem::path file;
  std::string fingerprint;  ///< fingerprint_of: all that decides an answer but the question
  unsigned threads = 0;     ///< that predict; 0: all cores
  std::function<bool()> stops = [] { return false; };  ///< asked now and then; true: end early
  std::function<void(const SweepProgress&)> on_progress = [](const SweepProgress&) {};
  SweepRanks* ranks = nullptr;  ///< processes that help; null: none. This one is number 0
};

/// Asks every point of the grid that the file has no answer to, and puts rows into it as they come,
/// several a transaction. Rows are the same for any number of threads and processes. Throws
/// InputError: the file cannot be written, is no file of sweeps, or is damaged; what was put until
/// then is in it.
SweepSummary run_sweep(const SweepGrid& grid, const Predictor& predictor,
                       const SweepOptions& options);

/// The part of a process that helps: asks number 0 for points until there are none.
void help_sweep(const SweepGrid& grid, const Predictor& predictor, const SweepOptions& options);

}  // namespace tracecast
