#include "sim/parallel/replicas.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "sim/base/error.hpp"
#include "sim/network/collective.hpp"
#include "sim/parallel/gradients.hpp"
#include "sim/parallel/multi_rank_run.hpp"
#include "sim/parallel/rank_program.hpp"

namespace tracecast {
namespace {

using Task = MultiRankProgram::Task;
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
  [[nodiscard]] bool is_replicated_input(TensorId tensor) const {
    return is_replicated_[tensor.index] != 0;
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
      // zero_grad() runs before the backward pass; AccumulateGrad as soon as the gradient is there,
      // that of replicated weights after the reduction.
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

/// Whether anything goes back through the layers.
bool goes_back(const NetworkGraph& graph) {
  return std::any_of(graph.ops().begin(), graph.ops().end(),
                     [](const Op& op) { return op.forward.has_value(); });
}

/// What travels of the replicated layers, in their order.
struct Buckets {
  std::vector<GradientBucket> weights;    ///< to the replicas, before each pass
  std::vector<GradientBucket> gradients;  ///< to the first GPU, after the last of them
};

Buckets replicated_buckets(const ReplicatedStep& step) {
  StrategyProfile packing = step.strategy;
  packing.cycle = Seconds();  // nobody waits for others: all are there
  const StepProgram& program = step.replica.program;
  GradientSchedule gradients =
      find_gradients(step.graph, step.replica.priced, program, step.element_bytes);
  std::erase_if(gradients.gradients, [&](const Gradient& gradient) {
    const std::uint32_t op = program.kernels[gradient.first_use].op;
    return step.replica.priced.lowered->ops[op].op.index >= step.replicated_ops;
  });
  std::reverse(gradients.gradients.begin(), gradients.gradients.end());
  if (!gradients.gradients.empty()) {
    const std::vector<GradientBucket> buckets = make_buckets(gradients, packing, {});
    return {buckets, buckets};
  }
  // Nothing is updated, but the copies are made before every forward pass.
  GradientSchedule weights;
  std::vector<char> known(step.graph.tensors().size());
  for (std::uint32_t i = 0; i < step.replicated_ops; ++i) {
    for (const TensorId input : step.graph.op(OpId{i}).inputs) {
      const Tensor& tensor = step.graph.tensor(input);
      if (tensor.role != TensorRole::Weight || known[input.index] != 0) continue;
      known[input.index] = 1;
      const double elements = static_cast<double>(element_count(tensor.shape));
      weights.gradients.push_back(
          {.weight = input, .bytes = step.element_bytes[input.index] * elements});
    }
  }
  const std::vector<GradientBucket> buckets = make_buckets(weights, packing, {});
  return {buckets, goes_back(step.graph) ? buckets : std::vector<GradientBucket>()};
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
  explicit ReplicatedRun(const ReplicatedStep& step)
      : step_(step),
        parts_(step),
        buckets_(replicated_buckets(step)),
        crossing_(crossing_bytes(step)),
        replicas_(step.fabric.num_ranks()) {
    program_.set_fabric(step.fabric);
    if (step.strategy.library != "copies") {
      communicator_.emplace(
          step.fabric, all_ranks(step.fabric),
          step.fabric.specs().find_collective_library(step.strategy.library, "", step.date));
    }
    host_ = program_.add_stream();
    loader_ = program_.add_stream();
    const std::size_t simulated = step.fold ? 2 : replicas_;
    for (std::size_t i = 0; i < simulated; ++i) streams_.push_back(program_.add_stream());
    gates_.resize(simulated);
    kernels_.resize(simulated);
  }

  ReplicatedTimeline run() {
    result_.steps = std::max(step_.steps_per_report, 1);
    for (int s = 0; s < kStepsBefore; ++s) add_step();
    end_step();
    notes_.clear();
    waits_of_step_.clear();
    link_bytes_.clear();
    for (int s = 0; s < result_.steps; ++s) {
      result_.launches = 0;
      result_.launching = Seconds();
      result_.collected = Bytes();
      add_step();
    }
    end_step();
    read(MultiRankRun(program_));
    return std::move(result_);
  }

 private:
  /// A span on one GPU between the starts and ends of tasks.
  struct Note {
    DeviceSpan span;
    Task starts, ends;
  };
  static constexpr std::size_t kFirst = 0, kOthers = 1;  ///< streams whose spans are reported
  /// Tags of kernels.
  static constexpr std::uint8_t kOfFirst = 0, kOfReplicas = 1, kOfCommunication = 2;

  Task host(Seconds duration, Action action = Action::Op) {
    return program_.add({.action = action}, host_, duration);
  }

  /// What `stream` does next waits for the copies and collectives before it.
  void follow(std::size_t stream, Task task) {
    for (const Task gate : gates_[stream]) program_.after(gate, task);
    gates_[stream].clear();
  }

  void add_kernel(std::size_t stream, Task launched, Seconds duration, DeviceSpan span) {
    const bool is_of_op = span.work == DeviceWork::Kernel;
    const std::uint8_t tag = !is_of_op ? kOfCommunication : span.of_whole ? kOfFirst : kOfReplicas;
    const Task task = program_.add(
        {.action = Action::Kernel, .tag = tag, .actor = static_cast<std::uint32_t>(stream)},
        streams_[stream], duration);
    program_.after(launched, task);
    follow(stream, task);
    span.on_first = stream == kFirst;
    if (stream <= kOthers) notes_.push_back({span, task, task});
    kernels_[stream].push_back(task);
  }

  /// The host gets no further ahead of a GPU than its queue of launches.
  void wait_for_queue(std::size_t stream, Task launch) {
    const std::vector<Task>& kernels = kernels_[stream];
    const std::size_t queue = step_.replica.program.launch_queue;
    if (kernels.size() >= queue) program_.after(kernels[kernels.size() - queue], launch);
  }

  /// Everything of a program that belongs to `part`, on the first GPU or on all of them.
  void add_part(Part part, bool whole, double lock_share) {
    const Prediction& one = whole ? step_.whole : step_.replica;
    const bool on_all = !whole;
    const double scale = on_all ? 1 + lock_share * (replicas_ - 1.0) : 1.0;
    const double longer = on_all ? step_.replica_time_factor : step_.first_time_factor;
    const StepProgram& program = one.program;
    for (const ProgramOp& op : program.ops) {
      // Of an update the host thinks where it updates.
      const bool is_beside = part != Part::Update && parts_.is_update(one, op);
      Seconds thinking = is_beside ? Seconds() : op.dispatch;
      bool waits = op.waits_for_gpu && !is_beside && !step_.waits_after_forward;
      for (std::uint32_t k = op.first_kernel; k < op.first_kernel + op.num_kernels; ++k) {
        const ProgramKernel& kernel = program.kernels[k];
        if (parts_.of(one, kernel) != part) continue;
        if (waits) add_wait();
        waits = false;
        const Seconds launch = program.launch + kernel.more_launch;
        const Task launched = host((thinking + launch) * scale, Action::Launch);
        const std::size_t streams = on_all ? streams_.size() : 1;
        for (std::size_t i = 0; i < streams; ++i) wait_for_queue(i, launched);
        thinking = Seconds();
        const double gpus = on_all ? replicas_ : 1.0;
        count_launches(kernel_launches(one, kernel) * gpus, program.launch);
        const DeviceSpan span{.work = DeviceWork::Kernel, .of_whole = whole, .kernel = k};
        for (std::size_t i = 0; i < streams; ++i) {
          add_kernel(i, launched, kernel.duration * longer, span);
        }
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

  /// A transfer that both streams reach, each when it is free, and leave together; or one beside
  /// the streams, of input.
  void add_transfer(const CollectivePlan& plan, Task issued, DeviceWork work,
                    std::array<Bytes, 2> bytes, bool is_input = false) {
    const Action action = is_input                   ? Action::Input
                          : work == DeviceWork::Copy ? Action::Transfer
                                                     : Action::Collective;
    const Task task = program_.add_transfer({.action = action}, std::nullopt, plan);
    program_.after(issued, task);
    for (const FabricUse& use : plan.uses) link_bytes_[use.link] += plan.bytes * use.weight;
    for (std::size_t stream = 0; stream < streams_.size(); ++stream) {
      Task starts = task;
      if (!is_input) {
        const Task reached = program_.add({.action = Action::Join}, streams_[stream], Seconds());
        program_.after(issued, reached);
        follow(stream, reached);
        program_.after(reached, task);
        if (work != DeviceWork::Copy) starts = reached;
      }
      gates_[stream].push_back(task);
      if (stream > kOthers) continue;
      if (work == DeviceWork::Copy && !(bytes[stream] > Bytes(0))) continue;
      notes_.push_back(
          {{.work = work, .on_first = stream == kFirst, .bytes = bytes[stream]}, starts, task});
    }
  }

  void add_collectives(Collective kind) {
    const bool is_broadcast = kind == Collective::Broadcast;
    for (const GradientBucket& bucket : is_broadcast ? buckets_.weights : buckets_.gradients) {
      const Task issued = host(step_.strategy.host_per_bucket);
      if (bucket.gradients.size() > 1) {  // one tensor travels as it lies
        const Seconds time = bucket_copy_time(bucket.bytes, step_.fabric.gpu_of(Rank{0}));
        const std::size_t streams = is_broadcast ? 1 : streams_.size();
        for (std::size_t i = 0; i < streams; ++i) {
          add_kernel(i, issued, time, {.work = DeviceWork::Flatten});
        }
        count_launches(is_broadcast ? 1 : replicas_, step_.replica.program.launch);
      }
      if (!communicator_) {
        add_peer_copies(bucket.bytes, !is_broadcast);
        continue;
      }
      const CollectivePlan plan = communicator_->plan(kind, bucket.bytes);
      result_.collected += plan.bytes;
      result_.channels = std::max(result_.channels, plan.channels);
      add_transfer(plan, issued, is_broadcast ? DeviceWork::Broadcast : DeviceWork::Reduce, {});
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

  /// Of the step's first actions on the host.
  void add_begin() {
    if (step_.whole.program.synchronizes) add_wait();
    std::optional<Task> loaded;
    if (step_.input_supply > Seconds()) {
      loaded = program_.add({.action = Action::Input}, loader_, step_.input_supply);
    }
    if (step_.host_input > Seconds()) {
      const Task prepared = host(step_.host_input, Action::Input);
      if (loaded) program_.after(*loaded, prepared);
    }
    const Task begun = host(step_.whole.program.step_overhead);
    if (loaded) program_.after(*loaded, begun);
  }

  void add_step() {
    const StrategyProfile& strategy = step_.strategy;
    double modules = 0;
    for (const ProgramOp& op : step_.replica.program.ops) {
      if (op.num_kernels == 0) continue;
      const ProgramKernel& kernel = step_.replica.program.kernels[op.first_kernel];
      if (parts_.of(step_.replica, kernel) == Part::ReplicatedForward) ++modules;
    }
    add_begin();
    add_input_copy();
    add_collectives(Collective::Broadcast);
    host(strategy.replicate_per_op * modules);
    add_part(Part::ReplicatedForward, false, strategy.forward_lock_share);
    add_peer_copies(crossing_, true);
    add_part(Part::Forward, true, 0);
    if (step_.waits_after_forward) add_wait();
    add_part(Part::Zero, true, 0);
    add_part(Part::Backward, true, 0);
    if (!buckets_.gradients.empty()) add_peer_copies(crossing_, false);
    add_part(Part::ReplicatedBackward, false, strategy.backward_lock_share);
    add_collectives(Collective::Reduce);
    add_part(Part::Update, true, 0);
    mark_first();
  }

  /// What the first GPU has done so far: nothing of later steps starts before it there.
  void mark_first() {
    const Task mark = program_.add({.action = Action::Join}, streams_[kFirst], Seconds());
    follow(kFirst, mark);
    done_ = mark;
  }
  /// With the report, if there is one.
  void end_step() {
    if (step_.steps_per_report > 0) add_wait();
    program_.end_step(*done_);
  }
  /// The host waits for what it has issued to the first GPU.
  void add_wait() {
    const Task issued = host(Seconds(), Action::Wait);
    const Task done = host(Seconds(), Action::Wait);
    if (!kernels_[kFirst].empty() || done_) {
      mark_first();
      program_.after(*done_, done);
    }
    waits_of_step_.push_back({issued, done});
  }

  void read(const MultiRankRun& run) {
    const double steps = result_.steps;
    result_.gpus = replicas_;
    result_.simulated = static_cast<std::uint32_t>(streams_.size());
    result_.step_time = run.time() / steps;
    // A kernel of the next stretch may begin before this one ends, on a GPU that has nothing to
    // update.
    const auto since = [&](engine::Picoseconds at) {
      return at.in_seconds() - run.begin().in_seconds();
    };
    for (Note& note : notes_) {
      note.span.start = since(run.start_of(note.starts));
      note.span.end = since(run.end_of(note.ends));
      result_.spans.push_back(note.span);
    }
    for (const auto& [issued, done] : waits_of_step_) {
      result_.waiting += since(run.end_of(done)) - since(run.end_of(issued));
    }
    result_.waiting = result_.waiting / steps;
    for (const TickSpan& span : run.busy(is_communication)) {
      result_.communication.push_back({since(span.start), since(span.end)});
      result_.communication_busy += (span.end - span.start).in_seconds() / steps;
    }
    read_parts(run);
    const std::vector<GradientBucket>& buckets =
        buckets_.gradients.empty() ? buckets_.weights : buckets_.gradients;
    result_.num_buckets = buckets.size();
    for (const GradientBucket& bucket : buckets) result_.communicated += bucket.bytes;
    for (const auto& [link, bytes] : link_bytes_) {
      const Bytes most = step_.fabric.link(link).bandwidth * run.time();
      result_.links.push_back({link, bytes / most});
    }
    std::stable_sort(result_.links.begin(), result_.links.end(),
                     [](const LinkLoad& a, const LinkLoad& b) { return a.share > b.share; });
  }

  static bool is_communication(const ActionInfo& info) {
    return info.action == Action::Collective || info.action == Action::Transfer ||
           (info.action == Action::Kernel && info.tag == kOfCommunication);
  }

  void read_parts(const MultiRankRun& run) {
    engine::Picoseconds compute{}, of_replicas{}, communication{}, input{};
    run.walk_critical_path([&](const ActionInfo& info, engine::Picoseconds time, bool) {
      if (is_communication(info)) {
        communication += time;
      } else if (info.action == Action::Input) {
        input += time;
      } else {
        const bool stragglers = info.action == Action::Kernel && info.tag == kOfReplicas;
        (stragglers ? of_replicas : compute) += time;
      }
    });
    StepParts& parts = result_.parts;
    parts.stragglers = of_replicas.in_seconds() * (1 - 1 / step_.straggling) / result_.steps;
    parts.compute = (compute + of_replicas).in_seconds() / result_.steps - parts.stragglers;
    parts.communication = communication.in_seconds() / result_.steps;
    parts.input = input.in_seconds() / result_.steps;
  }

  const ReplicatedStep& step_;
  Parts parts_;
  Buckets buckets_;
  Bytes crossing_;
  std::uint32_t replicas_;
  std::optional<Communicator> communicator_;  ///< nothing: copies between peers
  MultiRankProgram program_;
  MultiRankProgram::Lane host_{}, loader_{};
  std::vector<MultiRankProgram::Lane>
      streams_;  ///< of the first GPU, and of others: all, or one for all
  std::vector<std::vector<Task>> gates_, kernels_;  ///< by stream
  std::optional<Task> done_;                        ///< by the first GPU
  std::vector<Note> notes_;
  std::vector<std::pair<Task, Task>> waits_of_step_;
  std::map<FabricLinkId, Bytes> link_bytes_;
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

bool is_replicated(const StrategyProfile& strategy) {
  return strategy.communication == Communication::FirstGpu && strategy.replicas == Replicas::Python;
}

ReplicatedTimeline run_replicated(const ReplicatedStep& step) {
  TRACECAST_CHECK(step.fabric.num_nodes() == 1 && step.fabric.num_ranks() > 1,
                  "replicas of one process stand in one node");
  return ReplicatedRun(step).run();
}

}  // namespace tracecast
