#include "tools/sweep/run.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <iterator>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/job/sha256.hpp"
#include "sim/store/sweep_store.hpp"
#include "tools/sweep/ranks.hpp"
#include "tools/sweep/result_row.hpp"

namespace tracecast {
namespace {

using Clock = std::chrono::steady_clock;
using Points = std::vector<std::int64_t>;
constexpr auto kTick = std::chrono::milliseconds(20);
constexpr auto kBetweenCommits = std::chrono::milliseconds(100);
constexpr std::size_t kMostRows = 1000;  ///< of a transaction
constexpr std::size_t kMostChunk = 32, kMostRankChunk = 256;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

unsigned threads_of(const SweepOptions& options) {
  if (options.threads > 0) return options.threads;
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  const unsigned beside = options.ranks != nullptr ? options.ranks->on_this_machine() : 1;
  return std::max(1U, cores / beside);
}

/// Hashes of all that decides the answers of points but the questions. Every file is read once.
class States {
 public:
  explicit States(std::string fingerprint) : fingerprint_(std::move(fingerprint)) {}
  std::string of(const SweepPoint& point) {
    if (point.files.empty()) return fingerprint_;
    std::string text = fingerprint_;
    const std::lock_guard lock(mutex_);
    for (const std::string& file : point.files) {
      auto known = hashes_.find(file);
      if (known == hashes_.end()) known = hashes_.emplace(file, hash(file)).first;
      text += '\n' + known->second;
    }
    return sha256(text);
  }

 private:
  static std::string hash(const std::string& file) {
    try {
      return sha256_of_file(file);
    } catch (const InputError&) {
      return "unreadable";  // the point says so
    }
  }
  std::string fingerprint_;
  std::mutex mutex_;
  std::map<std::string, std::string> hashes_;
};

/// Points that are still to ask, handed out in order, fewer at once towards the end.
class Dispenser {
 public:
  explicit Dispenser(Points points) : points_(std::move(points)) {}
  Points next(std::size_t takers, std::size_t most) {
    const std::lock_guard lock(mutex_);
    const std::size_t left = points_.size() - next_;
    const std::size_t count = std::min(left, std::clamp<std::size_t>(left / (4 * takers), 1, most));
    const auto begin = points_.begin() + static_cast<std::ptrdiff_t>(next_);
    next_ += count;
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
  }
  void close() {
    const std::lock_guard lock(mutex_);
    next_ = points_.size();
  }

 private:
  std::mutex mutex_;
  Points points_;
  std::size_t next_ = 0;
};

/// Words that decide which graph a point has; all others are of places and of how GPUs share it.
std::string graph_words(const SweepPoint& point) {
  static const std::set<std::string> of_places = {
      "--gpu",           "--machine",     "--cluster", "--nodes",   "--gpus",
      "--strategy",      "--sample-sd",   "--servers", "--channel", "--placement",
      "--server-device", "--link",        "--async",   "--data",    "--workers",
      "--host-cpu",      "--cpu-threads", "--disk",    "--clock",   "--pipeline",
      "--power-limit",   "--memory-clock"};
  std::string key;
  for (const std::string& word : point.words)
    if (!of_places.contains(word.substr(0, word.find('=')))) key += word + ' ';
  return key;
}

/// Predictors remember graphs and lowered steps, ten megabytes each, for ever: points come network
/// by network, and what was remembered of the one before is dropped. Threads share what is
/// remembered.
class FreshPredictor {
 public:
  explicit FreshPredictor(const Predictor& first) : predictor_(first) {}
  /// The one for the point, and whether it is another than that of `generation`, which is brought
  /// up to date.
  bool is_new_for(const SweepPoint& point, std::int64_t& generation) {
    const std::string key = graph_words(point), network = point.words.back();
    const std::lock_guard lock(mutex_);
    const bool known = graphs_.contains(key);
    if (!known && (graphs_.size() >= kMostGraphs || network != network_)) {
      predictor_ = Predictor(predictor_.hardware());
      graphs_.clear();
      network_ = network;
      ++generation_;
    }
    if (!known) graphs_.insert(key);
    const bool is_new = generation != generation_;
    generation = generation_;
    return is_new;
  }
  [[nodiscard]] Predictor get() const {
    const std::lock_guard lock(mutex_);
    return predictor_;
  }

 private:
  static constexpr std::size_t kMostGraphs = 24;
  mutable std::mutex mutex_;
  Predictor predictor_;
  std::set<std::string> graphs_;
  std::string network_;
  std::int64_t generation_ = 0;
};

/// Threads that answer what a dispenser has, and their rows.
class Workers {
 public:
  Workers(const SweepGrid& grid, const Predictor& predictor, States& states, Dispenser& dispenser,
          unsigned count)
      : grid_(grid), fresh_(predictor), states_(states), dispenser_(dispenser), left_(count) {
    for (unsigned i = 0; i < count; ++i) threads_.emplace_back([this, count] { work(count); });
  }
  ~Workers() {
    stop();
    for (std::thread& thread : threads_) thread.join();
  }
  void stop() {
    stopped_ = true;
    dispenser_.close();
  }
  /// Rows that are ready, after a tick where there are none; whether more may come.
  bool take(std::vector<store::PointRow>& rows) {
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, kTick, [this] { return !rows_.empty() || left_ == 0; });
    std::move(rows_.begin(), rows_.end(), std::back_inserter(rows));
    rows_.clear();
    if (failure_) std::rethrow_exception(failure_);
    return left_ > 0;
  }

