#include "models/lowering/engine_layers.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "models/lowering/kernels.hpp"

namespace tracecast::lowering {
namespace {

using Index = std::uint32_t;

bool is_gemm(OpKind kind) {
  return kind == OpKind::Linear || kind == OpKind::MatMul || kind == OpKind::Conv ||
         kind == OpKind::ConvTranspose;
}
bool is_elementwise(OpKind kind) {
  return kind == OpKind::Binary || kind == OpKind::Activation || kind == OpKind::Cast ||
         kind == OpKind::Dropout || kind == OpKind::BatchNorm;
}
bool is_lookup(OpKind kind) { return kind == OpKind::Embedding || kind == OpKind::Gather; }
bool is_row_norm(OpKind kind) {
  return kind == OpKind::LayerNorm || kind == OpKind::InstanceNorm || kind == OpKind::GroupNorm ||
         kind == OpKind::Softmax;
}
/// Ops that only say where an element lies.
bool moves(OpKind kind) {
  return kind == OpKind::Transpose || kind == OpKind::Reshape || kind == OpKind::Slice;
}

/// Between two GEMMs of activations: what one kernel computes.
struct AttentionCore {
  Index scores = 0, context = 0;  ///< the GEMMs
  std::vector<Index> members;     ///< all ops, the GEMMs too
  AttentionAttributes shape;
};

class LayerJoiner {
 public:
  LayerJoiner(const Context& context, const PrecisionPlan& plan, const GpuTraits& gpu,
              LoweredStep& step)
      : context_(context), plan_(plan), gpu_(gpu), step_(step) {
    const auto ops = context.graph.ops();
    into_.resize(ops.size());
    for (Index i = 0; i < ops.size(); ++i) into_[i] = i;
    at_.resize(ops.size());
    for (Index i = 0; i < step.ops.size(); ++i) at_[step.ops[i].op.index] = i;
    had_kernels_.resize(ops.size());
    for (Index i = 0; i < ops.size(); ++i) had_kernels_[i] = !has_no_kernels(i);
    readers_.resize(context.graph.tensors().size());
    for (Index i = 0; i < ops.size(); ++i) {
      for (const TensorId input : ops[i].inputs) {
        auto& readers = readers_[input.index];
        if (readers.empty() || readers.back() != i) readers.push_back(i);
      }
    }
    is_result_.resize(readers_.size());
    for (const TensorId output : context.graph.outputs) is_result_[output.index] = true;
  }

  void join() {
    const auto ops = context_.graph.ops();
    for (Index i = 0; i < ops.size(); ++i) {
      if (ops[i].kind == OpKind::Softmax) find_core(i);
    }
    for (const AttentionCore& core : cores_) join_core(core);
    join_siblings();
    for (Index i = 0; i < ops.size(); ++i) {
      if (into_[i] != i) continue;
      if (ops[i].kind == OpKind::Concat) {
        spare_copies(i);
      } else if (has_no_kernels(i)) {
        follow_producer(i);
      } else if (is_elementwise(ops[i].kind) && feeds_norm(i) && joins_two(i)) {
        take_in_lookups(i, i);
      } else if (is_elementwise(ops[i].kind)) {
        join_epilogue(i);
      } else if (is_row_norm(ops[i].kind)) {
        take_in_sum(i);
      }
    }
    rewrite();
  }

 private:
  [[nodiscard]] const Op& op(Index i) const { return context_.graph.op(OpId{i}); }
  [[nodiscard]] bool streams(TensorId id) const {
    const TensorRole role = context_.graph.tensor(id).role;
    return role == TensorRole::Activation || role == TensorRole::Input;
  }
  [[nodiscard]] std::optional<Index> producer(TensorId id) const {
    const auto found = context_.graph.producer(id);
    return found ? std::optional(found->index) : std::nullopt;
  }
  [[nodiscard]] Index root(Index i) const {
    while (into_[i] != i) i = into_[i];
    return i;
  }
  [[nodiscard]] std::vector<Kernel>* kernels_of(Index i) {
    if (!at_[i]) return nullptr;
    return &step_.ops[*at_[i]].candidates.front().kernels;
  }
  [[nodiscard]] bool has_no_kernels(Index i) {
    const auto* kernels = kernels_of(i);
    return kernels == nullptr || kernels->empty();
  }
  [[nodiscard]] bool has_one_reader(TensorId id) const {
    return readers_[id.index].size() == 1 && !is_result_[id.index];
  }
  [[nodiscard]] Bytes bytes(TensorId id) const {
    const Tensor& tensor = context_.graph.tensor(id);
    if (tensor.is_integer) return Bytes(tensor.integer_bytes) * context_.elements(id);
    if (is_wide_sum(id)) return element_size(Precision::Fp32) * context_.elements(id);
    return element_size(plan_.kept[id.index]) * context_.elements(id);
  }

