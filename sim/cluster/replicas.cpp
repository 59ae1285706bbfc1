#include "sim/cluster/replicas.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "sim/base/error.hpp"
#include "sim/cluster/collective.hpp"
#include "sim/cluster/gradients.hpp"
#include "sim/cluster/rank_program.hpp"
#include "sim/engine/task_graph.hpp"

namespace tracecast {
namespace {

using engine::TaskId;
constexpr int kStepsBefore = 4;  ///< until each step is like the one before

/// What the host issues, in order, for the parts of a step.
enum class Part { ReplicatedForward, Forward, Zero, Backward, ReplicatedBackward, Update };

/// Kernels of a program by the part in which they run.
class Parts {
 public:
  explicit Parts(const ReplicatedStep& step)
      : step_(step), is_replicated_(step.graph.tensors().size()) {
    for (std::uint32_t i = 0; i < step.replicated_ops; ++i) {
      for (const TensorId input : step.graph.op(OpId{i}).inputs) is_replicated_[input.index] = 1;
    }
  }
  [[nodiscard]] bool is_update(const Prediction& one, const ProgramOp& op) const {
    if (op.num_kernels == 0) return false;
    const std::uint32_t first = one.program.kernels[op.first_kernel].op;
    return step_.graph.op(one.priced.lowered->ops[first].op).pass == Pass::Update;
  }
  [[nodiscard]] Part of(const Prediction& one, const ProgramKernel& kernel) const {
    const OpId id = one.priced.lowered->ops[kernel.op].op;
    const Op& op = step_.graph.op(id);
    if (op.pass == Pass::Update) {
      // zero_grad() runs before the backward pass; AccumulateGrad as soon as the gradient is there, that of replicated weights
      // after the reduction.
      const Kernel& work = one.priced.choices[kernel.op].candidate->kernels[kernel.kernel];
      if (work.name == "zero") return Part::Zero;
      const bool waits = op.inputs.empty() || is_replicated_[op.inputs.front().index] != 0;
      return work.name == "accumulate" && !waits ? Part::Backward : Part::Update;
    }
    const bool forward = op.pass == Pass::Forward;
    const OpId layer = forward ? id : op.forward.value_or(id);
    const bool replicated = layer.index < step_.replicated_ops;
    return forward ? (replicated ? Part::ReplicatedForward : Part::Forward)
                   : (replicated ? Part::ReplicatedBackward : Part::Backward);
  }

 private:
  const ReplicatedStep& step_;
  std::vector<char> is_replicated_;  ///< by tensor: a replicated layer reads it
};

/// Weights that the replicas get, packed as they travel, in the order of the layers.
std::vector<GradientBucket> replicated_buckets(const ReplicatedStep& step) {
  const StepProgram& program = step.replica.program;
  GradientSchedule schedule =
      find_gradients(step.graph, step.replica.priced, program, step.element_bytes);
  std::erase_if(schedule.gradients, [&](const Gradient& gradient) {
    const std::uint32_t op = program.kernels[gradient.first_use].op;
    return step.replica.priced.lowered->ops[op].op.index >= step.replicated_ops;
  });
  std::reverse(schedule.gradients.begin(), schedule.gradients.end());
  return make_buckets(schedule, step.strategy, {});
}

/// Activations that cross from the replicated layers to the others, of one replica.
Bytes crossing_bytes(const ReplicatedStep& step) {
  std::vector<char> crosses(step.graph.tensors().size());
  for (std::uint32_t i = step.replicated_ops; i < step.graph.ops().size(); ++i) {
    const Op& op = step.graph.op(OpId{i});
    if (op.pass != Pass::Forward) continue;
    for (const TensorId input : op.inputs) {
      const auto producer = step.graph.producer(input);
      if (producer && producer->index < step.replicated_ops) crosses[input.index] = 1;
    }
  }
  Bytes sum{};
  for (std::size_t t = 0; t < crosses.size(); ++t) {
    if (crosses[t] == 0) continue;
    const double elements = static_cast<double>(element_count(step.graph.tensors()[t].shape));
    sum += step.element_bytes[t] * elements;
  }
  return sum;
}

class ReplicatedRun {
 public:
  ReplicatedRun(const ReplicatedStep& step, bool waits_after_forward)
      : step_(step),
        parts_(step),
        waits_(waits_after_forward),
        buckets_(replicated_buckets(step)),
        crossing_(crossing_bytes(step)),
        replicas_(step.fabric.num_ranks()),
        communicator_(step.fabric, all_ranks(step.fabric),
                      find_collective_library(step.strategy.library, "", step.date)) {
    for (std::uint32_t link = 0; link < step.fabric.num_links(); ++link) {
      graph_.add_link(step.fabric.link(FabricLinkId{link}).bandwidth);
    }
    host_ = graph_.add_resource(engine::Discipline::ProgramOrder);
    loader_ = graph_.add_resource(engine::Discipline::ProgramOrder);
    for (auto& stream : streams_) {
      stream = graph_.add_resource(engine::Discipline::ProgramOrder);
    }
  }

