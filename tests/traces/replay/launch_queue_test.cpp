#include "traces/replay/launch_queue.hpp"

#include <doctest/doctest.h>
#include <sqlite3.h>

#include <string>
#include <vector>

#include "sim/base/file.hpp"
#include "sim/replay/replay_rounds.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/traces/ranks/rank_text.hpp"
#include "tests/traces/replay/recorded_loop.hpp"
#include "traces/open.hpp"
#include "traces/replay/program.hpp"

namespace tracecast {
namespace {

using namespace test;
using traces::ReplayBuild;
using traces::Trace;

ReplayBuild rebuild(const Trace& trace, int queue) {
  return traces::build_replay_program(trace, traces::KernelNames::builtin(),
                                      static_cast<std::uint32_t>(queue));
}
std::int64_t us(engine::Picoseconds time) { return time.count() / 1'000'000; }

void set_kernels(ReplayProgram& program, std::int64_t duration_us) {
  for (ReplayTask& task : program.tasks) {
    if (task.work == ReplayWork::Kernel) task.duration_ns = duration_us * 1000;
  }
}
void scale_kernels(ReplayProgram& program, double factor) {
  for (ReplayTask& task : program.tasks) {
    if (task.work == ReplayWork::Kernel)
      task.duration_ns = static_cast<std::int64_t>(static_cast<double>(task.duration_ns) * factor);
  }
}
std::int64_t kernel_ns(const ReplayProgram& program) {
  std::int64_t sum = 0;
  for (const ReplayTask& task : program.tasks) {
    if (task.work == ReplayWork::Kernel) sum += task.duration_ns;
  }
  return sum;
}

/// Four launches of 5 us by themselves into a queue of two:
///   host  |0 a 5|5 b 10|10 c ........ 113|113 d ........ 213|
///   GPU        |8 a 108|108 b 208|208 c 308|308 d 408|
/// c goes on when a has ended (108), d when b has (208).
std::string four_launches() {
  return event("user_annotation", "ProfilerStep#1", 0, 213) + "," + launch(0, 5, 1) + "," +
         launch(5, 5, 2) + "," + launch(10, 103, 3) + "," + launch(113, 100, 4) + "," +
         kernel("a", 8, 100, 1) + "," + kernel("b", 108, 100, 2) + "," + kernel("c", 208, 100, 3) +
         "," + kernel("d", 308, 100, 4);
}

TEST_SUITE_BEGIN("traces/replay/launch_queue");

TEST_CASE("a launch that found the queue full waited, and takes its own time alone") {
  const Trace trace = trace_of(four_launches());
  const ReplayBuild build = rebuild(trace, 2);
  CHECK(build.account.queue_waits == 2);
  CHECK(build.account.queue_wait_ns == 98'000 + 95'000);
  for (const ReplayTask& task : build.program.tasks) {
    if (task.work == ReplayWork::Call) CHECK(task.duration_ns == 5'000);
  }
  struct Row {
    const char* what;
    std::int64_t kernel_us, step_us, end_us;
  };
  const Row rows[] = {
      {"as recorded", 100, 213, 408},
      // The host is never held: 4 x 5 us. Kernels begin 8 us after their call and last 1.
      {"quick kernels", 1, 20, 15 + 8 + 1},
      // a 8 to 208, b to 408: d is called at 213 and goes on at 408.
      {"slow kernels", 200, 408 + 5, 808},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    ReplayProgram program = build.program;
    set_kernels(program, row.kernel_us);
    const ReplayRun run = replay(program);
    CHECK(us(run.steps.at(0)) == row.step_us);
    CHECK(us(run.schedule.makespan) == row.end_us);
  }
  // With a queue as deep as the driver's none of them was full: the calls took that long by
  // themselves.
  CHECK(rebuild(trace, 1024).account.queue_waits == 0);
}

TEST_CASE("a recording shows how deep the queue is that its launches found full") {
  struct Row {
    const char* what;
    int most, recorded;
    std::uint32_t depth;
    bool is_full;
  };
  const Row rows[] = {
      {"the driver keeps two slots of 64", 64, 62, 62, true},
      {"all of them are free", 64, 64, 64, true},
      {"never full", 64, 1000, 64, false},
      {"blocked by something else", 1024, 62, 1024, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const Loop loop{.steps = 1, .kernels = row.is_full ? 200 : 70, .queue = row.recorded};
    const RecordedLoop recorded(loop);
    const ReplayBuild build = rebuild(trace_of(recorded.events()), row.most);
    REQUIRE(build.program.queues.size() == 1);
    if (row.is_full || row.most == 1024) CHECK(build.program.queues[0].depth == row.depth);
    CHECK((build.account.queue_waits > 0) == row.is_full);
    CHECK(us(replay(build.program).steps.at(0)) == recorded.steps[0].end);
  }
}

TEST_CASE("steps done again are those of a program that goes on") {
  // 10 kernels of 20 us and the 1 us between them, or 10 times 5 us of the host and 4 of its call;
  // whoever is slower.
  struct Row {
    const char* what;
    int kernel_us, queue;
    std::int64_t step_us;
  };
  const Row rows[] = {
      {"the GPU is slower", 20, 1024, 210},
      {"the GPU is slower, the queue short", 20, 4, 210},
      {"the host is slower", 2, 1024, 90},
      {"kernels take long", 500, 1024, 5010},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    // Recorded with kernels of 20 us, whose first steps the host runs ahead.
    const RecordedLoop recorded(Loop{.queue = row.queue});
    ReplayBuild build = rebuild(trace_of(recorded.events()), row.queue);
    set_kernels(build.program, row.kernel_us);
    const auto run = run_until_steady(build.program);
    REQUIRE(run);
    CHECK(run->is_steady);
    CHECK(us(run->ranks.at(0).step()) == row.step_us);
    CHECK(us(run->ranks.at(0).kernel_busy) == 3 * 10 * row.kernel_us);
  }
}

TEST_CASE("calls that waited for the GPU wait for what it takes elsewhere") {
  struct Row {
    const char* what;
    Loop::Wait wait;
    std::int64_t after_kernels_us;  ///< until the call returns
  };
  const Row rows[] = {
      {"synchronize", Loop::Wait::Synchronize, 5},
      {"copy to the host, 1 us behind the kernels, of 2 us", Loop::Wait::Copy, 1 + 2 + 5},
  };
  for (const Row& row : rows) {
    for (const int kernel_us : {1, 20, 300}) {
      CAPTURE(row.what);
      CAPTURE(kernel_us);
      const RecordedLoop recorded(Loop{.wait = row.wait});
      ReplayBuild build = rebuild(trace_of(recorded.events()), 1024);
      set_kernels(build.program, kernel_us);
      // The first kernel begins 5 + 6 us into the step; the last one is launched at 5 + 9 x 9 when
      // the GPU is idle.
      const std::int64_t by_gpu = 11 + 10 * kernel_us + 9;
      const std::int64_t by_host = 9 * 9 + 11 + kernel_us;
      const auto run = run_until_steady(build.program);
      REQUIRE(run);
      CHECK(us(run->ranks.at(0).step()) == std::max(by_gpu, by_host) + row.after_kernels_us);
    }
  }
}

TEST_CASE("a large copy from pageable memory holds the host until the work before it has ended") {
  // The call begins at 20 with 88 us of a kernel to go; the copy runs 108 to 158, its call returns
  // at 155.
  const auto trace = [](const std::string& bytes) {
    return trace_of(event("user_annotation", "ProfilerStep#1", 0, 155) + "," + launch(0, 5, 1) +
                    "," + event("cuda_runtime", "cudaMemcpyAsync", 20, 135, R"("correlation":2)") +
                    "," + kernel("a", 8, 100, 1) + "," +
                    event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 108, 50,
                          R"("device":0,"stream":7,"correlation":2,"bytes":)" + bytes, 7));
  };
  struct Row {
    const char* what;
    const char* bytes;
    std::int64_t kernel_us, step_us;
  };
  const Row rows[] = {
      {"as recorded", "1000000", 100, 155},
      {"a longer kernel", "1000000", 200, 255},
      {"a shorter kernel: the call alone, 47 us", "1000000", 1, 20 + 47},
      {"64 KB return at once, whatever took this call so long", "65536", 200, 155},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    ReplayBuild build = rebuild(trace(row.bytes), 1024);
    set_kernels(build.program, row.kernel_us);
    CHECK(us(replay(build.program).steps.at(0)) == row.step_us);
  }
}

TEST_CASE("a steady step is never shorter than its GPU is busy, nor than its host") {
  std::size_t cases = 0;
  for (const int queue : {1, 2, 7, 64, 1024}) {
    for (const Loop::Wait wait : {Loop::Wait::Never, Loop::Wait::Synchronize, Loop::Wait::Copy}) {
      for (const int kernels : {1, 3, 40}) {
        for (const int steps : {1, 2, 5}) {
          for (const int kernel_us : {2, 30}) {
            const Loop loop{steps, kernels, kernel_us, 5, queue, wait};
            const ReplayBuild build = rebuild(trace_of(RecordedLoop(loop).events()), queue);
            engine::Picoseconds before{};
            for (const double factor : {0.1, 1.0, 4.0, 30.0}) {
              CAPTURE(queue);
              CAPTURE(static_cast<int>(wait));
              CAPTURE(kernels);
              CAPTURE(steps);
              CAPTURE(kernel_us);
              CAPTURE(factor);
              ReplayProgram program = build.program;
              scale_kernels(program, factor);
              const auto run = run_until_steady(program);
              REQUIRE(run);
              const SteadySteps& steady = run->ranks.at(0);
              const std::int64_t busy = kernel_ns(program);
              CHECK(steady.kernel_busy.count() == busy * 1000);
              CHECK(steady.step().count() * steps >= busy * 1000);
              CHECK(us(steady.step()) >= kernels * (5 + 4));
              // One after the other they take that long at most: launches of 6 us, waits of 8.
              CHECK(us(steady.step()) <= kernels * (5 + 4 + 6 + 1) + busy / 1000 / steps + 20);
              CHECK(steady.step() >= before);
              before = steady.step();
              ++cases;
            }
          }
        }
      }
    }
  }
  CHECK(cases == 5 * 3 * 3 * 3 * 2 * 4);
}

/// An export of Nsight Systems of the loop.
Trace nsys_of(const RecordedLoop& recorded, const TemporaryFolder& folder) {
  std::string sql =
      "CREATE TABLE StringIds (id INTEGER, value TEXT);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId,"
      " demangledName, shortName, gridX, gridY, gridZ, blockX, blockY, blockZ, registersPerThread,"
      " staticSharedMemory, dynamicSharedMemory);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId, nameId);"
      "CREATE TABLE NVTX_EVENTS (start, end, text, textId, globalTid);"
      "INSERT INTO StringIds VALUES (1, 'k'), (2, 'cudaLaunchKernel_v7000'),"
      " (3, 'cudaDeviceSynchronize_v3020');";
  const auto row = [&sql](const std::string& table, const std::string& values) {
    sql += "INSERT INTO " + table + " VALUES (" + values + ");";
  };
  const auto span = [](int begin, int end) {
    return std::to_string(begin) + "000, " + std::to_string(end) + "000";
  };
  for (std::size_t i = 0; i < recorded.steps.size(); ++i)
    row("NVTX_EVENTS", span(recorded.steps[i].begin, recorded.steps[i].end) + ", 'ProfilerStep#" +
                           std::to_string(i) + "', NULL, 5");
  for (const RecordedLoop::Call& call : recorded.calls)
    row("CUPTI_ACTIVITY_KIND_RUNTIME", span(call.begin, call.end) + ", 5, " +
                                           std::to_string(call.correlation) +
                                           (call.name == "cudaLaunchKernel" ? ", 2" : ", 3"));
  for (const RecordedLoop::Work& work : recorded.work)
    row("CUPTI_ACTIVITY_KIND_KERNEL", span(work.begin, work.end) + ", 0, 7, " +
                                          std::to_string(work.correlation) +
                                          ", 1, 1, 80, 1, 1, 128, 1, 1, 32, 0, 0");
  const auto path = folder.path() / "loop.sqlite";
  sqlite3* opened = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &opened) == SQLITE_OK);
  REQUIRE(sqlite3_exec(opened, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(opened);
  return std::move(traces::read_recording(path).traces.front());
}

TEST_CASE("recordings of Nsight Systems have the same steps as PyTorch's of the same program") {
  for (const Loop::Wait wait : {Loop::Wait::Never, Loop::Wait::Synchronize}) {
    const RecordedLoop recorded(Loop{.steps = 3, .kernels = 20, .queue = 8, .wait = wait});
    const TemporaryFolder folder;
    ReplayBuild nsys = rebuild(nsys_of(recorded, folder), 8);
    ReplayBuild kineto = rebuild(trace_of(recorded.events()), 8);
    CHECK(nsys.account.queue_waits == kineto.account.queue_waits);
    CHECK(nsys.account.queue_waits > 0);
    for (const double factor : {0.1, 1.0, 20.0}) {
      CAPTURE(factor);
      ReplayProgram a = nsys.program, b = kineto.program;
      scale_kernels(a, factor);
      scale_kernels(b, factor);
      const auto run = run_until_steady(a), other = run_until_steady(b);
      REQUIRE((run && other));
      CHECK(run->ranks.at(0).step() == other->ranks.at(0).step());
      CHECK(run->ranks.at(0).step().count() * 3 >= kernel_ns(a) * 1000);
    }
  }
}

TEST_CASE("what nvprof prints of a GPU alone takes no less than its kernels") {
  const TemporaryFolder folder;
  std::string text =
      "==1== NVPROF is profiling process 1, command: ./a\n==1== Profiling result:\n"
      "\"Start\",\"Duration\",\"Grid X\",\"Grid Y\",\"Grid Z\",\"Block X\",\"Block Y\",\"Block Z\","
      "\"Registers Per Thread\",\"Static SMem\",\"Dynamic SMem\",\"Device\",\"Context\",\"Stream\","
      "\"Name\"\nus,us,,,,,,,,B,B,,,,\n";
  for (int i = 0; i < 50; ++i)
    text += std::to_string(10 + 21 * i) + ",20,80,1,1,128,1,1,32,0,0,\"GPU (0)\",1,7,\"k\"\n";
  write_file(folder.path() / "p.csv", text);
  const traces::Recording recording = traces::read_recording(folder.path() / "p.csv");
  const Trace& trace = recording.traces.front();
  REQUIRE(trace.kernels.size() == 50);
  for (const std::int64_t kernel_us : {2, 20, 400}) {
    ReplayBuild build = rebuild(trace, 1024);
    set_kernels(build.program, kernel_us);
    // 1 us between them, as recorded, and 10 before the first, since nothing tells what the host
    // did.
    CHECK(us(replay(build.program).schedule.makespan) == 50 * (kernel_us + 1) - 1);
    CHECK_FALSE(run_until_steady(build.program));
  }
}

TEST_CASE("ranks that go on together take as long as the slower GPU and what it waits for") {
  // Each rank: a launch at 10 of a kernel, one at 14 of a collective behind it, a wait for both, 5
  // us to the step's end.
  const auto rank = [](int number, int kernel_us, int arrival_us) {
    const int end = 16 + arrival_us + 20;
    Trace trace = trace_of(
        event("user_annotation", "ProfilerStep#1", 0, end + 10) + "," + launch(10, 2, 1) + "," +
        event("cuda_runtime", "cudaStreamWaitEvent", 12, 1, R"("correlation":9)") + "," +
        launch(14, 2, 2) + "," +
        event("cuda_runtime", "cudaDeviceSynchronize", 20, end - 15, R"("correlation":3)") + "," +
        kernel("sgemm", 16, kernel_us, 1) + "," +
        nccl("AllReduce", 16 + kernel_us, end - 16 - kernel_us, 2, 1000, 2));
    trace.rank = number;
    return trace;
  };
  std::vector<Trace> traces;
  traces.push_back(rank(0, 50, 80));
  traces.push_back(rank(1, 80, 80));
  const traces::RanksBuild build =
      traces::build_ranks_program(traces, traces::KernelNames::builtin());
  REQUIRE(build.job.collectives.size() == 1);
  for (const std::int64_t kernel_us : {1, 80, 2000}) {
    CAPTURE(kernel_us);
    RanksProgram job = build.job;
    for (ReplayTask& task : job.program.tasks) {
      if (job.program.names[task.name] == "sgemm" && task.track < job.ranks[1].first_track)
        task.duration_ns = kernel_us * 1000;
    }
    const auto run = run_until_steady(job);
    REQUIRE(run);
    REQUIRE(run->ranks.size() == 2);
    for (const SteadySteps& steady : run->ranks) {
      CHECK(steady.step() >= steady.kernel_busy);
      // 16 to the kernel, the slower of 80 and this, 20 of moving, 5 to the return and 5 to the
      // end.
      CHECK(us(steady.step()) == 16 + std::max<std::int64_t>(kernel_us, 80) + 20 + 10);
    }
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
