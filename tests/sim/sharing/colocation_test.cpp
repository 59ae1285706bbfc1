#include "sim/sharing/colocation.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/parallel/multi_rank_run.hpp"

namespace tracecast {
namespace {

Seconds ms(double value) { return Seconds(value * 1e-3); }

/// `count` kernels of `kernel` each, an op per kernel; the host begins no step before the GPU is
/// done.
ColocatedJob steady_job(int count, Seconds kernel, Seconds overhead = {}, Seconds launch = {}) {
  ColocatedJob job;
  StepProgram& program = job.program;
  program.step_overhead = overhead;
  program.launch = launch;
  program.synchronizes = true;
  for (int k = 0; k < count; ++k) {
    const auto index = static_cast<std::uint32_t>(k);
    program.kernels.push_back({.duration = kernel, .op = index});
    program.ops.push_back({.first_kernel = index, .num_kernels = 1});
    job.demands.push_back({});
  }
  return job;
}

SharedBox box_with(Seconds slice, Seconds context_switch) {
  SharedBox box;
  box.gpu_memory = Bytes(16e9);
  box.sharing.time_slice = slice;
  box.sharing.context_switch = context_switch;
  return box;
}

Colocation run(const std::vector<ColocatedJob>& jobs, const SharedBox& box) {
  return colocate(jobs, box);
}

/// A program of random shape: launch-bound or not, with waits, sometimes fed by a loader.
ColocatedJob random_job(Random& random) {
  const auto up_to = [&](double most) { return most * random.uniform(); };
  ColocatedJob job = steady_job(2 + static_cast<int>(up_to(40)), ms(0.02 + up_to(0.5)),
                                ms(up_to(2)), ms(0.005 + up_to(0.1)));
  StepProgram& program = job.program;
  program.synchronizes = up_to(1) < 0.5;
  for (ProgramKernel& kernel : program.kernels) kernel.duration = ms(0.01 + up_to(0.5));
  for (ProgramOp& op : program.ops) op.dispatch = ms(up_to(0.1));
  program.ops.back().waits_for_gpu = up_to(1) < 0.5;
  if (up_to(1) < 0.5) {
    program.input_copy = ms(up_to(1));
    program.input = InputStages{.prepare = ms(up_to(30)),
                                .pin = ms(up_to(1)),
                                .workers = 3,
                                .tasks_per_batch = 1,
                                .host_batches = 6,
                                .dispatch_takes_batch = true,
                                .copies_in_compute_stream = true};
  }
  return job;
}

TEST_SUITE_BEGIN("sim/sharing/colocation");

TEST_CASE("a job alone in the box runs as its own simulation says") {
  Random random(7);
  for (int i = 0; i < 40; ++i) {
    CAPTURE(i);
    const ColocatedJob job = random_job(random);
    const Seconds alone = simulate(job.program).step_time;
    for (const bool mps : {false, true}) {
      SharedBox box = box_with(ms(1), ms(0.05));
      box.mps = mps;
      const Colocation result = run({job}, box);
      CHECK(result.jobs[0].together / alone == doctest::Approx(1).epsilon(0.03));
      CHECK(result.jobs[0].alone == result.jobs[0].together);
    }
  }
}

TEST_CASE("a job beside one on another GPU runs as alone") {
  Random random(11);
  for (int i = 0; i < 10; ++i) {
    const ColocatedJob first = random_job(random);
    ColocatedJob second = random_job(random);
    second.gpu = 1;
    const Colocation result = run({first, second}, box_with(ms(1), ms(0.05)));
    CHECK(result.normalized_sum() == doctest::Approx(2).epsilon(0.02));
  }
}

TEST_CASE("a job beside one that hardly works runs almost as alone") {
  // The idle one runs 0.1 ms of kernels in every second, and a turn costs two switches of 0.05 ms.
  const ColocatedJob busy = steady_job(50, ms(1)), idle = steady_job(1, ms(0.1), ms(1000));
  const Colocation result = run({busy, idle}, box_with(ms(1), ms(0.05)));
  CHECK(result.jobs[0].normalized_rate() > 0.995);
}

TEST_CASE("time slices divide a GPU that both keep busy, less what switching costs") {
  struct Row {
    const char* what;
    double switch_ms, each;
  };
  // Kernels of 100 ms: slices of 1 ms take turns, each followed by a switch.
  const Row rows[] = {{"free switches: half each", 0.0, 0.5},
                      {"0.25 ms per slice of 1 ms: 1 of 1.25", 0.25, 0.4}};
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const std::vector<ColocatedJob> pair(2, steady_job(1, ms(100)));
    const Colocation result = run(pair, box_with(ms(1), ms(row.switch_ms)));
    CHECK(result.jobs[0].normalized_rate() == doctest::Approx(row.each).epsilon(0.01));
    CHECK(result.jobs[1].normalized_rate() == doctest::Approx(row.each).epsilon(0.01));
  }
}

TEST_CASE("one's kernels run while the other's host works") {
  // 4 ms of kernel and 6 ms of host each: after the first collision they keep out of each other's
  // way.
  const std::vector<ColocatedJob> pair(2, steady_job(1, ms(4), ms(6)));
  const Colocation result = run(pair, box_with(ms(100), ms(0)));
  CHECK(result.normalized_sum() == doctest::Approx(2).epsilon(0.01));
}

TEST_CASE(
    "two alike that start at once meet on the GPU in every step, some time apart they need not") {
  // 4 ms of kernel after 6 ms of host, alone 10 ms. In step: both ask for the GPU at once and get
  // it in turns, so that a step takes 6 ms and up to 2 x 4. The second 5 ms later: the first is
  // through when it asks.
  ColocatedJob first = steady_job(1, ms(4), ms(6)), later = first;
  const SharedBox box = box_with(ms(0.5), ms(0));
  const Colocation at_once = run({first, later}, box);
  later.start = ms(5);
  const Colocation apart = run({first, later}, box);
  for (const std::size_t job : {0, 1}) {
    CHECK(at_once.jobs[job].together >= ms(13));
    CHECK(at_once.jobs[job].together <= ms(14));
    CHECK(apart.jobs[job].together.in_ms() == doctest::Approx(10).epsilon(1e-6));
    CHECK(apart.jobs[job].alone.in_ms() == doctest::Approx(10).epsilon(1e-6));
  }
}

TEST_CASE("with MPS kernels that leave room overlap, others share") {
  SharedBox box = box_with(ms(1), ms(0.5));
  box.mps = true;
  struct Row {
    const char* what;
    KernelDemand demand;
    double sum;
  };
  const Row rows[] = {{"half the SMs each: nobody waits", {0.5, 0.2}, 2.0},
                      {"all SMs each: half speed", {1.0, 0.2}, 1.0},
                      {"0.8 of memory each: 1 / 1.6 speed", {0.3, 0.8}, 1.25}};
  for (const Row& row : rows) {
    CAPTURE(row.what);
    ColocatedJob job = steady_job(4, ms(10));
    for (KernelDemand& demand : job.demands) demand = row.demand;
    CHECK(run({job, job}, box).normalized_sum() == doctest::Approx(row.sum).epsilon(0.01));
  }
}

TEST_CASE("rates rise together until a resource is full") {
  // SMs: 0.5 r + 1.0 r = 1 at r = 2/3; both use SMs, so both stop.
  const KernelDemand two[] = {{0.5, 0}, {1.0, 0}};
  CHECK(fair_rates(two)[0] == doctest::Approx(2.0 / 3));
  CHECK(fair_rates(two)[1] == doctest::Approx(2.0 / 3));
  // Memory: r + r = 1 at 0.5 stops the first two; the third leaves memory alone and goes on to 1:
  // 0.1 + 0.3 < 1.
  const KernelDemand three[] = {{0.1, 1}, {0.1, 1}, {0.3, 0}};
  const std::vector<double> rates = fair_rates(three);
  CHECK(rates[0] == doctest::Approx(0.5));
  CHECK(rates[2] == doctest::Approx(1.0));
}

TEST_CASE("alike jobs fare alike, nobody gains, and no GPU works more than all the time") {
  Random random(3);
  for (int i = 0; i < 30; ++i) {
    CAPTURE(i);
    SharedBox box = box_with(ms(1), ms(0.03));
    box.mps = i % 2 == 1;
    const ColocatedJob a = random_job(random), b = random_job(random);
    const Colocation twins = run({a, a}, box);
    CHECK(twins.jobs[0].normalized_rate() ==
          doctest::Approx(twins.jobs[1].normalized_rate()).epsilon(0.05));
    const Colocation pair = run({a, b}, box);
    for (const JobShare& share : pair.jobs) CHECK(share.normalized_rate() < 1.03);
    if (!box.mps) CHECK(pair.jobs[0].gpu_share + pair.jobs[1].gpu_share < 1 + 1e-9);
    const Colocation turned = run({b, a}, box);
    CHECK(turned.normalized_sum() == doctest::Approx(pair.normalized_sum()).epsilon(0.05));
  }
}

TEST_CASE("who knows the steps alone gets the same answer") {
  Random random(11);
  for (int i = 0; i < 10; ++i) {
    const std::vector<ColocatedJob> jobs{random_job(random), random_job(random)};
    const SharedBox box = box_with(ms(1), ms(0.03));
    const Seconds alone[] = {step_alone(jobs[0], box), step_alone(jobs[1], box)};
    const Colocation asked = colocate(jobs, box), reported = colocate(jobs, box, alone);
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      CHECK(reported.jobs[j].alone == asked.jobs[j].alone);
      CHECK(reported.jobs[j].together == asked.jobs[j].together);
    }
  }
}

