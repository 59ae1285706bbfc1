#include "models/lowering/fusion.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/error.hpp"

namespace tracecast::lowering {
namespace {

constexpr double kCheap = 4;  ///< operations per element

Bytes sum(const std::vector<ValueRead>& reads) {
  Bytes total{};
  for (const ValueRead& read : reads) total += read.bytes;
  return total;
}

ValueRead* find(std::vector<ValueRead>& reads, ValueId value) {
  const auto it = std::find_if(reads.begin(), reads.end(),
                               [&](const ValueRead& read) { return read.value == value; });
  return it == reads.end() ? nullptr : &*it;
}

/// The classes of a report, by what says most about a kernel of several.
int rank(KernelClass kernel_class) {
  switch (kernel_class) {
    case KernelClass::Normalization:
    case KernelClass::Softmax:
      return 3;
    case KernelClass::Optimizer:
    case KernelClass::Reduction:
      return 2;
    case KernelClass::Elementwise:
      return 1;
    default:
      return 0;
  }
}

class Fusion {
 public:
  Fusion(FusionGraph& graph, const GraphCompiler& compiler)
      : graph_(graph), compiler_(compiler), pieces_(graph.nodes.size(), 1) {
    gone_.resize(graph.nodes.size());
    kernel_of_.resize(graph.nodes.size());
  }

