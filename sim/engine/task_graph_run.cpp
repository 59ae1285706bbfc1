#include <algorithm>
#include <utility>

#include "sim/engine/event_queue.hpp"
#include "sim/engine/task_graph.hpp"

namespace tracecast::engine {
namespace {

/// Asks for memory that is needed soon. In a graph larger than the caches the time goes into
/// waiting for it: with 1e6 tasks a run takes a quarter less where dependencies reach far.
void fetch(const void* address) { __builtin_prefetch(address); }

}  // namespace

/// One run. Everything that changes is here; the graph is only read.
class TaskGraph::Run {
 public:
  explicit Run(const TaskGraph& graph);
  Schedule finish();

 private:
  enum EventKind : std::uint16_t { kEnds, kBecomesReady, kFlowsEnd };
  static constexpr std::uint32_t kIsReady = UINT32_MAX;

  /// What a task's dependencies touch, together in one half of a cache line: the order in which
  /// tasks are visited is as good as random.
  struct Node {
    Picoseconds ready{};  ///< the latest of what its dependencies have allowed so far
    Picoseconds start{};
    std::uint32_t pending = 0;  ///< dependencies not yet ended; then kIsReady
    std::uint32_t released_by = kNone;
    std::uint32_t resource = kNone;
    std::uint32_t next =
        kNone;  ///< the next one waiting for (or, in program order, on) its resource
  };
  static_assert(sizeof(Node) == 32);

  struct ResourceState {
    std::uint32_t room = 1;
    std::uint32_t head = kNone, tail = kNone;  ///< who waits; in program order all not yet started
    std::uint32_t freed_by = kNone;            ///< the task that ended last: at freed_at
    Picoseconds freed_at{};
    Picoseconds busy{};
    Discipline discipline{};
    bool to_serve = false;
  };

  void sort_dependencies();
  void link_programs();
  void satisfy(std::uint32_t task, std::uint32_t by, Picoseconds when);
  void make_ready(std::uint32_t task);
  void start(std::uint32_t task, Picoseconds when);
  void end(std::uint32_t task);
  void end_all_of_now();
  void add_links();
  void send(std::uint32_t transfer);
  void take_sent(const Event<Picoseconds>& event);
  void queue_ready_tasks();
  void serve(ResourceState& resource);
  void give_out_resources();
  void mark_to_serve(std::uint32_t resource);
  [[noreturn]] void fail_on_cycle() const;

