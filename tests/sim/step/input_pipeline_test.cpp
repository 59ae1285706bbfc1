#include "sim/step/input_pipeline.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <utility>

#include "sim/base/random.hpp"

namespace tracecast {
namespace {

/// One op of one kernel: a GPU that takes `step` per batch, on a host that costs nothing.
StepProgram gpu_step(Seconds step) {
  StepProgram program;
  program.ops.push_back({.dispatch = {}, .first_kernel = 0, .num_kernels = 1});
  program.kernels.push_back({.duration = step, .op = 0, .kernel = 0});
  return program;
}

/// Threads without number: nobody slows anybody down.
HostThreads plenty() { return {.cores = 10'000, .threads = 10'000, .core_speed = Hertz(1e9)}; }

Seconds step_time(const StepProgram& program, const InputStages& stages,
                  const HostThreads& host = plenty()) {
  return run_with_input(program, stages, host).timeline.step_time;
}

/// A loader whose cost is all decoding: 100 cycles per pixel of 100x100 images, 1 M cycles per
/// sample.
InputRequest simple_job() {
  InputRequest job;
  job.data.kind = SampleKind::Jpeg;
  job.data.samples = 1000;
  job.data.width_px = job.data.height_px = 100;
  job.data.bytes_per_sample = Bytes(10'000);
  job.pipeline.decode_cycles_per_pixel = 100;
  job.pipeline.prefetch_batches = 2;
  job.pipeline.pinned_by = PinnedBy::None;
  job.pipeline.memory_copy = BytesPerSecond(1e9);
  job.host = plenty();
  job.workers = 1;
  job.batch = 10;
  job.output_values = 30'000;
  job.output_pixels = 10'000;
  return job;
}

TEST_SUITE_BEGIN("sim/step/input_pipeline");

TEST_CASE("workers without number leave the step to the GPU, one slow worker sets its own pace") {
  // 10 samples of 1 ms each: 10 ms of CPU per batch. GPU: 4 ms.
  for (const bool whole_batches : {false, true}) {
    CAPTURE(whole_batches);
    InputStages stages{.prepare = 10.0_ms, .host_batches = 4};
    stages.dispatch_takes_batch = whole_batches;
    CHECK(step_time(gpu_step(4.0_ms), stages).in_ms() == doctest::Approx(10.0));
    stages.workers = 2;  // 5 ms per batch
    stages.tasks_per_batch = whole_batches ? 1 : 2;
    CHECK(step_time(gpu_step(4.0_ms), stages).in_ms() == doctest::Approx(5.0));
    stages.workers = 1000;
    stages.tasks_per_batch = whole_batches ? 1 : 10;
    stages.host_batches = 2000;
    CHECK(step_time(gpu_step(4.0_ms), stages).in_ms() == doctest::Approx(4.0));
  }
}

TEST_CASE("the slowest stage sets the pace, whichever it is") {
  struct Row {
    const char* what;
    InputStages stages;
    Seconds copy;
    double step_ms;
  };
  const Row rows[] = {
      {"disk", {.read = 9.0_ms, .prepare = 8.0_ms, .workers = 4}, 1.0_ms, 9.0},
      {"workers: 24 / 3",
       {.read = 1.0_ms, .prepare = 24.0_ms, .workers = 3, .tasks_per_batch = 3},
       1.0_ms,
       8.0},
      {"pin thread", {.prepare = 4.0_ms, .pin = 7.0_ms, .workers = 4}, 1.0_ms, 7.0},
      {"decoder", {.prepare = 4.0_ms, .gpu_decode = 6.0_ms, .workers = 4}, 1.0_ms, 6.0},
      {"copy", {.prepare = 4.0_ms, .workers = 4}, 6.5_ms, 6.5},
      {"GPU", {.read = 1.0_ms, .prepare = 4.0_ms, .pin = 1.0_ms, .workers = 4}, 1.0_ms, 5.0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    InputStages stages = row.stages;
    stages.host_batches = 8;
    stages.device_batches = 2;  // everything overlaps: step = max(GPU 5 ms, supply_time)
    StepProgram program = gpu_step(5.0_ms);
    program.input_copy = row.copy;
    CHECK(step_time(program, stages).in_ms() == doctest::Approx(row.step_ms));
    CHECK(std::max(5.0, supply_time(stages, row.copy).in_ms()) == doctest::Approx(row.step_ms));
  }
}

TEST_CASE("a copy that begins with the step adds to it, one ahead of it does not") {
  // 3 ms of copy, 5 ms of kernels, in a host that waits for the GPU after each step.
  StepProgram program = gpu_step(5.0_ms);
  program.input_copy = 3.0_ms;
  program.synchronizes = true;
  InputStages stages{.prepare = 1.0_ms, .host_batches = 4};
  CHECK(step_time(program, stages).in_ms() == doctest::Approx(8.0));
  stages.device_batches = 1;
  CHECK(step_time(program, stages).in_ms() == doctest::Approx(5.0));
  // A host that runs ahead, copying in the stream of the kernels: no overlap either.
  program.synchronizes = false;
  stages.device_batches = 0;
  stages.copies_in_compute_stream = true;
  CHECK(step_time(program, stages).in_ms() == doctest::Approx(8.0));
}

TEST_CASE("without workers the dispatch thread loads between steps") {
  // One thread: 6 ms of loading, then 4 ms of kernels that it has to wait for.
  StepProgram program = gpu_step(4.0_ms);
  program.synchronizes = true;
  InputStages stages{.prepare = 6.0_ms, .workers = 0, .host_batches = 1};
  stages.dispatch_takes_batch = true;
  const InputRun run = run_with_input(program, stages, plenty());
  CHECK(run.timeline.step_time.in_ms() == doctest::Approx(10.0));
  CHECK(run.timeline.host_busy.in_ms() == doctest::Approx(6.0));
  CHECK(run.timeline.idle_input.in_ms() == doctest::Approx(6.0));
  // A thread that does not wait loads the next batch meanwhile.
  program.synchronizes = false;
  const InputRun ahead = run_with_input(program, stages, plenty());
  CHECK(ahead.timeline.step_time.in_ms() == doctest::Approx(6.0));
  CHECK(ahead.timeline.idle_input.in_ms() == doctest::Approx(2.0));
}

TEST_CASE("threads share cores fairly") {
  // 4 cores with 8 hardware threads, a second thread adds a quarter.
  const HostThreads host{
      .cores = 4, .threads = 8, .core_speed = Hertz(1e9), .second_thread_gain = 0.25};
  CHECK(host.speed(1) == 1.0);
  CHECK(host.speed(4) == 1.0);
  CHECK(host.speed(8) == doctest::Approx(5.0 / 8));    // 4 + 4 / 4 cores for 8
  CHECK(host.speed(20) == doctest::Approx(5.0 / 20));  // no more than 8 run at once
  const HostThreads two{.cores = 4, .threads = 2, .core_speed = Hertz(1e9)};
  CHECK(two.speed(6) == doctest::Approx(2.0 / 6));
  CHECK(two.limit() == 2);
}

TEST_CASE("a container's quota is CPU time: threads spread over all cores and stand still") {
  HostThreads host{.cores = 4, .threads = 8, .core_speed = Hertz(1e9), .second_thread_gain = 0.25};
  host.quota = 2;
  CHECK(host.limit() == 2);
  CHECK(host.speed(1) == 1.0);
  CHECK(host.speed(2) == 1.0);                   // no siblings: cores are enough
  CHECK(host.speed(4) == doctest::Approx(0.5));  // half of the time used up
  CHECK(host.throughput(8) ==
        doctest::Approx(5.0 / 4));  // eight on four cores, a quarter of the time
  host.quota = 0.5;
  CHECK(host.speed(1) == doctest::Approx(0.5));
  CHECK(host.speed(0.25) == 1.0);
  // More of it is never slower.
  for (const double runnable : {0.5, 1.0, 3.0, 6.0, 12.0}) {
    double before = 0;
    for (const double quota : {0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0}) {
      host.quota = quota;
      CHECK(host.throughput(runnable) >= before);
      before = host.throughput(runnable);
    }
  }
}

TEST_CASE("batches that come in bursts count by their mean") {
  // Four workers make a batch of four at a time, sixteen four batches at once: what the loader's
  // slowest stage takes is the least that a step takes, and about what it takes.
  for (const int workers : {4, 8, 12, 16, 20}) {
    for (const double read_ms : {0.0, 0.3}) {
      CAPTURE(workers);
      InputStages stages{.prepare = 40.0_ms};
      stages.workers = workers;
      stages.tasks_per_batch = 4;
      stages.host_batches = 2 + (workers + 3) / 4;
      stages.read = Seconds(1e-3 * read_ms);
      const InputRun run = run_with_input(gpu_step(1.0_ms), stages, plenty());
      const Seconds supply = supply_time(stages, {});
      CHECK(run.timeline.step_time >= max(supply, run.without.step_time) * 0.999);
      CHECK(run.timeline.step_time <= max(supply, run.without.step_time) * 1.25);
      CHECK(
          (run.timeline.critical_kernels + run.timeline.critical_host + run.timeline.critical_input)
              .in_s() == doctest::Approx(run.timeline.step_time.in_s()));
    }
  }
}

TEST_CASE("loading and dispatch slow each other down when threads are few") {
  // One thread for one worker (10 ms per batch) and a dispatch of 10 ms per step: 20 ms in all.
  StepProgram program = gpu_step(1.0_ms);
  program.ops[0].dispatch = 10.0_ms;
  InputStages stages{.prepare = 10.0_ms, .host_batches = 2};
  const HostThreads one{.cores = 1, .threads = 1, .core_speed = Hertz(1e9)};
  const InputRun run = run_with_input(program, stages, one);
  CHECK(run.timeline.step_time.in_ms() == doctest::Approx(20.0).epsilon(0.02));
  CHECK(run.use.cpu_speed == doctest::Approx(0.5).epsilon(0.02));
  CHECK(run.use.busy_threads == doctest::Approx(1.0));
  const HostThreads two{.cores = 2, .threads = 2, .core_speed = Hertz(1e9)};
  CHECK(step_time(program, stages, two).in_ms() == doctest::Approx(10.0));
}

TEST_CASE("more CPU threads, more workers, a faster disk never make a step slower") {
  Random random(7);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    InputRequest job = simple_job();
    job.batch = 1 + static_cast<std::int64_t>(random.uniform() * 40);
    job.pipeline.worker_makes_batches = random.uniform() < 0.5;
    job.pipeline.dispatch_takes_batch = random.uniform() < 0.5;
    job.pipeline.device_prefetch_batches = random.uniform() < 0.5 ? 1 : 0;
    job.host = {.cores = 8, .threads = 16, .core_speed = Hertz(2e9), .second_thread_gain = 0.25};
    StepProgram program = gpu_step(Seconds(random.uniform() * 20e-3));
    program.ops[0].dispatch = Seconds(random.uniform() * 5e-3);
    const auto run = [&] { return run_with_input(program, job).timeline.step_time.in_ms(); };
    constexpr double kIteration = 1.02;  // speeds are solved to 1 %
    double before = INFINITY;
    job.workers = 6;
    for (const int threads : {1, 2, 3, 4, 8, 16}) {
      job.host.threads = threads;
      const double now = run();
      CHECK(now <= before * kIteration);
      before = now;
    }
    job.host = plenty();
    before = INFINITY;
    for (const int workers : {1, 2, 3, 7, 30}) {
      job.workers = workers;
      const double now = run();
      CHECK(now <= before * 1.002);
      before = now;
    }
    before = INFINITY;
    for (const double gb_per_s : {0.01, 0.1, 1.0}) {
      job.disk = DiskSpeed{.read = BytesPerSecond(gb_per_s * 1e9), .reads_per_s = 1e4};
      const double now = run();
      CHECK(now <= before * 1.002);
      before = now;
    }
  }
}

TEST_CASE("steps account for all of their time") {
  for (const double prepare_ms : {0.5, 4.0, 9.0, 40.0}) {
    for (const bool takes : {false, true}) {
      CAPTURE(prepare_ms);
      CAPTURE(takes);
      StepProgram program = gpu_step(5.0_ms);
      program.ops[0].dispatch = 1.0_ms;
      program.input_copy = 2.0_ms;
      InputStages stages{
          .prepare = Seconds(prepare_ms * 1e-3), .pin = 1.0_ms, .workers = 2, .host_batches = 4};
      stages.dispatch_takes_batch = takes;
      const StepTimeline t = run_with_input(program, stages, plenty()).timeline;
      CHECK((t.critical_kernels + t.critical_host + t.critical_input).in_ms() ==
            doctest::Approx(t.step_time.in_ms()));
      CHECK((t.kernel_busy + t.idle_host + t.idle_input).in_ms() ==
            doctest::Approx(t.step_time.in_ms()));
      CHECK(t.step_time >= t.kernel_busy);
    }
  }
}

TEST_CASE("the cost of a sample is the sum of what is done to it") {
  InputRequest job = simple_job();
  // 100 cycles x 10,000 pixels; nothing is resized: the image has the network's size.
  CHECK(cycles_per_sample(job) == doctest::Approx(1e6));
  job.pipeline.image_overhead_pixels = 500;   // + 50,000
  job.pipeline.convert_cycles_per_value = 2;  // + 2 x 30,000
  job.pipeline.cycles_per_sample = 7000;      // + 7,000
  CHECK(cycles_per_sample(job) == doctest::Approx(1'117'000));
  job.output_pixels = 2500;                         // now it is resized
  job.pipeline.resize_cycles_per_output_pixel = 4;  // + 10,000
  job.pipeline.resize_cycles_per_source_pixel = 3;  // + 3 x half of 10,000 in training
  job.pipeline.train_crop_fraction = 0.5;
  CHECK(cycles_per_sample(job) == doctest::Approx(1'117'000 + 10'000 + 15'000));
  job.training = false;  // the whole image
  CHECK(cycles_per_sample(job) == doctest::Approx(1'117'000 + 10'000 + 30'000));
  job.training = true;
  job.pipeline.decodes_crop_only = true;  // half the decoding
  CHECK(cycles_per_sample(job) == doctest::Approx(1'117'000 + 25'000 - 500'000));
  job.data.kind = SampleKind::Tokens;
  job.pipeline.cycles_per_token = 10;
  job.pipeline.cycles_per_record = 7000;
  CHECK(cycles_per_sample(job) == doctest::Approx(10 * 30'000 + 7000));
}

TEST_CASE("images stored raw are read larger and decoded for nothing") {
  InputRequest job = simple_job();
  job.pipeline.stored_side_px = 64;
  job.pipeline.stored_encoded = false;
  job.output_pixels = 64 * 64;
  CHECK(cycles_per_sample(job) == 0);
  job.disk = DiskSpeed{.read = BytesPerSecond(1e6), .reads_per_s = 1e9};
  // 10 images of 3 x 64 x 64 bytes at 1 MB/s, nothing cached.
  CHECK(plan_input(job).read.in_ms() == doctest::Approx(10 * 3 * 4096 / 1e3));
}

TEST_CASE("what nobody pinned reaches the GPU no faster than a thread copies it") {
  InputRequest job = simple_job();  // a thread copies 1 GB/s
  for (const auto pinned_by : {PinnedBy::None, PinnedBy::Thread, PinnedBy::Worker}) {
    job.pipeline.pinned_by = pinned_by;
    const bool is_pinned = pinned_by != PinnedBy::None;
    CHECK(copy_rate(job, BytesPerSecond(12e9)) == BytesPerSecond(is_pinned ? 12e9 : 1e9));
    CHECK(copy_rate(job, BytesPerSecond(5e8)) == BytesPerSecond(5e8));
  }
}

TEST_CASE("images stored as JPEG keep their shape, raw ones are square") {
  InputRequest job = simple_job();
  job.data.width_px = 200;  // 200 x 100, stored with a shorter side of 50: 100 x 50
  job.pipeline.stored_side_px = 50;
  job.disk = DiskSpeed{.read = BytesPerSecond(1e6), .reads_per_s = 1e9};
  job.output_pixels = 5000;
  for (const bool upright : {false, true}) {
    CAPTURE(upright);
    if (upright) std::swap(job.data.width_px, job.data.height_px);
    job.pipeline.stored_encoded = true;
    CHECK(cycles_per_sample(job) == doctest::Approx(100 * 5000));
    // A quarter of the pixels are a quarter of 10 x 10 kB, at 1 MB/s.
    CHECK(plan_input(job).read.in_ms() == doctest::Approx(25));
    job.pipeline.stored_encoded = false;
    CHECK(plan_input(job).read.in_ms() == doctest::Approx(10 * 3 * 50 * 50 / 1e3));
  }
}

TEST_CASE("a page cache serves what fits") {
  const Bytes data = 100.0_MB;
  CHECK(page_cache_hits(100.0_MB, data, true) == 1);
  CHECK(page_cache_hits(200.0_MB, data, false) == 1);
  CHECK(page_cache_hits(99.0_MB, data, false) ==
        0);  // in order, it has just dropped what comes next
  CHECK(page_cache_hits(Bytes(0), data, true) == 0);
  // Random order: f + (1 - f) ln(1 - f) = 0.5 - 0.5 ln 2 for f = 1/2, about f^2 / 2 when small.
  CHECK(page_cache_hits(50.0_MB, data, true) == doctest::Approx(0.5 - 0.5 * std::log(2.0)));
  CHECK(page_cache_hits(1.0_MB, data, true) == doctest::Approx(0.5e-4).epsilon(0.01).scale(0));

  InputRequest job = simple_job();  // 1000 samples of 10 kB; batches of 10, 1 MB/s: 100 ms
  job.disk = DiskSpeed{.read = BytesPerSecond(1e6), .reads_per_s = 1e9};
  job.page_cache = 5.0_MB;
  CHECK(plan_input(job).read.in_ms() == doctest::Approx(100.0));
  job.page_cache = 10.0_MB;
  CHECK(plan_input(job).read.in_ms() == 0.0);
  job.page_cache = Bytes(0);
  job.pipeline.reads_single_files = true;
  job.disk->reads_per_s = 50;  // 10 files at 50 a second
  CHECK(plan_input(job).read.in_ms() == doctest::Approx(200.0));
}

TEST_CASE(
    "the workers that would keep the GPU busy are named, or none when another stage is too slow") {
  // 10 ms of CPU per batch, 3 ms of GPU: 4 workers.
  InputStages stages{.prepare = 10.0_ms, .host_batches = 4};
  const InputUse use = run_with_input(gpu_step(3.0_ms), stages, plenty()).use;
  CHECK(use.workers_needed == 4);
  CHECK(use.waiting == doctest::Approx(0.7));
  CHECK(use.slowest == "workers");
  CHECK(limits(use, 10.0_ms));
  stages.read = 20.0_ms;
  const InputUse disk = run_with_input(gpu_step(3.0_ms), stages, plenty()).use;
  CHECK(!disk.workers_needed);
  CHECK(disk.slowest == "disk");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
