#include "sim/step/input_pipeline.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

/// Images as the loader finds them, and what a training crop leaves of them.
struct StoredImage {
  double pixels = 0, cropped = 0;
  bool encoded = false;
};

StoredImage stored_image(const InputRequest& job) {
  const InputPipelineProfile& p = job.pipeline;
  StoredImage image;
  const double shorter = std::min(job.data.width_px, job.data.height_px);
  image.pixels = job.data.width_px * job.data.height_px;
  image.encoded = job.data.kind == SampleKind::Jpeg;
  if (image.encoded && p.stored_side_px > 0) {
    // Kept in shape when stored as JPEG; raw images are square.
    const double longer = std::max(job.data.width_px, job.data.height_px);
    image.pixels = p.stored_side_px * p.stored_side_px * (p.stored_encoded ? longer / shorter : 1);
    image.encoded = p.stored_encoded;
  }
  image.cropped = image.pixels * (job.training ? p.train_crop_fraction : 1.0);
  return image;
}

/// As it lies on disk.
Bytes stored_bytes(const InputRequest& job) {
  if (job.data.kind != SampleKind::Jpeg || job.pipeline.stored_side_px == 0) {
    return job.data.bytes_per_sample;
  }
  const StoredImage image = stored_image(job);
  const double original = job.data.width_px * job.data.height_px;
  return image.encoded ? job.data.bytes_per_sample * (image.pixels / original)
                       : Bytes(3 * image.pixels);
}

int workers_of(const InputRequest& job) {
  if (job.workers) return *job.workers;
  if (job.pipeline.default_workers < 0) return 0;
  return job.pipeline.default_workers > 0 ? job.pipeline.default_workers : job.host.threads;
}

/// The dispatch thread's share of the CPU slows it down like the others.
StepProgram slowed(StepProgram program, double speed) {
  program.step_overhead /= speed;
  program.launch /= speed;
  for (ProgramOp& op : program.ops) op.dispatch /= speed;
  for (ProgramKernel& kernel : program.kernels) kernel.more_launch /= speed;
  program.input->prepare /= speed;
  program.input->pin /= speed;
  return program;
}

/// Mean number of threads that are running or ready to run.
double runnable_threads(const StepTimeline& t, const InputStages& stages) {
  if (!(t.step_time > Seconds(0))) return 0.0;
  return (t.loader_busy + (stages.dispatch_spins ? t.step_time : t.host_busy)) / t.step_time;
}

}  // namespace

double HostThreads::throughput(double runnable) const {
  const double n = std::min(runnable, static_cast<double>(threads));
  const auto c = static_cast<double>(cores);
  const double done = std::min(n, c) + second_thread_gain * std::clamp(n - c, 0.0, c);
  return quota > 0 && n > quota ? done * (quota / n) : done;
}

double HostThreads::speed(double runnable) const {
  const double most = quota > 0 ? std::min(1.0, quota) : 1.0;
  return runnable > most ? std::min(1.0, throughput(runnable) / runnable) : 1.0;
}

double HostThreads::limit() const {
  return quota > 0 ? std::min(quota, static_cast<double>(threads)) : threads;
}

double page_cache_hits(Bytes cache, Bytes data_set, bool random_order) {
  const double f = cache / data_set;
  if (f >= 1) return 1;
  if (!random_order || f <= 0) return 0;
  return f + (1 - f) * std::log1p(-f);
}

double cycles_per_sample(const InputRequest& job) {
  const InputPipelineProfile& p = job.pipeline;
  const auto values = static_cast<double>(job.output_values);
  if (job.data.kind == SampleKind::Tokens) return p.cycles_per_token * values + p.cycles_per_record;
  const StoredImage image = stored_image(job);
  const auto output = static_cast<double>(job.output_pixels);
  double cycles = p.convert_cycles_per_value * values + p.cycles_per_sample;
  if (image.encoded) {
    const double decoded = p.decodes_crop_only ? image.cropped : image.pixels;
    cycles += p.decode_cycles_per_pixel * (decoded + p.image_overhead_pixels);
  }
  const bool same_size = image.pixels == output;
  if (!same_size) {
    cycles += p.resize_cycles_per_source_pixel * image.cropped +
              p.resize_cycles_per_output_pixel * output;
  }
  return cycles;
}

