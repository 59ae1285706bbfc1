#include "sim/serve/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <queue>
#include <string>
#include <tuple>
#include <utility>

#include "sim/base/error.hpp"

namespace tracecast::serve {
namespace {

constexpr Microseconds kForever = std::numeric_limits<Microseconds>::max();

void add(WorkerTotals& to, const WorkerTotals& t) {
  to.steps += t.steps;
  to.preemptions += t.preemptions;
  to.swapped += t.swapped;
  to.busy_us += t.busy_us;
  to.host_us += t.host_us;
  to.joules += t.joules;
  to.in_system_us += t.in_system_us;
  to.prompt_tokens += t.prompt_tokens;
  to.computed_again += t.computed_again;
  to.output_tokens += t.output_tokens;
  to.sd_us += t.sd_us;
  to.guessed_us += t.guessed_us;
  to.parts.add(t.parts, 1);
  to.most_blocks = std::max(to.most_blocks, t.most_blocks);
  to.blocks_us += t.blocks_us;
}

/// Workers of a pool and who gets the next request.
class Workers {
 public:
  Workers(const Pool& pool, const OnGap& on_gap,
          const std::function<void(std::size_t, const Request&)>& on_done)
      : router_(pool.router) {
    for (std::size_t i = 0; i < pool.workers; ++i) {
      all_.push_back(std::make_unique<Worker>(*pool.price, pool.limits, on_gap,
                                              [i, on_done](const Request& r) { on_done(i, r); }));
    }
  }
  /// The worker for a request at its arrival, advanced to it.
  std::size_t route(const Request& request) {
    if (router_ == Router::RoundRobin) {
      const std::size_t i = request.number % all_.size();
      all_[i]->advance(request.arrival);
      return i;
    }
    std::size_t best = 0, fullest = 0;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      all_[i]->advance(request.arrival);
      if (all_[i]->load() < all_[best]->load()) best = i;
      if (all_[i]->load() > all_[fullest]->load()) fullest = i;
    }
    if (request.shared == 0) return best;
    if (router_ == Router::PrefixAware) return with_prefix(request.prefix, best, fullest);
    return router_ == Router::Prefix ? keeper_of(request, best) : best;
  }
  Worker& at(std::size_t i) { return *all_[i]; }
  std::size_t size() const { return all_.size(); }
  void advance(Microseconds until) {
    for (auto& worker : all_) worker->advance(until);
  }
  /// Nothing ends before it from now on, if nothing more arrives before `next`.
  Microseconds earliest_end(Microseconds next) const {
    for (const auto& worker : all_)
      if (worker->has_work()) next = std::min(next, worker->now());
    return next;
  }
  WorkerTotals totals() const {
    WorkerTotals sum;
    for (const auto& worker : all_) add(sum, worker->totals());
    return sum;
  }

 private:
  bool are_far_apart(std::size_t less, std::size_t more) const {
    constexpr std::int64_t kFarApart = 64;
    constexpr double kTimesApart = 1.5;
    const std::int64_t low = all_[less]->load(), high = all_[more]->load();
    return high - low > kFarApart &&
           static_cast<double>(high) > kTimesApart * static_cast<double>(low);
  }
  std::size_t keeper_of(const Request& request, std::size_t least) const {
    std::size_t keeper = least;
    std::int64_t most = 0;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const std::int64_t kept = all_[i]->kept_tokens(request);
      if (kept < most || kept == 0) continue;
      if (kept > most || all_[i]->load() < all_[keeper]->load()) keeper = i;
      most = kept;
    }
    return are_far_apart(least, keeper) ? least : keeper;
  }
  std::size_t with_prefix(std::uint32_t prefix, std::size_t least, std::size_t fullest) {
    std::vector<std::size_t>& known = sent_[prefix];
    if (are_far_apart(least, fullest) || known.empty()) {
      if (std::find(known.begin(), known.end(), least) == known.end()) known.push_back(least);
      return least;
    }
    return *std::min_element(known.begin(), known.end(), [&](std::size_t a, std::size_t b) {
      return all_[a]->load() < all_[b]->load();
    });
  }

  Router router_;
  std::map<std::uint32_t, std::vector<std::size_t>> sent_;  ///< workers, by prefix
  std::vector<std::unique_ptr<Worker>> all_;
};

