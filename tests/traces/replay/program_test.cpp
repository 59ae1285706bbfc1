#include "traces/replay/program.hpp"

#include <doctest/doctest.h>

#include "sim/replay/replay.hpp"
#include "tests/traces/trace_text.hpp"

namespace tracecast {
namespace {

using namespace test;
using traces::ReplayBuild;

ReplayBuild rebuild(const std::string& events) {
  return traces::build_replay_program(trace_of(events), traces::KernelNames::builtin());
}

std::string step(int number, int begin, int duration, int thread = 1) {
  return event("user_annotation", "ProfilerStep#" + std::to_string(number), begin, duration, "",
               thread);
}
std::string call(const std::string& name, int begin, int duration, int correlation,
                 int thread = 1) {
  return event("cuda_runtime", name, begin, duration,
               R"("correlation":)" + std::to_string(correlation), thread);
}

/// A host that runs ahead of the GPU, then waits for it:
///   host    |0 step ... 10 launch 14, 20 launch 24, 30 synchronize 128, 140 end|
///   GPU     |    18 a 68, 70 b 120|
std::string ahead(int shift) {
  return step(1, shift, 140) + "," + launch(shift + 10, 4, 1) + "," + launch(shift + 20, 4, 2) +
         "," + call("cudaDeviceSynchronize", shift + 30, 98, 3) + "," +
         kernel("a", shift + 18, 50, 1) + "," + kernel("b", shift + 70, 50, 2);
}

std::int64_t step_us(const ReplayProgram& program) {
  return replay(program).steps.at(0).count() / 1'000'000;
}
std::uint32_t find_task(const ReplayProgram& program, const std::string& name) {
  for (std::uint32_t i = 0; i < program.tasks.size(); ++i) {
    if (program.names[program.tasks[i].name] == name) return i;
  }
  FAIL("no task " << name);
  return 0;
}

TEST_SUITE_BEGIN("traces/replay/program");

TEST_CASE("a replay program holds durations, dependencies and host work, and no times") {
  // These bindings compile only while tasks and dependencies have no other members.
  const auto [work, kernel_class, track, name, duration_ns, bytes] = ReplayTask{};
  const auto [before, after, lag_ns, reason] = ReplayDependency{};
  CHECK(duration_ns + lag_ns + track + name + before + after == 0);
  CHECK(bytes == 0);
  CHECK((work == ReplayWork{} && kernel_class == KernelClass{} && reason == ReplayReason{}));

  const ReplayProgram program = rebuild(ahead(0)).program;
  for (const int shift : {1, 1000, 123'456'789}) {
    CAPTURE(shift);
    CHECK(rebuild(ahead(shift)).program == program);
  }
}

TEST_CASE("the replay gives the recorded step back") {
  const ReplayBuild build = rebuild(ahead(0));
  CHECK(step_us(build.program) == 140);
  CHECK(replay(build.program).kernel_busy.count() == 100'000'000);
  CHECK(build.account.host_waits == 1);
  CHECK(build.account.unlaunched == 0);
}

TEST_CASE("what waits for longer work comes later, and nothing else does") {
  ReplayProgram program = rebuild(ahead(0)).program;
  // b follows a in its stream 2 us later, the host returns 8 us after b: 30 us more of a are 30 us
  // more of the step.
  program.tasks[find_task(program, "a")].duration_ns += 30'000;
  CHECK(step_us(program) == 170);
  // With a and b of 10 us the host's launches decide: a runs 18 to 28, b at its launch (20) and its
  // usual latency, which is a's 8 us, at 30 (2 us after a), 10 us, 8 us of return, 12 us to the end
  // of the step.
  program.tasks[find_task(program, "a")].duration_ns = 10'000;
  program.tasks[find_task(program, "b")].duration_ns = 10'000;
  CHECK(step_us(program) == 30 + 10 + 8 + 12);
}

TEST_CASE("a call that no longer has to wait takes what such a call takes alone") {
  // The first wait returns at 128, 8 us after the kernel; the second, of an idle GPU, takes 2 us.
  const std::string events =
      step(1, 0, 140) + "," + launch(10, 4, 1) + "," + call("cudaDeviceSynchronize", 30, 98, 2) +
      "," + call("cudaDeviceSynchronize", 130, 2, 3) + "," + kernel("a", 20, 100, 1);
  const ReplayBuild build = rebuild(events);
  CHECK(build.account.host_waits == 2);
  struct Row {
    const char* what;
    std::int64_t kernel_us, step_us;
  };
  const Row rows[] = {
      {"as recorded", 100, 140},
      {"30 us longer, and so is the step", 130, 170},
      // 30, 2 of the call, 2 until the next, 2 of that, 8 to the end.
      {"ended before the call begins", 1, 30 + 2 + 2 + 2 + 8},
      // Ends at 29, 8 us later the host goes on: 37, then 2, 2 and 8.
      {"ended 1 us before it, and the host hears of it 8 us later", 9, 29 + 8 + 2 + 2 + 8},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    ReplayProgram program = build.program;
    program.tasks[find_task(program, "a")].duration_ns = row.kernel_us * 1000;
    CHECK(step_us(program) == row.step_us);
  }
}

TEST_CASE("streams wait for events, recorded or inferred from the order of calls") {
  const std::string events = launch(0, 4, 1) + "," + call("cudaEventRecord", 5, 1, 2) + "," +
                             call("cudaStreamWaitEvent", 7, 1, 3) + "," + launch(10, 4, 4) + "," +
                             kernel("first", 8, 92, 1, 0, 7) + "," +
                             kernel("second", 103, 10, 4, 0, 9);
  const std::string record =
      event("cuda_sync", "Stream Wait Event", 7, 1,
            R"("cuda_sync_kind":"Stream Wait Event","stream":9,"correlation":3,"wait_on_stream":7,)"
            R"("wait_on_cuda_event_record_corr_id":2,"wait_on_cuda_event_id":1)");
  for (const bool recorded : {false, true}) {
    CAPTURE(recorded);
    ReplayBuild build = rebuild(recorded ? events + "," + record : events);
    CHECK(build.account.event_waits == (recorded ? 1 : 0));
    CHECK(build.account.inferred_waits == (recorded ? 0 : 1));
    const std::uint32_t second = find_task(build.program, "second");
    build.program.tasks[find_task(build.program, "first")].duration_ns += 50'000;
    // It waits 3 us for the event: 8 + 92 + 50 + 3.
    CHECK(replay(build.program).schedule.start[second].count() == 153'000'000);
  }
}

TEST_CASE("a thread that stood still while another launched goes on after it") {
  // Thread 1 launches, thread 2 launches twice (the backward pass), thread 1 goes on 6 us later.
  const std::string events =
      step(1, 0, 100) + "," + launch(10, 4, 1, 1) + "," + launch(20, 4, 2, 2) + "," +
      launch(40, 4, 3, 2) + "," + launch(50, 4, 4, 1) + "," + kernel("f", 16, 2, 1) + "," +
      kernel("b1", 26, 2, 2) + "," + kernel("b2", 46, 2, 3) + "," + kernel("u", 56, 2, 4);
  ReplayBuild build = rebuild(events);
  CHECK(build.account.handoffs == 2);
  CHECK(step_us(build.program) == 100);
  // 16 us between the launches of thread 2: when they take 36, thread 1 and its step are 20 us
  // later.
  for (ReplayTask& task : build.program.tasks) {
    if (task.work == ReplayWork::HostWork && task.duration_ns == 16'000) task.duration_ns = 36'000;
  }
  CHECK(step_us(build.program) == 120);
}

TEST_CASE("loading of data can be left out") {
  const std::string events = step(1, 0, 100) + "," + launch(10, 4, 1) + "," +
                             event("user_annotation", "enumerate(DataLoader)#__next__", 20, 50) +
                             "," + launch(80, 4, 2) + "," + kernel("a", 16, 2, 1) + "," +
                             kernel("b", 86, 2, 2);
  const ReplayProgram program = rebuild(events).program;
  CHECK(step_us(program) == 100);
  CHECK(replay(program, {.without_input = true}).steps.at(0).count() == 50'000'000);
}

TEST_CASE("awaited work that ends too late is no reason, and is counted") {
  const ReplayBuild build =
      rebuild(launch(0, 4, 1) + "," + call("cudaStreamSynchronize", 10, 5, 2) + "," +
              kernel("long", 8, 100, 1));
  CHECK(build.account.refuted_waits == 1);
  CHECK(build.account.host_waits == 0);
}

TEST_CASE("work of a stream that overlaps by rounding follows, by more runs beside") {
  ReplayBuild build = rebuild(launch(0, 4, 1) + "," + launch(5, 4, 2) + "," +
                              kernel("a", 10, 20, 1) + "," + kernel("b", 29, 20, 2));
  CHECK(build.account.overlapping == 0);
  CHECK(replay(build.program).kernel_busy.count() == 39'000'000);
  build = rebuild(launch(0, 4, 1) + "," + launch(5, 4, 2) + "," + kernel("a", 10, 20, 1) + "," +
                  kernel("b", 25, 20, 2));
  CHECK(build.account.overlapping == 1);
  CHECK(replay(build.program).kernel_busy.count() == 35'000'000);
}

TEST_CASE("an empty trace is an empty program") {
  CHECK(rebuild("").program.tasks.empty());
  CHECK(replay(rebuild("").program).schedule.makespan.count() == 0);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
