#include "sim/step/step_account.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

namespace tracecast {
namespace {

Seconds ms(double value) { return Seconds(value * 1e-3); }
TimeSpan span(double from_ms, double to_ms) { return {ms(from_ms), ms(to_ms)}; }

/// 3 ms of convolution and 1 ms of waiting for the host, 0.2 J.
WorkMix mix() {
  WorkMix work;
  work.add(KernelClass::Convolution, cost::Basis::Measured, ms(3), Joules(0.2));
  work.idle = ms(1);
  return work;
}

double in_ms(Seconds time) { return time.in_s() * 1e3; }

TEST_SUITE_BEGIN("sim/step/step_account");

TEST_CASE("each moment of a step counts once") {
  // |0      4|   work: 3 of 4 ms kernels
  //    |2        6|   communication: 2 ms hidden by work, 2 ms by nothing
  //               |6  7|   additions on the CPU
  //                    |7 8|   other ranks work
  //                        |8 9|   nobody does anything: gradients wait to be noticed
  const WorkMix work = mix();
  const std::array communication{span(2, 6)}, host{span(5, 7)};
  const std::array any_work{span(0, 4), span(7, 8)};
  const RankAccount rank = account_rank({.step_time = ms(9),
                                         .work = {{.span = span(0, 4), .mix = &work}},
                                         .communication = communication,
                                         .collectives = communication,
                                         .host = host,
                                         .any_work = any_work},
                                        Watts(10));
  const StepAccount& account = rank.account;
  CHECK(in_ms(account.work.kernels()) == doctest::Approx(3));
  CHECK(in_ms(account.work.idle) == doctest::Approx(1));
  CHECK(in_ms(account.communication) == doctest::Approx(2 + 1));
  CHECK(in_ms(account.host_update) == doctest::Approx(1));
  CHECK(in_ms(account.stragglers) == doctest::Approx(1));
  CHECK(in_ms(account.total()) == doctest::Approx(9));
  CHECK(in_ms(rank.exposed) == doctest::Approx(2));
  // 0.2 J of the work, and 10 W of the collective's kernels for 4 ms, over 9 ms.
  CHECK(rank.active_w.avg == doctest::Approx((0.2 + 10 * 0.004) / 0.009));
}

TEST_CASE("what a rank is reported longer than the mean one is waiting for the slowest") {
  const WorkMix work = mix();
  const RankAccount rank =
      account_rank({.step_time = ms(5),
                    .work = {{.span = span(0, 5), .mix = &work, .straggling = 1.25}},
                    .communication = {},
                    .collectives = {},
                    .host = {},
                    .any_work = {}},
                   Watts());
  CHECK(in_ms(rank.account.work.total()) == doctest::Approx(4));
  CHECK(in_ms(rank.account.stragglers) == doctest::Approx(1));
  CHECK(in_ms(rank.account.total()) == doctest::Approx(5));
}

TEST_CASE("work of the step before and after counts as far as it lies in the step") {
  const WorkMix work = mix();
  const RankAccount rank = account_rank({.step_time = ms(6),
                                         .work = {{.span = span(-2, 2), .mix = &work},
                                                  {.span = span(4, 8), .mix = &work},
                                                  {.span = span(8, 12), .mix = &work}},
                                         .communication = {},
                                         .collectives = {},
                                         .host = {},
                                         .any_work = {}},
                                        Watts());
  // Half of each of the first two: 1.5 ms of kernels.
  CHECK(in_ms(rank.account.work.kernels()) == doctest::Approx(3));
  CHECK(in_ms(rank.account.total()) == doctest::Approx(6));
}

TEST_CASE("shares by class and basis name the same time") {
  StepAccount account;
  account.add({.work = mix(), .communication = ms(2), .input = ms(1)}, 0.5);
  account.add({.work = mix(), .servers = ms(3)}, 0.5);
  double classes = 0, bases = 0;
  for (const TimeShare& share : account.by_class()) classes += in_ms(share.time);
  for (const TimeShare& share : account.by_basis()) bases += in_ms(share.time);
  CHECK(classes == doctest::Approx(7));
  CHECK(bases == doctest::Approx(7));
  CHECK(std::string(account.by_class().front().name) == "convolution");
  CHECK(in_ms(account.by_class().front().time) == doctest::Approx(3));
}

TEST_CASE("a board that waits is active-idle, and a limit that holds alone holds") {
  PowerRange alone;
  alone.active_idle = Watts(50);
  alone.avg = alone.demand = alone.max = Watts(150);
  alone.limit = Watts(200);
  // 100 W over active-idle for 1 s alone: in 2 s it is 50 W; three times the work meets the limit.
  const PowerRange waits = power_in_job(alone, Seconds(1), Joules(100), {}, Seconds(2));
  CHECK(waits.avg.in_w() == doctest::Approx(100));
  const PowerRange limited = power_in_job(alone, Seconds(1), Joules(300), {}, Seconds(1));
  CHECK(limited.avg.in_w() == doctest::Approx(200));
  CHECK(limited.demand.in_w() == doctest::Approx(350));
  // Another second of waiting.
  CHECK(power_with_wait(waits, Seconds(2), Seconds(2)).avg.in_w() == doctest::Approx(75));
  const std::array boards{waits, limited};
  const std::array weights{3.0, 1.0};
  CHECK(mean_board(boards, weights).avg.in_w() == doctest::Approx(125));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
