#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/job/cluster.hpp"
#include "sim/job/many_gpus.hpp"
#include "sim/job/mode/colocation_job.hpp"
#include "tools/command/output.hpp"
#include "tools/predict/cluster_options.hpp"
#include "tools/study/study.hpp"

// What processors, GPUs and neighbours in the same box do to training.
namespace tracecast {
namespace {

/// "network= [framework= gpu= machine= data= pipeline= image_size=]", with a batch.
PlacedJob options_of(const StudyArguments& args, std::int64_t batch) {
  PlacedJob options;
  options.network = args.text("network");
  options.software.framework = args.text("framework", "tensorflow");
  options.gpu = args.text("gpu");
  options.machine = args.text("machine", "");
  options.data = args.text("data", "synthetic");
  options.pipeline = args.text("pipeline", "");
  options.batch = batch;
  if (const std::int64_t side = args.integer("image_size", 0)) options.image_size = side;
  return options;
}

/// Samples per second over `gpus` cards of one box, each with its own loader, on `threads` CPU
/// threads in all.
double loaded_throughput(const StudyArguments& args, std::int64_t batch, std::int64_t threads,
                         std::int64_t gpus, StudyContext& context) {
  const std::string key = fmt::format(
      "loaded {} {} {} {} {} {} {} {}", args.text("network"), args.text("framework", ""),
      args.text("gpu"), args.text("machine", ""), args.text("pipeline", ""), batch, threads, gpus);
  const auto known = context.known.find(key);
  if (known != context.known.end()) return known->second;
  PlacedJob options = options_of(args, batch);
  options.cpu_threads = threads;
  const ResolvedJob job = make_job(options, context.hardware);
  const Prediction prediction = predict(job, context.hardware);
  if (gpus == 1) return context.known[key] = prediction.throughput_samples_per_s.value;
  std::vector<ColocatedJob> all;
  for (std::int64_t g = 0; g < gpus; ++g) {
    all.push_back(colocated(job, prediction, static_cast<std::size_t>(g)));
  }
  const Colocation shared = colocate(all, shared_box(job, context.hardware, false));
  double sum = 0;
  for (const JobShare& share : shared.jobs)
    sum += static_cast<double>(batch) / share.together.in_s();
  return context.known[key] = sum;
}

/// "loaded_gain ... batch= threads= over_batch= over_threads= [gpus=]": ratio of throughputs.
StudyReport loaded_gain(const StudyArguments& args, StudyContext& context) {
  const std::int64_t gpus = args.integer("gpus", 1), batch = args.integer("batch"),
                     threads = args.integer("threads");
  const double now = loaded_throughput(args, batch, threads, gpus, context);
  const double before = loaded_throughput(args, args.integer("over_batch", batch),
                                          args.integer("over_threads", threads), gpus, context);
  return {now / before,
          fmt::format("{} against {} images/s", three_digits(now), three_digits(before))};
}

/// "loaded_saturation ... batch= gpus= threads=2,4,8 within=PER_CENT": the fewest threads that
/// reach the throughput of the most, but for so much.
StudyReport loaded_saturation(const StudyArguments& args, StudyContext& context) {
  const std::vector<std::int64_t> grid = args.integers("threads");
  const std::int64_t batch = args.integer("batch"), gpus = args.integer("gpus", 1);
  const double enough = 1 - args.number("within", 3) / 100;
  const double best = loaded_throughput(args, batch, grid.back(), gpus, context);
  StudyReport report;
  for (const std::int64_t threads : grid) {
    const double now = loaded_throughput(args, batch, threads, gpus, context);
    report.why += fmt::format("{}{}: {}", report.why.empty() ? "images/s by threads: " : ", ",
                              threads, three_digits(now));
    if (!report.value && now >= enough * best) report.value = static_cast<double>(threads);
  }
  return report;
}

/// How many samples a GPU gets, of `gpus`: "batch=" of each GPU, or "total_batch=", which the
/// program divides among them.
struct BatchPerGpu {
  std::int64_t batch = 0;
  bool is_total = false;
  [[nodiscard]] std::int64_t of(std::int64_t gpus) const {
    return is_total ? std::max<std::int64_t>(batch / gpus, 1) : batch;
  }
};

/// Mean of the answers at every batch that is named: studies print one figure for several.
StudyReport mean_over_batches(const StudyArguments& args,
                              const std::function<StudyReport(BatchPerGpu)>& report_at) {
  const std::int64_t total = args.integer("total_batch", 0);
  if (total > 0) return report_at({total, true});
  const std::vector<std::int64_t> batches = args.integers("batch");
  StudyReport mean{0, ""};
  for (const std::int64_t batch : batches) {
    const StudyReport report = report_at({batch});
    const std::string at = batches.size() > 1 ? fmt::format("batch {}: ", batch) : "";
    mean.why += (mean.why.empty() ? "" : "; ") + at + report.why;
    if (!report.value) return {std::nullopt, mean.why};
    *mean.value += *report.value / static_cast<double>(batches.size());
  }
  return mean;
}

ManyGpus predict_on(const StudyArguments& args, BatchPerGpu batch, std::int64_t gpus,
                    const StudyContext& context, ResolvedJob& job) {
  Place cluster;
  cluster.machine = args.text("machine");
  cluster.gpus = gpus;
  cluster.nodes = 1;
  job = make_job(options_of(args, batch.of(gpus)), context.hardware);
  DataParallel options{.strategy = args.text("strategy", "")};
  return predict_many(job, context.hardware,
                      make_cluster(cluster, job.gpu.id, context.hardware).fabric, options);
}

/// "box_speedup ... batch=64,256 gpus= over=": throughput of so many GPUs of the box over that of
/// fewer, batch per GPU.
StudyReport box_speedup(const StudyArguments& args, StudyContext& context) {
  const std::int64_t gpus = args.integer("gpus"), over = args.integer("over", 1);
  return mean_over_batches(args, [&](BatchPerGpu batch) -> StudyReport {
    ResolvedJob job;
    const ManyGpus many = predict_on(args, batch, gpus, context, job);
    const ManyGpus fewer = predict_on(args, batch, over, context, job);
    const double now = many.throughput_samples_per_s.value;
    const double before = fewer.throughput_samples_per_s.value;
    return {now / before, fmt::format("{} samples/s on {} GPUs, {} on {}", three_digits(now), gpus,
                                      three_digits(before), over)};
  });
}

/// "box_utilization ... batch=64,256 gpus= figure=avg|max": of the GPUs of the box, in per cent.
StudyReport box_utilization(const StudyArguments& args, StudyContext& context) {
  const bool wants_max = args.text("figure") == "max";
  const std::int64_t gpus = args.integer("gpus");
  return mean_over_batches(args, [&](BatchPerGpu batch) -> StudyReport {
    ResolvedJob job;
    const ManyGpus many = predict_on(args, batch, gpus, context, job);
    const Range& use = many.step.utilization.front();
    return {100 * (wants_max ? use.max : use.avg),
            fmt::format("a step of {} ms, {:.0f} % of it in communication that nothing hides",
                        three_digits(many.step.step_time.in_ms()),
                        100 * (many.step.parts.communication + many.step.parts.host_update) /
                            many.step.step_time)};
  });
}

/// The step of a data-parallel job on each of its GPUs, as one that shares them: its kernels, then
/// waiting.
ColocatedJob as_neighbour(const ResolvedJob& job, const ManyGpus& many) {
  ColocatedJob result = colocated(job, many.one_gpu);
  const Seconds alone = simulate(result.program).step_time;
  result.program.synchronizes = true;
  const Seconds stepwise = simulate(result.program).step_time;
  result.program.step_overhead += max(many.step.step_time - max(alone, stepwise), Seconds(0));
  return result;
}

/// Rate of one of two like jobs on the same GPUs over its rate alone: mean over how much later the
/// second one starts, within a step. Nobody starts two in the same microsecond, and steps vary, so
/// that every lag comes up; without the lag two alike would meet on the GPU in every step.
double rate_beside_another(ColocatedJob one, const SharedBox& box) {
  constexpr int kLags = 16;
  const Seconds step = colocate({&one, 1}, box).jobs.front().alone;
  double time = 0;
  for (int i = 0; i < kLags; ++i) {
    ColocatedJob later = one;
    later.start = step * ((i + 0.5) / kLags);
    const ColocatedJob pair[] = {one, later};
    time += 1 / colocate(pair, box).jobs.front().normalized_rate();
  }
  return kLags / time;
}

/// Two like trainings at once on all `gpus`, in time slices: time over that of one on all, or of
/// both after each other.
StudyReport on_the_same_gpus(const ResolvedJob& job, const ManyGpus& all, bool over_one,
                             const StudyContext& context) {
  const ColocatedJob one = as_neighbour(job, all);
  const SharedBox box = shared_box(job, context.hardware, false);
  if (one.device_memory * 2.0 > box.gpu_memory) {
    return {std::nullopt, "two do not fit into the memory of one GPU"};
  }
  const double rate = rate_beside_another(one, box);
  return {(over_one ? 1.0 : 0.5) / rate,
          fmt::format("each runs at {:.0f} % of alone, whose kernels take {:.0f} % of the step",
                      100 * rate, 100 * all.step.utilization.front().avg)};
}

/// "box_together ... batch=|total_batch= gpus= each=": time of two like trainings at once over that
/// of one after the other on all `gpus`. `each` of the GPUs for each of the two: all of them,
/// shared in time slices, or half, side by side. With as=alone: over the time of one on all.
StudyReport box_together(const StudyArguments& args, StudyContext& context) {
  const std::int64_t gpus = args.integer("gpus"), each = args.integer("each");
  const bool over_one = args.text("as", "sequence") == "alone";
  return mean_over_batches(args, [&](BatchPerGpu batch) -> StudyReport {
    ResolvedJob job;
    const ManyGpus all = predict_on(args, batch, gpus, context, job);
    if (each == gpus) return on_the_same_gpus(job, all, over_one, context);
    const double now = all.throughput_samples_per_s.value;
    const double on_half =
        predict_on(args, batch, each, context, job).throughput_samples_per_s.value;
    return {(over_one ? 1.0 : 0.5) * now / on_half,
            fmt::format("{} samples/s on {} GPUs, {} on {}", three_digits(on_half), each,
                        three_digits(now), gpus)};
  });
}

}  // namespace

std::vector<StudyExperiment> resource_experiments() {
  return {{"loaded_gain", loaded_gain},
          {"loaded_saturation", loaded_saturation},
          {"box_speedup", box_speedup},
          {"box_utilization", box_utilization},
          {"box_together", box_together}};
}

}  // namespace tracecast