 private:
  void work(unsigned count) {
    try {
      PointAnswerer answerer(fresh_.get());
      std::int64_t generation = 0;
      for (Points chunk; !(chunk = dispenser_.next(count, kMostChunk)).empty();) {
        for (const std::int64_t index : chunk) {
          if (stopped_) break;
          const SweepPoint point = grid_.at(index);
          if (fresh_.is_new_for(point, generation)) answerer.use(fresh_.get());
          store::PointRow row = answerer.report(point);
          row.point = index;
          row.state = states_.of(point);
          const std::lock_guard lock(mutex_);
          rows_.push_back(std::move(row));
        }
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    if (--left_ == 0) ready_.notify_all();
  }

  const SweepGrid& grid_;
  FreshPredictor fresh_;
  States& states_;
  Dispenser& dispenser_;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<store::PointRow> rows_;
  unsigned left_;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

void count(const std::string& status, const std::string& reason, SweepSummary& summary) {
  if (is_predicted(status)) ++summary.succeeded;
  if (status == kTooLarge) ++summary.too_large;
  if (status == kRefused || status == kOurBug) ++summary.reasons[reason];
  if (status == kRefused) ++summary.refused;
  if (status == kOurBug) ++summary.bugs;
}

/// What all processes of a sweep must have in common.
std::string common_of(const SweepGrid& grid, const SweepOptions& options) {
  return sha256(options.fingerprint + grid.text());
}

/// Indices of the points without an answer in the file.
Points unanswered(const SweepGrid& grid, const store::SweepStore& file, States& states,
                  const SweepOptions& options, SweepSummary& summary) {
  Points points;
  std::set<std::string> asked;  // by several blocks; half a hash tells them apart
  const bool is_new = file.empty();
  for (std::int64_t index = 0; index < grid.size(); ++index) {
    if (is_new && grid.blocks() == 1) {
      points.push_back(index);
      continue;
    }
    if (index % 4096 == 0 && options.stops()) {
      summary.interrupted = true;
      return {};
    }
    const SweepPoint point = grid.at(index);
    if (grid.blocks() > 1 && !asked.insert(point.question.substr(0, 32)).second) {
      --summary.points;
      continue;
    }
    const auto known = file.find(static_cast<std::size_t>(point.subcommand), point.question);
    if (known && known->status != kOurBug && known->state == states.of(point)) {
      ++summary.known;
      count(known->status, known->reason, summary);
    } else {
      points.push_back(index);
    }
  }
  return points;
}

/// Puts rows into the file, several at once.
class Writer {
 public:
  Writer(store::SweepStore& file, std::int64_t first, SweepSummary& summary)
      : file_(file), first_(first), summary_(summary) {}
  void add(std::vector<store::PointRow>& rows) {
    for (store::PointRow& row : rows) {
      row.point += first_;
      waiting_.push_back(std::move(row));
    }
    rows.clear();
    if (waiting_.size() >= kMostRows || Clock::now() - last_ >= kBetweenCommits) put();
  }
  void put() {
    last_ = Clock::now();
    if (waiting_.empty()) return;
    file_.put(waiting_);
    for (const store::PointRow& row : waiting_) {
      const auto* reason = std::get_if<std::string>(&row.values.back());
      count(row.status, reason != nullptr ? *reason : std::string(), summary_);
    }
    summary_.predicted += static_cast<std::int64_t>(waiting_.size());
    waiting_.clear();
  }

 private:
  store::SweepStore& file_;
  std::int64_t first_;
  SweepSummary& summary_;
  std::vector<store::PointRow> waiting_;
  Clock::time_point last_ = Clock::now();
};

}  // namespace

SweepSummary run_sweep(const SweepGrid& grid, const Predictor& predictor,
                       const SweepOptions& options) {
  SweepSummary summary;
  summary.points = grid.size();
  store::SweepStore file(options.file, sweep_tables());
  States states(options.fingerprint);
  Dispenser dispenser(unanswered(grid, file, states, options, summary));
  Writer writer(file, file.first_point(grid.text(), grid.size()), summary);
  const auto begin = Clock::now();
  Workers workers(grid, predictor, states, dispenser, threads_of(options));
  const std::string common = common_of(grid, options);
  const std::size_t takers = options.ranks != nullptr ? options.ranks->size() : 1;
  const auto next = [&] { return dispenser.next(takers, kMostRankChunk); };
  std::vector<store::PointRow> rows;
  for (bool goes_on = true; goes_on;) {
    goes_on = workers.take(rows);
    if (options.ranks != nullptr) {
      while (options.ranks->serve_one(common, next, rows)) {
      }
      if (!goes_on && rows.empty()) std::this_thread::sleep_for(kTick);
      goes_on = goes_on || options.ranks->helping() > 0;
    }
    if (!summary.interrupted && options.stops()) {
      summary.interrupted = true;
      workers.stop();
    }
    writer.add(rows);
    summary.seconds = seconds_since(begin);
    options.on_progress({summary.points, summary.known, summary.predicted, summary.seconds});
  }
  writer.put();
  // A process that was ended took points along.
  if (summary.known + summary.predicted < summary.points) summary.interrupted = true;
  file.close();
  return summary;
}

void help_sweep(const SweepGrid& grid, const Predictor& predictor, const SweepOptions& options) {
  States states(options.fingerprint);
  const std::string common = common_of(grid, options);
  std::vector<store::PointRow> rows;
  for (;;) {
    Points points = options.ranks->ask(common, rows);
    rows.clear();
    if (points.empty()) return;
    Dispenser dispenser(std::move(points));
    Workers workers(grid, predictor, states, dispenser, threads_of(options));
    while (workers.take(rows))
      if (options.stops()) workers.stop();
  }
}

}  // namespace tracecast