void record(RunResult& result, const RunOptions& options, const Request& r) {
  result.output_tokens += static_cast<double>(r.output);
  result.input_tokens += static_cast<double>(r.input);
  result.span_s = std::max(result.span_s, static_cast<double>(r.last) * 1e-6);
  result.system_s += static_cast<double>(r.last - r.arrival) * 1e-6;
  if (options.on_request) options.on_request(r);
  if (r.number < options.first_measured) return;
  ++result.requests;
  const Microseconds first = r.first.value_or(r.last);
  result.ttft_ms.add(static_cast<double>(first - r.arrival) * 1e-3);
  result.queue_ms.add(static_cast<double>(r.start.value_or(first) - r.arrival) * 1e-3);
  result.e2e_ms.add(static_cast<double>(r.last - r.arrival) * 1e-3);
  if (r.output > 1)
    result.tpot_ms.add(static_cast<double>(r.last - first) * 1e-3 /
                       static_cast<double>(r.output - 1));
}

void run_open(Workers& workers, RequestSource& source, RunResult& result) {
  while (const auto request = source.next()) {
    const std::size_t i = workers.route(*request);
    if (!workers.at(i).holds(*request)) {
      ++result.turned_away;
      continue;
    }
    workers.at(i).add(*request);
  }
  workers.advance(kForever);
}

/// Each completion lets the next request into the same worker at that moment.
void run_closed(Workers& workers, RequestSource& source, std::uint64_t concurrency,
                RunResult& result, std::vector<std::pair<std::size_t, Microseconds>>& freed) {
  const auto give = [&](std::size_t worker, Microseconds at) {
    while (auto request = source.next()) {
      request->arrival = at;
      if (!workers.at(worker).holds(*request)) {
        ++result.turned_away;
        continue;
      }
      workers.at(worker).add(*request);
      return;
    }
  };
  for (std::uint64_t i = 0; i < concurrency; ++i) give(i % workers.size(), 0);
  for (;;) {
    std::size_t next = workers.size();
    for (std::size_t i = 0; i < workers.size(); ++i) {
      if (workers.at(i).has_work() &&
          (next == workers.size() || workers.at(i).now() < workers.at(next).now()))
        next = i;
    }
    if (next == workers.size()) return;
    if (!workers.at(next).step()) return;
    for (const auto& [worker, at] : std::exchange(freed, {})) give(worker, at);
  }
}

/// Prompts in their own pool; their caches go to the other one, each as soon as none can come
/// before it: what is kept are the requests in flight.
class TwoPools {
 public:
  TwoPools(const Pool& pool, const RunOptions& options, RunResult& result)
      : options_(options),
        result_(result),
        prefill_(
            *options.prefill, [](double, double, std::uint64_t) {},
            [this](std::size_t, const Request& r) { send(r); }),
        decode_(
            pool,
            [this](double us, double n, std::uint64_t times) {
              result_.itl_ms.add(us * 1e-3, n, times);
            },
            [this](std::size_t, const Request& r) { finish(r); }) {}

  void run(RequestSource& source) {
    while (auto request = source.next()) {
      prefill_.advance(request->arrival);
      receive(prefill_.earliest_end(request->arrival) + microseconds(options_.transfer_latency));
      const std::int64_t output = request->output;
      request->output = 1;
      const std::size_t i = prefill_.route(*request);
      if (!prefill_.at(i).holds(*request)) {
        ++result_.turned_away;
        continue;
      }
      in_flight_[request->number] = {request->arrival, output};
      prefill_.at(i).add(*request);
    }
    prefill_.advance(kForever);
    receive(kForever);
    decode_.advance(kForever);
    result_.prefill_totals = prefill_.totals();
    result_.totals = decode_.totals();
  }

 private:
  struct Asked {
    Microseconds arrival = 0;
    std::int64_t output = 1;
  };
  struct Later {
    bool operator()(const Request& a, const Request& b) const {
      return std::tuple(a.arrival, a.last, a.number) > std::tuple(b.arrival, b.last, b.number);
    }
  };

  static Microseconds microseconds(double seconds) { return std::llround(seconds * 1e6); }

