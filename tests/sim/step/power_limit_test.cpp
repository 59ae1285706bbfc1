#include "sim/step/power_limit.hpp"

#include <doctest/doctest.h>

#include <array>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "hwspecs/loaders/gpu_loader.hpp"
#include "models/lowering/lower.hpp"
#include "models/lowering/precision.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/random.hpp"
#include "sim/step/accumulation.hpp"
#include "sim/step/prediction.hpp"
#include "tests/support/specs.hpp"

namespace tracecast {
namespace {

constexpr double kRounding = 1 + 1e-9;

/// Small and middling networks of all kinds of layers, with the batches that are drawn.
struct Drawn {
  const char* network;
  std::array<std::int64_t, 3> batches;
};
constexpr Drawn kNetworks[] = {
    {"alexnet", {1, 64, 512}},       {"cifar10_cnn", {8, 128, 4096}}, {"lenet", {1, 256, 16384}},
    {"mobilenet_v1", {1, 16, 128}},  {"resnet18", {1, 32, 256}},      {"resnet50", {2, 32, 128}},
    {"shufflenet_v2", {4, 64, 256}}, {"squeezenet1_0", {1, 32, 256}}, {"vgg16", {1, 16, 128}},
    {"bert_base", {1, 4, 32}},       {"dcgan", {8, 64, 512}},         {"ncf", {64, 1024, 16384}},
};
constexpr const char* kFrameworks[] = {"pytorch", "tensorflow", "caffe", "generic"};
constexpr PrecisionMode kModes[] = {PrecisionMode::Fp32, PrecisionMode::Amp, PrecisionMode::Tf32,
                                    PrecisionMode::Bf16, PrecisionMode::Int8};
constexpr Phase kPhases[] = {Phase::Train, Phase::Infer, Phase::ForwardBackward};

/// Step graphs, each built once.
class Graphs {
 public:
  const NetworkGraph& of(const char* network, std::int64_t batch, Phase phase) {
    const auto key = std::tuple(std::string(network), batch, phase);
    const auto known = graphs_.find(key);
    if (known != graphs_.end()) return known->second;
    return graphs_
        .emplace(key, make_step_graph(build_network(network, {.batch = batch}), phase, {}))
        .first->second;
  }

