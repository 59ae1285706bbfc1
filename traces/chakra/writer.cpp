#include "traces/chakra/writer.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/foreign_text.hpp"
#include "traces/chakra/chakra.pb.h"
#include "traces/classify.hpp"
#include "traces/ranks/collective_kernels.hpp"
#include "traces/replay/program.hpp"

namespace tracecast::traces {
namespace {

using tracecast::chakra::Node;

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
constexpr std::uint32_t kNone = LaunchIndex::kNone;

/// The schema's NodeType.
int node_type(NodeKind kind) {
  switch (kind) {
    case NodeKind::Metadata:
      return 1;
    case NodeKind::MemoryLoad:
      return 2;
    case NodeKind::MemoryStore:
      return 3;
    case NodeKind::Operator:
    case NodeKind::Compute:
      return 4;
    case NodeKind::Send:
      return 5;
    case NodeKind::Receive:
      return 6;
    case NodeKind::Collective:
      return 7;
    case NodeKind::Unknown:
      break;
  }
  return 0;
}

/// The schema's CollectiveCommType; nothing for messages between two ranks.
std::optional<std::int64_t> comm_type(Collective kind) {
  switch (kind) {
    case Collective::AllReduce:
      return 0;
    case Collective::Reduce:
      return 1;
    case Collective::AllGather:
      return 2;
    case Collective::Broadcast:
      return 5;
    case Collective::AllToAll:
      return 6;
    case Collective::ReduceScatter:
      return 7;
    default:
      return std::nullopt;
  }
}

std::int64_t as_int64(std::uint64_t value) {
  return static_cast<std::int64_t>(std::min<std::uint64_t>(value, INT64_MAX));
}

void add_number(Node& node, const char* name, std::int64_t value) {
  auto& attribute = *node.add_attr();
  attribute.set_name(name);
  attribute.set_int64_val(value);
}

void set_side(Node& node, bool on_gpu) {
  auto& attribute = *node.add_attr();
  attribute.set_name("is_cpu_op");
  attribute.set_bool_val(!on_gpu);
}

/// Positive times stay positive: the format cannot tell zero from "not recorded".
void set_duration(Node& node, std::int64_t ns) {
  if (ns < 0) return;
  if (ns > 0)
    node.set_duration_micros(
        std::max<std::uint64_t>((static_cast<std::uint64_t>(ns) + 500) / 1000, 1));
  if (ns % 1000 != 0 || ns == 0) add_number(node, "duration_ns", ns);
}

class MessageWriter {
 public:
  explicit MessageWriter(const ByteSink& sink) : sink_(sink) {
    tracecast::chakra::GlobalMetadata metadata;
    metadata.set_version("0.0.4");
    put(metadata);
  }
  template <class Message>
  void put(const Message& message) {
    std::size_t rest = message.ByteSizeLong();
    for (; rest >= 0x80; rest >>= 7) bytes_ += static_cast<char>((rest & 0x7F) | 0x80);
    bytes_ += static_cast<char>(rest);
    message.AppendToString(&bytes_);
    if (bytes_.size() >= kPieceBytes) flush();
  }
  void flush() {
    sink_(bytes_);
    bytes_.clear();
  }

 private:
  const ByteSink& sink_;
  std::string bytes_;
};

/// Nodes of an execution graph as they are.
void write_nodes(const Trace& trace, MessageWriter& to) {
  const Nodes& nodes = trace.nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Node node;
    node.set_id(nodes.id[i]);
    node.set_name(as_utf8(trace[nodes.name[i]]));
    node.set_type(node_type(nodes.kind[i]));
    const std::size_t end =
        i + 1 < nodes.size() ? nodes.first_dependency[i + 1] : nodes.dependency.size();
    for (std::size_t at = nodes.first_dependency[i]; at < end; ++at)
      node.add_data_deps(nodes.dependency[at]);
    const auto set = [&](NameId text, auto member) {
      if (text.index != 0) (node.mutable_inputs()->*member)(as_utf8(trace[text]));
    };
    using Operands = tracecast::chakra::Operands;
    set(nodes.dims[i], &Operands::set_shapes<std::string>);
    set(nodes.types[i], &Operands::set_types<std::string>);
    set(nodes.values[i], &Operands::set_values<std::string>);
    set_side(node, nodes.on_gpu[i]);
    set_duration(node, nodes.duration_ns[i]);
    if (nodes.message_bytes[i] > 0) add_number(node, "comm_size", as_int64(nodes.message_bytes[i]));
    to.put(node);
  }
}

/// Tasks in an order in which each stands behind all that it waits for: first in, first out.
std::vector<std::uint32_t> order_of(const ReplayProgram& program) {
  std::vector<std::uint32_t> waits(program.tasks.size()), order;
  std::vector<std::vector<std::uint32_t>> after(program.tasks.size());
  for (const ReplayDependency& dependency : program.dependencies) {
    ++waits[dependency.after];
    after[dependency.before].push_back(dependency.after);
  }
  for (std::uint32_t i = 0; i < waits.size(); ++i) {
    if (waits[i] == 0) order.push_back(i);
  }
  for (std::size_t at = 0; at < order.size(); ++at) {
    for (const std::uint32_t next : after[order[at]]) {
      if (--waits[next] == 0) order.push_back(next);
    }
  }
  TRACECAST_CHECK(order.size() == program.tasks.size(), "a recording's work waits in no circle");
  return order;
}

class ProgramWriter {
 public:
  ProgramWriter(const Trace& trace, const KernelNames& names)
      : trace_(trace),
        launches_(trace),
        build_(build_replay_program(trace, names)),
        collective_of_kernel_(trace.kernels.size(), kNone) {
    const auto infos = classify_kernels(trace, names, launches_);
    collectives_ = find_collective_kernels(trace, infos, launches_);
    for (std::uint32_t i = 0; i < collectives_.size(); ++i)
      collective_of_kernel_[collectives_[i].kernel] = i;
  }

