#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/job/cluster.hpp"
#include "sim/job/mode/replicated_job.hpp"
#include "tools/command/output.hpp"
#include "tools/predict/cluster_options.hpp"
#include "tools/study/study.hpp"

// What profiles of one process that trains on all GPUs of a box say: time by kernel over all
// devices, API calls, arithmetic.
namespace tracecast {
namespace {

bool is_backward(const DeviceTime& time) {
  return time.pass != Pass::Forward && time.pass != Pass::Update;
}

/// Of the first GPU: time of copies while a kernel runs, over that of copies; of kernels beside
/// kernels, over that of kernels.
struct Overlaps {
  double copies = 0, kernels = 0;
};
Overlaps overlaps_of(const ReplicatedTimeline& run) {
  std::vector<std::pair<double, double>> kernels, copies;
  for (const DeviceSpan& span : run.spans) {
    if (!span.on_first || !(span.end > span.start)) continue;
    auto& list = span.work == DeviceWork::Copy ? copies : kernels;
    list.emplace_back(span.start.in_s(), span.end.in_s());
  }
  std::sort(kernels.begin(), kernels.end());
  const auto shared = [](const auto& a, const auto& b) {
    return std::max(0.0, std::min(a.second, b.second) - std::max(a.first, b.first));
  };
  double all_kernels = 0, beside = 0, all_copies = 0, hidden = 0;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    all_kernels += kernels[i].second - kernels[i].first;
    if (i > 0) beside += shared(kernels[i - 1], kernels[i]);
  }
  for (const auto& copy : copies) {
    all_copies += copy.second - copy.first;
    for (const auto& kernel : kernels) hidden += shared(copy, kernel);
  }
  return {all_copies > 0 ? hidden / all_copies : 0, all_kernels > 0 ? beside / all_kernels : 0};
}

/// Figures of one profile, by name.
std::vector<std::pair<std::string, double>> figures_of(const ReplicatedRun& job,
                                                       const DriverCalls& calls) {
  double broadcast = 0, reduce = 0, copies = 0, convolution = 0, pool = 0;
  // The GEMMs of non-fused Winograd are kernels of the matrix library: no profile calls them
  // Winograd.
  double winograd = 0, fused = 0, gemms = 0;
  double flops = 0, backward = 0, update = 0;
  for (const DeviceTime& time : job.times) {
    const double s = time.time.in_s();
    if (time.work == DeviceWork::Broadcast) broadcast += s;
    if (time.work == DeviceWork::Reduce) reduce += s;
    if (time.work == DeviceWork::Copy) copies += s;
    if (time.work != DeviceWork::Kernel) continue;
    if (time.kernel_class == KernelClass::Convolution) convolution += s;
    const bool is_nonfused = time.algorithm == Algorithm::WinogradNonfused;
    if (time.algorithm == Algorithm::WinogradFused) fused += s;
    if (is_nonfused && time.is_gemms) gemms += s;
    if (is_nonfused && !time.is_gemms && time.kernel_class == KernelClass::Convolution)
      winograd += s;
    if (time.op == OpKind::MaxPool && is_backward(time)) pool += s;
    flops += time.flops.in_flop();
    if (is_backward(time)) backward += time.flops.in_flop();
    if (time.pass == Pass::Update) update += time.flops.in_flop();
  }
  const ReplicatedTimeline& run = job.timeline;
  const Overlaps overlaps = overlaps_of(run);
  return {{"all", job.device_time().in_s()},
          {"broadcast", broadcast},
          {"reduce", reduce},
          {"copy", copies},
          {"convolution", convolution},
          {"winograd", winograd + fused},
          {"winograd_fused", fused},
          {"winograd_gemms", gemms},
          {"max_pool_backward", pool},
          {"flop", flops},
          {"backward_flop", backward},
          {"update_flop", update},
          {"launching", run.launching.in_s()},
          {"waiting", run.waiting.in_s()},
          {"launches", static_cast<double>(run.launches)},
          {"step", run.step_time.in_s()},
          {"copy_overlap", overlaps.copies},
          {"concurrency", overlaps.kernels},
          {"first_mallocs", static_cast<double>(calls.first_mallocs)},
          {"first_frees", static_cast<double>(calls.first_frees)},
          {"later_mallocs", static_cast<double>(calls.later_mallocs)},
          {"later_frees", static_cast<double>(calls.later_frees)}};
}

/// "job= gpu= machine=": one step of the program on the GPUs of the machine, `batch` samples in
/// all.
double figure(const StudyArguments& args, const std::string& name, std::int64_t batch,
              StudyContext& context, std::string network = {}) {
  if (network.empty()) network = args.text("job");
  const std::string gpu = args.text("gpu"), machine = args.text("machine");
  const std::string date = args.text("date", ""), strategy = args.text("strategy", "dataparallel");
  const std::int64_t gpus = args.integer("gpus", 4);
  const std::string key =
      fmt::format("profile {} {} {} {} {} ", network, gpu, machine, gpus, batch);
  const auto known = context.known.find(key + name);
  if (known != context.known.end()) return known->second;
  if (batch % gpus != 0) {
    throw InputError("study", fmt::format("batch {} on {} GPUs", batch, gpus), "whole shares");
  }
  PlacedJob options;
  options.network = std::string(kJobPrefix) + network;
  options.gpu = gpu;
  options.machine = machine;
  options.batch = batch / gpus;
  options.software.date = date;
  const ResolvedJob job = make_job(options, context.hardware);
  Place box;
  box.machine = machine;
  box.gpus = gpus;
  box.nodes = 1;
  const Cluster cluster = make_cluster(box, job.gpu.id, context.hardware);
  const ReplicatedRun run = run_replicated_job(
      job, context.hardware.specs().find_strategy(strategy), cluster.fabric, context.hardware);
  for (const auto& [of, value] : figures_of(run, driver_calls_of(job, run, context.hardware)))
    context.known[key + of] = value;
  const auto found = context.known.find(key + name);
  if (found == context.known.end()) throw InputError("study", "work=" + name, "a known figure");
  return found->second;
}

/// Of all GPUs' time, in per cent.
double share(const StudyArguments& args, const std::string& work, std::int64_t batch,
             StudyContext& context) {
  return 100 * figure(args, work, batch, context) / figure(args, "all", batch, context);
}

std::string curve_text(const std::vector<std::int64_t>& batches,
                       const std::vector<double>& values) {
  std::string text;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    text += fmt::format("{}{}: {}", i == 0 ? "" : ", ", batches[i], three_digits(values[i]));
  }
  return text;
}