 private:
  std::map<std::tuple<std::string, std::int64_t, Phase>, NetworkGraph> graphs_;
};

TEST_SUITE_BEGIN("sim/step/power_limit");

TEST_CASE("mean and maximum power are never above a limit that can be held") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  const auto gpus = catalog.all();
  Graphs graphs;
  Random random(20261123);
  const auto pick = [&](const auto& list) { return list[random.below(std::size(list))]; };
  int lowered = 0, not_held = 0, above_own = 0, over_own_limit = 0, uneven = 0;
  constexpr int kJobs = 2000;
  for (int job = 0; job < kJobs; ++job) {
    const Drawn& drawn = kNetworks[random.below(std::size(kNetworks))];
    const std::int64_t batch = pick(drawn.batches);
    const Phase phase = pick(kPhases);
    GpuSpec gpu = gpus[random.below(gpus.size())];
    const bool trains = phase != Phase::Infer;
    PrecisionMode mode = pick(kModes);
    if (trains && mode == PrecisionMode::Int8) mode = PrecisionMode::Fp16;
    mode = choose_precision(mode, trains, gpu).mode;
    if (random.below(4) == 0) gpu.set_clock = gpu.boost_clock * (0.1 + 1.4 * random.uniform());
    // From below idle to above the board's own limit; one in ten has that one.
    std::optional<Watts> limit;
    if (random.below(10) > 0) {
      const double low = 0.5 * gpu.idle_power.in_w(), high = 1.3 * gpu.tdp.in_w();
      limit = Watts(low + (high - low) * random.uniform());
    }
    const Prediction p = predict_step({.graph = graphs.of(drawn.network, batch, phase),
                                       .gpu = gpu,
                                       .cost = default_cost_profile(),
                                       .framework = find_framework(pick(kFrameworks)),
                                       .precision = mode,
                                       .power_limit = limit});
    const PowerRange& power = p.power;
    CAPTURE(job);
    CAPTURE(drawn.network);
    CAPTURE(batch);
    CAPTURE(gpu.id);
    CAPTURE(limit.value_or(gpu.tdp).in_w());
    CAPTURE(power.avg.in_w());
    CAPTURE(power.max.in_w());
    CAPTURE(power.clock.in_mhz());
    CAPTURE(power.lowest_clock.in_mhz());
    REQUIRE(power.limit == limit.value_or(gpu.tdp));
    REQUIRE(power.min <= power.avg * kRounding);
    REQUIRE(power.avg <= power.max * kRounding);
    REQUIRE(power.clock >= power.lowest_clock * 0.99);
    if (power.holds_limit) {
      REQUIRE(power.avg <= power.limit * kRounding);
      REQUIRE(power.max <= power.limit * kRounding);
    } else {
      REQUIRE(power.max > power.limit);
      if (power.avg > power.limit) REQUIRE(power.clock <= power.lowest_clock * kRounding);
    }
    lowered += power.throttles && power.holds_limit;
    not_held += !power.holds_limit;
    above_own += power.limit > gpu.tdp;
    over_own_limit += power.demand > gpu.tdp && power.limit == gpu.tdp;
    uneven += power.max > power.avg * 1.05;
  }
  // The cases that matter are there.
  CHECK(lowered > 100);
  CHECK(not_held > 100);
  CHECK(above_own > 100);
  CHECK(over_own_limit > 10);
  CHECK(uneven > 100);
  MESSAGE(kJobs << " jobs: " << lowered << " at a lowered clock, " << not_held
                << " limits not held, " << above_own << " above the board's own, " << over_own_limit
                << " that ask for more than that, " << uneven << " of uneven power");
}

TEST_CASE(
    "a lower limit is never faster, and half the power that can be held costs at most twice the "
    "time") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  const auto gpus = catalog.all();
  Graphs graphs;
  Random random(56);
  const auto pick = [&](const auto& list) { return list[random.below(std::size(list))]; };
  int held = 0, slower = 0;
  double most = 1;
  constexpr int kJobs = 150;
  for (int job = 0; job < kJobs; ++job) {
    const Drawn& drawn = kNetworks[random.below(std::size(kNetworks))];
    const std::int64_t batch = pick(drawn.batches);
    const Phase phase = pick(kPhases);
    // The boards of which it was reported, and any other.
    constexpr const char* kReported[] = {"t4", "l40", "l40s", "l4"};
    const GpuSpec gpu =
        random.below(2) == 0 ? catalog.find(pick(kReported)) : gpus[random.below(gpus.size())];
    const bool trains = phase != Phase::Infer;
    PrecisionMode mode = pick(kModes);
    if (trains && mode == PrecisionMode::Int8) mode = PrecisionMode::Fp16;
    mode = choose_precision(mode, trains, gpu).mode;
    const FrameworkProfile& framework = find_framework(pick(kFrameworks));
    double own = 0, before = 0;
    for (const double share : {1.3, 1.0, 0.9, 0.75, 0.6, 0.5}) {
      const Prediction p = predict_step({.graph = graphs.of(drawn.network, batch, phase),
                                         .gpu = gpu,
                                         .cost = default_cost_profile(),
                                         .framework = framework,
                                         .precision = mode,
                                         .power_limit = gpu.tdp * share});
      CAPTURE(job);
      CAPTURE(drawn.network);
      CAPTURE(batch);
      CAPTURE(gpu.id);
      CAPTURE(static_cast<int>(mode));
      CAPTURE(share);
      CAPTURE(p.power.demand.in_w());
      CAPTURE(p.power.avg.in_w());
      CAPTURE(p.power.clock.in_mhz());
      const double time = p.step_time_s.value;
      CHECK(time >= before * 0.995);
      before = time;
      if (share == 1.0) own = time;
      if (share == 0.5 && p.power.holds_limit) {
        ++held;
        slower += time > own * 1.05;
        most = std::max(most, time / own);
        CHECK(time <= own * 2.05);
      }
      // What does not bind is not blamed, and changes nothing.
      if (p.power.demand < p.power.limit) CHECK_FALSE(p.power.throttles);
      const bool is_even = p.power.max < p.power.avg * 1.05;
      if (share < 1 && is_even && p.power.demand < p.power.limit * 0.9) CHECK(time <= own * 1.001);
    }
  }
  CHECK(held > 60);
  CHECK(slower > 20);
  MESSAGE(kJobs << " jobs: " << held << " hold half the power, " << slower
                << " of them more than 5 % slower, " << most << " times at most");
}