  std::vector<FusedKernel> run() {
    for (Node& node : graph_.nodes) unite_reads(node.reads);
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      if (graph_.nodes[n].kind == NodeKind::Loop && joins_its_readers(graph_.nodes[n])) join(n);
    }
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (node.kind == NodeKind::Library || gone_[n]) continue;
      kernel_of_[n] = kernels_.size();
      kernels_.push_back(
          {.nodes = {NodeId{n}}, .reads = node.reads, .writes = node.writes, .pieces = pieces_[n]});
    }
    if (compiler_.merges_siblings) {
      for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) merge_into_earlier(n);
    }
    if (compiler_.joins_rows) {
      for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) join_rows(n);
    }
    std::erase_if(kernels_, [](const FusedKernel& kernel) { return kernel.nodes.empty(); });
    return std::move(kernels_);
  }

 private:
  /// Each value once: parts add up to the whole at most.
  void unite_reads(std::vector<ValueRead>& reads) const {
    std::vector<ValueRead> once;
    for (const ValueRead& read : reads) add_read(once, read);
    reads = std::move(once);
  }
  void add_read(std::vector<ValueRead>& reads, const ValueRead& read) const {
    const Bytes whole = graph_.values[read.value.index].bytes;
    if (ValueRead* known = find(reads, read.value)) {
      known->bytes = min(whole, max(known->bytes + read.bytes, known->bytes));
    } else {
      reads.push_back(read);
    }
  }

  /// What `loop` reads, as far as a reader with these operands reads its result.
  void add_operands(std::vector<ValueRead>& reads, const Node& loop) const {
    const ValueId result = loop.writes.front();
    const Bytes whole = graph_.values[result.index].bytes;
    const double share = whole > Bytes(0) ? find(reads, result)->bytes / whole : 1.0;
    for (const ValueRead& read : loop.reads) add_read(reads, {read.value, read.bytes * share});
  }

  [[nodiscard]] bool joins_its_readers(const Node& loop) const {
    if (loop.writes.size() != 1) return false;
    const Value& result = graph_.values[loop.writes.front().index];
    if (result.is_result || result.readers.empty()) return false;
    if (result.readers.size() > 1 &&
        (!compiler_.repeats_producers || loop.operations_per_element > kCheap)) {
      return false;
    }
    Bytes more{};
    for (const NodeId id : result.readers) {
      const Node& reader = graph_.nodes[id.index];
      if (reader.kind == NodeKind::Library) return false;
      if (loop.operations_per_element > kCheap && reader.elements > loop.elements) return false;
      std::vector<ValueRead> reads = reader.reads;
      const Bytes before = sum(reads);
      add_operands(reads, loop);
      if (reads.size() - 1 + reader.writes.size() > most_operands()) return false;
      more += sum(reads) - before;
    }
    const double times = 1.0 + static_cast<double>(result.readers.size());
    return more <= sum(loop.reads) + result.bytes * times;
  }
  [[nodiscard]] std::size_t most_operands() const {
    return static_cast<std::size_t>(compiler_.most_operands);
  }

  /// Puts loop `n` into every reader of its result.
  void join(std::uint32_t n) {
    const Node& loop = graph_.nodes[n];
    Value& result = graph_.values[loop.writes.front().index];
    gone_[n] = true;
    for (const NodeId id : result.readers) {
      Node& reader = graph_.nodes[id.index];
      add_operands(reader.reads, loop);
      std::erase_if(reader.reads,
                    [&](const ValueRead& read) { return read.value == loop.writes.front(); });
      for (const ValueRead& read : loop.reads) {
        auto& readers = graph_.values[read.value.index].readers;
        if (std::find(readers.begin(), readers.end(), id) == readers.end()) readers.push_back(id);
      }
      reader.operations_per_element += loop.operations_per_element;
      if (rank(loop.kernel_class) > rank(reader.kernel_class)) {
        reader.kernel_class = loop.kernel_class;
      }
      pieces_[id.index] += pieces_[n];
    }
    for (const ValueRead& read : loop.reads) {
      std::erase(graph_.values[read.value.index].readers, NodeId{n});
    }
    result.readers.clear();
  }

  /// Node that stands first in the kernel which writes a value; nothing for what is there from the
  /// start.
  [[nodiscard]] std::optional<std::uint32_t> place_of(ValueId value) const {
    const auto writer = graph_.values[value.index].writer;
    if (!writer) return std::nullopt;
    const auto kernel = kernel_of_[writer->index];
    return kernel ? kernels_[*kernel].nodes.front().index : writer->index;
  }

  /// Moves the kernel of node `n` to an earlier one that shares an operand with it or writes it.
  void merge_into_earlier(std::uint32_t n) {
    if (!kernel_of_[n] || kernels_[*kernel_of_[n]].nodes.front().index != n) return;
    const std::size_t mine = *kernel_of_[n];
    const Node& node = graph_.nodes[n];
    std::optional<std::size_t> earliest;
    for (const ValueRead& read : kernels_[mine].reads) {
      const Value& value = graph_.values[read.value.index];
      if (read.bytes < value.bytes || value.elements != node.elements) continue;
      const auto consider = [&](NodeId other) {
        const auto kernel = kernel_of_[other.index];
        if (!kernel || *kernel == mine || (earliest && *kernel >= *earliest)) return;
        if (may_merge(*kernel, mine)) earliest = *kernel;
      };
      if (value.writer && node.kind == NodeKind::Reduce) consider(*value.writer);
      for (const NodeId reader : value.readers) {
        if (reader.index < n) consider(reader);
      }
    }
    if (earliest) merge(*earliest, mine);
  }

  [[nodiscard]] bool may_merge(std::size_t earlier, std::size_t later) const {
    const FusedKernel &a = kernels_[earlier], &b = kernels_[later];
    const Node &first = graph_.nodes[a.nodes.front().index],
               &second = graph_.nodes[b.nodes.front().index];
    if (first.elements != second.elements) return false;
    const bool writes_operand = std::any_of(b.reads.begin(), b.reads.end(), [&](const auto& read) {
      return std::find(a.writes.begin(), a.writes.end(), read.value) != a.writes.end();
    });
    const bool first_is_reduction = first.kind == NodeKind::Reduce;
    const bool second_is_reduction = second.kind == NodeKind::Reduce;
    if (writes_operand ? first_is_reduction || !second_is_reduction
                       : first_is_reduction != second_is_reduction) {
      return false;
    }
    if (first_is_reduction && second_is_reduction &&
        (first.rows != second.rows || first.strided != second.strided)) {
      return false;
    }
    for (const ValueRead& read : b.reads) {
      if (std::find(a.writes.begin(), a.writes.end(), read.value) != a.writes.end()) {
        // A loop's result is at hand element by element; a reduction's is not before its end.
        if (graph_.nodes[graph_.values[read.value.index].writer->index].kind != NodeKind::Loop) {
          return false;
        }
        continue;
      }
      const auto place = place_of(read.value);
      if (place && *place >= a.nodes.front().index) return false;
    }
    std::vector<ValueRead> reads = a.reads;
    for (const ValueRead& read : b.reads) add_read(reads, read);
    return reads.size() + a.writes.size() + b.writes.size() <= most_operands();
  }

  void merge(std::size_t earlier, std::size_t later) {
    FusedKernel &a = kernels_[earlier], &b = kernels_[later];
    for (const ValueRead& read : b.reads) {
      if (std::find(a.writes.begin(), a.writes.end(), read.value) == a.writes.end()) {
        add_read(a.reads, read);
      }
    }
    a.writes.insert(a.writes.end(), b.writes.begin(), b.writes.end());
    for (const NodeId node : b.nodes) kernel_of_[node.index] = earlier;
    a.nodes.insert(a.nodes.end(), b.nodes.begin(), b.nodes.end());
    a.pieces += b.pieces;
    b = {};
  }

  /// Moves the kernel that begins at node `n` to the one with a reduction over the same rows that
  /// gives it an operand or shares one with it. What only the two hand to each other stays on the
  /// SM.
  void join_rows(std::uint32_t n) {
    if (!kernel_of_[n] || kernels_[*kernel_of_[n]].nodes.front().index != n) return;
    const std::size_t mine = *kernel_of_[n];
    std::optional<std::size_t> earliest;
    const auto consider = [&](NodeId other) {
      const auto kernel = kernel_of_[other.index];
      if (!kernel || *kernel == mine || kernels_[*kernel].nodes.front().index > n) return;
      if (earliest && *kernel >= *earliest) return;
      if (passes_over_same_rows(*kernel, mine)) earliest = *kernel;
    };
    for (const ValueRead& read : kernels_[mine].reads) {
      const Value& value = graph_.values[read.value.index];
      if (value.writer) consider(*value.writer);
      for (const NodeId reader : value.readers) consider(reader);
    }
    if (!earliest) return;
    const std::vector<ValueId> handed = kernels_[*earliest].writes;
    merge(*earliest, mine);
    FusedKernel& joined = kernels_[*earliest];
    for (const ValueId value : handed) {
      const Value& v = graph_.values[value.index];
      const bool read_elsewhere =
          std::any_of(v.readers.begin(), v.readers.end(), [&](NodeId reader) {
            return !gone_[reader.index] && kernel_of_[reader.index] != earliest;
          });
      if (v.is_result || read_elsewhere) continue;
      std::erase(joined.writes, value);
    }
  }

  [[nodiscard]] const Node* reduction_of(const FusedKernel& kernel) const {
    for (const NodeId id : kernel.nodes) {
      if (graph_.nodes[id.index].kind == NodeKind::Reduce) return &graph_.nodes[id.index];
    }
    return nullptr;
  }
  [[nodiscard]] bool passes_over_same_rows(std::size_t earlier, std::size_t later) const {
    const FusedKernel &a = kernels_[earlier], &b = kernels_[later];
    if (a.nodes.empty()) return false;
    const Node *rows = reduction_of(a), *others = reduction_of(b);
    if (rows == nullptr || rows->strided || rows->rows < 2) return false;
    if (others != nullptr && (others->strided || others->rows != rows->rows)) return false;
    for (const NodeId id : b.nodes) {
      if (graph_.nodes[id.index].elements != rows->elements) return false;
    }
    for (const ValueRead& read : b.reads) {
      if (std::find(a.writes.begin(), a.writes.end(), read.value) != a.writes.end()) continue;
      const auto place = place_of(read.value);
      if (place && *place >= a.nodes.front().index) return false;
    }
    std::vector<ValueRead> reads = a.reads;
    for (const ValueRead& read : b.reads) add_read(reads, read);
    return reads.size() + a.writes.size() + b.writes.size() <= most_operands();
  }

  FusionGraph& graph_;
  const GraphCompiler& compiler_;
  std::vector<int> pieces_;                            ///< per node
  std::vector<bool> gone_;                             ///< per node: part of its readers
  std::vector<std::optional<std::size_t>> kernel_of_;  ///< per node
  std::vector<FusedKernel> kernels_;
};