  ChakraLosses write(MessageWriter& to) {
    const ReplayProgram& program = build_.program;
    const std::vector<std::uint32_t> order = order_of(program);
    std::vector<std::uint64_t> id(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) id[order[i]] = i;
    std::vector<std::vector<std::uint32_t>> dependencies(order.size());
    for (std::uint32_t i = 0; i < program.dependencies.size(); ++i)
      dependencies[program.dependencies[i].after].push_back(i);
    for (const std::uint32_t task : order) {
      Node node = node_of(task);
      node.set_id(id[task]);
      for (const std::uint32_t i : dependencies[task]) {
        const ReplayDependency& dependency = program.dependencies[i];
        const bool is_control =
            dependency.reason == ReplayReason::Launch || dependency.reason == ReplayReason::Program;
        if (is_control) {
          node.add_ctrl_deps(id[dependency.before]);
        } else {
          node.add_data_deps(id[dependency.before]);
        }
        losses_.lag_ns += dependency.lag_ns;
      }
      to.put(node);
    }
    return losses_;
  }

 private:
  Node node_of(std::uint32_t number) {
    const ReplayTask& task = build_.program.tasks[number];
    Node node;
    node.set_name(as_utf8(build_.program.names[task.name]));
    node.set_type(node_type(NodeKind::Compute));
    set_side(node, is_on_gpu(task.work));
    set_duration(node, task.duration_ns);
    switch (task.work) {
      case ReplayWork::Kernel:
        describe_kernel(build_.records[number], node);
        break;
      case ReplayWork::Copy:
        describe_copy(build_.records[number], node);
        break;
      case ReplayWork::Wait:
      case ReplayWork::Mark:
      case ReplayWork::Arrival:
        node.set_type(node_type(NodeKind::Metadata));
        break;
      default:
        break;
    }
    if (task.bytes > 0) add_number(node, "tensor_size", as_int64(task.bytes));
    return node;
  }

  void describe_kernel(std::uint32_t kernel, Node& node) {
    const std::uint32_t op =
        launches_.op_of(trace_.kernels.op[kernel], trace_.kernels.correlation[kernel]);
    if (op != kNone) {
      node.mutable_inputs()->set_shapes(as_utf8(trace_[trace_.ops.dims[op]]));
      node.mutable_inputs()->set_types(as_utf8(trace_[trace_.ops.types[op]]));
      node.mutable_inputs()->set_values(as_utf8(trace_[trace_.ops.values[op]]));
    }
    if (collective_of_kernel_[kernel] == kNone) return;
    const CollectiveKernel& collective = collectives_[collective_of_kernel_[kernel]];
    const auto type = collective.kind ? comm_type(*collective.kind) : std::nullopt;
    if (!type) {
      ++losses_.untold_collectives;
      return;
    }
    node.set_type(node_type(NodeKind::Collective));
    add_number(node, "comm_type", *type);
    add_number(node, "comm_size", as_int64(collective.bytes));
    if (collective.group.empty()) return;
    auto& group = *node.add_attr();
    group.set_name("pg_name");
    group.set_string_val(collective.group);
  }

  void describe_copy(std::uint32_t copy, Node& node) const {
    if (trace_.copies.kind[copy] == CopyKind::HostToDevice)
      node.set_type(node_type(NodeKind::MemoryLoad));
    if (trace_.copies.kind[copy] == CopyKind::DeviceToHost)
      node.set_type(node_type(NodeKind::MemoryStore));
  }

  const Trace& trace_;
  LaunchIndex launches_;
  ReplayBuild build_;
  std::vector<CollectiveKernel> collectives_;
  std::vector<std::uint32_t> collective_of_kernel_;  ///< index into collectives_
  ChakraLosses losses_;
};

}  // namespace

ChakraLosses write_chakra(const Trace& trace, const KernelNames& names, const ByteSink& sink) {
  MessageWriter to(sink);
  ChakraLosses losses;
  if (trace.nodes.size() > 0) {
    write_nodes(trace, to);
  } else {
    losses = ProgramWriter(trace, names).write(to);
  }
  to.flush();
  return losses;
}

}  // namespace tracecast::traces
