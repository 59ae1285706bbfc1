#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hwspecs/gpu_spec.hpp"
#include "hwspecs/loaders/spec_text.hpp"
#include "hwspecs/software/attention_kernels.hpp"
#include "hwspecs/software/precision_recipe.hpp"
#include "hwspecs/software/program_hosts.hpp"
#include "hwspecs/software/software_version.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// How a user asks for number formats; lowering turns it into formats per kernel.
enum class PrecisionMode {
  Fp32,
  Tf32,
  Amp,
  Fp16,
  Bf16,
  Fp8,
  Int8,
  // Inference with weights made narrow beforehand:
  Fp8Block,     ///< scales per block of 128
  Nvfp4,        ///< 4-bit floats, scales per 16
  Mxfp4,        ///< the same per 32
  Int8Weights,  ///< weights alone, GEMMs in 16 bits
  Int4Weights,
};
[[nodiscard]] std::string_view to_string(PrecisionMode mode);

/// Memory layout in which a framework keeps images between ops.
enum class ImageLayout { Nchw, Nhwc };

/// How recurrent layers run.
enum class Recurrence {
  Library,   ///< fused, as cuDNN does: one GEMM for all inputs, then a GEMM and one elementwise
             ///< kernel per step
  Unrolled,  ///< as ordinary ops, step by step, each dispatched and with a gradient of its own
};

/// Which kernels a framework's own binaries run on CPUs.
enum class CpuKernels {
  EigenAvx,  ///< Eigen's, compiled for AVX: no fused multiply-adds whatever the CPU has
  Library,   ///< a matrix library's (MKL, oneDNN, OpenBLAS) in the widest vectors that the CPU has
};

/// How weight decay reaches a weight.
enum class WeightDecay {
  None,
  OnGradient,  ///< gradient += decay * weight, a kernel of its own unless the optimizer is fused
  AsLoss,      ///< a term of the loss: reduction forward, multiply, add to the gradient
};

/// How long activations and their gradients occupy device memory.
enum class TensorMemory {
  UntilLastUse,     ///< freed, or planned to be overwritten, after the last op that reads them
  SharedGradients,  ///< activations stay, gradients of activations share memory after their last
                    ///< use
  WholeStep,        ///< every tensor has memory of its own from the first step on
};

/// When a compiler lays images channels last, by the convolutions of a network's forward pass. A
/// filter has K x C x R x S elements, C of one group; it is grouped where there are several groups
/// of C > 1, small where neither K nor C is above `small_channels`, narrowing where 2 K <= C and R
/// > 1.
///   no convolution, or most_ops_per_convolution ops to each: never
///   training:  none grouped, none narrowing, not all small
///   inference: sum(macs x slowdown of its kind) <= sum(macs)
struct ImageLayoutRule {
  double most_ops_per_convolution = 300;
  int small_channels = 64;
  double grouped = 1, small = 1, narrowing = 1, other = 1;  ///< time channels last / channels first

  friend bool operator==(const ImageLayoutRule&, const ImageLayoutRule&) = default;
};

/// A compiler that takes the whole graph of a step and writes kernels of its own for whatever no
/// library computes: chains of elementwise ops and the reductions at their ends
/// (models/lowering/fusion.hpp).
struct GraphCompiler {
  std::string framework;  ///< id of the profile of the same framework without it
  std::string name;       ///< "xla"
  /// Norms and softmax become reductions and elementwise ops; else they stay library calls.
  bool expands_normalization = false;
  /// Bias and relu after a convolution run in its epilogue.
  bool fuses_convolution_epilogue = false;
  /// A producer with several readers is repeated in each of them where that moves no more bytes.
  bool repeats_producers = false;
  /// Kernels that read the same tensor become one with several results.
  bool merges_siblings = false;
  /// A reduction does not end a kernel: what else passes over the same contiguous rows joins it.
  bool joins_rows = false;
  /// Elements of a row that such a kernel keeps in registers, and so reads once. 0: none.
  int longest_kept_row = 0;
  bool draws_in_kernels = false;  ///< random numbers of dropout come about where they are used
  /// GEMMs of 16 bits whose sizes do not fit the tensor cores' loads run with padded operands.
  bool pads_gemms = false;
  bool moves_in_loops = false;  ///< transposes are loops like any other
  int most_operands = 64;       ///< tensors that one fused kernel reads and writes
  /// Host, per weight, buffer and optimizer state: handed over before the compiled code starts.
  Seconds argument{};
  std::optional<ImageLayoutRule> image_layout{};  ///< nothing: as the framework lays them