double guessed_share(const InputRequest& job, std::string_view slowest) {
  if (job.host_is_assumed) return 1;
  if (slowest != "workers") return 0;
  const InputPipelineProfile& p = job.pipeline;
  const auto is_guess = [&](std::string_view field) {
    const auto value = std::find_if(p.values.begin(), p.values.end(),
                                    [&](const SpecValue& v) { return v.field == field; });
    if (value == p.values.end()) return false;
    const auto source = std::find_if(p.sources.begin(), p.sources.end(),
                                     [&](const SpecSource& s) { return s.key == value->source; });
    return source != p.sources.end() && source->title == "Guess";
  };
  // Without the values that are guesses: what is left rests on documents or measurements.
  InputRequest known = job;
  const auto drop = [&](std::string_view field, double& value) {
    if (is_guess(field)) value = 0;
  };
  InputPipelineProfile& k = known.pipeline;
  drop("decode_cycles_per_pixel", k.decode_cycles_per_pixel);
  drop("resize_cycles_per_source_pixel", k.resize_cycles_per_source_pixel);
  drop("resize_cycles_per_output_pixel", k.resize_cycles_per_output_pixel);
  drop("convert_cycles_per_value", k.convert_cycles_per_value);
  drop("cycles_per_token", k.cycles_per_token);
  drop("cycles_per_sample", k.cycles_per_sample);
  drop("cycles_per_record", k.cycles_per_record);
  drop("cycles_per_batch", k.cycles_per_batch);
  const Seconds all = plan_input(job).prepare;
  return all > Seconds(0) ? 1 - plan_input(known).prepare / all : 0;
}

Bytes prepared_bytes(const InputRequest& job) {
  const double value_bytes =
      job.data.kind == SampleKind::Tokens ? 8.0 : job.pipeline.bytes_per_value;
  return Bytes(value_bytes * static_cast<double>(job.output_values * job.batch));
}

InputStages plan_input(const InputRequest& job) {
  const InputPipelineProfile& p = job.pipeline;
  const auto batch = static_cast<double>(job.batch);
  const Bytes bytes = prepared_bytes(job);
  const Seconds copy_once = bytes / p.memory_copy;

  InputStages stages;
  stages.workers = workers_of(job);
  const int width = std::max(stages.workers, 1);
  const auto most_tasks = static_cast<int>(std::min<std::int64_t>(width, job.batch));
  stages.tasks_per_batch = p.worker_makes_batches ? 1 : most_tasks;
  const int in_work = (width + stages.tasks_per_batch - 1) / stages.tasks_per_batch;
  stages.host_batches =
      p.worker_makes_batches ? p.prefetch_batches * width : p.prefetch_batches + in_work;
  stages.device_batches = p.device_prefetch_batches;
  stages.dispatch_takes_batch = p.dispatch_takes_batch || stages.workers == 0;
  stages.copies_in_compute_stream = p.copies_in_compute_stream;
  stages.dispatch_spins = p.dispatch_spins;

  stages.prepare = (batch * cycles_per_sample(job) + p.cycles_per_batch) / job.host.core_speed +
                   copy_once * p.worker_copies;
  if (p.pinned_by == PinnedBy::Worker) stages.prepare += copy_once;
  if (p.pinned_by == PinnedBy::Thread) stages.pin = copy_once;
  if (job.data.kind == SampleKind::Jpeg) {
    stages.gpu_decode = p.gpu_decode_per_pixel * (batch * stored_image(job).pixels);
  }
  if (job.disk) {
    const Bytes stored = stored_bytes(job);
    const bool random = p.reads_single_files;
    const double misses =
        batch * (1 - page_cache_hits(job.page_cache, stored * job.data.samples, random));
    stages.read = stored * misses / job.disk->read;
    if (random) stages.read = max(stages.read, Seconds(misses / job.disk->reads_per_s));
  }
  return stages;
}