TEST_CASE(
    "a limit that the memory alone exceeds is not held, and slows a step no more than it asks "
    "for") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  const GpuSpec& gpu = catalog.find("a10");
  const NetworkGraph graph =
      make_step_graph(build_network("resnet50", {.batch = 64}), Phase::Train, {});
  const auto under = [&](double watts) {
    return predict_step({.graph = graph,
                         .gpu = gpu,
                         .cost = default_cost_profile(),
                         .framework = find_framework("pytorch"),
                         .precision = PrecisionMode::Amp,
                         .power_limit = Watts(watts)});
  };
  const Prediction own = under(150), low = under(30), lower = under(25), enough = under(120);
  CHECK(own.power.demand.in_w() > 150);
  CHECK_FALSE(low.power.holds_limit);
  CHECK(low.power.throttles);
  CHECK(low.power.avg.in_w() > 30);
  CHECK(low.step_time_s.value < own.step_time_s.value * 150 / 30 * 1.02);
  // At the lowest clock no limit makes a difference any more.
  CHECK(lower.power.avg == low.power.avg);
  CHECK(lower.step_time_s.value == low.step_time_s.value);
  CHECK(enough.power.holds_limit);
  CHECK(enough.step_time_s.value < low.step_time_s.value);
}

TEST_CASE("a board holds its own limit, and one a little below costs little") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  const NetworkGraph graph =
      make_step_graph(build_network("bert_base", {.batch = 256}), Phase::Train, {});
  // Its optimizer fills windows with GDDR's power; the boards' own limits cost nothing, whatever
  // the batch.
  for (const char* id : {"a10", "l4"}) {
    CAPTURE(id);
    const GpuSpec& gpu = catalog.find(id);
    const auto under = [&](double share) {
      return predict_step({.graph = graph,
                           .gpu = gpu,
                           .cost = default_cost_profile(),
                           .framework = find_framework("pytorch"),
                           .precision = PrecisionMode::Fp32,
                           .power_limit = gpu.tdp * share});
    };
    const Prediction own = under(1), less = under(0.95);
    CHECK(own.power.holds_limit);
    CHECK(own.power.max <= gpu.tdp * kRounding);
    CHECK(own.power.clock > own.power.lowest_clock * 1.5);
    CHECK(less.step_time_s.value < own.step_time_s.value * 1.25);
  }
}

TEST_CASE("a clock set below the lowest that a limit sets stays") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  GpuSpec gpu = catalog.find("a10");
  gpu.set_clock = gpu.boost_clock * 0.1;
  const NetworkGraph graph =
      make_step_graph(build_network("alexnet", {.batch = 64}), Phase::Train, {});
  const Prediction p = predict_step({.graph = graph,
                                     .gpu = gpu,
                                     .cost = default_cost_profile(),
                                     .framework = find_framework("pytorch"),
                                     .power_limit = 40.0_W});
  CHECK_FALSE(p.power.holds_limit);
  CHECK(p.power.lowest_clock == gpu.set_clock);
  CHECK(p.power.clock.in_mhz() == doctest::Approx(gpu.set_clock.in_mhz()).epsilon(1e-3));
}

