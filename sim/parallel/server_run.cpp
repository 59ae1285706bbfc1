#include "sim/parallel/server_run.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"

namespace tracecast {
namespace {

using Lane = MultiRankProgram::Lane;
using Task = MultiRankProgram::Task;

Action action_of(ServerPart part) {
  switch (part) {
    case ServerPart::Feeding:
      return Action::Input;
    case ServerPart::Compute:
      return Action::Kernel;
    case ServerPart::DeviceCopy:
      return Action::Copy;
    case ServerPart::Wire:
      return Action::Transfer;
    case ServerPart::ServerSend:
    case ServerPart::ServerReceive:
    case ServerPart::WorkerSend:
    case ServerPart::WorkerReceive:
    case ServerPart::Update:
      break;
  }
  return Action::HostWork;
}

ActionInfo info_of(ServerPart part) {
  return {.action = action_of(part), .tag = static_cast<std::uint8_t>(part)};
}

/// The threads of one process that work for the channel.
struct Process {
  FabricNodeId node;
  Lane send, receive;
  Seconds scan{};  ///< per message, for those that wait beside it
};

struct Worker {
  Process process;
  const ServerWorker* work = nullptr;
  Lane copy_in, copy_out;
  std::vector<std::uint32_t> order;   ///< in which it asks for variables
  std::optional<Task> begin;          ///< what the next step waits for
  std::vector<Task> fetched, pushed;  ///< by variable, in the step at hand
};

/// Pieces of a message that threads and wire work on at the same time.
struct Pieces {
  static constexpr double kLeastBytes = 1048576, kMost = 64;
  int count = 1;
  Bytes bytes{};  ///< of each

  Pieces(Bytes message, Bytes chunk) {
    const double piece = std::max(chunk.in_bytes(), kLeastBytes);
    if (chunk > Bytes(0)) {
      count = static_cast<int>(std::clamp(std::ceil(message.in_bytes() / piece), 1.0, kMost));
    }
    bytes = message / count;
  }
};

class Builder {
 public:
  Builder(const ParameterServerRequest& request, int steps)
      : request_(request), channel_(request.channel.channel), variables_(variables_of(request)) {
    server_of_ = place_variables(variables_, request.servers, request.placement);
    const Fabric& fabric = request.fabric;
    TRACECAST_CHECK(request.servers < fabric.num_nodes(), "a node is left for workers");
    add_servers();
    for (std::uint32_t n = request.servers; n < fabric.num_nodes(); ++n) {
      for (std::uint32_t i = 0; i < fabric.ranks_of(FabricNodeId{n}); ++i) {
        add_worker(FabricNodeId{n});
      }
    }
    TRACECAST_CHECK(workers_.size() == request.kind_of.size(), "a kind for every worker");
    check_size(steps);
    set_scans();
    if (request.asynchronous) {
      run_.communications.assign(
          variables_.size(),
          std::vector<VariableCommunication>(workers_.size() * static_cast<std::size_t>(steps)));
    }
    for (int step = 0; step < steps; ++step) add_step(step);
  }
  [[nodiscard]] ServerRun take() && { return std::move(run_); }

 private:
  static std::span<const ServedVariable> variables_of(const ParameterServerRequest& request) {
    TRACECAST_CHECK(!request.kinds.empty(), "workers have work");
    return request.kinds.front().variables;
  }

  void check_size(int steps) const {
    constexpr double kMost = 1e6;
    double pieces = 0;
    for (const ServedVariable& v : variables_) pieces += Pieces(v.bytes, channel_.chunk).count;
    const double messages = 2 * pieces * static_cast<double>(workers_.size()) * steps;
    if (messages > kMost) {
      throw InputError(
          std::to_string(workers_.size()) + " workers",
          std::to_string(static_cast<std::int64_t>(messages)) + " messages to simulate",
          "a million at most: fewer workers");
    }
  }
  Task add(ServerPart part, std::optional<Lane> lane, Seconds duration) {
    return lane ? run_.program.add(info_of(part), *lane, duration)
                : run_.program.add(info_of(part), duration);
  }
  void after(Task before, Task task) { run_.program.after(before, task); }

  Process add_process(FabricNodeId node) {
    const auto threads = [&](int count) {
      return run_.program.add_pool(static_cast<std::uint32_t>(count));
    };
    Process process{.node = node, .send = {}, .receive = {}};
    process.send = threads(channel_.one_thread ? 1 : channel_.send_threads);
    process.receive = channel_.one_thread ? process.send : threads(channel_.receive_threads);
    return process;
  }

  void add_servers() {
    for (std::uint32_t s = 0; s < request_.servers; ++s) {
      servers_.push_back(add_process(FabricNodeId{s}));
      ServerUse& use = run_.servers.emplace_back();
      for (Lane* lane : {&use.update, &use.copy_in, &use.copy_out}) {
        *lane = run_.program.add_pool();
      }
    }
  }