  friend bool operator==(const GraphCompiler&, const GraphCompiler&) = default;
};

/// Batch norm in training as elementary kernels: sums over each channel, and elementwise kernels
/// with one value per channel among their operands, which together make
/// FrameworkProfile::batch_norm_..._passes.
struct ComposedBatchNorm {
  int forward_sums = 1;  ///< passes that read the image, each a kernel of its own
  int backward_sums = 1;
  int block_threads = 1024;  ///< of a sum's block, one per channel
  /// Per element of an elementwise kernel: its place in every operand, from strides.
  double address_instructions = 0;

  friend bool operator==(const ComposedBatchNorm&, const ComposedBatchNorm&) = default;
};

/// Poolings that neither the GPU's library nor the framework's own kernels do, in one thread of the
/// host: averages, and overlapping maxima, whose windows may reach beyond the image (`ceil_mode`).
struct HostPooling {
  Seconds forward_per_cell{};  ///< of a window, on the reference CPU
  Seconds backward_per_cell{};
  BytesPerSecond copy{};  ///< images to and from pageable memory; the host waits
};

/// An older state of a framework, or its newest one.
struct FrameworkEra {
  std::string framework;   ///< id of the profile that stands for the versions between
  std::string version;     ///< "1.0": versions below it are of this era, or from it on
  std::string date;        ///< "2017-02": so is what was measured then, when no version is known
  bool is_newest = false;  ///< from `version` on
};

/// From when on the code that a family of networks is written in calls the framework's own
/// attention.
/// An op that a framework's own code, or what its users ran in it, made of elementary ones: full
/// passes over its tensor, each a kernel and an op of the host.
struct ComposedKernels {
  std::string op;   ///< "layer_norm", the function of an activation, or the name of an optimizer
  int forward = 1;  ///< of an optimizer: of the whole rule
  int backward = 1;
  bool needs_all = false;  ///< an optimizer's rule: begins when the last gradient is there
  friend bool operator==(const ComposedKernels&, const ComposedKernels&) = default;
};
/// The same until a version has a kernel for it.
struct ComposedOp {
  ComposedKernels kernels;
  SinceVersion fused;
};

struct FusedSince {
  std::string family;  ///< model_type of its config.json: "gpt2"
  SinceVersion since;
};

/// What a framework's own examples and benchmarks mean by a network's name.
struct NetworkMeaning {
  std::string name;  ///< in tables of measurements: "alexnet"
  std::string zoo;   ///< the zoo's network: "bvlc_alexnet"
  std::string source;
  bool spares_input_gradient = false;  ///< where the framework computes it otherwise
};

/// What dynamic loss scaling of mixed-precision training runs before the updates. In all but None
/// the host waits for the outcome before it goes on.
enum class LossScaling {
  None,
  Check,            ///< one pass over all gradients looks for infinities; updates undo the scale
  UnscaleTogether,  ///< many gradients per launch: undo the scale in place, look for infinities
  UnscaleEach,      ///< per gradient: undo the scale, look for infinities, reduce the outcome
};

/// What one thread of the host pays before a kernel can start, and when it waits.
struct FrameworkHost {
  Seconds dispatch_per_op{};           ///< forward op: Python, shape checks, allocator
  Seconds dispatch_per_backward_op{};  ///< run by the C++ autograd engine or the graph executor
  Seconds dispatch_per_optimizer_op{};
  /// More, where the op calls cuDNN or cuBLAS: descriptors, algorithm, workspace.
  Seconds dispatch_per_library_call{};
  /// More again, forward in training, of ops with weights: what they leave for backward and for the
  /// weights' gradients.
  Seconds autograd_per_library_call{};
  /// Another view of a tensor: no kernel, but an op of the host, forward and backward.
  Seconds view{}, backward_view{};
  /// Of an optimizer that updates many weights per launch: it gathers them one by one.
  Seconds update_per_parameter{};
  Seconds launch_per_kernel{};  ///< one cudaLaunchKernel on the host
  Seconds step_overhead{};      ///< once per step: session.run, feeding, the loop around it
  /// Standard deviation of ln(measured / predicted) of these costs: other processors, other
  /// interpreters.
  double log_sd = 0.30;
  /// Id of the CPU for which the costs above are stated; others scale with their single-thread
  /// speed.
  std::string reference_cpu;
  CpuKernels cpu_kernels = CpuKernels::Library;
  /// The host waits for the GPU before it dispatches the next step.
  bool synchronizes_each_step = false;
  /// The host waits for the GPU after so many forward and backward ops; 0 = never within a step.
  int graph_ops_per_synchronization = 0;
  int updates_per_synchronization = 0;  ///< the same of optimizer ops
  /// From the end of a kernel until the host, which waits for it, goes on.
  Seconds synchronization{};
  std::optional<HostPooling> pooling;  ///< nothing: all on the GPU
  /// Of a training program whose loop is not described, in each step while the GPU waits; settled
  /// by the job. Its median is in step_overhead.
  AddedHost added;
};

