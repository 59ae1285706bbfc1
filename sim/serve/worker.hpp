#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <vector>

#include "sim/serve/request.hpp"
#include "sim/serve/step_price.hpp"

namespace tracecast::serve {

/// What a worker may hold, and how it drafts.
struct WorkerLimits {
  std::int64_t tokens_per_step = 1, sequences = 1;
  std::int64_t cache_blocks = 1;
  std::int64_t drafted = 0;  ///< tokens that a draft proposes a step; 0: none
  double accepted = 0;       ///< share of them that is kept, each given the one before
  double draft_seconds = 0;  ///< of a proposed token
  double time_factor = 1;    ///< on every step: for intervals
  /// What measured runs say of steps: a step's factor is the geometric mean of both, weighted by
  /// its tokens of each phase.
  double prompt_factor = 1, token_factor = 1;
  /// Who has to go keeps its cache in so many pages of the host and takes it back, instead of
  /// computing it again; 0: computes again, as does whoever finds no room there.
  std::int64_t swap_blocks = 0;
  double swap_seconds_per_token = 0;  ///< of a sequence's cache, one way
  bool prices_every_step = false;     ///< also those that stretches of decode step over
};

/// What a worker did.
struct WorkerTotals {
  std::uint64_t steps = 0, preemptions = 0;
  std::uint64_t swapped = 0;  ///< of the preemptions, those that kept their cache in the host
  double busy_us = 0, host_us = 0;
  double joules = 0;        ///< of one GPU beyond active-idle
  double in_system_us = 0;  ///< requests in it, integrated over time
  double prompt_tokens = 0, computed_again = 0, output_tokens = 0;
  double sd_us = 0;  ///< step times times their log_sd
  double guessed_us = 0;
  PartTimes parts;
  std::int64_t most_blocks = 0;  ///< in use at once
  double blocks_us = 0;          ///< in use, integrated over busy time
};

/// Time between two tokens of a sequence, how many sequences saw it, and how often in a row.
using OnGap = std::function<void(double us, double count, std::uint64_t times)>;
using OnDone = std::function<void(const Request&)>;

/// One batch of an engine, step by step, on a clock of microseconds. A step that only decodes costs
/// the same whatever the batch: sums are kept, and requests wait in a heap by the token count at
/// which they end. Of steps that only decode the same sequences, one after the other, the last is
/// priced, and those between are as linear as the prices' table: same clock and pages as step by
/// step. Whoever gave its pages back to an engine that finds prefixes finds its own, as
/// far as nobody has written over them: pages are given out in the order in which they came free,
/// those of one sequence from its end. Where the host runs ahead, a step is scheduled when the one
/// before it begins: who comes later waits for the next.
class Worker {
 public:
  /// `price`: shared by alike workers; outlives them.
  Worker(StepPrice& price, const WorkerLimits& limits, OnGap on_gap, OnDone on_done);

  void add(const Request& request);
  /// Runs steps that begin before `until`.
  void advance(Microseconds until);
  /// Runs one step, and of those that follow it the ones that begin before `until` and only decode
  /// the same sequences, up to the one in which a sequence ends; false: nothing to do before an
  /// arrival.
  bool step(Microseconds until = std::numeric_limits<Microseconds>::max());

  [[nodiscard]] Microseconds now() const { return now_; }
  [[nodiscard]] bool has_work() const { return !waiting_.empty() || active_ > 0; }
  [[nodiscard]] std::int64_t load() const {
    return static_cast<std::int64_t>(waiting_.size()) + active_;
  }
  [[nodiscard]] const WorkerTotals& totals() const { return totals_; }
  /// Whether a request's cache can ever fit.
  [[nodiscard]] bool holds(const Request& request) const;
  /// Tokens of a request's beginning that are in the cache.
  [[nodiscard]] std::int64_t kept_tokens(const Request& request) const {
    return found_tokens(request, request.input);
  }