  void add_worker(FabricNodeId node) {
    const std::size_t index = workers_.size();
    Worker worker{.process = add_process(node),
                  .work = &request_.kinds[request_.kind_of[index]],
                  .copy_in = run_.program.add_pool(),
                  .copy_out = run_.program.add_pool(),
                  .order = shuffled(index),
                  .begin = {},
                  .fetched = std::vector<Task>(variables_.size()),
                  .pushed = std::vector<Task>(variables_.size())};
    if (request_.asynchronous) {
      // Workers that began together would stay together for long: they begin evenly over a step.
      const Seconds step =
          std::accumulate(worker.work->segments.begin(), worker.work->segments.end(), Seconds());
      const double share =
          static_cast<double>(index) / static_cast<double>(request_.kind_of.size());
      worker.begin = add(ServerPart::Compute, std::nullopt, step * share);
    }
    workers_.push_back(std::move(worker));
    run_.step_ends.emplace_back();
  }

  std::vector<std::uint32_t> shuffled(std::size_t worker) const {
    std::vector<std::uint32_t> order(variables_.size());
    std::iota(order.begin(), order.end(), 0U);
    Random random(request_.seed + worker);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    return order;
  }

  void set_scans() {
    std::vector<double> messages(servers_.size());
    for (const std::uint32_t s : server_of_) messages[s] += static_cast<double>(workers_.size());
    const auto half = [&](double n) { return channel_.scan * (0.5 * std::max(n - 1, 0.0)); };
    for (std::size_t s = 0; s < servers_.size(); ++s) servers_[s].scan = half(messages[s]);
    for (Worker& worker : workers_) {
      worker.process.scan = half(static_cast<double>(variables_.size()));
    }
  }

  /// A network carries payload at the channel's rate, whatever else it can.
  double weight_of(const FabricLink& link) {
    if (link.kind == FabricLinkKind::Ethernet || link.kind == FabricLinkKind::Infiniband ||
        link.kind == FabricLinkKind::Ipoib) {
      nic_weight_ = link.bandwidth / request_.channel.wire;
      return nic_weight_;
    }
    return link.kind == FabricLinkKind::Uplink ? nic_weight_ : 1;
  }
  std::vector<engine::LinkUse> uses_between(const Process& from, const Process& to) {
    const auto key = std::pair(from.node.index, to.node.index);
    const auto found = uses_.find(key);
    if (found != uses_.end()) return found->second;
    std::vector<engine::LinkUse> uses;
    for (const FabricLinkId id : request_.fabric.route_between_hosts(from.node, to.node).links) {
      const FabricLink& link = request_.fabric.link(id);
      uses.push_back({run_.program.link(id, link.bandwidth), weight_of(link)});
    }
    std::sort(uses.begin(), uses.end());
    // Links that a route crosses twice (memory read and written) are one use with the sum of
    // weights.
    std::vector<engine::LinkUse> merged;
    for (const engine::LinkUse& use : uses) {
      if (!merged.empty() && merged.back().link.index == use.link.index) {
        merged.back().weight += use.weight;
      } else {
        merged.push_back(use);
      }
    }
    return uses_[key] = merged;
  }

  /// A message from one process to another: its first and last task. `sends`, `receives`: who keeps
  /// count.
  std::pair<Task, Task> add_message(const Process& from, const Process& to, Bytes bytes,
                                    bool from_server, ServerUse& use, Task start) {
    const ChannelMessage message{.bytes = bytes, .into_tensor = true};
    const MessageCost cost = cost_with_control(request_.channel, message);
    const Pieces pieces(bytes, channel_.chunk);
    const auto sends = from_server ? ServerPart::ServerSend : ServerPart::WorkerSend;
    const auto receives = from_server ? ServerPart::WorkerReceive : ServerPart::ServerReceive;
    const bool shakes = bytes > channel_.eager_most;
    const Seconds latency = request_.channel.latency + (shakes ? channel_.handshake : Seconds());
    const std::vector<engine::LinkUse> uses = uses_between(from, to);
    std::optional<Task> first;
    Task last{};
    for (int i = 0; i < pieces.count; ++i) {
      const Seconds scan_from = i == 0 ? from.scan : Seconds();
      const Seconds scan_to = i == 0 ? to.scan : Seconds();
      const Task sent = add(sends, from.send, cost.send / pieces.count + scan_from);
      after(start, sent);
      if (!first) first = sent;
      const Task carried = run_.program.add_transfer(
          info_of(ServerPart::Wire),
          channel_.receive_blocks ? std::optional(to.receive) : std::nullopt, uses, pieces.bytes,
          latency);
      after(sent, carried);
      const Task received = add(receives, to.receive, cost.receive / pieces.count + scan_to);
      after(carried, received);
      (from_server ? use.sends : use.receives).push_back(from_server ? sent : received);
      last = received;
    }
    (from_server ? use.bytes_out : use.bytes_in) += bytes;
    return {*first, last};
  }