/// Passes over a whole row that is not kept in registers: every loop reads what it needs again, and
/// one loop has to end before the next begins where that one needs a reduction's result.
double row_passes(const FusionGraph& graph, const FusedKernel& fused, double elements) {
  std::vector<int> loop_of;  // of each node
  double passes = 0;
  std::vector<std::pair<ValueId, int>> counted;
  const auto writer_in_kernel = [&](ValueId value) -> std::optional<std::size_t> {
    for (std::size_t i = 0; i < loop_of.size(); ++i) {
      const auto& writes = graph.nodes[fused.nodes[i].index].writes;
      if (std::find(writes.begin(), writes.end(), value) != writes.end()) return i;
    }
    return std::nullopt;
  };
  for (const NodeId id : fused.nodes) {
    const Node& node = graph.nodes[id.index];
    int loop = 0;
    for (const ValueRead& read : node.reads) {
      const auto before = writer_in_kernel(read.value);
      if (!before) continue;
      const bool ends = graph.nodes[fused.nodes[*before].index].kind == NodeKind::Reduce;
      loop = std::max(loop, loop_of[*before] + (ends ? 1 : 0));
    }
    for (const ValueRead& read : node.reads) {
      const bool is_row = graph.values[read.value.index].elements == elements;
      const auto before = writer_in_kernel(read.value);
      const bool at_hand = before && loop_of[*before] == loop;
      const std::pair<ValueId, int> once{read.value, loop};
      if (!is_row || at_hand || std::find(counted.begin(), counted.end(), once) != counted.end()) {
        continue;
      }
      counted.push_back(once);
      ++passes;
    }
    loop_of.push_back(loop);
  }
  for (const ValueId written : fused.writes) {
    if (graph.values[written.index].elements == elements) ++passes;
  }
  return passes;
}