  /// Sums of an 8-bit GEMM that its kernel leaves as they are.
  [[nodiscard]] bool is_wide_sum(TensorId id) const {
    if (!context_.framework.precision.keeps_int8_sums) return false;
    const auto made_by = producer(id);
    return made_by && op(*made_by).kind == OpKind::Linear &&
           plan_.formats(OpId{*made_by}).math == Precision::Int8;
  }

  // Attention.

  /// The op that makes what `from` reads in its place `input`, where nothing else reads it.
  [[nodiscard]] std::optional<Index> sole_producer(TensorId id) const {
    if (!has_one_reader(id)) return std::nullopt;
    return producer(id);
  }
  [[nodiscard]] bool multiplies_activations(Index i) const {
    const Op& gemm = op(i);
    return gemm.kind == OpKind::MatMul && gemm.inputs.size() == 2 && streams(gemm.inputs[0]) &&
           streams(gemm.inputs[1]);
  }

  void find_core(Index softmax) {
    AttentionCore core;
    core.members = {softmax};
    TensorId id = op(softmax).inputs.front();
    const double scores = context_.elements(id);
    while (true) {
      const auto before = sole_producer(id);
      if (!before) return;
      core.members.push_back(*before);
      if (multiplies_activations(*before)) {
        core.scores = *before;
        break;
      }
      const OpKind kind = op(*before).kind;
      if (!is_elementwise(kind) && kind != OpKind::Reshape) return;
      const auto& inputs = op(*before).inputs;
      const auto whole = std::find_if(inputs.begin(), inputs.end(), [&](TensorId input) {
        return context_.elements(input) == scores && sole_producer(input);
      });
      if (whole == inputs.end()) return;
      id = *whole;
    }
    id = op(softmax).outputs.front();
    while (true) {
      if (!has_one_reader(id)) return;
      const Index next = readers_[id.index].front();
      core.members.push_back(next);
      if (multiplies_activations(next)) {
        if (op(next).inputs.front() != id) return;
        core.context = next;
        break;
      }
      const OpKind kind = op(next).kind;
      if (!is_elementwise(kind) && kind != OpKind::Reshape) return;
      id = op(next).outputs.front();
    }
    describe(core);
    for (const TensorId input : op(core.scores).inputs) take_moves_before(core, input);
    take_moves_before(core, op(core.context).inputs[1]);
    take_moves_after(core);
    cores_.push_back(std::move(core));
  }

  void describe(AttentionCore& core) const {
    const auto& first = std::get<MatMulAttributes>(op(core.scores).attributes);
    const auto& second = std::get<MatMulAttributes>(op(core.context).attributes);
    const Shape& shape = context_.graph.tensor(op(core.scores).outputs.front()).shape;
    AttentionAttributes& a = core.shape;
    a.heads = shape.size() == 4 && shape[1] > 0 && first.batch % shape[1] == 0 ? shape[1] : 1;
    a.batch = first.batch / a.heads;
    a.kv_heads = a.heads;
    a.queries = first.m;
    a.keys = first.n;
    a.width = first.k;
    a.value_width = second.n;
  }

  void take_moves_before(AttentionCore& core, TensorId id) const {
    while (true) {
      const auto before = sole_producer(id);
      if (!before) return;
      const Op& move = op(*before);
      const bool scales = is_elementwise(move.kind) && count_whole_inputs(move) == 1;
      if (!moves(move.kind) && !scales) return;
      core.members.push_back(*before);
      id = move.inputs.front();
    }
  }
  void take_moves_after(AttentionCore& core) const {
    TensorId id = op(core.context).outputs.front();
    while (has_one_reader(id)) {
      const Index next = readers_[id.index].front();
      if (op(next).kind != OpKind::Transpose && op(next).kind != OpKind::Reshape) return;
      core.members.push_back(next);
      id = op(next).outputs.front();
    }
  }
  [[nodiscard]] int count_whole_inputs(const Op& combined) const {
    const double all = context_.elements(combined.outputs.front());
    int count = 0;
    for (const TensorId input : combined.inputs) {
      if (streams(input) && context_.elements(input) == all) ++count;
    }
    return count;
  }