  ReplicatedTimeline run() {
    result_.steps = std::max(step_.steps_per_report, 1);
    for (int s = 0; s < kStepsBefore; ++s) add_step();
    const TaskId before = end_step();
    notes_.clear();
    waits_of_step_.clear();
    for (int s = 0; s < result_.steps; ++s) {
      result_.launches = 0;
      result_.launching = Seconds();
      add_step();
    }
    const TaskId last = end_step();
    return read(graph_.run(), before, last);
  }

 private:
  /// A span on one GPU between the starts and ends of tasks.
  struct Note {
    DeviceSpan span;
    TaskId starts, ends;
  };
  static constexpr std::size_t kFirst = 0, kOthers = 1;

  TaskId host(Seconds duration) {
    return graph_.add_task(host_, engine::to_ticks<engine::Picoseconds>(duration));
  }

  /// What `stream` does next waits for the copies and collectives before it.
  void follow(std::size_t stream, TaskId task) {
    for (const TaskId gate : gates_[stream]) graph_.add_dependency(gate, task);
    gates_[stream].clear();
  }

  void add_kernel(std::size_t stream, TaskId launched, Seconds duration, DeviceSpan span) {
    const TaskId task =
        graph_.add_task(streams_[stream], engine::to_ticks<engine::Picoseconds>(duration));
    graph_.add_dependency(launched, task);
    follow(stream, task);
    span.on_first = stream == kFirst;
    notes_.push_back({span, task, task});
    last_kernel_[stream] = task;
  }

  /// Everything of a program that belongs to `part`, on the first GPU or on all of them.
  void add_part(Part part, bool whole, double lock_share) {
    const Prediction& one = whole ? step_.whole : step_.replica;
    const bool on_all = !whole;
    const double scale = on_all ? 1 + lock_share * (replicas_ - 1.0) : 1.0;
    const StepProgram& program = one.program;
    for (const ProgramOp& op : program.ops) {
      // Of an update the host thinks where it updates.
      const bool is_beside = part != Part::Update && parts_.is_update(one, op);
      Seconds thinking = is_beside ? Seconds() : op.dispatch;
      for (std::uint32_t k = op.first_kernel; k < op.first_kernel + op.num_kernels; ++k) {
        const ProgramKernel& kernel = program.kernels[k];
        if (parts_.of(one, kernel) != part) continue;
        const Seconds launch = program.launch + kernel.more_launch;
        const TaskId launched = host((thinking + launch) * scale);
        thinking = Seconds();
        const double gpus = on_all ? replicas_ : 1.0;
        count_launches(kernel_launches(one, kernel) * gpus, program.launch);
        const DeviceSpan span{.work = DeviceWork::Kernel, .of_whole = whole, .kernel = k};
        add_kernel(kFirst, launched, kernel.duration, span);
        if (on_all) add_kernel(kOthers, launched, kernel.duration, span);
      }
    }
  }
  static double kernel_launches(const Prediction& one, const ProgramKernel& kernel) {
    const Kernel& work = one.priced.choices[kernel.op].candidate->kernels[kernel.kernel];
    return static_cast<double>(work.launches) + work.more_launches;
  }
  void count_launches(double count, Seconds each) {
    result_.launches += static_cast<std::size_t>(count);
    result_.launching += each * count;
  }

  /// A transfer that both streams reach, each when it is free, and leave together.
  void add_transfer(const CollectivePlan& plan, TaskId issued, DeviceWork work,
                    std::array<Bytes, 2> bytes, bool beside_streams = false) {
    uses_.clear();
    for (const FabricUse& use : plan.uses)
      uses_.push_back({engine::LinkId{use.link.index}, use.weight});
    const TaskId task =
        graph_.add_transfer(std::nullopt, uses_, plan.bytes, plan.latency, plan.rate_cap);
    graph_.add_dependency(issued, task);
    for (const std::size_t stream : {kFirst, kOthers}) {
      TaskId starts = task;
      if (!beside_streams) {
        const TaskId reached = graph_.add_task(streams_[stream], engine::Picoseconds());
        graph_.add_dependency(issued, reached);
        follow(stream, reached);
        graph_.add_dependency(reached, task);
        if (work != DeviceWork::Copy) starts = reached;
      }
      gates_[stream].push_back(task);
      if (work == DeviceWork::Copy && !(bytes[stream] > Bytes(0))) continue;
      notes_.push_back(
          {{.work = work, .on_first = stream == kFirst, .bytes = bytes[stream]}, starts, task});
    }
  }