 private:
  struct Sequence {
    Request request;
    std::int64_t context = 0;    ///< tokens of its prompt, computed again ones included
    std::int64_t filled = 0;     ///< of them in the cache
    std::int64_t shared = 0;     ///< of them found there
    std::int64_t blocks = 0;     ///< its own, as of its last change of phase
    std::int64_t begin = 0;      ///< counter of tokens when it began to decode
    std::int64_t end = 0;        ///< counter at which it ends
    std::uint64_t admitted = 0;  ///< order; 0: slot is free
    bool decodes = false;
    bool is_swapped = false;  ///< its cache is in the host, up to `context`
    bool uses_prefix = false;
    /// Of who gave its pages back: how many of its own there were, how many of them whole, and the
    /// count of pages given out from which on they are written over, the last ones first.
    std::int64_t left_behind = 0, whole_behind = 0, kept_until = 0;
  };
  /// The beginning that some requests have in common, in the cache.
  struct Prefix {
    std::int64_t tokens = 0, blocks = 0, users = 0;
    std::uint64_t last_use = 0;
  };
  using Slot = std::uint32_t;

  [[nodiscard]] std::int64_t blocks_for(std::int64_t tokens) const;
  [[nodiscard]] std::int64_t found_tokens(const Request& request, std::int64_t context) const;
  [[nodiscard]] std::int64_t own_tokens_left(const Sequence& sequence, std::int64_t shared) const;
  [[nodiscard]] std::int64_t phase_of(std::int64_t tokens) const;
  /// What the first that waits would take.
  struct Admission {
    std::int64_t found = 0, own = 0, blocks = 0;  ///< tokens, tokens, pages
    bool is_filled = false;
    bool is_within_budget = true;  ///< of the step
  };
  [[nodiscard]] std::optional<Admission> first_waiting(std::int64_t budget) const;
  bool admit(std::int64_t budget);
  [[nodiscard]] bool keeps_waiting(std::int64_t budget) const;
  bool may_begin(std::int64_t blocks, const Request& request) const;
  void fill(StepBatch& batch, std::int64_t budget, std::vector<Slot>& ended);
  bool grow(std::int64_t tokens);
  void preempt_youngest();
  void begin_decoding(Slot slot, Microseconds at);
  void release(Slot slot);
  bool drop_prefix();
  bool take_over_prefix();
  void keep_prefix(const Sequence& sequence);
  [[nodiscard]] double seconds_of(const StepBatch& batch, const StepTime& time) const;
  void step_over(const StepBatch& batch, const StepTime& first, Microseconds until);
  void finish_step(const StepBatch& batch, const StepTime& time, std::int64_t advance,
                   const std::vector<Slot>& filled);

  StepPrice& price_;
  WorkerLimits limits_;
  OnGap on_gap_;
  OnDone on_done_;
  Microseconds now_ = 0;
  Microseconds decided_ = 0;  ///< when the step to come was scheduled
  WorkerTotals totals_;

  std::deque<Sequence> waiting_;
  std::vector<Sequence> sequences_;
  std::vector<Slot> free_slots_, filling_;
  std::vector<std::pair<std::uint64_t, Slot>> by_age_;  ///< may hold some that ended
  std::priority_queue<std::pair<std::int64_t, Slot>, std::vector<std::pair<std::int64_t, Slot>>,
                      std::greater<>>
      ends_;  ///< may hold some that were preempted: `end` differs
  std::uint64_t admissions_ = 0;
  std::int64_t active_ = 0, decoding_ = 0;
  std::int64_t counter_ = 0;          ///< tokens that a decoding sequence has got since time 0
  std::int64_t keys_at_zero_ = 0;     ///< sum over decoding ones of (context - begin)
  std::int64_t to_come_ = 0;          ///< output tokens of decoding ones
  std::vector<std::int64_t> phases_;  ///< decoding ones by (context - begin) modulo a block
  std::int64_t used_blocks_ = 0, reserved_ = 0;
  std::int64_t given_out_ = 0;  ///< pages, since time 0
  std::map<std::uint32_t, Prefix> prefixes_;
  std::int64_t prefix_blocks_ = 0;
  std::int64_t swapped_blocks_ = 0;  ///< in the host
  double swap_seconds_ = 0;          ///< of the step to come
  bool gave_back_ = false;           ///< somebody, in this step
  double owed_ = 0;                  ///< accepted tokens not yet whole
};

}  // namespace tracecast::serve