TEST_CASE("jobs that do not fit into memory together are refused") {
  ColocatedJob job = steady_job(1, ms(1));
  job.device_memory = Bytes(9e9);
  CHECK(run({job}, box_with(ms(1), ms(0))).fits);
  const Colocation result = run({job, job}, box_with(ms(1), ms(0)));
  CHECK_FALSE(result.fits);
  CHECK(result.jobs.empty());
  CHECK(result.device_memory.in_bytes() == doctest::Approx(18e9));
  ColocatedJob other = job;
  other.gpu = 1;
  CHECK(run({job, other}, box_with(ms(1), ms(0))).fits);
}

TEST_CASE("loaders share the cores of the box") {
  // 10 ms of loading per step on a core of its own, 1 ms of kernels: paced by the loader. Two on
  // one core: half each.
  ColocatedJob job = steady_job(1, ms(1));
  job.program.input =
      InputStages{.prepare = ms(10), .workers = 1, .host_batches = 2, .dispatch_takes_batch = true};
  SharedBox box = box_with(ms(1), ms(0));
  box.host = HostThreads{.cores = 1, .threads = 1, .core_speed = Hertz(1e9)};
  CHECK(run({job, job}, box).normalized_sum() == doctest::Approx(1).epsilon(0.03));
  box.host = HostThreads{.cores = 8, .threads = 8, .core_speed = Hertz(1e9)};
  CHECK(run({job, job}, box).normalized_sum() == doctest::Approx(2).epsilon(0.03));
}