  /// Kernels of 16 and 8 bits alone, none for Volta.
  [[nodiscard]] bool has_fused_kernel(const AttentionCore& core) const {
    const Formats& formats = plan_.formats(OpId{core.context});
    return formats.unit == MathUnit::TensorCore &&
           element_size(formats.storage) < element_size(Precision::Fp32) &&
           gpu_.architecture() >= Architecture::Turing;
  }

  void join_core(const AttentionCore& core) {
    if (has_fused_kernel(core)) {
      for (const Index member : core.members) {
        if (member != core.context) into_[member] = core.context;
      }
      std::vector<Kernel>& kernels = *kernels_of(core.context);
      Kernel kernel;
      kernel.name = "attention";
      kernel.kernel_class = KernelClass::Attention;
      kernel.pass = Pass::Forward;
      const Formats& formats = plan_.formats(OpId{core.context});
      kernel.data = formats.storage;
      kernel.math = formats.math;
      kernel.unit = formats.unit;
      if (plan_.low_precision.math == Precision::Fp8) kernel.math = kernel.data = Precision::Fp8;
      const AttentionWork work{.shape = core.shape, .gemms = 2};
      kernel.flops = Flops(work.gemms * core.shape.macs());
      kernel.work = work;
      kernels = {std::move(kernel)};
      return;
    }
    // Strided GEMMs read and write heads as they lie.
    for (const Index member : core.members) {
      if (!moves(op(member).kind) || into_[member] != member) continue;
      const bool is_before = member < core.context;
      into_[member] = is_before ? gemm_behind(member) : core.context;
    }
  }
  [[nodiscard]] Index gemm_behind(Index move) const {
    Index next = move;
    do {
      next = readers_[op(next).outputs.front().index].front();
    } while (op(next).kind != OpKind::MatMul);
    return next;
  }

  // GEMMs over the same input.

  void join_siblings() {
    const auto ops = context_.graph.ops();
    for (Index i = 0; i < ops.size(); ++i) {
      if (ops[i].kind != OpKind::Linear || into_[i] != i || has_no_kernels(i)) continue;
      Kernel& kernel = kernels_of(i)->back();
      auto* work = std::get_if<MatrixWork>(&kernel.work);
      if (work == nullptr || work->batch != 1) continue;
      for (const Index other : readers_[ops[i].inputs.front().index]) {
        if (other <= i || ops[other].kind != OpKind::Linear || into_[other] != other ||
            ops[other].inputs.front() != ops[i].inputs.front() || has_no_kernels(other) ||
            plan_.is_wide[other] != plan_.is_wide[i]) {
          continue;
        }
        const Kernel& sibling = kernels_of(other)->back();
        const auto* its = std::get_if<MatrixWork>(&sibling.work);
        if (its == nullptr || its->m != work->m || its->k != work->k || its->batch != 1) continue;
        work->n += its->n;
        kernel.flops += sibling.flops;
        into_[other] = i;
      }
    }
  }

  // Chains of elementwise ops.

  void follow_producer(Index i) {
    std::optional<Index> latest;
    for (const TensorId input : op(i).inputs) {
      const auto before = producer(input);
      if (!before || has_no_kernels(root(*before))) continue;
      if (!latest || root(*before) > *latest) latest = root(*before);
    }
    if (latest) into_[i] = *latest;
  }

  /// What nothing else reads is written to its place in the whole by its own kernel.
  void spare_copies(Index i) {
    if (has_no_kernels(i)) return;
    Bytes copied{};
    double elements = 0;
    for (const TensorId input : op(i).inputs) {
      if (has_one_reader(input) && producer(input)) continue;
      copied += bytes(input);
      elements += context_.elements(input);
    }
    std::vector<Kernel>& kernels = *kernels_of(i);
    if (elements == 0) return kernels.clear();
    Kernel& copy = kernels.back();
    copy.read = copy.written = copied;
    copy.flops = Flops(elements);
    if (auto* stream = std::get_if<StreamWork>(&copy.work)) stream->elements = elements;
  }

  [[nodiscard]] bool joins_two(Index i) const {
    return op(i).kind == OpKind::Binary && count_whole_inputs(op(i)) > 1;
  }
  [[nodiscard]] bool feeds_norm(Index i) { return reads_as_norm(op(i).outputs.front()); }
  [[nodiscard]] bool reads_as_norm(TensorId id) {
    for (const Index reader : readers_[id.index]) {
      if (is_row_norm(op(reader).kind) && into_[reader] == reader) return true;
      const bool passes = has_no_kernels(reader) && op(reader).outputs.size() == 1;
      if (passes && reads_as_norm(op(reader).outputs.front())) return true;
    }
    return false;
  }

