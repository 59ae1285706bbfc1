#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hwspecs/attention_parameters.hpp"
#include "hwspecs/expert_parameters.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "models/expert_load.hpp"
#include "models/graph.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// What a GPU kernel does; the classes of every report.
enum class KernelClass {
  Convolution,
  Gemm,
  BatchedGemm,
  GroupedGemm,  ///< of experts: as many GEMMs as there are experts, of unequal rows
  Attention,    ///< softmax(Q K^T) V in one kernel
  Pooling,
  Normalization,
  Elementwise,
  Softmax,
  Reduction,
  Transpose,
  Embedding,
  Recurrent,  ///< the steps of recurrent layers; their input GEMMs are Gemm
  Optimizer,
  Copy,
  Memset,
  Collective,
  Other,
};
inline constexpr std::size_t kKernelClassCount = 18;
/// How a convolution or GEMM is computed. Names follow cuDNN's algorithms.
enum class Algorithm {
  None,
  ImplicitGemm,             ///< indices computed on the fly
  ImplicitPrecomputedGemm,  ///< indices from a small table in workspace
  ExplicitGemm,             ///< im2col into workspace, then GEMM
  Direct,                   ///< depthwise and tiny convolutions
  Fft,
  FftTiling,
  WinogradFused,     ///< one kernel, F(2x2,3x3)
  WinogradNonfused,  ///< transforms and batched GEMM, F(4x4,3x3)
  StepByStep,        ///< recurrent: a GEMM and an elementwise kernel per step
  Persistent,        ///< recurrent: one kernel for all steps, weights kept in registers
};
inline constexpr std::size_t kAlgorithmCount = 11;
[[nodiscard]] std::string_view to_string(KernelClass kernel_class);
[[nodiscard]] std::string_view to_string(Algorithm algorithm);