  void add_collectives(Collective kind) {
    const bool is_broadcast = kind == Collective::Broadcast;
    for (const GradientBucket& bucket : buckets_) {
      const TaskId issued = host(step_.strategy.host_per_bucket);
      if (bucket.gradients.size() > 1) {  // one tensor travels as it lies
        const Seconds time = bucket_copy_time(bucket.bytes, step_.fabric.gpu_of(Rank{0}));
        add_kernel(kFirst, issued, time, {.work = DeviceWork::Flatten});
        if (!is_broadcast) add_kernel(kOthers, issued, time, {.work = DeviceWork::Flatten});
        count_launches(is_broadcast ? 1 : replicas_, step_.replica.program.launch);
      }
      add_transfer(communicator_.plan(kind, bucket.bytes), issued,
                   is_broadcast ? DeviceWork::Broadcast : DeviceWork::Reduce, {});
      count_launches(replicas_, step_.replica.program.launch);
    }
  }

  /// Between the first GPU and all others at once: `bytes` for each of them.
  void add_peer_copies(Bytes bytes, bool to_first) {
    if (!(bytes > Bytes(0))) return;
    CollectivePlan plan;
    plan.bytes = bytes;
    std::vector<double> weights(step_.fabric.num_links());
    for (std::uint32_t r = 1; r < replicas_; ++r) {
      const Route route =
          to_first ? step_.fabric.route(Rank{r}, Rank{0}) : step_.fabric.route(Rank{0}, Rank{r});
      plan.latency = max(plan.latency, route.latency);
      for (const FabricLinkId link : route.links) weights[link.index] += 1;
    }
    take_uses(weights, plan);
    // The driver counts a copy between GPUs once, for the one that sends.
    add_transfer(plan, host(Seconds()), DeviceWork::Copy,
                 {to_first ? Bytes(0) : bytes * (replicas_ - 1.0), to_first ? bytes : Bytes(0)});
  }
  void add_input_copy() {
    if (!(step_.input_per_gpu > Bytes(0))) return;
    CollectivePlan plan;
    plan.bytes = step_.input_per_gpu;
    std::vector<double> weights(step_.fabric.num_links());
    for (std::uint32_t r = 0; r < replicas_; ++r) {
      const Route route = step_.fabric.route_from_host(Rank{r});
      plan.latency = max(plan.latency, route.latency);
      for (const FabricLinkId link : route.links) weights[link.index] += 1;
    }
    take_uses(weights, plan);
    add_transfer(plan, host(Seconds()), DeviceWork::Copy,
                 {step_.input_per_gpu, step_.input_per_gpu}, true);
  }
  static void take_uses(const std::vector<double>& weights, CollectivePlan& plan) {
    for (std::uint32_t link = 0; link < weights.size(); ++link) {
      if (weights[link] > 0) plan.uses.push_back({FabricLinkId{link}, weights[link]});
    }
  }

  void add_step() {
    const StrategyProfile& strategy = step_.strategy;
    double modules = 0;
    for (const ProgramOp& op : step_.replica.program.ops) {
      if (op.num_kernels == 0) continue;
      const ProgramKernel& kernel = step_.replica.program.kernels[op.first_kernel];
      if (parts_.of(step_.replica, kernel) == Part::ReplicatedForward) ++modules;
    }
    const TaskId begun = host(step_.whole.program.step_overhead);
    if (step_.input_supply > Seconds()) {
      const TaskId loaded =
          graph_.add_task(loader_, engine::to_ticks<engine::Picoseconds>(step_.input_supply));
      graph_.add_dependency(loaded, begun);
    }
    add_input_copy();
    add_collectives(Collective::Broadcast);
    host(strategy.replicate_per_op * modules);
    add_part(Part::ReplicatedForward, false, strategy.forward_lock_share);
    add_peer_copies(crossing_, true);
    add_part(Part::Forward, true, 0);
    if (waits_) add_wait();
    add_part(Part::Zero, true, 0);
    add_part(Part::Backward, true, 0);
    add_peer_copies(crossing_, false);
    add_part(Part::ReplicatedBackward, false, strategy.backward_lock_share);
    add_collectives(Collective::Reduce);
    add_part(Part::Update, true, 0);
  }