std::vector<double> shares(const StudyArguments& args, const std::string& work,
                           const std::vector<std::int64_t>& batches, StudyContext& context) {
  std::vector<double> values;
  for (const std::int64_t batch : batches) values.push_back(share(args, work, batch, context));
  return values;
}

/// "profile_share ... work= batch=": share of the GPUs' time in per cent.
StudyReport profile_share(const StudyArguments& args, StudyContext& context) {
  const std::int64_t batch = args.integer("batch");
  const std::string work = args.text("work");
  const auto part = [&](const char* name) {
    return three_digits(share(args, name, batch, context));
  };
  return {share(args, work, batch, context),
          fmt::format("of {} ms on all GPUs in a step of {} ms; broadcast {} %, reduce {} %, "
                      "convolution {} %, copies {} %",
                      three_digits(1e3 * figure(args, "all", batch, context)),
                      three_digits(1e3 * figure(args, "step", batch, context)), part("broadcast"),
                      part("reduce"), part("convolution"), part("copy"))};
}

/// "profile_curve ... work= batches= [rises=4,8,16] [falls=32,64]": share of the steps between
/// neighbours of these lists that go the way they say: 1 when all do.
StudyReport profile_curve(const StudyArguments& args, StudyContext& context) {
  const std::string work = args.text("work");
  int steps = 0, good = 0;
  const auto check = [&](const char* key, double sign) {
    if (args.text(key, "").empty()) return;
    const std::vector<double> values = shares(args, work, args.integers(key), context);
    for (std::size_t i = 1; i < values.size(); ++i) {
      ++steps;
      good += (values[i] - values[i - 1]) * sign > 0 ? 1 : 0;
    }
  };
  check("rises", 1);
  check("falls", -1);
  const std::vector<std::int64_t> batches = args.integers("batches");
  std::string why = "% by batch: " + curve_text(batches, shares(args, work, batches, context));
  if (work == "winograd") {
    why += "; fused kernels alone " +
           curve_text(batches, shares(args, "winograd_fused", batches, context)) +
           "; GEMMs of the non-fused " +
           curve_text(batches, shares(args, "winograd_gemms", batches, context));
  }
  return {static_cast<double>(good) / std::max(steps, 1), why};
}

/// "profile_flops jobs=a+b+c gpu= batch=": 1 when each does more arithmetic in a step than the
/// next.
StudyReport profile_order(const StudyArguments& args, StudyContext& context) {
  std::string rest = args.text("jobs"), why;
  const std::int64_t batch = args.integer("batch");
  double before = 0;
  bool falls = true;
  while (!rest.empty()) {
    const std::string job = rest.substr(0, rest.find('+'));
    rest = job.size() == rest.size() ? "" : rest.substr(job.size() + 1);
    const double now = figure(args, "flop", batch, context, job);
    if (!why.empty()) falls &= now < before;
    why += fmt::format("{}{} {} GFLOP", why.empty() ? "a step: " : ", ", job,
                       three_digits(now * 1e-9));
    before = now;
  }
  return {falls ? 1.0 : 0.0, why};
}