  void join_epilogue(Index i) {
    const Op& here = op(i);
    if (here.outputs.size() != 1) return;
    std::optional<Index> latest;
    bool is_alone = false;
    for (const TensorId input : here.inputs) {
      const auto before = producer(input);
      if (!before || is_small_lookup(input, here)) continue;
      const Index at = root(*before);
      if (latest && at < *latest) continue;
      latest = at;
      is_alone = has_one_reader(input) &&
                 context_.elements(input) == context_.elements(here.outputs.front());
    }
    if (!latest || !is_alone || has_no_kernels(*latest)) return take_in_lookups(i, i);
    const OpKind kind = op(*latest).kind;
    if ((is_gemm(kind) && context_.framework.fusion.bias) || is_elementwise(kind) ||
        is_lookup(kind) || is_row_norm(kind) || kind == OpKind::Attention) {
      into_[i] = *latest;
    }
    if (is_lookup(kind)) take_in_lookups(i, *latest);
  }

  /// Rows that are added to each sample of a batch.
  [[nodiscard]] bool is_small_lookup(TensorId input, const Op& sum) const {
    const auto before = sole_producer(input);
    return before && is_lookup(op(*before).kind) &&
           context_.elements(input) < context_.elements(sum.outputs.front());
  }

  /// Rows of tables that nothing else reads are looked up in the kernel that adds them.
  void take_in_lookups(Index i, Index kernel_root) {
    for (const TensorId input : op(i).inputs) {
      const auto before = sole_producer(input);
      if (before && *before != kernel_root && is_lookup(op(*before).kind) &&
          into_[*before] == *before &&
          context_.elements(input) <= context_.elements(op(i).outputs.front())) {
        into_[*before] = kernel_root;
      }
    }
  }

  /// The chain that makes a norm's input joins the norm where nothing reads it before.
  void take_in_sum(Index norm) {
    const TensorId x = op(norm).inputs.front();
    const auto before = producer(x);
    if (!before) return;
    const Index chain = root(*before);
    if (!is_elementwise(op(chain).kind) && !is_lookup(op(chain).kind)) return;
    if (has_no_kernels(chain) || context_.elements(x) != context_.output_elements(op(chain)))
      return;
    for (const Index reader : readers_[x.index]) {
      if (reader < norm) return;
    }
    into_[chain] = norm;
  }

  // Kernels.

  /// What one op reads that the ops of its kernel do not make.
  [[nodiscard]] Bytes outside_reads(Index i, Index kernel_root,
                                    std::vector<TensorId>& counted) const {
    Bytes total{};
    for (const TensorId input : op(i).inputs) {
      const auto before = producer(input);
      if (before && root(*before) == kernel_root) continue;
      if (std::find(counted.begin(), counted.end(), input) != counted.end()) continue;
      const bool takes_part = op(i).kind == OpKind::Slice || is_lookup(op(i).kind);
      if (takes_part) {
        // Rows of a table, a part of a tensor: as much as comes out; ids besides.
        const bool is_ids = context_.graph.tensor(input).is_integer;
        total += is_ids ? bytes(input) : bytes(op(i).outputs.front());
        continue;
      }
      counted.push_back(input);
      total += bytes(input);
    }
    return total;
  }
  [[nodiscard]] Bytes outside_writes(Index i, Index kernel_root) const {
    Bytes total{};
    for (const TensorId output : op(i).outputs) {
      // A view's bytes are those of what it shows.
      if (op(i).kind == OpKind::Reshape && i != kernel_root &&
          leaves(op(i).inputs.front(), kernel_root))
        continue;
      if (leaves(output, kernel_root)) total += bytes(output);
    }
    return total;
  }
  [[nodiscard]] bool leaves(TensorId id, Index kernel_root) const {
    const auto& readers = readers_[id.index];
    return is_result_[id.index] || std::any_of(readers.begin(), readers.end(),
                                               [&](Index r) { return root(r) != kernel_root; });
  }