  const TaskGraph& graph_;
  std::vector<Node> nodes_;
  // Dependencies by `before`: those of task t are [first_[t], first_[t + 1]).
  std::vector<std::uint32_t> first_, after_;
  std::vector<Picoseconds> lag_;  ///< empty when all are zero
  std::vector<ResourceState> resources_;
  EventQueue<Picoseconds> queue_;
  std::vector<std::uint32_t> ending_;    ///< end now
  std::vector<std::uint32_t> ready_;     ///< became ready now, in ready order, not yet queued
  std::vector<std::uint32_t> to_serve_;  ///< resources with room and somebody waiting
  std::size_t num_ended_ = 0;
  FluidLinks links_;
  std::vector<std::uint32_t>
      to_send_;  ///< by task: its transfer, until it sends; empty: no transfers
  std::vector<Picoseconds> sending_;  ///< by transfer: how long it has sent, when it has ended
  std::vector<std::uint32_t> sent_;   ///< transfers that end now
};

TaskGraph::Run::Run(const TaskGraph& graph)
    : graph_(graph),
      nodes_(graph.num_tasks()),
      links_(queue_, kFlowsEnd, Picoseconds::most() - graph.total_) {
  for (const Resource& resource : graph.resources_) {
    resources_.push_back({.room = resource.capacity, .discipline = resource.discipline});
  }
  sort_dependencies();
  link_programs();
  if (!graph.transfers_.empty()) add_links();
}

void TaskGraph::Run::add_links() {
  for (const BytesPerSecond capacity : graph_.capacity_) links_.add_link(capacity);
  for (const Route& route : graph_.routes_) links_.add_route(graph_.uses(route), route.rate_cap);
  to_send_.assign(nodes_.size(), kNone);
  sending_.resize(graph_.transfers_.size());
  for (std::uint32_t i = 0; i < graph_.transfers_.size(); ++i) {
    to_send_[graph_.transfers_[i].task] = i;
  }
}

void TaskGraph::Run::sort_dependencies() {
  const std::size_t count = graph_.before_.size();
  first_.assign(nodes_.size() + 2, 0);
  for (const std::uint32_t before : graph_.before_) ++first_[before + 2];
  for (std::size_t i = 2; i < first_.size(); ++i) first_[i] += first_[i - 1];
  after_.resize(count);
  lag_.resize(graph_.lag_.size());
  for (std::size_t i = 0; i < count; ++i) {  // first_[t + 1] moves from the begin of t to its end
    const std::uint32_t place = first_[graph_.before_[i] + 1]++;
    after_[place] = graph_.after_[i];
    if (!lag_.empty()) lag_[place] = graph_.lag_[i];
    ++nodes_[graph_.after_[i]].pending;
  }
}

void TaskGraph::Run::link_programs() {
  for (std::uint32_t task = 0; task < nodes_.size(); ++task) {
    const std::uint32_t index = nodes_[task].resource = graph_.resource_[task];
    if (index == kNoResource) continue;
    ResourceState& resource = resources_[index];
    if (resource.discipline != Discipline::ProgramOrder) continue;
    (resource.head == kNone ? resource.head : nodes_[resource.tail].next) = task;
    resource.tail = task;
  }
}

/// One dependency of `task` allows it from `when` >= now on.
void TaskGraph::Run::satisfy(std::uint32_t task, std::uint32_t by, Picoseconds when) {
  Node& node = nodes_[task];
  if (when > node.ready || (when == node.ready && by < node.released_by)) {
    node.ready = when;
    node.released_by = by;
  }
  if (--node.pending > 0) return;
  if (node.ready == queue_.now()) {
    make_ready(task);
  } else if (node.resource == kNoResource) {
    start(task, node.ready);
  } else {
    queue_.push(node.ready, task, kBecomesReady);
  }
}

/// `task` is ready now.
void TaskGraph::Run::make_ready(std::uint32_t task) {
  Node& node = nodes_[task];
  if (node.resource == kNoResource) return start(task, queue_.now());
  ResourceState& resource = resources_[node.resource];
  if (resource.discipline == Discipline::ReadyOrder) {
    ready_.push_back(task);
  } else {
    node.pending = kIsReady;
    if (resource.head == task && resource.room > 0) mark_to_serve(node.resource);
  }
}

void TaskGraph::Run::start(std::uint32_t task, Picoseconds when) {
  nodes_[task].start = when;
  constexpr std::uint32_t kMostFetched = 4;
  const std::uint32_t last = std::min(first_[task] + kMostFetched, first_[task + 1]);
  for (std::uint32_t i = first_[task]; i < last; ++i) fetch(&nodes_[after_[i]]);

  const Picoseconds end = when + graph_.duration_[task];
  if (end == queue_.now()) {
    ending_.push_back(task);
  } else {
    queue_.push(end, task, kEnds);
  }
}

void TaskGraph::Run::end(std::uint32_t task) {
  ++num_ended_;
  const Picoseconds now = queue_.now();
  if (const std::uint32_t index = nodes_[task].resource; index != kNoResource) {
    ResourceState& resource = resources_[index];
    ++resource.room;
    resource.freed_by = resource.freed_at == now ? std::min(resource.freed_by, task) : task;
    resource.freed_at = now;
    if (resource.head != kNone) mark_to_serve(index);
  }
  for (std::uint32_t i = first_[task]; i < first_[task + 1]; ++i) {
    satisfy(after_[i], task, lag_.empty() ? now : now + lag_[i]);
  }
}

/// What ends now, and joins that thereby end too. Of a transfer it may be only the latency.
void TaskGraph::Run::end_all_of_now() {
  while (!ending_.empty()) {
    const std::uint32_t task = ending_.back();
    ending_.pop_back();
    if (!to_send_.empty() && to_send_[task] != kNone) {
      send(std::exchange(to_send_[task], kNone));
    } else {
      end(task);
    }
  }
}

void TaskGraph::Run::send(std::uint32_t index) {
  const Transfer& transfer = graph_.transfers_[index];
  links_.start(RouteId{transfer.route}, transfer.bytes, index);
}

void TaskGraph::Run::take_sent(const Event<Picoseconds>& event) {
  links_.take_ended(event, sent_);
  for (const std::uint32_t transfer : sent_) {
    const std::uint32_t task = graph_.transfers_[transfer].task;
    sending_[transfer] = event.time - (nodes_[task].start + graph_.duration_[task]);
    if (nodes_[task].resource != kNoResource) {
      resources_[nodes_[task].resource].busy += sending_[transfer];
    }
    ending_.push_back(task);
  }
  sent_.clear();
}

void TaskGraph::Run::mark_to_serve(std::uint32_t index) {
  if (resources_[index].to_serve) return;
  resources_[index].to_serve = true;
  to_serve_.push_back(index);
}

/// Tasks that became ready together queue by index: which dependency ended first in our loop must
/// not show.
void TaskGraph::Run::queue_ready_tasks() {
  if (!std::is_sorted(ready_.begin(), ready_.end())) std::sort(ready_.begin(), ready_.end());
  for (const std::uint32_t task : ready_) {
    const std::uint32_t index = nodes_[task].resource;
    ResourceState& resource = resources_[index];
    (resource.head == kNone ? resource.head : nodes_[resource.tail].next) = task;
    resource.tail = task;
    if (resource.room > 0) mark_to_serve(index);
  }
  ready_.clear();
}

void TaskGraph::Run::serve(ResourceState& resource) {
  const bool in_program_order = resource.discipline == Discipline::ProgramOrder;
  while (resource.room > 0 && resource.head != kNone) {
    const std::uint32_t task = resource.head;
    Node& node = nodes_[task];
    if (in_program_order && node.pending != kIsReady) return;
    resource.head = node.next;
    if (node.next != kNone) {
      fetch(&nodes_[node.next]);
      fetch(&first_[node.next]);
      fetch(&graph_.duration_[node.next]);
    }
    --resource.room;
    resource.busy += graph_.duration_[task];
    if (node.ready < queue_.now()) node.released_by = resource.freed_by;
    start(task, queue_.now());
  }
}

void TaskGraph::Run::give_out_resources() {
  queue_ready_tasks();
  for (const std::uint32_t index : to_serve_) {
    resources_[index].to_serve = false;
    serve(resources_[index]);
  }
  to_serve_.clear();
}

Schedule TaskGraph::Run::finish() {
  for (std::uint32_t task = 0; task < nodes_.size(); ++task) {
    if (nodes_[task].pending == 0) make_ready(task);
  }
  for (;;) {
    end_all_of_now();
    give_out_resources();
    if (!ending_.empty()) continue;
    links_.settle();
    if (queue_.empty()) break;
    do {
      const Event<Picoseconds> event = queue_.pop();
      if (event.kind == kEnds) {
        ending_.push_back(event.id);
      } else if (event.kind == kBecomesReady) {
        make_ready(event.id);
      } else {
        take_sent(event);
      }
    } while (queue_.has_event_now());
  }
  if (num_ended_ < nodes_.size()) fail_on_cycle();

  Schedule schedule;
  schedule.ready.reserve(nodes_.size());
  schedule.start.reserve(nodes_.size());
  schedule.end.reserve(nodes_.size());
  schedule.released_by.reserve(nodes_.size());
  for (std::uint32_t task = 0; task < nodes_.size(); ++task) {
    const Node& node = nodes_[task];
    schedule.ready.push_back(node.ready);
    schedule.start.push_back(node.start);
    schedule.end.push_back(node.start + graph_.duration_[task]);
    schedule.released_by.push_back(node.released_by);
    schedule.makespan = std::max(schedule.makespan, schedule.end.back());
  }
  for (std::size_t i = 0; i < sending_.size(); ++i) {
    Picoseconds& end = schedule.end[graph_.transfers_[i].task];
    end += sending_[i];
    schedule.makespan = std::max(schedule.makespan, end);
  }
  schedule.carried.resize(graph_.num_links());
  for (const Transfer& transfer : graph_.transfers_) {
    for (const LinkUse& use : graph_.uses(graph_.routes_[transfer.route])) {
      schedule.carried[use.link.index] += use.weight * transfer.bytes;
    }
  }
  for (const ResourceState& resource : resources_) schedule.busy.push_back(resource.busy);
  return schedule;
}

/// Every task that has not run waits for one that has not either: a dependency, or the one before
/// it in program order. Following those leads into a cycle.
void TaskGraph::Run::fail_on_cycle() const {
  std::vector<bool> stuck(nodes_.size(), false);
  std::vector<std::uint32_t> waits_for(nodes_.size(), kNone);
  for (std::uint32_t task = 0; task < nodes_.size(); ++task) {
    stuck[task] = nodes_[task].pending != 0 && nodes_[task].pending != kIsReady;
  }
  for (const ResourceState& resource : resources_) {
    if (resource.discipline != Discipline::ProgramOrder || resource.head == kNone) continue;
    for (std::uint32_t task = resource.head; nodes_[task].next != kNone; task = nodes_[task].next) {
      stuck[nodes_[task].next] = true;
      waits_for[nodes_[task].next] = task;
    }
  }
  for (std::size_t i = 0; i < graph_.before_.size(); ++i) {
    const std::uint32_t before = graph_.before_[i], after = graph_.after_[i];
    if (stuck[before] && stuck[after]) waits_for[after] = std::min(waits_for[after], before);
  }
  auto task =
      static_cast<std::uint32_t>(std::find(stuck.begin(), stuck.end(), true) - stuck.begin());
  std::vector<bool> seen(nodes_.size(), false);
  for (; !seen[task]; task = waits_for[task]) seen[task] = true;
  std::vector<TaskId> cycle{TaskId{task}};
  for (std::uint32_t i = waits_for[task]; i != task; i = waits_for[i]) cycle.push_back(TaskId{i});
  throw CycleError(std::move(cycle));
}

Schedule TaskGraph::run() const { return is_in_order() ? run_in_order() : Run(*this).finish(); }

}  // namespace tracecast::engine