/// What weights are kept in where it is not what GEMMs read.
enum class WeightFormat {
  AsOperands,
  Blocks,  ///< 8-bit floats with a scale per block of values, on both sides
  Int8,    ///< widened to 16 bits on the way
  Int4,    ///< the same
};
/// C[b, m, n] += A[b, m, k] B[b, k, n], on the tiles of a matrix library.
struct MatrixWork {
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  bool transpose_a = false, transpose_b = false;
  WeightFormat weights = WeightFormat::AsOperands;
  bool by_cublas_lt = false;  ///< which adds the bias in the epilogue and picks tiles of its own
  bool by_early_library = false;  ///< FrameworkKernels::early_gemms
  friend bool operator==(const MatrixWork&, const MatrixWork&) = default;
};
/// A convolution as one kernel on the tiles of the convolution library; `pass` of the kernel says
/// which of the three GEMMs it is.
struct ConvWork {
  ConvAttributes shape;
  double cudnn_version = 99;  ///< of the library whose kernel it is, major.minor; 99 = the newest
  friend bool operator==(const ConvWork&, const ConvWork&) = default;
};
/// Whether a depthwise convolution runs in a kernel of cuDNN's rather than of the framework's.
[[nodiscard]] inline bool is_library_depthwise(const ConvAttributes& shape, double cudnn_version) {
  constexpr double kFirst = 8.2;
  return shape.channels_last && cudnn_version >= kFirst;
}
/// Work that streams through memory once: elementwise, copies, transforms, pooling, updates.
struct StreamWork {
  double elements = 0;                ///< output elements, one thread each
  double operations_per_element = 1;  ///< arithmetic instructions
  double access_efficiency = 1;  ///< share of each memory transaction that is used; 1 = coalesced
  /// Instructions of any kind besides arithmetic and what every kernel spends: addresses from
  /// strides, loops, branches.
  double instructions_per_element = 0;
  /// Atomic additions to what is written, by all threads; neighbours among them add to neighbours
  /// there.
  double additions = 0;
  friend bool operator==(const StreamWork&, const StreamWork&) = default;
};
/// `rows` independent reductions over `cols` elements, the data read `passes` times in all (writes
/// included).
struct ReductionWork {
  std::int64_t rows = 1, cols = 1;
  double passes = 1;
  /// Rows are strided through memory (batch norm over NCHW: channels), not contiguous (softmax,
  /// layer norm).
  bool strided = false;
  /// Threads that share a contiguous row: 32 = a warp that keeps it in registers, several rows to a
  /// block; fewer: to a warp.
  int row_threads = 128;
  int block_threads = 1024;  ///< of the block that has a strided row
  /// Each thread of that block waits for one element before it loads the next.
  bool element_by_element = false;
  friend bool operator==(const ReductionWork&, const ReductionWork&) = default;
};
/// Steps of recurrent layers, one after the other. In each step `cells` layers or directions run at
/// the same time, each a product of its state with weights of its own and then one elementwise
/// kernel.
struct RecurrentWork {
  std::int64_t steps = 1, cells = 1;
  MatrixWork gemm;  ///< of one cell and step: m = sequences
  std::int64_t projection =
      0;  ///< width of a second GEMM, of the GEMM's result width by this; 0 = none
  double elementwise_bytes =
      0;                     ///< read and written by the elementwise kernel of one cell and step
  double elements = 0;       ///< of one cell and step: sequences * hidden
  bool may_split_k = false;  ///< the library cuts long inner products
  bool persistent = false;   ///< one kernel, the weights read once
  friend bool operator==(const RecurrentWork&, const RecurrentWork&) = default;
};
/// Attention in one kernel: blocks of queries pass over the keys, scores stay on the SM.
struct AttentionWork {
  AttentionAttributes shape;
  int gemms = 2;          ///< per score and unit of width: 2 forward, 5 backward
  bool by_warps = false;  ///< FrameworkKernels::early_attention
  friend bool operator==(const AttentionWork&, const AttentionWork&) = default;
};
/// Attention of new tokens in one kernel: blocks of queries pass over the keys, scores stay on the
/// SM. With an engine, the kernels that its call has around it, too: rotary embedding, write of
/// keys and values into the paged cache.
struct PrefillWork {
  double batch = 1, tokens = 1;  ///< sequences, and new tokens of each
  double keys = 0;               ///< of a sequence where not causal; 0: as many as tokens
  bool causal = true;
  int gemms = 2;  ///< per score and unit of width: 2 forward, 5 backward
  double heads = 1, kv_heads = 1;
  double key_width = 128, value_width = 128;  ///< of a head
  double window = 0;                          ///< tokens that a query sees; 0: all before it
  AttentionFormat format = AttentionFormat::Half;
  bool latent = false;       ///< keys and values come from one latent vector a token (MLA)
  bool absorbed = false;     ///< of it: all heads read the latent vector itself
  bool in_integers = false;  ///< GEMMs, operands and results in 8-bit integers
  /// A kernel of Ampere's instructions, whatever the board has.
  bool by_warps = false;
  bool writes_cache = true;  ///< the engine's call writes keys and values into the cache
  bool casts = true;         ///< the call narrows what it gets for an 8-bit cache
  bool late =
      false;  ///< the engine's version of mid-2026, where most of what is known is of earlier ones
  /// Launched call by call from the host, whose time shows where kernels are shorter.
  bool eager = false;
  double expands =
      0;  ///< width of the latent vector that the call expands to keys and values; 0: given
  std::optional<GemmEngine> engine;  ///< whose kernels; nothing: what engines have in common
  friend bool operator==(const PrefillWork&, const PrefillWork&) = default;
};
/// Attention of one new token of each sequence over its paged cache, split over the keys where
/// blocks are few.
struct DecodeWork {
  double batch = 1, keys = 1;  ///< sequences, and cached tokens of each with the new one
  double heads = 1, kv_heads = 1;
  double width = 128;       ///< of a head
  double key_values = 256;  ///< values that the cache holds for a token and head of keys
  double gemms = 256;       ///< multiply-adds of a score and its value
  double window = 0;        ///< tokens that the query sees; 0: all
  bool fp8_cache = false;
  bool latent = false;  ///< the cache holds one latent vector a token (MLA, absorbed)
  bool casts = true;    ///< as PrefillWork has it
  bool late = false;    ///< the same
  bool eager = false;   ///< the same
  double absorbs =
      0;  ///< width of a head that the call brings to the latent's and back; 0: given so
  std::optional<GemmEngine> engine;
  friend bool operator==(const DecodeWork&, const DecodeWork&) = default;
};
/// A MoE on one rank, from given scores: choice, permutation, quantisation of activations, grouped
/// GEMMs, activation, weighted sum. No router product, shared experts or communication.
struct ExpertsWork {
  ExpertLoad load;
  double tokens = 1, per_token = 1;  ///< of the whole group; experts that a token takes
  double all_experts = 1;
  double hidden = 1, width = 1;  ///< of a token; of an expert on this rank
  bool gated = true;             ///< two GEMMs in, one out; else one and one
  ExpertFormat format = ExpertFormat::Half;
  /// Rows of other ranks' experts that a measured call multiplies as well, with weight 0, as if
  /// they were one expert's; and rows that it multiplied in some of the campaigns which a figure is
  /// the median of.
  double strays = 0, perhaps_strays = 0;
  bool gemms_alone = false;  ///< a measured call without routing, permutation and weighted sum
  std::optional<GemmEngine> engine;
  friend bool operator==(const ExpertsWork&, const ExpertsWork&) = default;
};
/// States passed from chunk to chunk of a sequence: `chains` run beside each other, each `steps`
/// steps one after the other. A step multiplies on tensor cores and reads and writes its share of
/// the kernel's bytes.
struct ChainWork {
  double chains = 1;
  double steps = 1;
  double flops_per_step = 0;  ///< of one chain
  friend bool operator==(const ChainWork&, const ChainWork&) = default;
};
/// Values of 16 bits written as 8-bit floats at a given scale.
struct QuantizationWork {
  double rows = 1, cols = 1;
  std::optional<GemmEngine> engine;
  friend bool operator==(const QuantizationWork&, const QuantizationWork&) = default;
};
using Work =
    std::variant<StreamWork, MatrixWork, ConvWork, ReductionWork, RecurrentWork, AttentionWork,
                 PrefillWork, DecodeWork, ExpertsWork, QuantizationWork, ChainWork>;

