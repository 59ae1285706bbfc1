#include "sim/cost/convolution.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "sim/cost/issue.hpp"

namespace tracecast::cost {
namespace {

double up_to_multiple(double value, double step) { return std::ceil(value / step) * step; }

/// Whether a kernel adds each GEMM to the image's gradient as soon as it has it, instead of
/// gathering what belongs to a pixel: cuDNN's CUDNN_CONVOLUTION_BWD_DATA_ALGO_0.
bool scatters(const Kernel& kernel) {
  return kernel.pass == Pass::BackwardData && kernel.algorithm == Algorithm::ImplicitGemm;
}

/// The GEMM that a pass of a convolution amounts to, for one group.
TileProblem as_gemm(const ConvAttributes& s, Pass pass, bool scatters) {
  TileProblem t;
  const double filter = static_cast<double>(s.r) * static_cast<double>(s.s);
  const double groups = static_cast<double>(std::max<std::int64_t>(s.groups, 1));
  const double in = static_cast<double>(s.c) / groups;
  const double out = static_cast<double>(s.k) / groups;
  const double pixels_in =
      static_cast<double>(s.n) * static_cast<double>(s.h) * static_cast<double>(s.w);
  const double pixels_out =
      static_cast<double>(s.n) * static_cast<double>(s.p) * static_cast<double>(s.q);
  t.batch = groups;
  switch (pass) {
    case Pass::BackwardData:
      t.m = scatters ? pixels_out : pixels_in;
      t.n = scatters ? in * filter : in;
      t.k = scatters ? out : out * filter;
      break;
    case Pass::BackwardWeights:
      t.m = out;
      t.n = in * filter;
      t.k = pixels_out;
      t.most_slices = kMostPixelSlices;
      break;
    default:
      t.m = pixels_out;
      t.n = out;
      t.k = in * filter;
      break;
  }
  return t;
}

/// Blocks per SM among which cuDNN divides the pixels of a 1x1 filter's gradient. Source:
/// data/kernels/conv.csv.gz, DeepBench's backward_filter of 8 and 16 images on six GPUs: from 2048
/// x 512 filters on, twice the pixels take 1.3 to 1.5 times the time, and what does not grow is 60
/// to 80 bytes of DRAM traffic for each weight, the sums of some 8 slices.
constexpr double kPointwiseBlocks = 4;

/// Taps of a filter that meet one cell of the image, of the cells that any meets. A stride divides
/// the cells into classes of fewer and more taps; one kernel computes all of them with the taps of
/// the largest.
double taps_of_cell(std::int64_t filter, int stride) {
  return std::ceil(static_cast<double>(filter) / stride);
}
/// Share of an image's rows or columns that a filter narrower than its stride reaches.
double reached_share(std::int64_t filter, int stride) {
  return std::min(1.0, static_cast<double>(filter) / stride);
}

/// The same GEMM as tensor-core kernels compute it. The inner dimension is the channels of each tap
/// of the filter in slices of 32 bytes (16 of 16 bits, 8 of tf32, 32 of 8 bits), the last one
/// padded; the gradient of the image leaves out the cells that no tap reaches, and of the others
/// the taps that meet the zeros between the outputs. Source: k of cuDNN's and CUTLASS's
/// implicit-GEMM tiles, a slice never crosses taps; 5x5 filters of stride 2 in
/// data/kernels/conv.csv.gz take 1.4 times the mean of 25/4 taps: the nine of the largest class.
void fit_to_tensor_cores(TileProblem& t, const ConvAttributes& s, const Kernel& kernel,
                         bool is_late) {
  if (kernel.pass == Pass::BackwardWeights) return;
  const bool data = kernel.pass == Pass::BackwardData;
  const double channels =
      static_cast<double>((data ? s.k : s.c) / std::max<std::int64_t>(s.groups, 1));
  const double slice = 32.0 / element_size(kernel.math).in_bytes();
  const double taps = data ? taps_of_cell(s.r, s.stride_h) * taps_of_cell(s.s, s.stride_w)
                           : static_cast<double>(s.r) * static_cast<double>(s.s);
  // Few channels, of an image, are filled up to a power of two, and slices cross taps: CUTLASS,
  // conv2d_fprop_activation_tile_access_iterator_few_channels and _fixed_channels (4 and 8).
  const bool few = !data && s.groups == 1 && is_late && 2 * channels <= slice;
  const double filled = std::max(std::exp2(std::ceil(std::log2(channels))), slice / 4);
  t.k = few ? up_to_multiple(filled * taps, slice) : up_to_multiple(channels, slice) * taps;
  if (data) t.m *= reached_share(s.r, s.stride_h) * reached_share(s.s, s.stride_w);
}

/// Groups whose channels together fill a tile's edge are computed by one block, as a kernel for
/// groups on tensor cores does; of an instruction, 16 rows by 8 columns by 16 deep, what lies
/// between groups is lost. Source: names of cuDNN's kernels for groups of 8 channels,
/// sm80_xmma_{fprop,dgrad,wgrad}_implicit_gemm_..._tilesize64x64x64_..._g8_tensor16x8x16.
void share_tiles(TileProblem& t, const ConvAttributes& s, Pass pass) {
  constexpr double kEdge = 64, kRows = 16;
  const double groups = static_cast<double>(s.groups);
  const double in = static_cast<double>(s.c) / groups, out = static_cast<double>(s.k) / groups;
  const double together = std::min(groups, std::floor(kEdge / std::max(in, out)));
  if (s.groups == 1 || together < 2) return;
  t.batch = std::ceil(groups / together);
  if (pass == Pass::BackwardWeights) {
    t.m *= together;
    t.n *= std::clamp(kRows / out, 1.0, together);
  } else {
    t.n *= together;
  }
}

double pass_factor(const Kernel& kernel, const ConvAttributes& s, const CostProfile& profile) {
  const ConvolutionParameters& p = profile.convolution;
  const bool tensor_core = kernel.unit == MathUnit::TensorCore;
  switch (kernel.pass) {
    case Pass::BackwardData:
      return tensor_core ? profile.tensor.backward_data : p.backward_data;
    case Pass::BackwardWeights:
      if (tensor_core) return profile.tensor.backward_weights;
      return p.backward_weights * (s.r * s.s == 1 ? p.pointwise_backward_weights : 1.0);
    default:
      return 1.0;
  }
}

/// Outputs of a block of fused Winograd. The kernels' names say them in tiles of 2x2 outputs:
/// tile228 is (2, 4, 16). A block of several images runs only where they divide the batch: 1600 of
/// 1600 such launches in data/kernels/conv.csv.gz.
struct WinogradBlock {
  int images, height, width;
};
constexpr std::array<WinogradBlock, 5> kAssembledBlocks = {
    {{1, 8, 16}, {2, 4, 16}, {4, 2, 16}, {2, 8, 8}, {4, 4, 8}}};
constexpr std::array<WinogradBlock, 2> kAmpereBlocks = {{{1, 8, 16}, {4, 8, 4}}};

std::span<const WinogradBlock> winograd_blocks(Architecture architecture, double cudnn_version) {
  if (architecture >= Architecture::Ampere) return kAmpereBlocks;
  const std::span all(kAssembledBlocks);
  if (architecture == Architecture::Kepler || architecture >= Architecture::Volta) {
    return all.first(1);
  }
  return cudnn_version < 8 ? all.first(3) : all;
}

/// First cuDNN with the kernels that the efficiencies were fitted to; what came before loses
/// `old_kernels`.
constexpr double kNewKernels = 6;
double age_factor(const ConvWork& work, const ConvolutionParameters& p) {
  return work.cudnn_version < kNewKernels ? p.old_kernels : 1.0;
}

/// Columns of a group's GEMM in cuDNN 8.0 on Turing: its kernels for groups are the plain ones,
/// whose tiles are this wide however few channels a group has. Source: published/e2e.csv,
/// ResNeXt-101 and SE-ResNeXt-101 on T4 in TensorFlow 20.06, which take 3.6 ms an image more than
/// in 20.03 in FP32 and 2.6 in half width (models/lowering/notes/0001).
constexpr double kPlainColumns = 128, kPlainSince = 8.0, kPlainUntil = 8.1;
bool has_plain_groups(const ConvWork& work, const GpuSpec& gpu) {
  return work.shape.groups > 1 && gpu.architecture == Architecture::Turing &&
         work.cudnn_version >= kPlainSince && work.cudnn_version < kPlainUntil;
}

/// What the tensor cores of Ampere give in the first library that had kernels for them, cuDNN 8.0.
/// Source: published/core.csv, ResNet-50 and SSD by the same scripts on the same boards in a
/// container of 2020 and in one of 2022: steps 1.05 to 1.18 times as long on A100, A6000 and RTX
/// 3090, 1.00 on V100; over the shares of convolutions 1.3, geometric mean of twelve pairs.
constexpr double kFirstOfAmpere = 0.77, kAfterFirst = 8.1;
double first_of_generation(const ConvWork& work, const GpuSpec& gpu) {
  const bool is_first =
      gpu.architecture == Architecture::Ampere && work.cudnn_version < kAfterFirst;
  return is_first ? kFirstOfAmpere : 1.0;
}

Roofs estimate_winograd_fused(const ConvWork& work, Pass pass, Seconds memory,
                              const SustainedGpu& machine, const GpuSpec& gpu,
                              const CostProfile& profile) {
  const ConvAttributes& s = work.shape;
  const bool data = pass == Pass::BackwardData;
  const double height = static_cast<double>(data ? s.h : s.p);
  const double width = static_cast<double>(data ? s.w : s.q);
  const double groups = static_cast<double>(std::max<std::int64_t>(s.groups, 1));
  const double reduced = static_cast<double>(data ? s.k : s.c) / groups;
  const double produced = static_cast<double>(data ? s.c : s.k) / groups;
  double tiles = 0;
  for (const WinogradBlock& block : winograd_blocks(gpu.architecture, work.cudnn_version)) {
    if (s.n % block.images != 0) continue;
    const double count = std::ceil(static_cast<double>(s.n) / block.images) *
                         std::ceil(height / block.height) * std::ceil(width / block.width);
    if (tiles == 0 || count < tiles) tiles = count;
  }
  const double blocks = tiles * groups * std::ceil(produced / 32.0);
  const double sms = machine.sm_count;
  const double per_sm = blocks / sms;
  const double q = profile.gemm.wave_quantization;
  const double waves = per_sm <= 1 ? 1.0 : q * std::ceil(per_sm) + (1 - q) * per_sm;
  const double steps = up_to_multiple(reduced, 8);
  const double rate =
      machine.arithmetic.in_si() / sms *
      issue_efficiency(gpu, best_issue_cycles(gpu, profile) + profile.convolution.winograd_issue,
                       profile) *
      age_factor(work, profile.convolution);
  const double busy = 2.0 * 32 * 128 * (9 / 2.25) * waves / rate;
  const double wait =
      profile.convolution.winograd_step_cycles / machine.clock.in_si() * std::max(per_sm / 2, 1.0);
  const double step = std::cbrt(busy * busy * busy + wait * wait * wait);
  // A block keeps 16 sums for each 2x2 outputs.
  const Seconds prologue = block_prologue(4 * 32.0 * 128, waves, machine, gpu, profile);
  return {Seconds(steps * step) + prologue, memory, per_sm < 1 || wait > busy,
          std::min(per_sm, 1.0)};
}

double of_pass(const RecordedParameters::DepthwisePasses& passes, Pass pass) {
  switch (pass) {
    case Pass::BackwardData:
      return passes.backward_data;
    case Pass::BackwardWeights:
      return passes.backward_weights;
    default:
      return passes.forward;
  }
}

/// Taps of a depthwise pass, in those of a forward pass of stride 1. Frameworks run gradients in
/// kernels of their own: for the data every cell of the image looks at every tap, whatever the
/// stride, and divides to find its output; for the weights a block sums one tap over all outputs,
/// each found by parallel layout and loaded again for each tap. cuDNN has kernels of its own for
/// images that lie channels last; gradients of 32-bit weights run there as GEMMs of groups filled
/// up, on tensor cores. Source: PyTorch 1.8, aten/src/ATen/native/cuda/DepthwiseConv2d.cu, for what
/// is counted.
double direct_taps(const Kernel& kernel, const ConvWork& work, const RecordedParameters& p) {
  const ConvAttributes& s = work.shape;
  double taps = kernel.flops.in_flop() / 2;
  // Guess: a warp's lanes hold the channels of one group.
  if (s.groups > 1 && s.groups < s.c) {
    constexpr double kWarp = 32;
    const double channels = static_cast<double>(s.c) / static_cast<double>(s.groups);
    taps *= up_to_multiple(channels, kWarp) / channels;
  }
  if (is_library_depthwise(s, work.cudnn_version)) {
    const bool is_low_precision = element_size(kernel.data) < element_size(Precision::Fp32);
    return taps *
           of_pass(is_low_precision ? p.library_depthwise : p.wide_library_depthwise, kernel.pass);
  }
  switch (kernel.pass) {
    case Pass::BackwardData: {
      const double outputs = static_cast<double>(s.p) * static_cast<double>(s.q);
      const double cells = static_cast<double>(s.h) * static_cast<double>(s.w);
      return taps * (cells / outputs) * p.own_depthwise.backward_data;
    }
    case Pass::BackwardWeights:
      return taps * p.own_depthwise.backward_weights;
    default:
      return taps * std::clamp(static_cast<double>(s.stride_w), 1.0, 32.0);
  }
}

/// Bytes that come from memory and go there: of an engine's layers what L2 does not hold
/// (Kernel::is_chained), and the filter.
double dram_bytes(const Kernel& kernel, const ConvAttributes& s, const SustainedGpu& machine,
                  const CostProfile& profile) {
  const double bytes = kernel.bytes().in_bytes();
  if (!kernel.is_chained) return bytes;
  const double groups = static_cast<double>(std::max<std::int64_t>(s.groups, 1));
  const double filter = element_size(kernel.data).in_bytes() * static_cast<double>(s.k) *
                        (static_cast<double>(s.c) / groups) * static_cast<double>(s.r) *
                        static_cast<double>(s.s);
  const double images = std::max(0.0, bytes - filter);
  return filter + images * miss_share(bytes, machine.l2_bytes, profile.memory.l2_share);
}

}  // namespace

std::optional<TensorGemm> as_tensor_gemm(const Kernel& kernel, const ConvWork& work,
                                         GemmFormat format, const CostProfile& profile) {
  const ConvAttributes& s = work.shape;
  if (!kernel.is_chained || kernel.pass != Pass::Forward || kernel.unit != MathUnit::TensorCore ||
      kernel.algorithm != Algorithm::ImplicitPrecomputedGemm) {
    return std::nullopt;
  }
  TileProblem t = as_gemm(s, kernel.pass, false);
  fit_to_tensor_cores(t, s, kernel, true);
  share_tiles(t, s, kernel.pass);
  const double taps = static_cast<double>(s.r) * static_cast<double>(s.s);
  const double channels = static_cast<double>(s.c) / static_cast<double>(s.groups);
  // An 8-bit image of up to four channels: a word for each tap.
  constexpr double kWord = 4, kStep = 32;
  if (element_size(kernel.math) == Bytes(1) && s.groups == 1 && channels <= kWord)
    t.k = up_to_multiple(kWord * taps, kStep);
  const double filter = weight_bytes(format) * static_cast<double>(s.k) * channels * taps;
  TensorGemm gemm;
  gemm.batch = t.batch;
  gemm.m = t.m;
  gemm.n = t.n;
  gemm.k = t.k;
  gemm.format = format;
  gemm.image = std::max(1.0, kernel.read.in_bytes() - filter);
  gemm.fill = profile.tensor.prologue_steps * depth_per_step(kernel);
  gemm.value_of_result = kernel.written.in_bytes() / (t.batch * t.m * t.n);
  gemm.reuse.activations = gemm.reuse.results = kernel.bytes().in_bytes();
  return gemm;
}

Roofs estimate_convolution(const Kernel& kernel, const ConvWork& work, const SustainedGpu& machine,
                           const GpuSpec& gpu, const CostProfile& profile) {
  const ConvAttributes& s = work.shape;
  const ConvolutionParameters& p = profile.convolution;
  const double bandwidth = machine.stream.in_si();
  const double element = element_size(kernel.data).in_bytes();
  const double traffic = dram_bytes(kernel, s, machine, profile);
  const Seconds memory(traffic / bandwidth);

  switch (kernel.algorithm) {
    case Algorithm::WinogradFused:
      return estimate_winograd_fused(work, kernel.pass, memory, machine, gpu, profile);
    case Algorithm::Direct: {
      return {Seconds(direct_taps(kernel, work, profile.recorded) * p.direct_cycles /
                      (machine.sm_count * machine.clock.in_si())),
              memory, false,
              share_with_blocks(kernel.written.in_bytes() / element, machine.sm_count)};
    }
    case Algorithm::Fft:
    case Algorithm::FftTiling: {
      // In and out of the frequency domain: every operand is written and read once more, as complex
      // numbers.
      const double efficiency = issue_efficiency(gpu, p.spectra_issue, profile);
      return {Seconds(kernel.flops.in_flop() / (machine.arithmetic.in_si() * efficiency)),
              memory * 5.0, false};
    }
    case Algorithm::WinogradNonfused: {
      const double tiles = static_cast<double>(s.n) * std::ceil(static_cast<double>(s.p) / 4.0) *
                           std::ceil(static_cast<double>(s.q) / 4.0);
      TileProblem t;
      t.batch = 36;
      t.m = kernel.pass == Pass::BackwardWeights ? static_cast<double>(s.c) : tiles;
      t.n = static_cast<double>(kernel.pass == Pass::BackwardData ? s.c : s.k);
      t.k = kernel.pass == Pass::BackwardWeights ? tiles
            : kernel.pass == Pass::BackwardData  ? static_cast<double>(s.k)
                                                 : static_cast<double>(s.c);
      t.efficiency = winograd_gemm_efficiency(gpu, profile);
      Roofs roofs = estimate_tiles(t, machine, gpu, profile).roofs;
      const double moved = 36.0 * element * tiles * static_cast<double>(s.c + s.k);
      roofs.memory = Seconds((kernel.bytes().in_bytes() + 2.0 * moved) / bandwidth);
      return roofs;
    }
    default:
      break;
  }

  TileProblem t = as_gemm(s, kernel.pass, scatters(kernel));
  if (has_plain_groups(work, gpu)) t.n = std::max(t.n, kPlainColumns);
  const bool tensor_core = kernel.unit == MathUnit::TensorCore;
  const bool weights = kernel.pass == Pass::BackwardWeights;
  const bool is_late = work.cudnn_version >= kAfterFirst;
  const TileSet tensor_tiles = is_late ? TileSet::SmallTensorCore : TileSet::TensorCore;
  t.tiles = tensor_core ? tensor_tiles : weights ? TileSet::Gemm : TileSet::Convolution;
  if (weights && !tensor_core && s.r * s.s == 1) {
    // maxwell_scudnn_128x64_stridedB_splitK and its like: sums of slices pass through memory
    // however few would do.
    t.tiles = TileSet::Convolution;
    t.blocks_per_sm = kPointwiseBlocks;
  }
  if (kernel.is_chained && kernel.pass == Pass::Forward && t.tiles == TileSet::Convolution)
    t.tiles = TileSet::EngineConvolution;
  const bool is_compiled = !weights && (kernel.algorithm == Algorithm::ImplicitGemm ||
                                        kernel.algorithm == Algorithm::ExplicitGemm);
  const double issue = is_compiled ? p.compiled_issue : best_issue_cycles(gpu, profile);
  t.efficiency =
      pass_factor(kernel, s, profile) * age_factor(work, p) *
      (tensor_core ? profile.tensor.convolution[gpu.architecture] * first_of_generation(work, gpu)
                   : issue_efficiency(gpu, issue, profile));
  t.traffic_bytes = traffic;
  t.result_bytes = kernel.pass != Pass::BackwardData ? t.batch * t.m * t.n * 4.0 : 0.0;
  if (tensor_core && kernel.pass == Pass::Forward) t.most_slices = kMostSlices;
  if (tensor_core) {
    fit_to_tensor_cores(t, s, kernel, is_late);
    if (is_late && element_size(kernel.math) <= Bytes(2)) share_tiles(t, s, kernel.pass);
  }
  t.depth_per_step = depth_per_step(kernel);
  Roofs roofs = estimate_tiles(t, machine, gpu, profile).roofs;
  if (scatters(kernel)) {
    const double additions = t.batch * t.m * t.n;
    roofs.compute += Seconds(additions * p.scatter_bytes / machine.l2.in_si());
  }
  return roofs;
}

}  // namespace tracecast::cost
