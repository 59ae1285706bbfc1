#include "models/lowering/dump.hpp"

#include <iterator>
#include <string_view>

#include <fmt/format.h>

namespace tracecast {
namespace {

using Out = std::back_insert_iterator<std::string>;

struct WorkPrinter {
  Out out;
  void operator()(const StreamWork& w) const {
    fmt::format_to(out, "stream elements={:.0f} operations={:g}", w.elements,
                   w.operations_per_element);
  }
  void operator()(const MatrixWork& w) const {
    fmt::format_to(out, "GEMM batch={} m={} n={} k={} {}{}{}", w.batch, w.m, w.n, w.k,
                   w.transpose_a ? 't' : 'n', w.transpose_b ? 't' : 'n',
                   w.by_early_library ? " early" : "");
  }
  void operator()(const ConvWork& w) const {
    const ConvAttributes& a = w.shape;
    fmt::format_to(out, "conv n={} c={} h={} w={} k={} r={} s={} p={} q={} stride={}x{} groups={}",
                   a.n, a.c, a.h, a.w, a.k, a.r, a.s, a.p, a.q, a.stride_h, a.stride_w, a.groups);
  }
  void operator()(const RecurrentWork& w) const {
    fmt::format_to(out, "recurrent steps={} cells={} m={} n={} k={}{}", w.steps, w.cells, w.gemm.m,
                   w.gemm.n, w.gemm.k, w.persistent ? " persistent" : "");
    if (w.projection > 0) fmt::format_to(out, " projection={}", w.projection);
  }
  void operator()(const AttentionWork& w) const {
    const AttentionAttributes& a = w.shape;
    fmt::format_to(out, "attention batch={} heads={} queries={} keys={} width={} GEMMs={}{}",
                   a.batch, a.heads, a.queries, a.keys, a.width, w.gemms,
                   a.causal ? " causal" : "");
    if (a.value_width > 0) fmt::format_to(out, " value_width={}", a.value_width);
    if (a.window > 0) fmt::format_to(out, " window={}", a.window);
    if (a.chosen > 0) fmt::format_to(out, " chosen={}", a.chosen);
    if (w.by_warps) fmt::format_to(out, " early");
  }
  void operator()(const PrefillWork& w) const {
    fmt::format_to(
        out, "prefill batch={:g} tokens={:g} heads={:g} kv_heads={:g} widths={:g}/{:g} {}", w.batch,
        w.tokens, w.heads, w.kv_heads, w.key_width, w.value_width, to_string(w.format));
    if (w.window > 0) fmt::format_to(out, " window={:g}", w.window);
  }
  void operator()(const DecodeWork& w) const {
    fmt::format_to(out, "decode batch={:g} keys={:g} heads={:g} kv_heads={:g} width={:g}{}",
                   w.batch, w.keys, w.heads, w.kv_heads, w.width, w.fp8_cache ? " fp8_cache" : "");
  }
  void operator()(const ExpertsWork& w) const {
    fmt::format_to(out, "experts tokens={:g} per_token={:g} experts={:g} hidden={:g} width={:g} {}",
                   w.tokens, w.per_token, w.all_experts, w.hidden, w.width, to_string(w.format));
  }
  void operator()(const ChainWork& w) const {
    fmt::format_to(out, "chain chains={:g} steps={:g} flops_per_step={:g}", w.chains, w.steps,
                   w.flops_per_step);
  }
  void operator()(const QuantizationWork& w) const {
    fmt::format_to(out, "quantization rows={:g} cols={:g}", w.rows, w.cols);
  }
  void operator()(const ReductionWork& w) const {
    fmt::format_to(out, "reduction rows={} cols={} passes={:g}{}", w.rows, w.cols, w.passes,
                   w.strided ? " strided" : "");
  }
};

}  // namespace

std::string dump(const LoweredStep& step, const NetworkGraph& graph) {
  std::string text;
  const Out out = std::back_inserter(text);
  for (const LoweredOp& lowered : step.ops) {
    const Op& op = graph.op(lowered.op);
    fmt::format_to(out, "op {} {} {} \"{}\" {}\n", lowered.op.index, to_string(op.kind),
                   to_string(op.pass), op.name,
                   lowered.candidates.size() > 1
                       ? (lowered.policy == ChoicePolicy::Autotuned ? "autotuned" : "heuristic")
                       : "only");
    for (const Candidate& candidate : lowered.candidates) {
      fmt::format_to(out, "  candidate {} kernels={} workspace_mib={:.3f}\n",
                     to_string(candidate.algorithm), candidate.kernels.size(),
                     candidate.workspace.in_mib());
      for (const Kernel& k : candidate.kernels) {
        fmt::format_to(out, "    {} {} {} {} on {} gflop={:.6g} read_mb={:.6g} written_mb={:.6g} ",
                       k.name, to_string(k.kernel_class), to_string(k.pass), to_string(k.math),
                       to_string(k.data), k.flops.in_gflop(), k.read.in_mb(), k.written.in_mb());
        fmt::format_to(out, "{} ", to_string(k.unit));
        std::visit(WorkPrinter{out}, k.work);
        fmt::format_to(out, "{}\n", k.is_bounded_guess ? " guess" : "");
      }
    }
  }
  return text;
}

}  // namespace tracecast
