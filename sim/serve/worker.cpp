#include "sim/serve/worker.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/error.hpp"

namespace tracecast::serve {

Worker::Worker(StepPrice& price, const WorkerLimits& limits, OnGap on_gap, OnDone on_done)
    : price_(price),
      limits_(limits),
      on_gap_(std::move(on_gap)),
      on_done_(std::move(on_done)),
      phases_(static_cast<std::size_t>(price.engine().block_tokens), 0) {
  TRACECAST_CHECK(limits.tokens_per_step > 0 && limits.sequences > 0 && limits.cache_blocks > 0,
                  "a worker can hold something");
}

std::int64_t Worker::blocks_for(std::int64_t tokens) const {
  const std::int64_t block = price_.engine().block_tokens;
  return (tokens + block - 1) / block;
}

std::int64_t Worker::phase_of(std::int64_t tokens) const {
  const std::int64_t block = price_.engine().block_tokens;
  return ((tokens % block) + block) % block;
}

bool Worker::holds(const Request& request) const {
  return blocks_for(request.input + request.output) <= limits_.cache_blocks &&
         (price_.engine().chunks_prompts || request.input <= limits_.tokens_per_step);
}

void Worker::add(const Request& request) {
  Sequence sequence;
  sequence.request = request;
  sequence.context = request.input;
  if (!has_work() && now_ < request.arrival) now_ = request.arrival;
  // Those that come while a step runs are seen at its end.
  if (now_ > request.arrival) totals_.in_system_us += static_cast<double>(now_ - request.arrival);
  waiting_.push_back(sequence);
}

void Worker::advance(Microseconds until) {
  while (has_work() && now_ < until)
    if (!step(until)) return;
}

/// Whether `blocks` more can be given to a request, by the engine's rule.
bool Worker::may_begin(std::int64_t blocks, const Request& request) const {
  const EngineProfile& engine = price_.engine();
  const std::int64_t free = limits_.cache_blocks - used_blocks_;
  // A request alone always begins: it fits, or it was turned away.
  if (active_ == 0) return blocks <= free;
  switch (engine.admission) {
    case EngineAdmission::AsNeeded:
      break;
    case EngineAdmission::Estimated:
      return blocks +
                 blocks_for(static_cast<std::int64_t>(
                     engine.reserved_share * static_cast<double>(to_come_ + request.output))) <=
             free;
    case EngineAdmission::Reserved:
      return reserved_ + blocks_for(request.input + request.output) <= limits_.cache_blocks;
  }
  const auto kept =
      static_cast<std::int64_t>(engine.watermark * static_cast<double>(limits_.cache_blocks));
  return blocks + kept <= free;
}

/// Gives back the pages of the beginning that was used least lately and by nobody now. False: there
/// is none.
bool Worker::drop_prefix() {
  auto oldest = prefixes_.end();
  for (auto it = prefixes_.begin(); it != prefixes_.end(); ++it) {
    if (it->second.users == 0 &&
        (oldest == prefixes_.end() || it->second.last_use < oldest->second.last_use))
      oldest = it;
  }
  if (oldest == prefixes_.end()) return false;
  used_blocks_ -= oldest->second.blocks;
  prefix_blocks_ -= oldest->second.blocks;
  prefixes_.erase(oldest);
  return true;
}

/// The one sequence that is left takes over what it shares of a longer beginning. False: it shares
/// nothing.
bool Worker::take_over_prefix() {
  for (Sequence& s : sequences_) {
    if (s.admitted == 0 || !s.uses_prefix) continue;
    const std::int64_t own = s.shared / price_.engine().block_tokens;
    s.blocks += own;
    s.shared = 0;
    s.uses_prefix = false;
    used_blocks_ += own;
    --prefixes_[s.request.prefix].users;
    return drop_prefix();
  }
  return false;
}

/// The pages of a prompt's beginning become everybody's and stay, in half of the cache at most.
void Worker::keep_prefix(const Sequence& s) {
  const std::int64_t whole = s.request.shared / price_.engine().block_tokens;
  const std::int64_t most = limits_.cache_blocks / 2;
  if (whole == 0 || whole > most) return;
  Prefix& prefix = prefixes_[s.request.prefix];
  const std::int64_t more = whole - prefix.blocks;
  ++prefix.users;  // not the one to go
  while (more > 0 && prefix_blocks_ + more > most && drop_prefix()) {
  }
  --prefix.users;
  prefix.last_use = admissions_;
  if (more <= 0) return;
  if (prefix_blocks_ + more > most || used_blocks_ + more >= limits_.cache_blocks) {
    if (prefix.blocks == 0) prefixes_.erase(s.request.prefix);
    return;
  }
  prefix.blocks = whole;
  prefix.tokens = whole * price_.engine().block_tokens;
  prefix_blocks_ += more;
  used_blocks_ += more;
}

/// Whole pages of what it shares that are there: one token at least is left to compute.
std::int64_t Worker::found_tokens(const Request& request, std::int64_t context) const {
  const EngineProfile& engine = price_.engine();
  if (!engine.caches_prefixes || request.shared == 0) return 0;
  const auto prefix = prefixes_.find(request.prefix);
  if (prefix == prefixes_.end()) return 0;
  const std::int64_t whole =
      std::min(request.shared, context - 1) / engine.block_tokens * engine.block_tokens;
  return std::min(whole, prefix->second.tokens);
}

/// Tokens behind `shared` ones that a sequence finds of what it computed before it gave its pages
/// back.
std::int64_t Worker::own_tokens_left(const Sequence& s, std::int64_t shared) const {
  if (s.left_behind == 0) return 0;
  const std::int64_t gone = std::max<std::int64_t>(0, given_out_ - s.kept_until);
  const std::int64_t pages = std::clamp<std::int64_t>(s.left_behind - gone, 0, s.whole_behind);
  const std::int64_t tokens = pages * price_.engine().block_tokens;
  return std::clamp<std::int64_t>(tokens, 0, std::max<std::int64_t>(0, s.context - 1 - shared));
}

/// Nothing: nobody waits, or nobody more may be in the batch.
std::optional<Worker::Admission> Worker::first_waiting(std::int64_t budget) const {
  if (waiting_.empty() || active_ >= limits_.sequences) return {};
  const Sequence& first = waiting_.front();
  const EngineProfile& engine = price_.engine();
  Admission a;
  a.found = found_tokens(first.request, first.context);
  a.is_filled = first.request.is_filled || first.is_swapped;
  a.own = a.is_filled ? 0 : own_tokens_left(first, a.found);
  const std::int64_t uncached = a.is_filled ? 0 : first.context - a.found - a.own;
  a.is_within_budget = engine.chunks_prompts || uncached <= budget;
  a.blocks = blocks_for(first.context + 1) - a.found / engine.block_tokens;
  return a;
}

/// Whether the first that waits cannot begin as long as nobody goes: pages only get fewer.
bool Worker::keeps_waiting(std::int64_t budget) const {
  const std::optional<Admission> a = first_waiting(budget);
  if (!a) return true;
  // What is to come falls with every token.
  if (price_.engine().admission == EngineAdmission::Estimated) return false;
  // Whoever came after the step was scheduled may begin in the next.
  const Request& first = waiting_.front().request;
  if (price_.engine().overlaps_host && first.arrival > decided_) return false;
  return !a->is_within_budget || !may_begin(a->blocks, first);
}

/// Takes the first that waits if it may begin.
bool Worker::admit(std::int64_t budget) {
  const std::optional<Admission> a = first_waiting(budget);
  if (!a) return false;
  Sequence& first = waiting_.front();
  const EngineProfile& engine = price_.engine();
  if (engine.overlaps_host && active_ > 0 && first.request.arrival > decided_) return false;
  if (!a->is_within_budget) return false;
  if (active_ == 0 && a->blocks > limits_.cache_blocks - used_blocks_ && drop_prefix())
    return admit(budget);
  if (!may_begin(a->blocks, first.request)) return false;

  Slot slot = 0;
  if (free_slots_.empty()) {
    slot = static_cast<Slot>(sequences_.size());
    sequences_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  Sequence& s = sequences_[slot];
  s = first;
  waiting_.pop_front();
  s.shared = a->found;
  s.filled = a->is_filled ? s.context : a->found + a->own;
  totals_.computed_again -= static_cast<double>(a->own);
  s.left_behind = 0;
  s.blocks = a->blocks;
  s.uses_prefix = a->found > 0;
  if (a->found > 0) {
    Prefix& prefix = prefixes_[s.request.prefix];
    ++prefix.users;
    prefix.last_use = admissions_;
  }
  if (s.is_swapped) {
    swapped_blocks_ -= blocks_for(s.context);
    swap_seconds_ += static_cast<double>(s.context - a->found) * limits_.swap_seconds_per_token;
  }
  s.admitted = ++admissions_;
  s.decodes = false;
  if (!s.request.start) s.request.start = now_;
  used_blocks_ += a->blocks;
  given_out_ += a->blocks;
  reserved_ += blocks_for(s.request.input + s.request.output);
  ++active_;
  by_age_.emplace_back(s.admitted, slot);
  filling_.push_back(slot);
  return true;
}

void Worker::begin_decoding(Slot slot, Microseconds at) {
  Sequence& s = sequences_[slot];
  if (!s.request.first) s.request.first = at;
  // What was computed again after a preemption holds the tokens given so far.
  const std::int64_t left = s.request.output - (s.context - s.request.input) - 1;
  if (left <= 0) {
    s.request.last = at;
    const Request done = s.request;
    release(slot);
    on_done_(done);
    return;
  }
  s.decodes = true;
  s.is_swapped = false;
  s.begin = counter_;
  s.end = counter_ + left;
  ++decoding_;
  keys_at_zero_ += s.context + 1 - s.begin;
  to_come_ += left;
  ++phases_[static_cast<std::size_t>(phase_of(s.context + 1 - s.begin))];
  ends_.emplace(s.end, slot);
}

void Worker::release(Slot slot) {
  Sequence& s = sequences_[slot];
  std::int64_t blocks = s.blocks;
  if (s.decodes) {
    const std::int64_t given = counter_ - s.begin;
    blocks += blocks_for(s.context + 1 + given) - blocks_for(s.context + 1);
    --decoding_;
    keys_at_zero_ -= s.context + 1 - s.begin;
    to_come_ -= s.end - counter_;
    --phases_[static_cast<std::size_t>(phase_of(s.context + 1 - s.begin))];
  }
  used_blocks_ -= blocks;
  if (s.uses_prefix) --prefixes_[s.request.prefix].users;
  s.uses_prefix = false;
  reserved_ -= blocks_for(s.request.input + s.request.output);
  s.admitted = 0;
  --active_;
  free_slots_.push_back(slot);
}

void Worker::preempt_youngest() {
  while (!by_age_.empty()) {
    const auto [admitted, slot] = by_age_.back();
    by_age_.pop_back();
    Sequence& s = sequences_[slot];
    if (s.admitted != admitted) continue;
    Sequence again = s;
    if (s.decodes) again.context = s.context + (counter_ - s.begin) + 1;
    again.filled = 0;
    again.is_swapped = again.uses_prefix = false;
    again.request.is_filled = false;
    ++again.request.preemptions;
    // The last token of a sequence that decodes is not in the cache yet.
    const std::int64_t kept = again.context - 1;
    if (price_.engine().caches_prefixes) {
      const std::int64_t block = price_.engine().block_tokens;
      const std::int64_t held = (s.decodes ? kept : s.filled) - s.shared;
      again.whole_behind = held / block;
      again.left_behind = std::max(s.blocks, blocks_for(held));
      again.kept_until = given_out_ + limits_.cache_blocks - used_blocks_;
    }
    if (s.decodes && swapped_blocks_ + blocks_for(kept) <= limits_.swap_blocks) {
      again.context = kept;
      again.is_swapped = true;
      swapped_blocks_ += blocks_for(kept);
      swap_seconds_ += static_cast<double>(kept - s.shared) * limits_.swap_seconds_per_token;
      ++totals_.swapped;
    } else {
      totals_.computed_again += static_cast<double>(s.decodes ? again.context : s.filled);
    }
    filling_.erase(std::remove(filling_.begin(), filling_.end(), slot), filling_.end());
    release(slot);
    waiting_.push_front(again);
    gave_back_ = true;
    ++totals_.preemptions;
    return;
  }
}

/// Pages for `tokens` more of every decoding sequence, preempting as long as there are too few.
bool Worker::grow(std::int64_t tokens) {
  const auto block = static_cast<std::int64_t>(phases_.size());
  for (;;) {
    std::int64_t needed = 0;
    // Sequence of length L = phase + counter gets a page where L is a multiple of a block.
    for (std::int64_t t = 0; t < tokens; ++t)
      needed += phases_[static_cast<std::size_t>((block - (counter_ + t) % block) % block)];
    if (used_blocks_ + needed <= limits_.cache_blocks) {
      used_blocks_ += needed;
      given_out_ += needed;
      return true;
    }
    if (active_ > 1)
      preempt_youngest();
    else if (!drop_prefix() && !take_over_prefix())
      return false;
  }
}

/// Prompts of the step: those begun, then new ones, within `budget` tokens.
void Worker::fill(StepBatch& batch, std::int64_t budget, std::vector<Slot>& ended) {
  const bool chunks = price_.engine().chunks_prompts;
  std::vector<Slot> still;
  const auto take = [&](Slot slot) {
    Sequence& s = sequences_[slot];
    const std::int64_t uncached = s.context - s.filled;
    const std::int64_t now = chunks ? std::min(uncached, budget) : uncached;
    if (now > 0) {
      if (s.filled == s.shared) ++batch.begins;
      batch.add_prompt(now, s.filled);
      s.filled += now;
      budget -= now;
      totals_.prompt_tokens += static_cast<double>(now);
    }
    if (s.filled == s.context) {
      ended.push_back(slot);
      if (!s.request.is_filled && !s.is_swapped) ++batch.words;
    } else {
      still.push_back(slot);
    }
  };
  std::vector<Slot> begun;
  begun.swap(filling_);
  for (const Slot slot : begun) {
    if (budget > 0)
      take(slot);
    else
      still.push_back(slot);
  }
  // Whoever had to go waits a step at least.
  while (budget > 0 && !gave_back_ && admit(budget)) {
    const Slot slot = filling_.back();
    filling_.pop_back();
    take(slot);
  }
  filling_ = std::move(still);
}

bool Worker::step(Microseconds until) {
  if (!has_work()) return false;
  const EngineProfile& engine = price_.engine();
  StepBatch batch;
  std::vector<Slot> filled;
  std::int64_t advance = 0;
  const bool mixed = engine.batching == EngineBatching::Mixed;
  std::int64_t budget = limits_.tokens_per_step;
  gave_back_ = false;
  if (active_ == 0) decided_ = now_;
  const auto decode = [&] {
    if (decoding_ == 0) return;
    batch.verified = 1 + limits_.drafted;
    advance = 1;
    if (limits_.drafted > 0) {
      const double a = limits_.accepted;
      owed_ += a >= 1 ? static_cast<double>(batch.verified)
                      : (1 - std::pow(a, static_cast<double>(batch.verified))) / (1 - a);
      advance = static_cast<std::int64_t>(std::floor(owed_));
      owed_ -= static_cast<double>(advance);
    }
    // Alone it has room: requests that cannot fit were turned away.
    const bool grown = grow(advance);
    TRACECAST_CHECK(grown, "a sequence alone fits");
    batch.decodes = decoding_;
    batch.keys = static_cast<double>(keys_at_zero_ + counter_ * decoding_);
    batch.words += decoding_ * batch.verified;
    budget -= decoding_ * batch.verified;
  };
  if (mixed) {
    decode();
    if (budget > 0) fill(batch, budget, filled);
  } else {
    fill(batch, budget, filled);
    if (batch.prompt_tokens == 0 && filled.empty()) decode();
  }
  if (batch.prompt_tokens == 0 && batch.decodes == 0 && filled.empty()) return false;
  const StepTime time = price_.price(batch);
  finish_step(batch, time, advance, filled);
  step_over(batch, time, until);
  return true;
}

double Worker::seconds_of(const StepBatch& batch, const StepTime& time) const {
  double seconds = time.seconds;
  if (batch.decodes > 0) seconds += static_cast<double>(limits_.drafted) * limits_.draft_seconds;
  if (limits_.prompt_factor != limits_.token_factor || limits_.token_factor != 1) {
    const auto prompts = static_cast<double>(batch.prompt_tokens),
               tokens = static_cast<double>(batch.decodes * batch.verified);
    const double share = prompts + tokens > 0 ? prompts / (prompts + tokens) : 0;
    seconds *= std::exp(share * std::log(limits_.prompt_factor) +
                        (1 - share) * std::log(limits_.token_factor));
  }
  return seconds;
}

/// The steps that follow `batch`, which took `first`, as long as they decode the same sequences and
/// none of them ends, is given way to or joined. Between the two prices a step's time is linear;
/// each is rounded to the clock as if it had a price of its own.
void Worker::step_over(const StepBatch& batch, const StepTime& first, Microseconds until) {
  if (limits_.prices_every_step || limits_.drafted > 0 || batch.decodes == 0 ||
      batch.prompt_tokens > 0 || batch.words != batch.decodes || active_ != batch.decodes ||
      decoding_ != batch.decodes || now_ >= until)
    return;
  const auto growth = static_cast<double>(batch.decodes);  // of the keys, with a step
  if (static_cast<double>(keys_at_zero_ + counter_ * decoding_) != batch.keys + growth) return;
  const double room = first.linear_until - batch.keys;
  std::int64_t most = std::min(ends_.top().first - counter_ - 1,
                               static_cast<std::int64_t>(std::max(0.0, room / growth)));
  const double to_us = 1e6 * limits_.time_factor;
  const double began = seconds_of(batch, first) * to_us;
  if (static_cast<double>(until - now_) < began * static_cast<double>(most))
    most = static_cast<std::int64_t>(static_cast<double>(until - now_) / began) + 1;
  const bool mixed = price_.engine().batching == EngineBatching::Mixed;
  if (most < 2 || !keeps_waiting(limits_.tokens_per_step - (mixed ? decoding_ : 0))) return;

  StepBatch last_batch = batch;
  StepTime last;
  for (;; most /= 2) {
    if (most < 2) return;
    last_batch.keys = batch.keys + growth * static_cast<double>(most);
    last = price_.price(last_batch);
    if (last.is_host_bound == first.is_host_bound) break;
  }
  const auto span = static_cast<double>(most);
  const double ended = seconds_of(last_batch, last) * to_us;
  const auto block = static_cast<std::int64_t>(phases_.size());
  std::int64_t phase = (block - counter_ % block) % block;
  const double variance = price_.covariance(first, first),
               covariance = price_.covariance(first, last),
               last_variance = price_.covariance(last, last);
  std::int64_t steps = 0, sum = 0, row = 0, row_us = 0;
  double sd_us = 0, blocks_us = 0;
  const auto give_row = [&] {
    if (row > 0) on_gap_(static_cast<double>(row_us), growth, static_cast<std::uint64_t>(row));
  };
  while (steps < most && now_ < until) {
    const std::int64_t needed = phases_[static_cast<std::size_t>(phase)];
    if (used_blocks_ + needed > limits_.cache_blocks) break;
    used_blocks_ += needed;
    given_out_ += needed;
    phase = phase == 0 ? block - 1 : phase - 1;
    ++steps;
    const double part = static_cast<double>(steps) / span, rest = 1 - part;
    const std::int64_t us = std::max<std::int64_t>(1, std::llround(began + part * (ended - began)));
    if (us != row_us) {
      give_row();
      row_us = us;
      row = 0;
    }
    ++row;
    sum += us;
    sd_us += static_cast<double>(us) *
             std::sqrt(rest * rest * variance + 2 * part * rest * covariance +
                       part * part * last_variance) /
             (rest * first.seconds + part * last.seconds);
    blocks_us += static_cast<double>(us) * static_cast<double>(used_blocks_);
    decided_ = now_;
    now_ += us;
  }
  if (steps == 0) return;
  give_row();
  const auto us = static_cast<double>(sum), count = static_cast<double>(steps);
  const double share = (count + 1) / (2 * span);  // of `last` in the mean of the steps
  const auto total = [&](double at_first, double at_last) {
    return count * (at_first + share * (at_last - at_first));
  };
  totals_.in_system_us += us * static_cast<double>(load());
  totals_.steps += static_cast<std::uint64_t>(steps);
  totals_.busy_us += us;
  totals_.host_us += 1e6 * total(std::max(0.0, first.seconds - first.gpu_seconds),
                                 std::max(0.0, last.seconds - last.gpu_seconds));
  totals_.joules += total(first.parts.joules, last.parts.joules);
  totals_.sd_us += sd_us;
  totals_.guessed_us += 1e6 * total(first.parts.guessed, last.parts.guessed);
  totals_.parts.add(first.parts, count * (1 - share));
  totals_.parts.add(last.parts, count * share);
  totals_.most_blocks = std::max(totals_.most_blocks, used_blocks_);
  totals_.blocks_us += blocks_us;
  counter_ += steps;
  to_come_ -= steps * decoding_;
}

void Worker::finish_step(const StepBatch& batch, const StepTime& time, std::int64_t advance,
                         const std::vector<Slot>& filled) {
  const double seconds = seconds_of(batch, time) + std::exchange(swap_seconds_, 0);
  const Microseconds took =
      seconds > 0 ? std::max<Microseconds>(1, std::llround(seconds * 1e6 * limits_.time_factor))
                  : 0;
  const auto us = static_cast<double>(took);
  totals_.in_system_us += us * static_cast<double>(load());
  decided_ = now_;
  now_ += took;
  ++totals_.steps;
  totals_.busy_us += us;
  totals_.host_us += 1e6 * std::max(0.0, time.seconds - time.gpu_seconds);
  totals_.joules += time.parts.joules;
  totals_.sd_us += us * time.log_sd;
  totals_.guessed_us += 1e6 * time.parts.guessed;
  totals_.parts.add(time.parts, 1);
  totals_.most_blocks = std::max(totals_.most_blocks, used_blocks_);
  totals_.blocks_us += us * static_cast<double>(used_blocks_);
  if (batch.decodes > 0 && advance > 0) {
    // Of a draft's tokens one comes at the step's end, the others with it.
    on_gap_(us / static_cast<double>(advance), static_cast<double>(batch.decodes * advance), 1);
    counter_ += advance;
    to_come_ -= advance * decoding_;
    while (!ends_.empty() && ends_.top().first <= counter_) {
      const auto [end, slot] = ends_.top();
      ends_.pop();
      Sequence& s = sequences_[slot];
      if (s.admitted == 0 || !s.decodes || s.end != end) continue;
      s.request.last = now_;
      totals_.output_tokens += static_cast<double>(s.request.output);
      const Request done = s.request;
      release(slot);
      on_done_(done);
    }
  }
  for (const Slot slot : filled) {
    if (sequences_[slot].request.output == 1) totals_.output_tokens += 1;
    begin_decoding(slot, now_);
  }
  if (by_age_.size() > 64 + 4 * static_cast<std::size_t>(active_)) {
    by_age_.erase(
        std::remove_if(by_age_.begin(), by_age_.end(),
                       [&](const auto& e) { return sequences_[e.second].admitted != e.first; }),
        by_age_.end());
  }
  if (price_.engine().caches_prefixes)
    for (const Slot slot : filled) keep_prefix(sequences_[slot]);
}

}  // namespace tracecast::serve