/// Of a row kept in registers one warp, of a longer one a warp for 128 elements, 2 to 8. Sources:
/// kernels over 512 and 1024 values of PyTorch 2.11 in traces/recordings have blocks of 32 threads
/// (2.1 gave them 2 to 8 warps, too); PyTorch 2.1, torch/_inductor/triton_heuristics.py,
/// triton_config_reduction.
int joined_row_threads(std::int64_t cols, std::int64_t longest_kept) {
  if (cols <= longest_kept) return 32;
  int warps = 2;
  while (warps < 8 && warps * 128 < cols) warps *= 2;
  return 32 * warps;
}

Kernel make_kernel(const FusionGraph& graph, const FusedKernel& fused, Pass pass,
                   const GraphCompiler& compiler) {
  const Node* main = &graph.nodes[fused.nodes.front().index];
  Kernel kernel;
  kernel.kernel_class = main->kernel_class;
  double operations = 0;
  for (const NodeId id : fused.nodes) {
    const Node& node = graph.nodes[id.index];
    operations += node.operations_per_element * node.elements;
    if (node.kind == NodeKind::Reduce && main->kind != NodeKind::Reduce) main = &node;
    if (rank(node.kernel_class) > rank(kernel.kernel_class)) {
      kernel.kernel_class = node.kernel_class;
    }
  }
  const bool reduces = main->kind == NodeKind::Reduce;
  kernel.name = fused.pieces == 1 ? main->name : reduces ? "reduce_fusion" : "loop_fusion";
  kernel.pass = pass;
  kernel.data = main->data;
  kernel.flops = Flops(operations);
  kernel.read = sum(fused.reads);
  for (const ValueId written : fused.writes) kernel.written += graph.values[written.index].bytes;
  if (reduces) {
    const double rows = static_cast<double>(std::max<std::int64_t>(main->rows, 1));
    kernel.work = ReductionWork{.rows = main->rows,
                                .cols = static_cast<std::int64_t>(main->elements / rows),
                                .passes = 1,
                                .strided = main->strided};
    auto& work = std::get<ReductionWork>(kernel.work);
    if (compiler.joins_rows && !work.strided) {
      work.row_threads = joined_row_threads(work.cols, compiler.longest_kept_row);
      if (work.cols > compiler.longest_kept_row) {
        work.passes = row_passes(graph, fused, main->elements);
      }
    }
  } else {
    kernel.work =
        StreamWork{.elements = main->elements,
                   .operations_per_element = main->elements > 0 ? operations / main->elements : 1};
  }
  return kernel;
}

}  // namespace