  void rewrite() {
    const auto ops = context_.graph.ops();
    std::vector<std::vector<Index>> members(ops.size());
    for (Index i = 0; i < ops.size(); ++i) members[root(i)].push_back(i);
    for (Index i = 0; i < ops.size(); ++i) {
      if (!at_[i]) continue;
      LoweredOp& lowered = step_.ops[*at_[i]];
      if (into_[i] != i) {
        lowered.candidates.assign(1, {});
        continue;
      }
      const bool sums = context_.framework.precision.keeps_int8_sums && is_gemm(ops[i].kind);
      if (members[i].size() > 1 || is_row_norm(ops[i].kind) || sums)
        rewrite(lowered, i, members[i]);
      if (hands_bias_on(i)) lowered.candidates.front().kernels.pop_back();
      for (Candidate& candidate : lowered.candidates) {
        std::erase_if(candidate.kernels, [](const Kernel& k) { return k.name == "operand_cast"; });
        for (Kernel& kernel : candidate.kernels) {
          kernel.is_chained = true;
          if (kernel.kernel_class == KernelClass::Pooling) take_words(kernel);
        }
      }
    }
  }

  /// Without epilogues the bias of a GEMM is added by the elementwise op or the norm that reads its
  /// result.
  [[nodiscard]] bool hands_bias_on(Index i) {
    if (op(i).kind != OpKind::Linear || kernels_of(i)->size() < 2) return false;
    if (kernels_of(i)->back().name != "bias_add") return false;
    const TensorId y = op(i).outputs.front();
    if (!has_one_reader(y)) return false;
    const OpKind reader = op(root(readers_[y.index].front())).kind;
    return is_elementwise(reader) || is_row_norm(reader);
  }

  /// A warp keeps a row of up to 1024 values in registers, so that it is read once. Source:
  /// NVIDIA/TensorRT, plugin/skipLayerNormPlugin (rows in vectors of 16 bytes).
  static void keep_row(ReductionWork& rows) {
    constexpr std::int64_t kLongest = 1024;
    constexpr int kWarp = 32;
    if (rows.cols > kLongest) return;
    rows.passes = 2;
    rows.row_threads = kWarp;
  }

  /// A thread pools the channels of 32 bits at once. Source: cuDNN and TensorRT, vectorised
  /// formats (NCHW_VECT_C, CHW32), __hmax2 and the SIMD video instructions.
  static void take_words(Kernel& kernel) {
    if (auto* stream = std::get_if<StreamWork>(&kernel.work)) {
      stream->elements *= element_size(kernel.data) / element_size(Precision::Fp32);
    }
  }

  void rewrite(LoweredOp& lowered, Index at, const std::vector<Index>& members) const {
    std::vector<TensorId> counted;
    Bytes read{}, written{}, own{};
    double operations = 0;
    own = outside_reads(at, at, counted);
    for (const Index member : members) {
      const bool counts = had_kernels_[member] || op(member).kind == OpKind::Reshape;
      if (member != at && counts) read += outside_reads(member, at, counted);
      written += outside_writes(member, at);
      if (member != at && is_elementwise(op(member).kind)) {
        operations += context_.output_elements(op(member));
      }
    }
    for (Candidate& candidate : lowered.candidates) {
      if (candidate.kernels.empty()) continue;
      Kernel& kernel = candidate.kernels.back();
      if (kernel.name == "bias_add") continue;
      if (std::holds_alternative<ConvWork>(kernel.work)) {
        // Padded operands are the convolution's business.
        kernel.read += read;
      } else {
        kernel.read = own + read;
        kernel.written = written;
      }
      if (auto* rows = std::get_if<ReductionWork>(&kernel.work); rows && !rows->strided) {
        keep_row(*rows);
      }
      if (auto* stream = std::get_if<StreamWork>(&kernel.work); stream && stream->elements > 0) {
        stream->operations_per_element += operations / stream->elements;
      }
    }
  }

  const Context& context_;
  const PrecisionPlan& plan_;
  const GpuTraits& gpu_;
  LoweredStep& step_;
  std::vector<Index> into_;                  ///< by op: that in whose kernel it runs, or itself
  std::vector<std::optional<Index>> at_;     ///< by op: its place in the step
  std::vector<std::vector<Index>> readers_;  ///< by tensor
  std::vector<bool> is_result_;              ///< by tensor
  std::vector<bool> had_kernels_;            ///< by op: lowering alone did not join it to another
  std::vector<AttentionCore> cores_;
};

}  // namespace

void join_layers(const Context& context, const PrecisionPlan& plan, const GpuTraits& gpu,
                 LoweredStep& step) {
  LayerJoiner(context, plan, gpu, step).join();
}

}  // namespace tracecast::lowering