  /// With the report, if there is one. Returns the first GPU's last kernel.
  TaskId end_step() {
    if (step_.steps_per_report > 0) add_wait();
    return *last_kernel_[kFirst];
  }
  void add_wait() {
    const TaskId issued = host(Seconds());
    const TaskId done = host(Seconds());
    graph_.add_dependency(*last_kernel_[kFirst], done);
    waits_of_step_.push_back({issued, done});
  }

  ReplicatedTimeline read(const engine::Schedule& schedule, TaskId before, TaskId last) {
    const engine::Picoseconds begin = schedule.end[before.index];
    const auto since = [&](engine::Picoseconds at) { return at.in_seconds() - begin.in_seconds(); };
    result_.gpus = replicas_;
    result_.step_time = since(schedule.end[last.index]) / result_.steps;
    for (Note& note : notes_) {
      note.span.start = since(schedule.start[note.starts.index]);
      note.span.end = since(schedule.end[note.ends.index]);
      result_.spans.push_back(note.span);
    }
    for (const auto& [issued, done] : waits_of_step_) {
      result_.waiting += since(schedule.end[done.index]) - since(schedule.end[issued.index]);
    }
    result_.waiting = result_.waiting / result_.steps;
    return std::move(result_);
  }

  const ReplicatedStep& step_;
  Parts parts_;
  bool waits_;
  std::vector<GradientBucket> buckets_;
  Bytes crossing_;
  std::uint32_t replicas_;
  Communicator communicator_;
  engine::TaskGraph graph_;
  engine::ResourceId host_{}, loader_{};
  std::array<engine::ResourceId, 2> streams_{};
  std::array<std::vector<TaskId>, 2> gates_;
  std::array<std::optional<TaskId>, 2> last_kernel_;
  std::vector<Note> notes_;
  std::vector<std::pair<TaskId, TaskId>> waits_of_step_;
  std::vector<engine::LinkUse> uses_;
  ReplicatedTimeline result_;
};

}  // namespace

std::uint32_t count_feature_ops(const NetworkGraph& forward) {
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < forward.ops().size(); ++i) {
    const OpKind kind = forward.op(OpId{i}).kind;
    if (kind == OpKind::Conv || kind == OpKind::MaxPool) count = i + 1;
  }
  return count;
}

std::vector<DeviceTime> sum_device_times(const ReplicatedStep& step,
                                         const ReplicatedTimeline& timeline) {
  std::vector<DeviceTime> sums;
  for (const DeviceSpan& span : timeline.spans) {
    DeviceTime kind{.work = span.work};
    const Kernel* kernel = nullptr;
    if (span.work == DeviceWork::Kernel) {
      const Prediction& one = span.of_whole ? step.whole : step.replica;
      const ProgramKernel& issued = one.program.kernels[span.kernel];
      kernel = &one.priced.choices[issued.op].candidate->kernels[issued.kernel];
      const Op& op = step.graph.op(one.priced.lowered->ops[issued.op].op);
      kind.kernel_class = kernel->kernel_class;
      kind.algorithm = kernel->algorithm;
      kind.op = op.kind;
      kind.pass = op.pass;
      kind.is_products = kernel->name == "products";
    }
    auto known = std::find_if(sums.begin(), sums.end(), [&](const DeviceTime& other) {
      return other.work == kind.work && other.kernel_class == kind.kernel_class &&
             other.algorithm == kind.algorithm && other.op == kind.op && other.pass == kind.pass &&
             other.is_products == kind.is_products;
    });
    if (known == sums.end()) known = sums.insert(sums.end(), kind);
    const double devices = devices_of(span, timeline);
    known->time += (span.end - span.start) * devices;
    if (kernel != nullptr) known->flops += kernel->flops * devices;
    known->calls += static_cast<std::size_t>(devices);
  }
  for (DeviceTime& sum : sums) {
    sum.time = sum.time / timeline.steps;
    sum.flops = sum.flops / timeline.steps;
    sum.calls /= static_cast<std::size_t>(timeline.steps);
  }
  std::stable_sort(sums.begin(), sums.end(),
                   [](const DeviceTime& a, const DeviceTime& b) { return b.time < a.time; });
  return sums;
}

ReplicatedTimeline run_replicated(const ReplicatedStep& step, bool waits_after_forward) {
  TRACECAST_CHECK(step.fabric.num_nodes() == 1 && step.fabric.num_ranks() > 1,
                  "replicas of one process stand in one node");
  return ReplicatedRun(step, waits_after_forward).run();
}

}  // namespace tracecast