std::vector<FusedKernel> plan_fusion(FusionGraph& graph, const GraphCompiler& compiler) {
  return Fusion(graph, compiler).run();
}

LoweredStep fuse(const Context& context, LoweredStep step) {
  FusionGraph graph = build_fusion_graph(context, step);
  const std::vector<FusedKernel> plan = plan_fusion(graph, *context.framework.compiler);
  for (std::uint32_t i = 0; i < step.ops.size(); ++i) {
    std::vector<Candidate>& candidates = step.ops[i].candidates;
    if (!graph.keeps_kernels[i]) {
      candidates.assign(1, {});
    } else if (context.graph.op(step.ops[i].op).kind == OpKind::Dropout &&
               candidates.front().kernels.size() > 1) {
      candidates.front().kernels.resize(1);  // random numbers; the rest fused
    }
  }
  for (const FusedKernel& fused : plan) {
    LoweredOp& lowered = step.ops[graph.nodes[fused.nodes.front().index].entry];
    const Kernel kernel =
        make_kernel(graph, fused, context.graph.op(lowered.op).pass, *context.framework.compiler);
    for (Candidate& candidate : lowered.candidates) candidate.kernels.push_back(kernel);
  }
  return step;
}

NetworkGraph fused_graph(const Context& context, const LoweredStep& step) {
  FusionGraph graph = build_fusion_graph(context, step);
  std::vector<Op> ops(context.graph.ops().begin(), context.graph.ops().end());
  for (Op& op : ops) {
    op.inputs.clear();
    op.outputs.clear();
    if (auto* elementwise = std::get_if<ElementwiseAttributes>(&op.attributes)) {
      elementwise->in_place = false;
    }
  }
  const auto add = [&](std::vector<TensorId>& tensors, ValueId value) {
    const auto tensor = graph.values[value.index].tensor;
    if (tensor && std::find(tensors.begin(), tensors.end(), *tensor) == tensors.end()) {
      tensors.push_back(*tensor);
    }
  };
  const std::vector<FusedKernel> plan = plan_fusion(graph, *context.framework.compiler);
  for (const Node& node : graph.nodes) {
    if (node.kind != NodeKind::Library) continue;
    Op& op = ops[step.ops[node.entry].op.index];
    for (const ValueRead& read : node.reads) add(op.inputs, read.value);
    for (const ValueId written : node.writes) add(op.outputs, written);
  }
  for (const FusedKernel& fused : plan) {
    Op& op = ops[step.ops[graph.nodes[fused.nodes.front().index].entry].op.index];
    for (const ValueId written : fused.writes) add(op.outputs, written);
    for (const ValueRead& read : fused.reads) add(op.inputs, read.value);
  }
  NetworkGraph result;
  result.name = context.graph.name;
  result.batch = context.graph.batch;
  result.outputs = context.graph.outputs;
  result.reserve(context.graph.tensors().size(), ops.size());
  for (const Tensor& tensor : context.graph.tensors()) result.add_tensor(tensor);
  for (Op& op : ops) {
    // Kernels of one op hand results to each other.
    std::erase_if(op.inputs, [&](TensorId input) {
      return std::find(op.outputs.begin(), op.outputs.end(), input) != op.outputs.end();
    });
    result.add_op(std::move(op));
  }
  return result;
}

}  // namespace tracecast::lowering