/// One GPU kernel: what it computes and moves, not how long it takes.
struct Kernel {
  /// What the kernel does within its op and algorithm: "data_tf", "GEMMs", "bias_add". At most 15
  /// letters when it comes from lowering (no allocation); recorded kernels keep their real name.
  std::string name;
  KernelClass kernel_class = KernelClass::Other;
  Algorithm algorithm = Algorithm::None;
  Pass pass = Pass::Forward;
  Precision math = Precision::Fp32;  ///< number format of the arithmetic
  Precision data = Precision::Fp32;  ///< number format of the operands in memory
  MathUnit unit = MathUnit::CudaCore;
  /// Arithmetic really executed (after Winograd's or FFT's saving), tile padding excluded.
  Flops flops{};
  Bytes read{};     ///< compulsory reads: each operand once
  Bytes written{};  ///< compulsory writes
  Work work;
  /// Alike kernels one after the other, as loops over images launch them: `work` describes one of
  /// them, flops and bytes are of all.
  std::int64_t launches = 1;
  /// Launches beyond the first that `work` and the figures hold already: steps and streams that are
  /// reported together.
  double more_launches = 0;
  /// Cells and steps in it that the framework's own loop drives (FrameworkProfile::recurrent_step).
  double driven_steps = 0;
  /// Runs right after what wrote its operands but weights, and before what reads its results: all
  /// of these meet L2 first. Of inference engines; other frameworks' operands are charged from
  /// memory.
  bool is_chained = false;
  /// From an Unknown op: the estimate is a bound, the interval wide.
  bool is_bounded_guess = false;
  [[nodiscard]] Bytes bytes() const { return read + written; }
  friend bool operator==(const Kernel&, const Kernel&) = default;
};

/// One way of doing an op: kernels that run one after the other in one stream.
struct Candidate {
  Algorithm algorithm = Algorithm::None;
  std::vector<Kernel> kernels;
  Bytes workspace{};
  friend bool operator==(const Candidate&, const Candidate&) = default;
};

/// How the library or framework picks among an op's candidates.
enum class ChoicePolicy {
  Autotuned,  ///< the fastest one, as cudnnFind or TensorFlow's autotuning measure it
  Heuristic,  ///< what cudnnGet...Algorithm recommends without measuring
};

/// An op with everything that could run for it. Never empty for ops that do work on the GPU; an op
/// that only renames memory (Reshape) has one candidate without kernels.
struct LoweredOp {
  OpId op;
  std::vector<Candidate> candidates;
  ChoicePolicy policy = ChoicePolicy::Autotuned;
  Bytes workspace_limit{};      ///< candidates that need more are not eligible (unless none is)
  bool host_waits = false;      ///< the host reads a result of these kernels before it goes on
  bool keeps_kernels = false;   ///< they are of several ops already: a graph compiler leaves them
  bool spares_library = false;  ///< kernels of the framework, where it usually calls a library
  bool runs_on_host =
      false;  ///< with what earlier kernels left; its kernel is the result's way back
};

/// A whole step, lowered for one framework on one GPU generation; ops in dispatch order.
struct LoweredStep {
  std::vector<LoweredOp> ops;
  /// By op: the first one with the same candidates, of which the library chooses alike at the same
  /// price; itself where none came before. Deep networks repeat their blocks. Empty: nobody looked.
  std::vector<std::uint32_t> first_alike;
};

}  // namespace tracecast