/// How images are laid out, and which algorithms of the library a convolution may take.
struct FrameworkConvolutions {
  ImageLayout image_layout = ImageLayout::Nchw;
  /// The same of half-width images whose convolutions run on tensor cores.
  ImageLayout tensor_core_image_layout = ImageLayout::Nchw;
  /// Newest cuDNN that the framework works with, major.minor; it decides which algorithms exist. 0
  /// = none: convolutions by im2col matrix and GEMMs.
  double cudnn_version = 9;
  bool autotunes = false;
  Bytes workspace_limit{};
  /// Stores filters as R,S,C,K and transposes them for every convolution call.
  bool transforms_filters = false;
  /// Copies an image whose padding differs from side to side into a padded one before the library
  /// call.
  bool pads_uneven_images = false;
  /// Leaves tiled FFT out, except for gradients of data.
  bool avoids_tiled_fft = false;
  /// Never asks for non-fused Winograd, which came with cuDNN 5.1.
  bool avoids_nonfused_winograd = false;

  friend bool operator==(const FrameworkConvolutions&, const FrameworkConvolutions&) = default;
};

/// What joins another op's kernel.
struct FrameworkFusion {
  bool bias = false;       ///< in the epilogue of the convolution or GEMM
  bool gemm_bias = false;  ///< of the GEMM alone
  bool batch_norm_activation = false;
  bool batch_norm_residual =
      false;                 ///< the sum with a residual and the activation after it, in its kernel
  bool activations = false;  ///< after any op that has a kernel, at no cost
  bool folds_inference_batch_norm = false;  ///< into the weights of the convolution before it
  bool bias_gradients = false;              ///< of GEMMs, in the epilogue of a backward GEMM
  /// GEMMs of every pair of a sample's vectors, with the joins and gathers around them: a kernel
  /// each way.
  bool pair_gemms = false;
  bool edge_attention = false;  ///< attention over a graph's edges, in a kernel each way
  /// Casts of 8-bit operands, in what makes or reads them
  /// (models/lowering/low_precision_operands.hpp).
  bool operand_casts = false;
  /// What an inference engine's builder joins: attention, norms with sums before them, epilogues,
  /// GEMMs over one input, casts (models/lowering/engine_layers.hpp).
  bool layers = false;

  friend bool operator==(const FrameworkFusion&, const FrameworkFusion&) = default;
};

/// Batch norm in training.
struct FrameworkBatchNorm {
  /// Reads and writes of the whole image. cuDNN's takes 3 and 5; more where it is composed of
  /// elementary kernels.
  double forward_passes = 3;
  double backward_passes = 5;
  int update_kernels = 0;        ///< small ones per batch norm and step, for its running statistics
  bool updates_are_ops = false;  ///< each of them is an op of its own to the host
  /// Instance norms run in its kernels, sample by sample, with the activation where those take it.
  bool takes_instance_norm = false;
  /// Images of bfloat16 go to kernels of the framework's own, not to the library.
  bool own_bf16 = false;
  bool own_half = false;  ///< the same of float16 where the weights are of float16, too
  std::optional<ComposedBatchNorm> composed;  ///< nothing: one kernel and what is left

  friend bool operator==(const FrameworkBatchNorm&, const FrameworkBatchNorm&) = default;
};

