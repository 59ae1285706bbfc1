#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "models/lowering/kernels.hpp"
#include "models/lowering/layers.hpp"

namespace tracecast::lowering {
namespace {

/// Values of a head that one block of the kernels that pass states on takes. Source:
/// flash-linear-attention, fla/ops/common/chunk_delta_h.py (BV 64 at most); mamba,
/// ssd_state_passing.py (BLOCK_SIZE).
constexpr double kDeltaBlock = 64, kStateBlock = 256;

double whole(std::int64_t n) { return static_cast<double>(n); }

/// Kernels of one scan, in launch order.
class Scan {
 public:
  Scan(const Context& context, const Op& op)
      : a_(std::get<ScanAttributes>(op.attributes)),
        formats_(context.formats),
        pass_(op.pass),
        chunk_(std::clamp<std::int64_t>(a_.chunk, 1, a_.tokens)),
        chunks_((a_.tokens + chunk_ - 1) / chunk_),
        element_(element_size(context.formats.storage)) {}

  std::vector<Kernel> state_space() && {
    chunk_states();
    pass_states("state_passing");
    group_scores("bmm_chunk");
    if (pass_ == Pass::Forward) {
      // Within the chunk (half of it is in the future) and from the state before it, in one kernel.
      gemm("chunk_scan", tiles(), chunk_, a_.value_width, a_.key_width + half(chunk_),
           scores_bytes() + states_bytes(), values_bytes());
      return std::move(kernels_);
    }
    gemm("scan_dstates", tiles(), a_.value_width, a_.key_width, chunk_, values_bytes(),
         states_bytes());
    pass_states("passing_bwd");
    gemm("scan_dx", tiles(), chunk_, a_.value_width, a_.key_width + half(chunk_),
         values_bytes() + states_bytes(), values_bytes());
    gemm("state_db", tiles(), chunk_, a_.key_width, a_.value_width, values_bytes() + states_bytes(),
         keys_bytes());
    gemm("scan_dc", tiles(), chunk_, a_.key_width, a_.value_width, values_bytes() + states_bytes(),
         keys_bytes());
    gemm("scan_dcb", tiles(), chunk_, half(chunk_), a_.value_width, values_bytes() * 2.0,
         scores_bytes());
    for (int i = 0; i < 2; ++i) {
      gemm("bmm_bwd", a_.batch * chunks_ * a_.groups, chunk_, a_.key_width, chunk_,
           scores_bytes() + keys_bytes(), keys_bytes());
    }
    return std::move(kernels_);
  }

  std::vector<Kernel> gated_delta() && {
    const std::int64_t k = a_.key_width, v = a_.value_width;
    // The triangular system of each chunk: k k^T, its inverse, then both right sides.
    gemm("scaled_kkt", tiles(), chunk_, chunk_, k, keys_bytes(), head_scores_bytes());
    kernels_.push_back(stream_kernel(
        "solve_tril", KernelClass::Other, pass_, Precision::Fp32, head_scores_bytes(),
        head_scores_bytes(), whole(tiles()) * whole(chunk_) * whole(chunk_), whole(chunk_) / 3));
    gemm("recompute_w_u", tiles(), chunk_, k + v, chunk_,
         head_scores_bytes() + values_bytes() + keys_bytes(), values_bytes() + wide_keys_bytes());
    chain("delta_states", 2);
    if (pass_ == Pass::Forward) {
      gemm("scores", tiles(), chunk_, chunk_, k, keys_bytes() * 2.0, Bytes(0));
      gemm("outputs", tiles(), chunk_, v, k + chunk_,
           keys_bytes() + states_bytes() + values_bytes(), values_bytes());
      return std::move(kernels_);
    }
    gemm("dv_local", tiles(), chunk_, v, k + chunk_, keys_bytes() * 2.0 + values_bytes(),
         values_bytes());
    chain("delta_dstates", 3);
    // dq, dk and dw each from states and from the chunk, ds from values; then both right sides
    // back.
    gemm("dqkwg", tiles(), chunk_, k, 3 * v + 2 * chunk_,
         states_bytes() * 2.0 + values_bytes() * 2.0 + keys_bytes() * 2.0, wide_keys_bytes() * 3.0);
    gemm("ds", tiles(), chunk_, chunk_, v + k, values_bytes() * 2.0, Bytes(0));
    gemm("wy_bwd", tiles(), chunk_, k + v, 2 * chunk_,
         wide_keys_bytes() * 2.0 + values_bytes() * 2.0, wide_keys_bytes() + values_bytes());
    gemm("dA", tiles(), chunk_, chunk_, k + v + 2 * chunk_, head_scores_bytes(), wide_keys_bytes());
    return std::move(kernels_);
  }

  /// States of single channels: no matrices. One kernel goes through the tokens, every state's
  /// element by itself; the backward pass makes the states again. Source: mamba,
  /// csrc/selective_scan (selective_scan_fwd_kernel.cuh, _bwd_).
  std::vector<Kernel> selective() && {
    constexpr double kOperations = 6;  // an exponential, two GEMMs, two sums, the GEMM with C
    const bool goes_back = pass_ != Pass::Forward;
    const double elements = tokens() * whole(a_.heads * a_.key_width);
    const double times = goes_back ? 2.0 : 1.0;
    // Values, steps and, going back, the result's gradient; B and C.
    kernels_.push_back(stream_kernel("selective_scan", KernelClass::Other, pass_, Precision::Fp32,
                                     values_bytes() * (1.0 + times) + keys_bytes() * 2.0,
                                     values_bytes() * times, elements,
                                     kOperations * (goes_back ? 3.0 : 1.0)));
    return std::move(kernels_);
  }

