#include <fmt/format.h>

#include <algorithm>

#include "hwspecs/software/launcher.hpp"

#include "sim/base/error.hpp"
#include "sim/job/channel.hpp"
#include "sim/job/mode/server_job.hpp"
#include "sim/network/payload.hpp"
#include "tools/command/output.hpp"
#include "tools/study/study.hpp"

namespace tracecast {
namespace {

ChannelPath path_of(const StudyArguments& args, std::string_view key, const StudyContext& context) {
  const MachineSpec& machine = context.hardware.machines().find(args.text("machine"));
  const std::string link = key == "over" ? args.text("over_link", "") : "";
  return take_channel(args.text(key), machine, link, context.hardware);
}

/// The message of "bytes=..." or "payload=skew" (ten buffers of the default sizes).
ChannelMessage message_of(const StudyArguments& args) {
  const std::string payload = args.text("payload", "");
  if (payload.empty()) return {.bytes = Bytes(args.number("bytes"))};
  const auto kind = find_payload(payload);
  if (!kind) throw InputError("study", "payload=" + payload, "uniform, random or skew");
  ChannelMessage message{.bytes = Bytes(0), .buffers = 0};
  for (const Bytes buffer : draw_payload({.kind = *kind}, 1)) {
    message.bytes += buffer;
    ++message.buffers;
  }
  return message;
}

/// "channel_latency machine= channel= over= bytes=|payload= as=ratio|saving": how much faster
/// `channel` is.
StudyReport channel_latency(const StudyArguments& args, StudyContext& context) {
  const ChannelMessage message = message_of(args);
  const Seconds fast = point_to_point_latency(path_of(args, "channel", context), message);
  const Seconds slow = point_to_point_latency(path_of(args, "over", context), message);
  const bool saving = args.text("as", "ratio") == "saving";
  return {saving ? 100 * (fast / slow - 1) : slow / fast,
          fmt::format("{} us against {} us one way", three_digits(fast.in_us()),
                      three_digits(slow.in_us()))};
}

/// "channel_bandwidth machine= channel= over= [over_link=] bytes=|payload=": ratio of the two.
StudyReport channel_bandwidth(const StudyArguments& args, StudyContext& context) {
  const ChannelMessage message = message_of(args);
  const auto fast = point_to_point_bandwidth(path_of(args, "channel", context), message);
  const auto slow = point_to_point_bandwidth(path_of(args, "over", context), message);
  return {fast / slow,
          fmt::format("{} against {} GB/s: the receiving thread's work per byte limits both, on "
                      "RDMA one copy, on TCP the kernel's stack and gRPC's slices",
                      three_digits(fast.in_gb_per_s()), three_digits(slow.in_gb_per_s()))};
}

/// "channel_connected machine= channel= over= processes= bytes= figure=latency|throughput": fully
/// connected processes.
StudyReport channel_connected(const StudyArguments& args, StudyContext& context) {
  const ChannelMessage message = message_of(args);
  const int processes = static_cast<int>(args.integer("processes"));
  const auto fast = fully_connected(path_of(args, "channel", context), message, processes);
  const auto slow = fully_connected(path_of(args, "over", context), message, processes);
  if (args.text("figure") == "latency") {
    return {100 * (fast.latency / slow.latency - 1),
            fmt::format("mean of {} messages into each process: {} against {} ms", processes - 1,
                        three_digits(fast.latency.in_ms()), three_digits(slow.latency.in_ms()))};
  }
  return {fast.throughput / slow.throughput,
          fmt::format("into each process: {} against {} GB/s",
                      three_digits(fast.throughput.in_gb_per_s()),
                      three_digits(slow.throughput.in_gb_per_s()))};
}

/// Samples per second of a network trained on `nodes` machines over a channel, one GPU each.
ServerPrediction train(const StudyArguments& args, const std::string& channel, std::int64_t batch,
                       const StudyContext& context, const LauncherProfile* launcher = nullptr) {
  PlacedJob options;
  options.network = args.text("network");
  options.machine = args.text("machine");
  options.software.framework = "tensorflow";
  options.software.version = args.text("version", "1.4");
  options.optimizer = args.text("optimizer", "sgd");
  options.batch = batch;
  const MachineSpec& machine = context.hardware.machines().find(options.machine);
  options.gpu = args.text("gpu", machine.gpus.empty() ? "" : machine.gpus.front());
  const ResolvedJob job = make_job(options, context.hardware);
  const auto nodes = static_cast<int>(args.integer("nodes"));
  const Hardware& s = context.hardware;
  ParameterServers wanted;
  wanted.servers = args.integer("servers", 1);
  wanted.channel = channel;
  if (launcher != nullptr) {
    wanted.asynchronous = true;
    wanted.feeding = static_cast<double>(batch) / launcher->records;
  }
  return predict_with_servers(
      job, s, build_fabric(uniform_cluster(machine.id, 1, nodes, options.gpu), s.specs()), wanted);
}

/// The same, known from an earlier row where there was one.
double images_per_s(const StudyArguments& args, const std::string& channel, std::int64_t batch,
                    StudyContext& context) {
  const std::string key =
      fmt::format("ps {} {} {} {} {} {} {} {} {}", args.text("network"), args.text("machine"),
                  args.integer("nodes"), args.integer("servers", 1), args.text("gpu", ""),
                  args.text("version", ""), args.text("optimizer", ""),
                  context.hardware.specs().find_channel(channel).id, batch);
  const auto known = context.known.find(key);
  if (known != context.known.end()) return known->second;
  const double value = train(args, channel, batch, context).throughput_samples_per_s.value;
  return context.known[key] = value;
}

/// "ps_training machine= network= nodes= batch= channel= [over=] as=ratio|gain|images": images/s,
/// how many times those over another channel, or the gain in per cent. Of several batches (per GPU)
/// the one with the greatest ratio: "up to".
StudyReport ps_training(const StudyArguments& args, StudyContext& context) {
  const std::string as = args.text("as");
  const std::string channel = args.text("channel");
  const auto batches = args.integers("batch");
  if (as == "images") {
    const double value = images_per_s(args, channel, batches.front(), context);
    return {value, fmt::format("{} a GPU: {} images/s", batches.front(), three_digits(value))};
  }
  const std::string over = args.text("over");
  std::optional<double> best;
  std::string why;
  for (const std::int64_t batch : batches) {
    const double fast = images_per_s(args, channel, batch, context);
    const double slow = images_per_s(args, over, batch, context);
    why += fmt::format("{}{} a GPU: {} against {} images/s", why.empty() ? "" : "; ", batch,
                       three_digits(fast), three_digits(slow));
    best = std::max(best.value_or(0), fast / slow);
  }
  return {as == "gain" ? 100 * (*best - 1) : *best, why};
}

/// "launched_training launcher= machine= network= nodes= batch= channel= over=": throughput of
/// asynchronous workers that the launcher feeds, how many times that over another channel.
StudyReport launched_training(const StudyArguments& args, StudyContext& context) {
  const LauncherProfile& launcher = context.hardware.specs().find_launcher(args.text("launcher"));
  const std::int64_t batch = args.integer("batch");
  const auto fast = train(args, args.text("channel"), batch, context, &launcher);
  const auto slow = train(args, args.text("over"), batch, context, &launcher);
  const Seconds feeding = static_cast<double>(batch) / launcher.records;
  return {
      fast.step.steps_per_s / slow.step.steps_per_s,
      fmt::format("a worker's step takes {} against {} ms, of which feeding through Spark {} and "
                  "computing {}; staleness {}",
                  three_digits(fast.step.step_time.in_ms()),
                  three_digits(slow.step.step_time.in_ms()), three_digits(feeding.in_ms()),
                  three_digits(fast.step.compute.in_ms()), three_digits(fast.step.staleness))};
}

/// "launch_share launcher= machine= network= nodes= batch= channel= steps= tasks=
/// part=scheduling|execution": share in per cent of a job's time; steps and Spark's tasks are those
/// of all workers together.
StudyReport launch_share(const StudyArguments& args, StudyContext& context) {
  const LauncherProfile& launcher = context.hardware.specs().find_launcher(args.text("launcher"));
  const auto run = train(args, args.text("channel"), args.integer("batch"), context, &launcher);
  const auto nodes = static_cast<int>(args.integer("nodes"));
  const auto steps = static_cast<int>(args.integer("steps"));
  const Seconds scheduling = launcher.scheduling(nodes);
  const Seconds execution = launcher.execution(static_cast<int>(args.integer("tasks")));
  const Seconds training = static_cast<double>(steps) / Hertz(run.step.steps_per_s);
  const Seconds whole = scheduling + execution + training;
  const bool first = args.text("part") == "scheduling";
  return {
      100 * ((first ? scheduling : execution) / whole),
      fmt::format("of {} s: containers {} (heartbeats, requests, processes), Spark {} (context, "
                  "workers, tasks), training with its feeding {}",
                  three_digits(whole.in_s()), three_digits(scheduling.in_s()),
                  three_digits(execution.in_s()), three_digits(training.in_s()))};
}

}  // namespace

std::vector<StudyExperiment> parameter_server_experiments() {
  return {{"channel_latency", channel_latency},     {"channel_bandwidth", channel_bandwidth},
          {"channel_connected", channel_connected}, {"ps_training", ps_training},
          {"launched_training", launched_training}, {"launch_share", launch_share}};
}

}  // namespace tracecast