/// Other kernels that differ between frameworks.
struct FrameworkKernels {
  /// Max pool writes 8-byte indices and its gradient reads them instead of x and y.
  bool max_pool_saves_indices = false;
  /// Share of memory transactions that its gradient, a gather over windows, makes use of.
  double max_pool_backward_efficiency = 1.0;
  int dropout_kernels = 1;            ///< forward
  bool in_place_activations = false;  ///< where the network says so
  /// Of an element of a kernel whose operands do not all lie as its result does, to find each one's
  /// place.
  double strided_instructions = 0;
  AttentionKernels attention = AttentionKernels::Steps;
  /// The same of 32-bit operands whose heads share keys; nothing: as `attention`.
  std::optional<AttentionKernels> wide_grouped_attention;
  /// Where a network's code casts to 32 bits in 16-bit networks, that is an op, and so is all that
  /// follows.
  bool casts_as_written = false;
  /// Gradients of softmax and powers take kernels before the last: y * dy; x^(n - 1) and n times
  /// that.
  bool composed_gradients = false;
  /// A slice of the outermost dimension is a view, and the gradient of any slice is zeros with a
  /// copy in them.
  bool slices_are_views = false;
  /// Gradients of rows that were looked up are summed row by row: the ids are sorted first, in many
  /// small kernels.
  bool sorts_row_gradients = false;
  /// The vendor's matrix library has no kernels for Hopper yet that stay on their SMs; settled by
  /// the job (resident_gemms).
  bool early_gemms = false;
  /// Attention in one kernel runs one that was written for Ampere's instructions (FlashAttention 1
  /// and 2); settled by the job (warp_group_attention).
  bool early_attention = false;
  /// Of the profile's composed_ops those that the version has no kernel for; settled by the job. A
  /// compiler makes its own kernels of them.
  std::vector<ComposedKernels> composed;
  /// Null: `op` has a kernel of its own.
  [[nodiscard]] const ComposedKernels* composed_of(std::string_view op) const {
    for (const ComposedKernels& one : composed) {
      if (one.op == op) return &one;
    }
    return nullptr;
  }

  friend bool operator==(const FrameworkKernels&, const FrameworkKernels&) = default;
};

/// Recurrent layers.
struct FrameworkRecurrence {
  Recurrence kind = Recurrence::Library;
  /// Host time per layer and step of a fused loop that the framework drives itself; none within
  /// cuDNN.
  Seconds step{};
  /// Layers and directions that do not wait for each other run at the same time.
  bool streams = true;
  /// Takes cuDNN's persistent kernels where PyTorch's rule does (models/lowering/recurrent.hpp).
  bool persistent = false;

  friend bool operator==(const FrameworkRecurrence&, const FrameworkRecurrence&) = default;
};

/// Which gradients are computed, and how they meet.
struct FrameworkBackward {
  /// Computes the gradient of the network's input as well, which nobody reads.
  bool differentiates_input = false;
  /// Where a tensor has several readers, the first gradient is copied before others are added to
  /// it.
  bool copies_first_gradient = false;
  /// Library calls add a weight's gradient to what was there (beta 1), which they read.
  bool adds_weight_gradients_in_place = false;
  /// Where a tensor has several readers, a convolution adds its gradient to what is there on the
  /// way out.
  bool adds_gradients_in_convolutions = false;

  friend bool operator==(const FrameworkBackward&, const FrameworkBackward&) = default;
};

/// How weights are updated.
struct FrameworkOptimizer {
  bool fused = false;          ///< one kernel for the whole rule, not one per term
  bool assigns_terms = false;  ///< else one kernel per tensor that the rule assigns to
  bool multi_tensor = false;   ///< one launch for many parameters (foreach, fused)
  WeightDecay weight_decay = WeightDecay::None;
  bool zeroes_gradients = false;       ///< a fill per parameter and step
  bool accumulates_gradients = false;  ///< an addition per weight's gradient and step

  friend bool operator==(const FrameworkOptimizer&, const FrameworkOptimizer&) = default;
};

/// Number formats.
struct FrameworkPrecision {
  bool allows_tf32 = true;  ///< fp32 code may run as TF32 where that is the default
  bool tf32_gemms = true;   ///< TF32 means GEMMs too, not convolutions alone; settled by the job
  /// Ops that mixed precision keeps in fp32, by words: softmax, loss, layer_norm, instance_norm,
  /// group_norm, lrn, reduce, or the function of an elementwise op.
  std::vector<std::string> wide_ops;
  /// A tensor is cast once for all ops that want it so (graph rewrites), not once per op (eager).
  bool reuses_casts = false;
  LossScaling loss_scaling = LossScaling::None;
  std::string int8_engine;       ///< id of the profile that runs int8 networks for this framework
  bool keeps_int8_sums = false;  ///< GEMMs of 8-bit integers write their 32-bit sums
  bool quantizes_ends = false;   ///< int8 takes the first convolution and the last layer, too
  /// Of training in PrecisionMode::Fp8; settled by the job. Nothing: as plans without a recipe.
  std::optional<GemmRecipe> recipe;