TEST_CASE("a limit holds every micro-batch, not the last one alone") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  const NetworkGraph forward = build_network("resnet18", {.batch = 64});
  const NetworkGraph last = make_step_graph(forward, Phase::Train, {.adds_gradients = true});
  const NetworkGraph early =
      make_step_graph(forward, Phase::Train, {.adds_gradients = true, .with_update = false});
  const auto under = [&](std::optional<Watts> limit) {
    return predict_accumulated({.graph = last,
                                .gpu = catalog.find("v100_sxm2_16gb"),
                                .cost = default_cost_profile(),
                                .framework = find_framework("pytorch"),
                                .keeps_gradients = true,
                                .power_limit = limit},
                               early, 8);
  };
  const Prediction free = under(std::nullopt), held = under(130.0_W);
  CHECK(free.power.max > 150.0_W);
  CHECK(held.power.holds_limit);
  CHECK(held.power.throttles);
  CHECK(held.power.max.in_w() <= 130 * kRounding);
  CHECK(held.step_time_s.value > 1.1 * free.step_time_s.value);
}

// One SM of 100 lanes at 1 GHz and 16 nm with 10 pJ an operation: 2 W at the free clock; 50 W idle.
struct Board {
  GpuSpec gpu;
  CostProfile profile;
  Board() {
    gpu.architecture = Architecture::Pascal;
    gpu.compute_capability = 60;
    gpu.process_nm = 16;
    gpu.boost_clock = Hertz(1e9);
    gpu.ecc_default_on = true;
    gpu.memory_type = MemoryType::Hbm2;
    gpu.idle_power = 50.0_W;
    gpu.tdp = 200.0_W;
    profile.power.hbm_pj_per_byte = 1;
    profile.power.min_clock = 0.2;
  }
  /// Draws `watts` over the active-idle power at the free clock, in proportion to the clock.
  [[nodiscard]] DrawStep step(double watts, std::vector<double> shape) const {
    return [=, free = gpu.boost_clock](const GpuSpec& set) {
      const double clock = set.set_clock > Hertz(0) ? set.set_clock / free : 1.0;
      StepDraw draw{
          .causes = {.dram_bytes = watts * clock * 1e12}, .clock = free * clock, .active_w = {}};
      for (const double share : shape) draw.active_w.means.push_back(watts * clock * share);
      draw.active_w.avg = watts * clock;
      return draw;
    };
  }
  [[nodiscard]] LimitedStep hold(Watts limit, double watts, std::vector<double> shape) const {
    const DrawStep run = step(watts, std::move(shape));
    return hold_power_limit(gpu, limit, profile, run(gpu), run);
  }
};

TEST_CASE("a step whose prices tell power is held at the limit, and not cut below it") {
  const Board board;
  const DrawStep run = [&](const GpuSpec& set) {
    const double clock = set.set_clock > Hertz(0) ? set.set_clock / board.gpu.boost_clock : 1.0;
    return StepDraw{.causes = {.reported_w = 140 * clock}, .clock = board.gpu.boost_clock * clock};
  };
  const auto held = [&](Watts limit) {
    return hold_power_limit(board.gpu, limit, board.profile, run(board.gpu), run);
  };
  CHECK(held(200.0_W).average.in_w() == doctest::Approx(190));
  CHECK(held(150.0_W).average.in_w() == doctest::Approx(150));
  CHECK(held(150.0_W).clock / board.gpu.boost_clock == doctest::Approx(150.0 / 190).epsilon(0.01));
}