  Task add_copy(Lane engine, Bytes bytes, Task before) {
    return add_copy(engine, bytes / request_.device_copy, before);
  }
  Task add_copy(Lane engine, Seconds duration, Task before) {
    const Task copied = add(ServerPart::DeviceCopy, engine, duration);
    after(before, copied);
    return copied;
  }
  /// To or from the GPU that holds a server's variables, where one does.
  Task add_server_copy(Lane engine, Bytes bytes, Task before) {
    if (!(request_.server_copy > BytesPerSecond())) return before;
    return add_copy(engine, bytes / request_.server_copy, before);
  }

  void add_step(int step) {
    std::vector<Task> begins;
    for (Worker& worker : workers_) {
      const Task begin = add(ServerPart::Feeding, std::nullopt, worker.work->feeding);
      if (worker.begin) after(*worker.begin, begin);
      begins.push_back(begin);
    }
    pull(begins, step);
    for (Worker& worker : workers_) compute_and_push(worker);
    if (request_.asynchronous) {
      finish_asynchronous(step);
    } else {
      update_together();
    }
  }

  /// Requests of all workers reach the servers in turn.
  void pull(const std::vector<Task>& begins, int step) {
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      for (std::size_t w = 0; w < workers_.size(); ++w) {
        Worker& worker = workers_[w];
        const std::uint32_t v = worker.order[i];
        const std::uint32_t s = server_of_[v];
        ServerUse& use = run_.servers[s];
        const Bytes bytes = variables_[v].bytes;
        const Task read = add_server_copy(use.copy_out, bytes, begins[w]);
        const auto [first, last] = add_message(servers_[s], worker.process, bytes, true, use, read);
        worker.fetched[v] = add_copy(worker.copy_in, bytes, last);
        if (request_.asynchronous) communication(v, step, w) = {step, first, first};
      }
    }
    for (std::size_t w = 0; w < workers_.size(); ++w) workers_[w].begin = begins[w];
  }
  VariableCommunication& communication(std::uint32_t variable, int step, std::size_t worker) {
    const std::size_t index = static_cast<std::size_t>(step) * workers_.size() + worker;
    return run_.communications[variable][index];
  }

  void compute_and_push(Worker& worker) {
    std::vector<Task> segments;
    Task before = *worker.begin;
    for (const Seconds duration : worker.work->segments) {
      const Task segment = add(ServerPart::Compute, std::nullopt, duration);
      after(before, segment);
      segments.push_back(segment);
      before = segment;
    }
    std::vector<std::uint32_t> by_readiness(variables_.size());
    std::iota(by_readiness.begin(), by_readiness.end(), 0U);
    const auto& own = worker.work->variables;
    std::stable_sort(
        by_readiness.begin(), by_readiness.end(),
        [&](std::uint32_t a, std::uint32_t b) { return own[a].ready_after < own[b].ready_after; });
    for (const std::uint32_t v : by_readiness) {
      after(worker.fetched[v], segments[own[v].needed_by]);
      const std::uint32_t s = server_of_[v];
      const Task on_host = add_copy(worker.copy_out, own[v].bytes, segments[own[v].ready_after]);
      ServerUse& use = run_.servers[s];
      const Task received =
          add_message(worker.process, servers_[s], own[v].bytes, false, use, on_host).second;
      worker.pushed[v] = add_server_copy(use.copy_in, own[v].bytes, received);
    }
  }

  Seconds touch(Bytes bytes, double accesses) const {
    return bytes * accesses / request_.update_rate;
  }

  /// Each gradient is added to the sum of the others (read both, write one); the last completes the
  /// update.
  void update_together() {
    constexpr double kAddition = 3;
    for (std::uint32_t v = 0; v < variables_.size(); ++v) {
      const Lane memory = run_.servers[server_of_[v]].update;
      const Task update =
          add(ServerPart::Update, memory, touch(variables_[v].bytes, request_.update_accesses));
      for (const Worker& worker : workers_) {
        const Task added = add(ServerPart::Update, memory, touch(variables_[v].bytes, kAddition));
        after(worker.pushed[v], added);
        after(added, update);
      }
    }
  }

  void finish_asynchronous(int step) {
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      Worker& worker = workers_[w];
      const Task end = add(ServerPart::Update, std::nullopt, Seconds());
      for (std::uint32_t v = 0; v < variables_.size(); ++v) {
        const Task update = add(ServerPart::Update, run_.servers[server_of_[v]].update,
                                touch(variables_[v].bytes, request_.update_accesses));
        after(worker.pushed[v], update);
        after(update, end);
        communication(v, step, w).update = update;
      }
      run_.step_ends[w].push_back(end);
      worker.begin = end;
    }
  }

  const ParameterServerRequest& request_;
  const ChannelProfile& channel_;
  std::span<const ServedVariable> variables_;
  ServerRun run_;
  std::vector<std::uint32_t> server_of_;
  std::vector<Process> servers_;
  std::vector<Worker> workers_;
  double nic_weight_ = 1;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<engine::LinkUse>> uses_;
};

}  // namespace

ServerRun build_server_run(const ParameterServerRequest& request, int steps) {
  return Builder(request, steps).take();
}

}  // namespace tracecast
