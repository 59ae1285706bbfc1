#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/sim/serve/small_server.hpp"

namespace tracecast::test {
namespace {

using namespace serve;

RunResult run_load(const Pool& pool, const LoadOptions& load, const RunOptions& options = {}) {
  return run(pool, *make_load(load), options);
}

TEST_SUITE_BEGIN("sim/serve/simulation");

TEST_CASE("tokens and requests are conserved, whatever the engine and however small the cache") {
  for (const char* engine : {"vllm_v1", "vllm_v0", "sglang", "tensorrt_llm", "ideal"}) {
    SmallServer server(engine);
    for (const std::int64_t tokens : {1'000, 4'000, 200'000}) {
      CAPTURE(engine);
      CAPTURE(tokens);
      double inputs = 0, outputs = 0;
      std::vector<Request> seen;
      RunOptions options;
      options.on_request = [&](const Request& r) { seen.push_back(r); };
      const Pool pool = server.pool(tokens / server.profile.block_tokens);
      const LoadOptions load = SmallServer::load(20, 120);
      const RunResult result = run_load(pool, load, options);
      auto source = make_load(load);
      while (const auto r = source->next()) {
        inputs += static_cast<double>(r->input);
        outputs += static_cast<double>(r->output);
      }
      CHECK(result.requests == 120);
      CHECK(result.turned_away == 0);
      CHECK(result.output_tokens == outputs);
      CHECK(result.totals.output_tokens == outputs);
      CHECK(result.totals.prompt_tokens - result.totals.computed_again == inputs);
      if (tokens == 200'000) CHECK(result.totals.preemptions == 0);
      for (const Request& r : seen) {
        CHECK(r.start.value() >= r.arrival);
        CHECK(r.first.value() > r.start.value());
        CHECK((r.output == 1 ? r.last == r.first.value() : r.last > r.first.value()));
      }
    }
  }
}

TEST_CASE("a request alone takes exactly what a batch of one does") {
  for (const char* engine : {"vllm_v1", "sglang", "ideal"}) {
    CAPTURE(engine);
    SmallServer server(engine);
    LoadOptions load = SmallServer::load(0.01, 1, 900, 64);
    load.lengths.least_share = 1;
    const RunResult alone = run_load(server.pool(10'000 * 16), load);
    const StaticResult batch = run_static(*server.price, {{900}, 64});
    CHECK(alone.ttft_ms.mean() == doctest::Approx(batch.ttft_ms).epsilon(1e-12));
    CHECK(alone.tpot_ms.mean() == doctest::Approx(batch.tpot_ms).epsilon(1e-12));
    CHECK(alone.e2e_ms.mean() == doctest::Approx(batch.e2e_ms).epsilon(1e-12));
  }
}

TEST_CASE("of the steps of a batch, each percentile is at least the one below it") {
  for (const char* engine : {"vllm_v1", "sglang", "ideal"}) {
    for (const std::int64_t output : {2, 3, 32, 200}) {
      CAPTURE(engine);
      CAPTURE(output);
      SmallServer server(engine);
      const StaticResult batch = run_static(*server.price, {{900, 900}, output});
      CHECK(batch.token_p50_ms <= batch.token_p90_ms);
      CHECK(batch.token_p90_ms <= batch.token_p99_ms);
      CHECK(batch.token_p99_ms >= batch.tpot_ms);  // steps grow with what is cached
    }
  }
}

/// Every figure of two runs of the same requests.
void check_same(const RunResult& a, const RunResult& b) {
  const auto near = [](double value) { return doctest::Approx(value).epsilon(1e-9).scale(1e-9); };
  CHECK(a.requests == b.requests);
  CHECK(a.totals.steps == b.totals.steps);
  CHECK(a.totals.preemptions == b.totals.preemptions);
  CHECK(a.totals.swapped == b.totals.swapped);
  CHECK(a.totals.most_blocks == b.totals.most_blocks);
  CHECK(a.span_s == b.span_s);
  CHECK(a.totals.busy_us == b.totals.busy_us);
  CHECK(a.totals.blocks_us == near(b.totals.blocks_us));
  CHECK(a.totals.in_system_us == near(b.totals.in_system_us));
  CHECK(a.totals.joules == near(b.totals.joules));
  CHECK(a.totals.host_us == near(b.totals.host_us));
  CHECK(a.totals.sd_us == near(b.totals.sd_us));
  for (std::size_t i = 0; i < kStepParts; ++i) {
    CAPTURE(i);
    CHECK(a.totals.parts.seconds[i] == near(b.totals.parts.seconds[i]));
    CHECK(a.totals.parts.uncertainty[i] == near(b.totals.parts.uncertainty[i]));
  }
  for (const auto& [x, y] : {std::pair{&a.ttft_ms, &b.ttft_ms}, std::pair{&a.tpot_ms, &b.tpot_ms},
                             std::pair{&a.itl_ms, &b.itl_ms}, std::pair{&a.e2e_ms, &b.e2e_ms}}) {
    CHECK(x->weight() == y->weight());
    CHECK(x->mean() == near(y->mean()));
    for (const double q : {0.1, 0.5, 0.9, 0.99}) CHECK(x->quantile(q) == y->quantile(q));
  }
}

TEST_CASE("stepping over decode gives what pricing every step gives, to the microsecond") {
  Random random(20);
  for (const char* engine : {"vllm_v1", "vllm_v0", "sglang", "tensorrt_llm", "ideal"}) {
    SmallServer server(engine);
    for (int load_number = 0; load_number < 6; ++load_number) {
      const auto between = [&](double low, double high) {
        return low * std::pow(high / low, random.uniform());
      };
      LoadOptions load = SmallServer::load(between(0.2, 40), 150);
      load.lengths.input = std::llround(between(20, 3000));
      load.lengths.output = std::llround(between(2, 3000));
      load.seed = random.next() % 1000 + 1;
      Pool pool =
          server.pool(std::llround(between(500, 20'000)), 2048, std::llround(between(2, 256)));
      pool.limits.token_factor = between(0.5, 2);
      pool.limits.time_factor = between(0.8, 1.25);
      pool.limits.swap_blocks = load_number % 2 == 0 ? 0 : 1000;
      pool.limits.swap_seconds_per_token = 1e-6;
      pool.workers = 1 + static_cast<std::uint32_t>(load_number % 3);
      RunOptions options;
      const bool is_closed = load_number % 2 == 1;
      if (is_closed) options.concurrency = static_cast<std::uint64_t>(between(1, 64));
      CAPTURE(engine);
      CAPTURE(load_number);
      const auto result = [&] {
        return run(pool, is_closed ? *make_closed_load(load) : *make_load(load), options);
      };
      const RunResult over = result();
      pool.limits.prices_every_step = true;
      check_same(over, result());
    }
  }
}

TEST_CASE("a long answer's steps are not priced one by one") {
  SmallServer server;
  LoadOptions load = SmallServer::load(1, 1, 100, 40'000);
  load.lengths.least_share = 1;
  const RunResult r = run_load(server.pool(10'000), load);
  CHECK(r.totals.steps == 40'000);
  CHECK(server.price->priced() < 1000);
}

TEST_CASE("more load never lowers the 99th percentile") {
  // The same requests, their gaps shrunk: what comes sooner finds no fewer before it.
  for (const char* engine : {"vllm_v1", "sglang"}) {
    SmallServer server(engine);
    double first = 0, whole = 0;
    for (const double rate : {0.5, 2.0, 8.0, 32.0, 128.0}) {
      CAPTURE(engine);
      CAPTURE(rate);
      const RunResult r = run_load(server.pool(100'000), SmallServer::load(rate, 400));
      CHECK(r.ttft_ms.quantile(0.99) >= first);
      CHECK(r.e2e_ms.quantile(0.99) >= whole);
      first = r.ttft_ms.quantile(0.99);
      whole = r.e2e_ms.quantile(0.99);
    }
  }
}

TEST_CASE("a larger cache preempts less: over many runs, and not at all once everybody has room") {
  // Of a single run it is not true of engines that admit as needed: what a smaller cache kept out
  // cannot be preempted.
  SmallServer server;
  double before = 1e9;
  for (const std::int64_t blocks : {200, 400, 800, 1600, 6400}) {
    CAPTURE(blocks);
    double preempted = 0;
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      LoadOptions load = SmallServer::load(50, 200);
      load.seed = seed;
      const RunResult r = run_load(server.pool(blocks), load);
      CHECK(r.totals.most_blocks <= blocks);
      preempted += static_cast<double>(r.totals.preemptions);
    }
    CHECK((preempted < before || before == 0));
    before = preempted;
  }
  CHECK(before == 0);
}

TEST_CASE("one run may preempt more with a larger cache: pages let more in than they keep") {
  // Three requests of a page that grow to two. Two pages: A and B begin, B gives way once, then
  // each runs alone. Three pages: all begin, C gives way to A's growth and B as well, then each
  // runs alone: two.
  SmallServer server;
  const std::int64_t page = server.profile.block_tokens;
  for (const auto& [blocks, preemptions] : {std::pair{2, 1}, std::pair{3, 2}, std::pair{6, 0}}) {
    CAPTURE(blocks);
    std::vector<Request> requests(3);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      requests[i].number = i;
      requests[i].input = page - 2;
      requests[i].output = page / 2;
    }
    const RunResult r = run(server.pool(blocks), *replay(requests), {});
    CHECK(r.requests == 3);
    CHECK(r.totals.preemptions == static_cast<std::uint64_t>(preemptions));
  }
}

TEST_CASE("who gave its pages back finds those that nobody has written over") {
  // Four pages, two requests of nearly two that grow to three. The younger gives its two back; the
  // older takes one of them, the one of its end, and keeps to it: of the two one page is found
  // again.
  std::vector<double> computed;
  for (const bool finds : {false, true}) {
    SmallServer server;
    server.profile.caches_prefixes = finds;
    server.reprice();
    const std::int64_t page = server.profile.block_tokens;
    std::vector<Request> requests(2);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      requests[i].number = i;
      requests[i].input = 2 * page - 2;
      requests[i].output = page;
    }
    const RunResult r = run(server.pool(4), *replay(requests), {});
    CHECK(r.totals.preemptions == 1);
    CHECK(r.totals.prompt_tokens == doctest::Approx(r.input_tokens + r.totals.computed_again));
    computed.push_back(r.totals.computed_again);
    if (finds) CHECK(computed[0] - computed[1] == doctest::Approx(static_cast<double>(page)));
  }
}

TEST_CASE("caches that are swapped come back as they were: nothing is computed again") {
  SmallServer server;
  LoadOptions load = SmallServer::load(50, 200);
  load.lengths.least_share = 1;
  Pool pool = server.pool(200);
  const RunResult again = run_load(pool, load);
  REQUIRE(again.totals.preemptions > 0);
  CHECK(again.totals.computed_again > 0);
  pool.limits.swap_blocks = 10'000;
  pool.limits.swap_seconds_per_token = 1e-7;
  const RunResult swapped = run_load(pool, load);
  CHECK(swapped.totals.preemptions > 0);
  CHECK(swapped.totals.swapped > 0);
  CHECK(swapped.totals.computed_again < again.totals.computed_again);
  // Those swapped computed nothing twice: prompts are the requests' own and those of the few that
  // were cut short as they began.
  CHECK(swapped.totals.prompt_tokens ==
        doctest::Approx(swapped.input_tokens + swapped.totals.computed_again));
  CHECK(swapped.totals.output_tokens == 200 * 100);
  CHECK(swapped.requests == 200);
  // A host without room is as good as none.
  pool.limits.swap_blocks = 0;
  CHECK(run_load(pool, load).totals.preemptions == again.totals.preemptions);
  // Slow ways take longer.
  pool.limits.swap_blocks = 10'000;
  pool.limits.swap_seconds_per_token = 1e-4;
  CHECK(run_load(pool, load).e2e_ms.mean() > swapped.e2e_ms.mean());
}

TEST_CASE("requests that begin alike go where their beginning is kept") {
  SmallServer server;
  LoadOptions load = SmallServer::load(40, 1000, 2000, 20);
  load.lengths.shared = 1600;
  load.lengths.prefixes = 64;
  Pool pool = server.pool(4000);
  pool.workers = 8;
  pool.router = Router::RoundRobin;
  const RunResult round = run_load(pool, load);
  pool.router = Router::PrefixAware;
  const RunResult aware = run_load(pool, load);
  CHECK(aware.requests == 1000);
  CHECK(aware.totals.output_tokens == round.totals.output_tokens);
  // In turn every one of the 8 computes each of the prefixes that it keeps; by beginning one does.
  CHECK(aware.totals.prompt_tokens < 0.7 * round.totals.prompt_tokens);
  CHECK(aware.ttft_ms.mean() < round.ttft_ms.mean());
}

TEST_CASE("prefixes that are not used make room for those that are") {
  SmallServer server;
  LoadOptions load = SmallServer::load(2, 200, 1000, 10);
  load.lengths.least_share = 1;
  load.lengths.shared = 960;
  load.lengths.prefixes = 10;
  // Half of 240 pages holds two prefixes of 60: most are computed again; 2,000 pages hold all ten.
  const RunResult few = run_load(server.pool(240), load), all = run_load(server.pool(2000), load);
  CHECK(few.requests == 200);
  CHECK(few.totals.most_blocks <= 240);
  CHECK(all.totals.prompt_tokens == doctest::Approx(10 * 1000 + 190 * 40).epsilon(0.02));
  CHECK(few.totals.prompt_tokens > 3 * all.totals.prompt_tokens);
}

TEST_CASE(
    "where the host runs ahead, who comes while a step runs waits for the one after the next") {
  // A long answer decodes; a second request comes in the middle of one of its steps.
  for (const bool ahead : {false, true}) {
    CAPTURE(ahead);
    SmallServer server;
    server.profile.overlaps_host = ahead;
    server.reprice();
    std::vector<Request> requests(2);
    requests[0].input = requests[1].input = 100;
    requests[0].output = requests[1].output = 50;
    requests[1].number = 1;
    std::vector<Request> done;
    RunOptions options;
    options.on_request = [&](const Request& r) { done.push_back(r); };
    (void)run(server.pool(), *replay({requests[0]}), options);
    const double token = static_cast<double>(done[0].last - *done[0].first) / 49;
    requests[1].arrival = *done[0].first + std::llround(10.5 * token);
    done.clear();
    (void)run(server.pool(), *replay(requests), options);
    const Request& second = done[0].number == 1 ? done[0] : done[1];
    // Half a step is left of the one that runs, then one that was scheduled without it.
    CHECK(static_cast<double>(*second.start - second.arrival) ==
          doctest::Approx((ahead ? 1.5 : 0.5) * token).epsilon(0.15));
  }
}

TEST_CASE("factors of measured steps move the phase they are of") {
  SmallServer server;
  Pool pool = server.pool();
  const RunResult plain = run_load(pool, SmallServer::load(0.1, 100));
  pool.limits.prompt_factor = 2;
  const RunResult prompts = run_load(pool, SmallServer::load(0.1, 100));
  CHECK(prompts.ttft_ms.mean() == doctest::Approx(2 * plain.ttft_ms.mean()).epsilon(0.02));
  CHECK(prompts.tpot_ms.mean() == doctest::Approx(plain.tpot_ms.mean()).epsilon(0.02));
  pool.limits.token_factor = 2;
  const RunResult both = run_load(pool, SmallServer::load(0.1, 100));
  CHECK(both.e2e_ms.mean() == doctest::Approx(2 * plain.e2e_ms.mean()).epsilon(0.02));
}

TEST_CASE("new requests leave free the pages below the watermark, but for one that is alone") {
  // Eight pages, requests of two: the n-th begins where 2 n pages and those of the watermark,
  // rounded down, are there.
  SmallServer server("vllm_v0");
  REQUIRE(server.profile.admission == EngineAdmission::AsNeeded);
  const std::int64_t page = server.profile.block_tokens;
  std::vector<Request> requests(4);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].number = i;
    requests[i].input = 2 * page - 1;
    requests[i].output = 1;
  }
  struct Row {
    double watermark;
    std::int64_t at_once;
  };
  for (const Row& row : {Row{0, 4}, {0.24, 3}, {0.25, 3}, {0.5, 2}, {0.7, 1}, {0.9, 1}}) {
    CAPTURE(row.watermark);
    server.profile.watermark = row.watermark;
    server.reprice();
    std::int64_t at_once = 0;
    RunOptions options;
    options.on_request = [&](const Request& r) { at_once += r.start == r.arrival ? 1 : 0; };
    const RunResult run_of_four = run(server.pool(8), *replay(requests), options);
    CHECK(run_of_four.requests == 4);
    CHECK(at_once == row.at_once);
    CHECK(run_of_four.totals.most_blocks == 2 * row.at_once);
  }
}

TEST_CASE("an engine that reserves all pages never preempts") {
  SmallServer server("tensorrt_llm");
  const RunResult r = run_load(server.pool(60), SmallServer::load(50, 200));
  CHECK(r.requests == 200);
  CHECK(r.totals.preemptions == 0);
}

TEST_CASE("Little's law: requests in the system are rate times time in it") {
  SmallServer server;
  for (const double rate : {2.0, 10.0}) {
    CAPTURE(rate);
    const RunResult r = run_load(server.pool(), SmallServer::load(rate, 2000));
    // L from sums over steps, W from the requests' own stamps.
    const double in_system = r.totals.in_system_us * 1e-6 / r.span_s;
    const double arrivals = static_cast<double>(r.requests) / r.span_s;
    CHECK(in_system == doctest::Approx(arrivals * r.e2e_ms.mean() * 1e-3).epsilon(0.01));
  }
}

TEST_CASE("in a closed loop as many are in flight as are let in") {
  SmallServer server;
  RunOptions options;
  options.concurrency = 16;
  const RunResult r = run(server.pool(), *make_closed_load(SmallServer::load(1, 400)), options);
  CHECK(r.requests == 400);
  const double in_system = r.totals.in_system_us * 1e-6 / r.span_s;
  CHECK(in_system <= 16.001);
  CHECK(in_system >= 15);  // the last ones drain
}

TEST_CASE("prompts that begin alike are computed once") {
  SmallServer server;
  LoadOptions load = SmallServer::load(5, 100);
  load.lengths = {512, 20, 1, 256};
  const RunResult shared = run_load(server.pool(), load);
  // The first prompts whole; later ones without the 16 whole pages that all share.
  CHECK(shared.totals.prompt_tokens < 100 * 512 * 0.6);
  CHECK(shared.totals.prompt_tokens >= 99 * 256 + 512);
  server.profile.caches_prefixes = false;
  server.reprice();
  CHECK(run_load(server.pool(), load).totals.prompt_tokens == 100 * 512);
}

TEST_CASE("a draft that is always right gives its tokens and one more a step") {
  SmallServer server;
  LoadOptions load = SmallServer::load(0.01, 1, 100, 81);
  load.lengths.least_share = 1;
  Pool pool = server.pool();
  const RunResult plain = run_load(pool, load);
  pool.limits.drafted = 3;
  pool.limits.accepted = 1;
  const RunResult drafted = run_load(pool, load);
  CHECK(plain.totals.steps == 81);  // the prompt and 80 tokens
  CHECK(drafted.totals.steps == 1 + 80 / 4);
  CHECK(drafted.e2e_ms.mean() < plain.e2e_ms.mean());
  pool.limits.accepted = 0;
  CHECK(run_load(pool, load).totals.steps == 81);
}

TEST_CASE(
    "phases on GPUs of their own: all requests end, the first token comes from the prompts' GPUs") {
  SmallServer server;
  RunOptions options;
  options.prefill = server.pool();
  options.transfer_seconds_per_token = 1e-6;
  const RunResult r = run_load(server.pool(), SmallServer::load(5, 100), options);
  CHECK(r.requests == 100);
  CHECK(r.totals.prompt_tokens == 0);
  CHECK(r.prefill_totals.prompt_tokens > 0);
  CHECK(r.totals.preemptions == 0);
  CHECK(r.ttft_ms.mean() < r.e2e_ms.mean());
}

TEST_CASE("where requests queue, the least loaded replica answers sooner than the next in turn") {
  SmallServer server;
  // Few at a time: what is one too many waits until another ends, and requests differ in length.
  Pool pool = server.pool(10'000, 2048, 16);
  pool.workers = 4;
  const LoadOptions load = SmallServer::load(80, 2000);
  const RunResult turns = run_load(pool, load);
  pool.router = Router::LeastLoaded;
  const RunResult least = run_load(pool, load);
  CHECK(turns.requests == 2000);
  CHECK(least.requests == 2000);
  CHECK(least.ttft_ms.mean() < turns.ttft_ms.mean());
  CHECK(least.e2e_ms.mean() < turns.e2e_ms.mean());
}

/// Prompts that begin in one of `prefixes` ways, at a rate.
LoadOptions prefixes(double per_second, std::uint64_t requests, std::uint32_t prefixes) {
  LoadOptions load = SmallServer::load(per_second, requests);
  load.lengths = {512, 20, 1, 256, prefixes};
  return load;
}

TEST_CASE("a router that knows what replicas hold has each beginning computed once") {
  SmallServer server;
  Pool pool = server.pool();
  pool.workers = 4;
  // One after the other: 8 prompts whole, the others without their 16 whole pages.
  const LoadOptions load = prefixes(0.5, 400, 8);
  pool.router = Router::Prefix;
  const RunResult known = run_load(pool, load);
  CHECK(known.totals.prompt_tokens == 8 * 512 + 392 * 256);
  pool.router = Router::RoundRobin;
  // Once on each of the four.
  CHECK(run_load(pool, load).totals.prompt_tokens == 4 * 8 * 512 + (400 - 4 * 8) * 256);
}

TEST_CASE("at every rate it has no more computed than a router that looks at loads alone") {
  SmallServer server;
  Pool pool = server.pool(600);
  pool.workers = 4;
  for (const double rate : {5.0, 20.0, 60.0, 120.0}) {
    CAPTURE(rate);
    pool.router = Router::LeastLoaded;
    const RunResult least = run_load(pool, prefixes(rate, 3000, 40));
    pool.router = Router::Prefix;
    const RunResult known = run_load(pool, prefixes(rate, 3000, 40));
    CHECK(known.requests == 3000);
    CHECK(known.totals.prompt_tokens - known.totals.computed_again <=
          least.totals.prompt_tokens - least.totals.computed_again);
  }
}

TEST_CASE("one beginning that all have is served by every replica where one alone cannot bear it") {
  SmallServer server;
  Pool pool = server.pool(10'000, 2048, 16);
  pool.workers = 4;
  const LoadOptions load = prefixes(150, 6000, 1);
  pool.router = Router::LeastLoaded;
  const RunResult least = run_load(pool, load);
  pool.router = Router::Prefix;
  const RunResult known = run_load(pool, load);
  CHECK(known.requests == 6000);
  // At most 64 requests more wait at one than at another.
  CHECK(known.span_s < 1.1 * least.span_s);
}

TEST_CASE("prompts that share nothing go to the least loaded, whatever a router knows") {
  SmallServer server;
  Pool pool = server.pool();
  pool.workers = 3;
  const LoadOptions load = SmallServer::load(40, 1000);
  pool.router = Router::LeastLoaded;
  const RunResult least = run_load(pool, load);
  for (const Router router : {Router::Prefix, Router::PrefixAware}) {
    pool.router = router;
    const RunResult r = run_load(pool, load);
    CHECK(r.e2e_ms.mean() == least.e2e_ms.mean());
    CHECK(r.ttft_ms.quantile(0.99) == least.ttft_ms.quantile(0.99));
  }
}

TEST_CASE("caches reach the pool of tokens in order, and each request once, on many workers") {
  SmallServer server;
  Pool pool = server.pool();
  pool.workers = 3;
  RunOptions options;
  options.prefill = server.pool();
  options.prefill->workers = 5;
  options.transfer_seconds_per_token = 1e-4;  // long prompts are overtaken on their way
  options.transfer_latency = 1e-3;
  std::vector<bool> seen(3000);
  options.on_request = [&](const Request& r) {
    CHECK_FALSE(seen[r.number]);
    seen[r.number] = true;
    // What the prompt takes, then the way of its cache, then the other tokens.
    CHECK(*r.first > r.arrival);
    if (r.output > 1) CHECK(r.last > *r.first + static_cast<Microseconds>(1000 + 100 * r.input));
  };
  LoadOptions load = SmallServer::load(60, 3000, 500, 3);
  load.lengths.least_share = 0.1;  // 1 to 3 tokens: some end with their prompt
  const RunResult r = run_load(pool, load, options);
  CHECK(r.requests == 3000);
  CHECK(std::count(seen.begin(), seen.end(), true) == 3000);
  CHECK(r.totals.prompt_tokens == 0);
}

TEST_CASE("a request that can never fit is turned away and counted") {
  SmallServer server;
  std::vector<Request> requests(3);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].number = i;
    requests[i].input = i == 1 ? 5000 : 100;
    requests[i].output = 10;
  }
  const RunResult r = run(server.pool(100), *replay(requests), {});
  CHECK(r.requests == 2);
  CHECK(r.turned_away == 1);
}

TEST_CASE("the same seed gives the same run; gaps have the mean asked for") {
  SmallServer server;
  const RunResult a = run_load(server.pool(), SmallServer::load(5, 200));
  const RunResult b = run_load(server.pool(), SmallServer::load(5, 200));
  CHECK(a.e2e_ms.mean() == b.e2e_ms.mean());
  CHECK(a.e2e_ms.quantile(0.99) == b.e2e_ms.quantile(0.99));
  for (const Arrivals arrivals : {Arrivals::Poisson, Arrivals::Bursty, Arrivals::Even}) {
    LoadOptions load = SmallServer::load(10, 20'000);
    load.arrivals = arrivals;
    auto source = make_load(load);
    Microseconds last = 0;
    double squares = 0;
    while (const auto r = source->next()) {
      CHECK(r->arrival >= last);
      squares += std::pow(static_cast<double>(r->arrival - last) * 1e-6, 2);
      last = r->arrival;
    }
    CHECK(static_cast<double>(last) * 1e-6 == doctest::Approx(2000).epsilon(0.06));
    // Second moment over the mean's square: 1 + the squared coefficient of variation: 2, 5, 1.
    const double expected = arrivals == Arrivals::Poisson  ? 2
                            : arrivals == Arrivals::Bursty ? 5
                                                           : 1;
    CHECK(squares / 20'000 / 0.01 == doctest::Approx(expected).epsilon(0.12));
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