TEST_CASE("the driver cuts windows above the limit, and the others make up for them") {
  const Board board;
  // 100 W on average: 50 idle, windows of 75 and 25 more. Their mean under 110 W: (110 + 75) / 2
  // = 92.5, and 100 (1 + (100/110)^6)^(-1/6) = 92.8 is not reached.
  LimitedStep held = board.hold(110.0_W, 50, {1.5, 0.5});
  CHECK(held.holds_limit);
  CHECK(held.demand.in_w() == doctest::Approx(100));
  CHECK(held.average.in_w() == doctest::Approx(92.5));
  CHECK(held.greatest.in_w() == doctest::Approx(110));
  CHECK(held.least.in_w() == doctest::Approx(75));
  // Windows alike: 100 (1 + (100/90)^6)^(-1/6) = 83.8.
  held = board.hold(90.0_W, 50, {1, 1});
  CHECK(held.average.in_w() == doctest::Approx(83.83).epsilon(1e-3));
  CHECK(held.greatest.in_w() == doctest::Approx(83.83).epsilon(1e-3));
  // What is held is nine tenths of the demand. Half of that is the active-idle board's, so power
  // falls by less than the clock, which falls by as much.
  CHECK(held.clock.in_mhz() == doctest::Approx(900).epsilon(0.02));
  CHECK(held.throttles);
  // Nobody asks for 101 W.
  held = board.hold(101.0_W, 50, {1, 1});
  CHECK(held.clock == board.gpu.boost_clock);
  CHECK_FALSE(held.throttles);
}

TEST_CASE("a limit is held down to what the lowest clock draws") {
  const Board board;  // a fifth of the clock: 50 + 10 W
  const LimitedStep held = board.hold(61.0_W, 50, {1, 1});
  CHECK(held.holds_limit);
  CHECK(held.clock >= held.lowest_clock);
  const LimitedStep not_held = board.hold(59.0_W, 50, {1, 1});
  CHECK_FALSE(not_held.holds_limit);
  CHECK(not_held.clock.in_mhz() == doctest::Approx(590).epsilon(0.01));
  CHECK(not_held.average.in_w() == doctest::Approx(79.5).epsilon(0.01));
  CHECK(not_held.lowest_clock == not_held.clock);
  // One window in two that draws 50 + 15 W there.
  const LimitedStep uneven = board.hold(62.0_W, 50, {1.5, 0.5});
  CHECK_FALSE(uneven.holds_limit);
  CHECK(uneven.average.in_w() < 62);
  CHECK(uneven.greatest.in_w() == doctest::Approx(65).epsilon(0.01));
}

TEST_CASE(
    "a step under its board's own limit comes back as it was, without running again if it can") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  const GpuSpec& gpu = catalog.find("t4");  // throttles
  const CostProfile& profile = default_cost_profile();
  const FrameworkProfile& framework = find_framework("pytorch");
  const NetworkGraph graph =
      make_step_graph(build_network("resnet50", {.batch = 32}), Phase::Train, {});
  PricedStep priced = price(lower(graph, framework, gpu, {}), gpu, profile);
  StepProgram program = build_step_program(graph, priced, framework, Seconds());
  for (const bool last_run_counts : {false, true}) {
    StepTimeline timeline = simulate(program);
    const StepTimeline before = timeline;
    const std::vector<cost::PricedCandidate> choices = priced.choices;
    int runs = 0, runs_as_before = 0;
    const RunStep run = [&](const StepProgram& at) {
      StepTimeline ran = simulate(at);
      ++runs;
      if (ran.step_time == before.step_time) ++runs_as_before;
      return ran;
    };
    const LimitedStep limited =
        hold_power_limit(priced, program, timeline, gpu, gpu.tdp, profile, run, last_run_counts);
    CHECK(limited.throttles);
    CHECK(runs > runs_as_before);  // without a limit: what does the step ask for?
    CHECK((runs_as_before > 0) == last_run_counts);
    CHECK(timeline.step_time == before.step_time);
    CHECK(timeline.critical_kernels == before.critical_kernels);
    bool same = true;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      same = same && priced.choices[i].duration == choices[i].duration;
    }
    for (const ProgramKernel& kernel : program.kernels) {
      same = same && kernel.duration == choices[kernel.op].estimates[kernel.kernel].duration;
    }
    CHECK(same);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