  friend bool operator==(const FrameworkPrecision&, const FrameworkPrecision&) = default;
};

/// Device memory.
struct FrameworkMemory {
  TensorMemory tensors = TensorMemory::UntilLastUse;
  Bytes allocator_block{};          ///< sizes are rounded up to this
  Bytes allocator_large_segment{};  ///< large requests are carved from segments of this size
  double pool_fraction =
      0.0;  ///< share of free memory grabbed at start (TensorFlow); 0 = on demand
  Bytes pool_least_reserve{};  ///< of that, what stays free at least
  Bytes context{};  ///< what the framework loads beside the CUDA context: kernels of its libraries
  /// Tensors of the weights' size, all weights at once, that an update with two states holds beside
  /// weights, gradients and states.
  double update_temporaries = 0;
  /// Standard deviation of ln(needed / predicted) of the memory that a step needs.
  double log_sd = 0.15;

  friend bool operator==(const FrameworkMemory&, const FrameworkMemory&) = default;
};

/// Documented behaviour and measured host costs of a deep-learning framework. Behaviour has a
/// source, host costs a data set and date; both are in the profile's text file.
struct FrameworkProfile {
  std::string id;  ///< "tensorflow", "pytorch", "ideal"
  std::string name;
  bool trains = true;  ///< false: an inference engine
  /// Standard deviation of ln(measured / predicted) of a whole step, for what no kernel explains:
  /// clocks, drivers, library versions, how others measured.
  double system_log_sd = 0.12;

  FrameworkHost host;
  FrameworkConvolutions convolutions;
  FrameworkFusion fusion;
  FrameworkBatchNorm batch_norm;
  FrameworkKernels kernels;
  FrameworkRecurrence recurrence;
  FrameworkBackward backward;
  FrameworkOptimizer optimizer;
  FrameworkPrecision precision;
  FrameworkMemory memory;
  std::optional<GraphCompiler> compiler;  ///< nothing: ops run one by one

  std::optional<FrameworkEra> era;  ///< of older states
  /// Id of the framework that this is in a vendor's container, run by the vendor's training
  /// scripts.
  std::optional<std::string> container_of;
  std::vector<NetworkMeaning> network_meanings;
  // What a version decides (hwspecs/software/software_defaults.hpp); nothing: as of the profile
  // "generic".
  std::optional<SinceVersion> tf32;  ///< fp32 code computes convolutions as TF32, GEMMs too
  std::optional<SinceVersion> tf32_spares_gemms;  ///< convolutions alone
  std::optional<SinceVersion> gemm_bias;          ///< fuses_gemm_bias whatever it says
  /// FrameworkKernels::wide_grouped_attention; nothing: in all versions.
  std::optional<SinceVersion> grouped_attention;
  /// From when on the vendor's matrix library has kernels for Hopper that stay on their SMs.
  std::optional<SinceVersion> resident_gemms;
  /// From when on attention in one kernel runs one written for Hopper there; nothing: always.
  std::optional<SinceVersion> warp_group_attention;
  /// From when on a compiler decides the layout of images (GraphCompiler::image_layout); nothing:
  /// never.
  std::optional<SinceVersion> chooses_image_layout;
  std::vector<ComposedOp> composed_ops;
  std::vector<FusedSince> fused_since;  ///< of other families: as FrameworkKernels::attention says
  std::vector<SpecSource> sources;      ///< documents, and measurements with host and date
  std::vector<SpecValue> values;  ///< every value with its source's key, in the order of the schema
};

/// Whether a step computes the gradient of the input of a network of the zoo.
[[nodiscard]] bool differentiates_input(const FrameworkProfile& framework, std::string_view zoo);

/// Reads a profile in text format (hwspecs/proto/framework_profile.proto). `where` names it in
/// errors. A profile `based_on` another, which `find` has, takes from it what it does not state,
/// eras excepted. Throws InputError: syntax, a missing or absurd value, a value without a source,
/// no such base.
[[nodiscard]] FrameworkProfile parse_framework_profile(std::string_view text,
                                                       std::string_view where,
                                                       const FindSpecText& find);
/// The same with bases in the binary.
[[nodiscard]] FrameworkProfile parse_framework_profile(std::string_view text,
                                                       std::string_view where);

/// Id of the framework that `profile` is a compiler, an era or a container of; its own where it is
/// none of them.
[[nodiscard]] const std::string& family_of(const FrameworkProfile& profile);

}  // namespace tracecast
