#include "sim/parallel/transformer/pipeline.hpp"

#include <doctest/doctest.h>

#include "sim/base/random.hpp"

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("sim/parallel/transformer/pipeline");

PipelineProblem even(PipelineSchedule schedule, int stages, int chunks,
                     std::int64_t micro_batches) {
  PipelineProblem problem{
      .stages = stages, .chunks = chunks, .micro_batches = micro_batches, .schedule = schedule};
  const std::size_t parts = static_cast<std::size_t>(stages) * static_cast<std::size_t>(chunks);
  problem.forward.assign(parts, Seconds(1.0 / chunks));
  problem.backward.assign(parts, Seconds(2.0 / chunks));
  return problem;
}

TEST_CASE("even stages lose the bubble that the schedule's papers state") {
  struct Row {
    const char* what;
    PipelineSchedule schedule;
    int stages, chunks;
    std::int64_t micro_batches;
    double makespan;
  };
  // Forward 1 s, backward 2 s: m (1 + 2) of work and (p - 1) (1 + 2) / v of bubble.
  const Row rows[] = {
      {"gpipe: 3 (8 + 3)", PipelineSchedule::GPipe, 4, 1, 8, 33},
      {"1f1b: the same", PipelineSchedule::OneForwardOneBackward, 4, 1, 8, 33},
      {"one micro-batch passes all stages and back", PipelineSchedule::OneForwardOneBackward, 4, 1,
       1, 12},
      {"fewer micro-batches than stages", PipelineSchedule::OneForwardOneBackward, 4, 1, 2, 15},
      {"interleaved by 2: 3 (8 + 3 / 2)", PipelineSchedule::Interleaved, 4, 2, 8, 28.5},
      {"interleaved by 4: 3 (8 + 3 / 4)", PipelineSchedule::Interleaved, 4, 4, 8, 26.25},
      {"one stage has no bubble", PipelineSchedule::GPipe, 1, 1, 5, 15},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const PipelineRun run =
        run_pipeline(even(row.schedule, row.stages, row.chunks, row.micro_batches));
    CHECK(run.makespan.in_s() == doctest::Approx(row.makespan));
    const double work = 3.0 * static_cast<double>(row.micro_batches);
    for (const Seconds busy : run.busy) CHECK(busy.in_s() == doctest::Approx(work));
  }
}

TEST_CASE("a slow stage paces the pipeline, and sends lengthen its ends only") {
  PipelineProblem problem = even(PipelineSchedule::OneForwardOneBackward, 2, 1, 4);
  problem.forward[1] = Seconds(2);
  problem.backward[1] = Seconds(4);
  // 1 forward, then 4 x (2 + 4) on the second stage, 2 backward
  CHECK(run_pipeline(problem).makespan.in_s() == doctest::Approx(27));
  problem.send = Seconds(0.5);
  CHECK(run_pipeline(problem).makespan.in_s() == doctest::Approx(28));
}

TEST_CASE("sends lengthen the ends of an interleaved pipeline only") {
  // Twice the stages behind run ahead, so that a pass finds its data there: the first micro-batch's
  // way through all 8 parts and back, 2 (8 - 1) sends of 1 / 8 s, is all that shows.
  PipelineProblem problem = even(PipelineSchedule::Interleaved, 4, 2, 8);
  problem.send = Seconds(0.125);
  CHECK(run_pipeline(problem).makespan.in_s() == doctest::Approx(28.5 + 14 * 0.125));
  problem.micro_batches = 16;  // 3 (16 + 3 / 2) without sends
  CHECK(run_pipeline(problem).makespan.in_s() == doctest::Approx(52.5 + 14 * 0.125));
}

TEST_CASE("copies of a pipeline end when one does") {
  Random random(7);
  for (int trial = 0; trial < 20; ++trial) {
    const int stages = 1 + static_cast<int>(random.below(5));
    PipelineProblem problem = even(PipelineSchedule::OneForwardOneBackward, stages, 1,
                                   1 + static_cast<std::int64_t>(random.below(9)));
    for (Seconds& time : problem.forward) time = Seconds(0.1 + random.uniform());
    for (Seconds& time : problem.backward) time = Seconds(0.1 + random.uniform());
    problem.send = Seconds(random.uniform() * 0.1);
    const PipelineRun folded = run_pipeline(problem);
    problem.copies = 5;
    const PipelineRun all = run_pipeline(problem);
    CHECK(all.makespan == folded.makespan);
    CHECK(all.done == folded.done);
  }
}

TEST_CASE("the first stage holds as many micro-batches as its schedule lets in") {
  CHECK(most_in_flight(PipelineSchedule::GPipe, 4, 1, 32) == 32);
  CHECK(most_in_flight(PipelineSchedule::OneForwardOneBackward, 4, 1, 32) == 4);
  CHECK(most_in_flight(PipelineSchedule::OneForwardOneBackward, 4, 1, 2) == 2);
  // 2 x 3 before the first backward pass, 4 of the other chunk, one running
  CHECK(most_in_flight(PipelineSchedule::Interleaved, 4, 2, 32) == 11);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