namespace {
std::array<std::pair<std::string_view, Seconds>, 5> stage_times(const InputStages& s,
                                                                Seconds copy) {
  const double width = std::max(s.workers, 1);
  return {{{"workers", s.prepare / width},
           {"disk", s.read},
           {"pin thread", s.pin},
           {"decoder", s.gpu_decode},
           {"copy", copy}}};
}
}  // namespace

BytesPerSecond copy_rate(const InputRequest& job, BytesPerSecond pinned) {
  return job.pipeline.pinned_by == PinnedBy::None ? min(pinned, job.pipeline.memory_copy) : pinned;
}

Seconds supply_time(const InputStages& stages, Seconds copy) {
  Seconds slowest{};
  for (const auto& [name, time] : stage_times(stages, copy)) slowest = max(slowest, time);
  return slowest;
}

std::string_view slowest_stage(const InputStages& stages, Seconds copy) {
  const auto times = stage_times(stages, copy);
  return std::max_element(times.begin(), times.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

bool limits(const InputUse& use, Seconds step) {
  constexpr double kTolerance = 0.99;
  return use.supply >= kTolerance * step && use.supply > use.step_without;
}

InputRun run_with_input(const StepProgram& program, const InputStages& stages,
                        const HostThreads& host) {
  TRACECAST_CHECK(stages.workers >= 0 && stages.tasks_per_batch >= 1 && stages.host_batches >= 1,
                  "an input pipeline moves batches");
  constexpr int kMostRounds = 8;
  constexpr double kSteady = 0.01;
  InputRun run;
  StepProgram fed = program;
  fed.input = stages;
  // From all threads busy; once they are known to wait for the GPU, fewer are.
  double runnable = stages.workers + 1.0 + (stages.pin > Seconds(0) ? 1.0 : 0.0);
  for (int round = 0; round < kMostRounds; ++round) {
    run.use.cpu_speed = host.speed(runnable);
    run.program = slowed(fed, run.use.cpu_speed);
    run.timeline = simulate(run.program);
    const double now = runnable_threads(run.timeline, stages);
    if (host.speed(runnable) == host.speed(now) || std::abs(now - runnable) <= kSteady * runnable)
      break;
    runnable = (now + runnable) / 2;
  }

  StepProgram without = program;
  without.input_copy = Seconds();
  InputUse& use = run.use;
  use.workers = stages.workers;
  use.cpu_threads = host.threads;
  use.cpu_quota = host.quota;
  use.cpu_limit = host.limit();
  run.without = simulate(without);
  use.step_without = run.without.step_time;
  const Seconds step = run.timeline.step_time;
  if (step > Seconds(0)) {
    use.waiting = run.timeline.idle_input / step;
    use.busy_threads =
        std::min((run.timeline.loader_busy + run.timeline.host_busy) / step, host.limit());
  }
  use.slowest = slowest_stage(*run.program.input, program.input_copy);
  use.supply = supply_time(*run.program.input, program.input_copy);
  InputStages others = stages;
  others.prepare = Seconds();
  if (use.step_without > Seconds(0) &&
      supply_time(others, program.input_copy) <= use.step_without) {
    use.workers_needed = std::max(
        1, static_cast<int>(std::min(std::ceil(stages.prepare / use.step_without - 1e-9), 1e6)));
  }
  return run;
}

InputRun run_with_input(const StepProgram& program, const InputRequest& job) {
  InputRun run = run_with_input(program, plan_input(job), job.host);
  run.use.sample_cpu_time = cycles_per_sample(job) / job.host.core_speed;
  const Bytes stored = stored_bytes(job);
  run.use.read_per_step = stored * static_cast<double>(job.batch);
  if (job.disk) {
    run.use.cached =
        page_cache_hits(job.page_cache, stored * job.data.samples, job.pipeline.reads_single_files);
  }
  return run;
}

}  // namespace tracecast