  /// One token: states are read, changed and written in place.
  std::vector<Kernel> one_token() && {
    const double states = whole(a_.batch * a_.heads) * whole(a_.key_width * a_.value_width);
    kernels_.push_back(stream_kernel("state_update", KernelClass::Other, pass_, Precision::Fp32,
                                     Bytes(4 * states) + values_bytes() + keys_bytes() * 2.0,
                                     Bytes(4 * states) + values_bytes(), states, 6));
    return std::move(kernels_);
  }

 private:
  static std::int64_t half(std::int64_t n) { return std::max<std::int64_t>(1, n / 2); }
  [[nodiscard]] std::int64_t tiles() const { return a_.batch * chunks_ * a_.heads; }
  [[nodiscard]] double tokens() const { return whole(a_.batch * a_.tokens); }
  [[nodiscard]] Bytes values_bytes() const {
    return element_ * (tokens() * whole(a_.heads * a_.value_width));
  }
  [[nodiscard]] Bytes keys_bytes() const {
    return element_ * (tokens() * whole(a_.groups * a_.key_width));
  }
  [[nodiscard]] Bytes wide_keys_bytes() const {
    return element_ * (tokens() * whole(a_.heads * a_.key_width));
  }
  [[nodiscard]] Bytes states_bytes() const {
    return Bytes(4.0 * whole(tiles()) * whole(a_.key_width * a_.value_width));
  }
  [[nodiscard]] Bytes scores_bytes() const {
    return Bytes(4.0 * tokens() * whole(a_.groups * chunk_));
  }
  [[nodiscard]] Bytes head_scores_bytes() const {
    return Bytes(4.0 * tokens() * whole(a_.heads * chunk_));
  }

  void gemm(std::string_view name, std::int64_t batch, std::int64_t m, std::int64_t n,
            std::int64_t k, Bytes read, Bytes written) {
    Kernel kernel = matrix_kernel(name, KernelClass::BatchedGemm, pass_, formats_,
                                  {.batch = batch, .m = m, .n = n, .k = k});
    kernel.read = read;
    kernel.written = written;
    kernels_.push_back(std::move(kernel));
  }
  void chunk_states() {
    gemm("chunk_state", tiles(), a_.value_width, a_.key_width, chunk_,
         values_bytes() + keys_bytes(), states_bytes());
  }
  void group_scores(std::string_view name) {
    gemm(name, a_.batch * chunks_ * a_.groups, chunk_, chunk_, a_.key_width, keys_bytes() * 2.0,
         scores_bytes());
  }
  /// States of chunks added up in order, element by element.
  void pass_states(std::string_view name) {
    const double states = whole(a_.batch * a_.heads) * whole(a_.key_width * a_.value_width);
    add_chain(name, {.chains = std::max(1.0, states / kStateBlock), .steps = whole(chunks_)},
              states_bytes(), states_bytes());
  }
  /// A state per head and block of values goes through all chunks, `gemms` of chunk x key width x
  /// block in each.
  void chain(std::string_view name, double gemms) {
    const double block = std::min(kDeltaBlock, whole(a_.value_width));
    const double flops = 2 * gemms * whole(chunk_) * whole(a_.key_width) * block;
    const double blocks = std::max(1.0, whole(a_.value_width) / block);
    add_chain(name,
              {.chains = whole(a_.batch * a_.heads) * blocks,
               .steps = whole(chunks_),
               .flops_per_step = flops},
              wide_keys_bytes() * 2.0 + values_bytes(), states_bytes() + values_bytes());
  }
  void add_chain(std::string_view name, const ChainWork& work, Bytes read, Bytes written) {
    Kernel kernel;
    kernel.name = name;
    kernel.kernel_class = KernelClass::Other;
    kernel.pass = pass_;
    kernel.data = formats_.storage;
    kernel.math = formats_.math;
    kernel.unit = formats_.unit;
    kernel.flops = Flops(work.chains * work.steps * work.flops_per_step);
    kernel.read = read;
    kernel.written = written;
    kernel.work = work;
    kernels_.push_back(std::move(kernel));
  }

  ScanAttributes a_;
  Formats formats_;
  Pass pass_;
  std::int64_t chunk_, chunks_;
  Bytes element_;
  std::vector<Kernel> kernels_;
};

}  // namespace

std::vector<Kernel> lower_scan(const Context& context, const Op& op) {
  const auto& a = std::get<ScanAttributes>(op.attributes);
  Scan scan(context, op);
  if (a.tokens == 1 && op.pass == Pass::Forward) return std::move(scan).one_token();
  if (a.rule == ScanRule::StateSpace && a.value_width == 1) return std::move(scan).selective();
  return a.rule == ScanRule::StateSpace ? std::move(scan).state_space()
                                        : std::move(scan).gated_delta();
}

/// A pass over the row for each of four digits of a score, one that writes the choice. Source:
/// PyTorch 2, aten/src/ATen/native/cuda/TensorTopK.cu, multi-block radix select with digits of 8
/// bits.
std::vector<Kernel> lower_top_keys(const Context& context, const Op& op) {
  constexpr double kPasses = 5;
  const auto& a = std::get<TopKeysAttributes>(op.attributes);
  Kernel kernel = reduction_kernel(
      "top_keys", KernelClass::Reduction, op.pass, context.formats.storage, context.input_bytes(op),
      context.output_bytes(op), {.rows = a.rows, .cols = a.cols, .passes = kPasses});
  return {std::move(kernel)};
}

}  // namespace tracecast::lowering