  void send(Request r) {
    r.output = in_flight_[r.number].output;
    if (r.output == 1) {
      in_flight_.erase(r.number);
      record(result_, options_, r);
      return;
    }
    r.arrival =
        r.last + microseconds(options_.transfer_latency +
                              options_.transfer_seconds_per_token * static_cast<double>(r.input));
    r.is_filled = true;
    sent_.push(r);
  }
  /// Caches that are there before `until`.
  void receive(Microseconds until) {
    while (!sent_.empty() && sent_.top().arrival < until) {
      const Request r = sent_.top();
      sent_.pop();
      const std::size_t i = decode_.route(r);
      if (decode_.at(i).holds(r)) {
        decode_.at(i).add(r);
      } else {
        ++result_.turned_away;
        in_flight_.erase(r.number);
      }
    }
  }
  void finish(Request r) {
    const auto asked = in_flight_.find(r.number);
    r.arrival = asked->second.arrival;
    in_flight_.erase(asked);
    record(result_, options_, r);
  }

  const RunOptions& options_;
  RunResult& result_;
  std::map<std::uint64_t, Asked> in_flight_;  ///< by number
  std::priority_queue<Request, std::vector<Request>, Later> sent_;
  Workers prefill_, decode_;
};

}  // namespace

RunResult run(const Pool& pool, RequestSource& source, const RunOptions& options) {
  TRACECAST_CHECK(pool.price != nullptr && pool.workers > 0, "a pool has workers");
  if (options.prefill) {
    if (options.concurrency)
      throw InputError("--disaggregate", "--concurrency as well", "--rate or --trace");
    RunResult result;
    TwoPools(pool, options, result).run(source);
    return result;
  }
  RunResult result;
  std::vector<std::pair<std::size_t, Microseconds>> freed;
  Workers workers(
      pool,
      [&](double us, double n, std::uint64_t times) { result.itl_ms.add(us * 1e-3, n, times); },
      [&](std::size_t worker, const Request& r) {
        record(result, options, r);
        if (options.concurrency) freed.emplace_back(worker, r.last);
      });
  if (options.concurrency)
    run_closed(workers, source, *options.concurrency, result, freed);
  else
    run_open(workers, source, result);
  result.totals = workers.totals();
  return result;
}

StaticResult run_static(StepPrice& price, const StaticBatch& batch,
                        std::optional<std::int64_t> tokens_per_step) {
  TRACECAST_CHECK(!batch.inputs.empty() && batch.output >= 1, "a batch has requests");
  StaticResult result;
  const auto round_us = [](double seconds) {
    return static_cast<double>(std::max<Microseconds>(1, std::llround(seconds * 1e6)));
  };
  double prompt_us = 0, prompt_sd = 0;
  StepBatch prompts;
  const auto flush = [&] {
    if (prompts.prompt_tokens == 0) return;
    const StepTime time = price.price(prompts);
    const double us = round_us(time.seconds);
    prompt_us += us;
    prompt_sd += us * time.log_sd;
    result.first = time;
    prompts = {};
  };
  double keys = 0;
  for (const std::int64_t input : batch.inputs) {
    if (tokens_per_step && prompts.prompt_tokens + input > *tokens_per_step) flush();
    prompts.add_prompt(input, 0);
    ++prompts.words;
    ++prompts.begins;
    keys += static_cast<double>(input);
  }
  flush();
  const auto count = static_cast<std::int64_t>(batch.inputs.size());
  double token_us = 0, token_sd = 0;
  std::vector<double> steps;
  for (std::int64_t i = 1; i < batch.output; ++i) {
    StepBatch tokens;
    tokens.decodes = tokens.words = count;
    tokens.keys = keys + static_cast<double>(count * i);
    const StepTime time = price.price(tokens);
    const double us = round_us(time.seconds);
    token_us += us;
    token_sd += us * time.log_sd;
    steps.push_back(us);
    if (i == (batch.output + 1) / 2) result.middle = time;
  }
  result.ttft_ms = prompt_us * 1e-3;
  result.first_log_sd = prompt_sd / prompt_us;
  result.e2e_ms = (prompt_us + token_us) * 1e-3;
  result.whole_log_sd = (prompt_sd + token_sd) / (prompt_us + token_us);
  if (!steps.empty()) {
    result.tpot_ms = token_us * 1e-3 / static_cast<double>(steps.size());
    result.token_log_sd = token_sd / token_us;
    std::sort(steps.begin(), steps.end());
    const auto at = [&](std::size_t percent) {
      return steps[std::min(steps.size() - 1, steps.size() * percent / 100)] * 1e-3;
    };
    result.token_p50_ms = at(50);
    result.token_p90_ms = at(90);
    result.token_p99_ms = at(99);
  }
  return result;
}

}  // namespace tracecast::serve
