#include "sim/step/step_timeline.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>

namespace tracecast {
namespace {

/// Two kernels of one op: 10 us of dispatch and 5 us a launch; kernels of 100 and 50 us.
struct Case {
  NetworkGraph graph;
  Candidate candidate;
  PricedStep priced;
  StepProgram program;
};

TEST_SUITE_BEGIN("sim/step/step_timeline");

TEST_CASE("a timeline shows launches, kernels and steps where the simulation has them") {
  Case c;
  Op op;
  op.name = "conv1";
  const OpId id = c.graph.add_op(op);
  c.candidate.kernels.resize(2);
  c.candidate.kernels[0].name = "first";
  c.candidate.kernels[1].name = "second";
  LoweredStep lowered;
  lowered.ops.push_back({.op = id, .candidates = {c.candidate}});
  c.priced.lowered = std::make_shared<const LoweredStep>(std::move(lowered));
  c.priced.choices.push_back({&c.priced.lowered->ops[0].candidates[0], {}, {}});
  c.program.launch = 5.0_us;
  c.program.ops.push_back({.dispatch = 10.0_us, .first_kernel = 0, .num_kernels = 2});
  c.program.kernels.push_back({.duration = 100.0_us, .op = 0, .kernel = 0});
  c.program.kernels.push_back({.duration = 50.0_us, .op = 0, .kernel = 1});

  const Timeline timeline = step_timeline(c.program, c.priced, c.graph, 2, "G");
  CHECK(find_faults(timeline).empty());
  CHECK(timeline.flows.size() == 4);
  // Host: dispatch 0 to 10, launch to 15, launch to 20. GPU: 15 to 115, 115 to 165; then back to
  // back.
  const auto end_of_step = [&](const char* name) {
    for (const TimelineSlice& slice : timeline.slices) {
      if (timeline.names[slice.name] == name) return slice.begin_ps + slice.duration_ps;
    }
    return std::int64_t{-1};
  };
  CHECK(end_of_step("ProfilerStep#0") == 165'000'000);
  CHECK(end_of_step("ProfilerStep#1") == 315'000'000);
  CHECK(timeline.slices[timeline.flows[0].from].begin_ps == 10'000'000);
  CHECK(timeline.slices[timeline.flows[0].to].begin_ps == 15'000'000);
  CHECK(end_of_step("conv1") == 10'000'000);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