/// "profile_backward ... batch= over_batch=": share of arithmetic behind the forward pass, update
/// included, at one batch less that at another, in points.
StudyReport profile_backward(const StudyArguments& args, StudyContext& context) {
  const auto part = [&](std::int64_t batch) {
    return 100 *
           (figure(args, "backward_flop", batch, context) +
            figure(args, "update_flop", batch, context)) /
           figure(args, "flop", batch, context);
  };
  const std::int64_t small = args.integer("batch"), large = args.integer("over_batch");
  return {part(small) - part(large),
          fmt::format("{} % at batch {}, {} % at {}", three_digits(part(small)), small,
                      three_digits(part(large)), large)};
}

/// "profile_launching ... batch=": launches' share of the host's time in calls that launch or wait
/// for a GPU, in per cent.
StudyReport profile_launching(const StudyArguments& args, StudyContext& context) {
  const std::int64_t batch = args.integer("batch");
  const double launching = figure(args, "launching", batch, context);
  const double waiting = figure(args, "waiting", batch, context);
  return {100 * launching / (launching + waiting),
          fmt::format("a step launches {:.0f} kernels in {} ms and waits {} ms for the first GPU",
                      figure(args, "launches", batch, context), three_digits(1e3 * launching),
                      three_digits(1e3 * waiting))};
}

/// "profile_allocations ... batches=": the most calls of cudaMalloc and cudaFree in a step in the
/// middle of a run.
StudyReport profile_allocations(const StudyArguments& args, StudyContext& context) {
  double most = 0;
  std::string why = "cudaMalloc and cudaFree of a GPU's cache in the first step:";
  for (const std::int64_t batch : args.integers("batches")) {
    const auto calls = [&](const char* name) { return figure(args, name, batch, context); };
    most = std::max(most, calls("later_mallocs") + calls("later_frees"));
    why += fmt::format(" {}+{} (batch {})", calls("first_mallocs"), calls("first_frees"), batch);
  }
  return {most, why + "; none in later ones means the cache serves them"};
}

/// What the CUDA runtime and PyTorch ask the driver about each device as they start, and how long a
/// call takes: nvprof log of the study, ResNet-18 at batch 64 on four K80 (756 attributes, 8 names,
/// memories and properties).
struct StartCall {
  std::string_view name;
  double per_gpu;
  double ms;
};
constexpr StartCall kStartCalls[] = {{"cuDeviceGetAttribute", 189, 0.011366},
                                     {"cudaGetDeviceProperties", 2, 1.020753},
                                     {"cuDeviceTotalMem", 2, 0.912918},
                                     {"cuDeviceGetName", 2, 0.088889}};

/// "profile_start gpus=": share of the three greatest among the calls that ask about devices, in
/// per cent.
StudyReport profile_start(const StudyArguments& args, StudyContext&) {
  const auto gpus = static_cast<double>(args.integer("gpus"));
  double all = 0, three = 0;
  std::string why = "at the start, whatever the network and the batch:";
  for (std::size_t i = 0; i < std::size(kStartCalls); ++i) {
    const StartCall& call = kStartCalls[i];
    const double time = call.per_gpu * gpus * call.ms;
    all += time;
    if (i < 3) three += time;
    why += fmt::format(" {:.0f} {} ({} ms)", call.per_gpu * gpus, call.name, three_digits(time));
  }
  return {100 * three / all, why};
}

/// "profile_overlap ... batch=": share of the time of copies in which the same GPU runs a kernel,
/// in per cent. "profile_concurrency": of kernels' time in which another kernel runs on the same
/// GPU.
double overlap(const StudyArguments& args, StudyContext& context, const char* name) {
  return 100 * figure(args, name, args.integer("batch"), context);
}
StudyReport profile_overlap(const StudyArguments& args, StudyContext& context) {
  const std::int64_t batch = args.integer("batch");
  return {overlap(args, context, "copy_overlap"),
          fmt::format("copies take {} ms of all GPUs in a step of {} ms",
                      three_digits(1e3 * figure(args, "copy", batch, context)),
                      three_digits(1e3 * figure(args, "step", batch, context)))};
}
StudyReport profile_concurrency(const StudyArguments& args, StudyContext& context) {
  return {overlap(args, context, "concurrency"),
          "the framework issues all kernels of a device into one stream"};
}

}  // namespace

std::vector<StudyExperiment> profile_experiments() {
  return {{"profile_share", profile_share},
          {"profile_curve", profile_curve},
          {"profile_order", profile_order},
          {"profile_backward", profile_backward},
          {"profile_launching", profile_launching},
          {"profile_allocations", profile_allocations},
          {"profile_start", profile_start},
          {"profile_overlap", profile_overlap},
          {"profile_concurrency", profile_concurrency}};
}

}  // namespace tracecast