TEST_CASE("kernels in the order of their readiness are no time slices, in pieces neither") {
  // Why co-location is no program of the common runner (sim/parallel/notes/0001): what is on the
  // GPU when decides where a kernel is cut.
  const Seconds slice = ms(1), large = ms(10), small = ms(0.05);
  constexpr int kSmall = 20;
  // Steps of one kernel of 10 ms beside steps of 20 kernels of 50 us.
  const Colocation sliced =
      run({steady_job(1, large), steady_job(kSmall, small)}, box_with(slice, Seconds()));
  const Seconds together = sliced.jobs[1].together;
  CHECK(together <= kSmall * small + 2.0 * slice);

  // Each process issues a kernel when the one before has ended; the large ones outlast the step of
  // small ones.
  const auto chain = [](MultiRankProgram& program, MultiRankProgram::Lane gpu, int count,
                        Seconds kernel) {
    auto last = program.add({.action = Action::Kernel}, gpu, kernel);
    for (int k = 1; k < count; ++k) {
      const auto next = program.add({.action = Action::Kernel}, gpu, kernel);
      program.after(last, next);
      last = next;
    }
    return last;
  };
  const auto in_order = [&](Seconds piece) {
    MultiRankProgram program;
    const auto gpu = program.add_pool();
    chain(program, gpu, (kSmall + 1) * static_cast<int>(std::lround(large / piece)), piece);
    const auto last = chain(program, gpu, kSmall, small);
    return MultiRankRun(program).end_of(last).in_seconds();
  };
  CHECK(in_order(large) / (kSmall * (large + small)) == doctest::Approx(1));
  CHECK(in_order(slice) / (kSmall * (slice + small)) == doctest::Approx(1));
  CHECK(in_order(slice) > 5 * together);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
