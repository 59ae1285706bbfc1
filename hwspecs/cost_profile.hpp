#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hwspecs/attention_parameters.hpp"
#include "hwspecs/cost/recorded_parameters.hpp"
#include "hwspecs/expert_parameters.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "hwspecs/tensor_gemm_parameters.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// The formulas that price a kernel; errors are known per formula.
enum class CostForm {
  Gemm,
  Convolution,
  Streaming,
  Reduction,
  TensorCore,
  Recurrent,
  TensorGemm,
  Prefill,        ///< attention of many new tokens in one kernel
  Decode,         ///< attention of one new token a sequence over its cache
  LatentPrefill,  ///< the same two over latent vectors
  LatentDecode,
  Experts,       ///< MoE networks, routing to weighted sum
  Quantization,  ///< one kernel that narrows values
};
inline constexpr std::size_t kCostFormCount = 13;
[[nodiscard]] std::string_view to_string(CostForm form);

/// A dimensionless parameter per GPU generation.
struct ByArchitecture {
  static constexpr std::size_t kCount = 9;
  std::array<double, kCount> values{};
  [[nodiscard]] double operator[](Architecture a) const {
    return values[static_cast<std::size_t>(a)];
  }
};

/// Sustained share of the boost clock under the power limit; formula in
/// sim/cost/sustained_clock.hpp.
struct ClockParameters {
  double consumer_boost = 0;  ///< clock over rated boost of boards without ECC, which have no clock
                              ///< ceiling of their own
  double ceiling = 0;         ///< share reached with power to spare
  /// Power for arithmetic per peak FP32 TFLOP/s at 16 nm below which the clock drops.
  double knee_w_per_tflops = 0;
  double power_exponent = 0;  ///< power of arithmetic goes with the clock to this
  double half_factor = 0;  ///< share of the 16-bit CUDA-core peak that paired arithmetic sustains
  double dense_factor =
      0;  ///< issue limit where one scheduler feeds 32 lanes each cycle (Ampere GA10x on)
  double burst_gain = 0;  ///< of a single short kernel's rate, per share of the clock lost to power
  double burst_span_ms = 0;  ///< duration of a single kernel that halves that gain
};
/// Matrix GEMMs on CUDA cores; formula in sim/cost/tile_gemm.hpp.
struct GemmParameters {
  /// Cycles that a scheduler issues per multiply-add of a warp in a matrix library's inner loop
  /// (sim/cost/issue.hpp).
  double issue = 0;
  double tile_overhead = 0;               ///< extra time per unit of (64/tx + 64/ty - 1)
  double small_thread_tile_overhead = 0;  ///< the same of Kepler's kernels, whose threads hold
                                          ///< tiles of 4x4 results (sim/cost/tile_gemm.hpp)
  double prologue_steps = 0;              ///< k steps' worth of time to start and end a block
  double wave_quantization = 0;           ///< 1 = a partial wave costs a whole one, 0 = not at all
  /// Cycles per step of k of a block alone on its SM: these, and dependent instructions of the
  /// generation's latency.
  double step_base_cycles = 0, step_latencies = 0;
};
/// Convolutions on CUDA cores; formulas in sim/cost/convolution.hpp.
struct ConvolutionParameters {
  // Cycles that a scheduler issues for one multiply-add of a warp and what goes with it
  // (sim/cost/issue.hpp):
  double assembled_issue = 0;  ///< in kernels of cuDNN's assembler, Maxwell on
  double compiled_issue =
      0;  ///< in kernels of the compiler: all of Kepler's, the others' IMPLICIT_GEMM and GEMM
  double winograd_issue = 0;   ///< more, for the transforms of F(2x2,3x3) in one kernel
  double spectra_issue = 0;    ///< in GEMMs of complex numbers, per real multiply-add
  double tile_overhead = 0;    ///< as gemm.tile_overhead, of convolution kernels
  double prologue_cycles = 0;  ///< to start and end a block of 128x128 results (tile_gemm.hpp)
  double winograd_step_cycles =
      0;                     ///< cycles per input channel of a fused Winograd block alone on its SM
  double backward_data = 0;  ///< factor on the efficiency
  double scatter_bytes = 0;  ///< of L2 traffic that one addition to an image's gradient costs
  double backward_weights = 0;            ///< factor on the efficiency
  double pointwise_backward_weights = 0;  ///< further factor for 1x1 filters
  double winograd_gemm =
      0;  ///< factor on a matrix library's rate for the GEMMs of the non-fused Winograd
  double explicit_gemm = 0;  ///< factor on a matrix library's rate for images im2col one by one
  double direct_cycles = 0;  ///< of an SM per output and tap of the filter, in depthwise kernels
  double old_kernels = 0;  ///< rate of the one-kernel algorithms of cuDNN before 6, of those since
  double transform_cost =
      0;  ///< cycles of Winograd's and FFT's transforms over those of plain streaming
};
/// Convolutions on tensor cores; formula in sim/cost/tile_gemm.hpp.
struct TensorParameters {
  ByArchitecture convolution;   ///< efficiency of the best tile
  double backward_data = 0;     ///< factor on the efficiency of convolutions
  double backward_weights = 0;  ///< the same, whatever the filter
  double tile_overhead = 0;     ///< extra time per unit of (128/tx + 128/ty - 1)
  double step_cycles = 0;       ///< cycles per step of k of a block alone on its SM
  double prologue_steps = 0;    ///< as gemm.prologue_steps
};
/// Memory; formulas in sim/cost/streaming.hpp and reduction.hpp.
struct MemoryParameters {
  double efficiency = 0;  ///< of the bandwidth in the board's ECC state, controllers since Volta
  double old_efficiency = 0;      ///< the same of controllers before Volta
  double l2_share = 0;            ///< share of L2 that keeps a footprint from one use to the next
  double l2_bytes_per_clock = 0;  ///< per SM
  double elements_per_clock = 0;  ///< per SM: one-instruction elements issued
  /// Rows that a block or warp reduces at once: instructions a warp, formula in
  /// sim/cost/reduction.hpp.
  double row_block_instructions = 0;    ///< per row and warp of the block that reduces it
  double row_warp_instructions = 0;     ///< per row that one warp reduces alone
  double row_element_instructions = 0;  ///< per 32 elements that are read once and written once
  double row_l2_share = 0;  ///< share of L2 that keeps a row from one pass of its block to the next
  double row_efficiency =
      0;  ///< bandwidth share of reductions over contiguous rows, of `efficiency`
  double transpose_efficiency = 0;  ///< bandwidth share of layout changes, of `efficiency`
  double block_pass_cycles =
      0;  ///< latency of one pass of a block over a short row, and its reduction
  double block_bytes_per_clock = 0;  ///< that a block draws alone, its loads in flight over latency
  double window_instructions = 0;    ///< of a warp, per cell of the pooling windows of its threads
};
/// Steps of recurrent layers; formula in sim/cost/recurrent.hpp.
struct RecurrentParameters {
  double efficiency = 0;  ///< of a step's GEMM, of what the best kernel would reach
  double persistent_efficiency =
      0;  ///< of the sustained rate, in kernels that keep the weights on chip
  double persistent_step_us = 0;  ///< barrier over all blocks after every step
};
/// Fixed time of a kernel on the GPU.
struct KernelParameters {
  // First block starts to last block ends in a kernel without work:
  double fill_us = 0;         ///< what does not depend on the SM
  double fill_latencies = 0;  ///< and dependent instructions of the generation's latency
};

/// Board power from activity and the voltage that a clock needs; formula in sim/step/power.hpp. 1
/// pJ/FLOP is 1 W per TFLOP/s, 1 pJ/byte is 1 mW per GB/s.
struct PowerParameters {
  double node_exponent = 0;  ///< energy per operation goes with (process_nm / 16)^this
  double clocked_pj =
      0;  ///< per operation that the lanes of working SMs could do, done or not, at 16 nm
  double flop_pj = 0;  ///< per operation on CUDA cores, at 16 nm, operands and instruction included
  double tensor_flop_pj = 0;    ///< per operation on tensor cores, at 16 nm
  double hbm_pj_per_byte = 0;   ///< per byte moved
  double gddr_pj_per_byte = 0;  ///< per byte moved
  double gddr_active_idle_pj_per_byte =
      0;                 ///< per byte that GDDR could move once its clock is up, moved or not
  double gddr6x_of = 1;  ///< both of GDDR6X, over those of GDDR6 and older
  double gddr7_of = 1;   ///< both of GDDR7, likewise
  double hbm_active_idle_pj_per_byte =
      0;  ///< the same of HBM, from wgmma on, with the chip's clocks
  double pass_pj_per_byte =
      0;  ///< from Ampere on, per byte that passes between L2 and SMs, with what lanes do with it
  double gemm_pass_of = 0;  ///< that of GEMMs on tensor cores in long runs, over it
  double busy_cycle_pj =
      0;  ///< from wgmma on, per clock of an SM that works but not on tensor cores at their peak
  double warp_busy_of = 1;   ///< that of SMs whose tensor cores take instructions of warps, over it
  double voltage_knee = 0;   ///< share of the free clock below which the voltage stays at its floor
  double voltage_floor = 0;  ///< lowest voltage over that of the free clock
  double log_sd = 0;         ///< of ln(measured / predicted) of a board's average power
  double min_clock = 0;      ///< lowest clock that a power limit sets, share of the free clock
};
/// What a CUDA context takes of the device's memory; formula in sim/step/memory/memory.hpp.
struct ContextParameters {
  double bytes_per_thread = 0;  ///< per thread that fits on the device: stacks, saved state
};

/// Kernels on CPU cores; formulas in sim/cost/cpu.hpp.
struct CpuParameters {
  double eigen_efficiency = 0;    ///< of one core's vector peak, Eigen's contractions
  double library_efficiency = 0;  ///< the same, of a matrix library
  double convolution_factor = 0;  ///< a convolution's efficiency over a GEMM's: packing of patches
  double backward_factor = 0;     ///< the same of a backward pass over the forward pass
  double stream_efficiency = 0;   ///< of the vector peak in kernels that pass over their data
  double eigen_core_loss = 0;     ///< time lost per further core, of the time of perfect sharing
  double library_core_loss = 0;   ///< the same, of a matrix library
  double memory_efficiency = 0;   ///< of a socket's memory bandwidth
  double remote_efficiency =
      0;                     ///< what each further socket adds of its own, memory placed blindly
  double core_gb_per_s = 0;  ///< most that one core draws from memory
  double cache_bytes_per_clock = 0;  ///< of the last-level cache, each core
  double parallel_us = 0;            ///< to wake the thread pool and join it
  double error = 0;  ///< standard deviation of ln(measured / predicted) of any kernel
};

/// What one board does that its spec does not say: cooling, limits, firmware. 1 = as the spec says.
struct BoardFactors {
  double arithmetic = 1;  ///< on the sustained arithmetic rate
  double bandwidth = 1;   ///< on the memory bandwidth
};

/// ln-error of one form: standard deviation of ln(measured / predicted).
struct ErrorSd {
  double measured = 0;     ///< on a GPU that was measured
  double transferred = 0;  ///< on GPUs of generations that were measured
  double spec = 0;         ///< on generations without any measurement
  /// Calls of engines alone: spread of the main kernel over that of the kernels around it, so that
  /// the call's is that of the basis times sqrt(1 + (body * share of the main kernel)^2).
  double body = 0;
  /// The same alone: factors on that spread, by whose kernels run (GemmEngine), of calls below 16
  /// bits, of those that few kernels were written for, and of windows (CallUncertainty); and of a
  /// call that is as fast as the board's roofs allow, by the share of it that they are.
  std::array<double, kGemmEngineCount> engine{1, 1, 1};
  double low_precision = 1, rare = 1, window = 1, roof = 1;
};

/// What adds to a form's error for reasons that an estimate knows beforehand: standard deviations
/// of ln(measured / predicted), added in squares; formula in sim/cost/spread.hpp.
struct ErrorCauses {
  double board = 0;  ///< no addition: of a form's error, what all its kernels on one board share
  double under_occupied = 0;  ///< too few blocks to fill the GPU, or loads that nothing hides
  /// GEMMs whose tiles a library's rules pick among many, on generations before Volta.
  double library_rules = 0;
  double low_precision_arithmetic =
      0;                            ///< 8- and 16-bit data in GEMMs and convolutions on CUDA cores
  double low_precision_stream = 0;  ///< the same in kernels that only move data
  /// Arithmetic under a power limit, per unit of -ln(share of the clock that the limit leaves).
  /// Boards' cooling, voltage and inputs differ; T4 and P4 repeat to 20 %.
  double power_limit = 0;
  /// GEMMs in other formats than 16 bits: of the vendor's library, then of each engine's kernels
  /// (GemmEngine).
  std::array<double, 1 + kGemmEngineCount> tensor_gemm_format{};
  /// On top of that, by what the format asks of kernels (FormatFamily).
  std::array<double, kFormatFamilyCount> tensor_gemm_family{};
  double tensor_gemm_warp =
      0;  ///< GEMMs on tensor cores without asynchronous copies (Volta, Turing)
  /// Boards faster than any of the fit: per unit of ln(peak or bandwidth / the greatest there), the
  /// greater of the two; GEMMs on tensor cores, and forms before them.
  double tensor_gemm_beyond = 0, beyond = 0;
};

/// The fastest boards that a form was fitted on; 0: not known.
struct FormReach {
  double tflop_per_s = 0;  ///< tensor cores in 16 bits for forms that run on them, else fp32
  double gb_per_s = 0;
};

/// Where fitted values come from.
struct ProfileDataSet {
  std::string key;
  std::string title;
  std::string rows;  ///< which rows, how many, of which GPUs
  std::string date;
};
/// One parameter as the file states it.
struct ProfileParameter {
  std::string name;  ///< "gemm.step_cycles.kepler"
  double value = 0;
  double log_sd = 0;     ///< uncertainty: standard deviation of ln(value)
  std::string data_set;  ///< key, or "prior": set from documents and judgement, nothing fitted
};

/// Everything the cost model has learned: few physical numbers, none of them keyed by a GPU's or
/// network's name. A profile that exists is valid: complete and within bounds.
struct CostProfile {
  std::string id;
  std::string title;
  ClockParameters clock;
  GemmParameters gemm;
  ConvolutionParameters convolution;
  TensorParameters tensor;
  TensorGemmParameters tensor_gemm;
  AttentionParameters attention;
  MoeParameters moe;
  MemoryParameters memory;
  RecurrentParameters recurrent;
  KernelParameters kernel;
  RecordedParameters recorded;
  PowerParameters power;
  ContextParameters context;
  CpuParameters cpu;
  std::array<ErrorSd, kCostFormCount> error{};
  ErrorCauses error_causes;
  /// [form][architecture]: rows of this generation were in the fit of this form.
  std::array<std::array<bool, ByArchitecture::kCount>, kCostFormCount> fitted{};
  std::vector<std::string> fitted_gemm_gpus;  ///< ids of GPUs whose rows are in the fit of GEMMs
  /// The same of each form from attention on; empty for the others.
  std::array<std::vector<std::string>, kCostFormCount> fitted_gpus;
  std::array<FormReach, kCostFormCount> reach{};
  std::string
      measured_gpu;  ///< id of the GPU a local calibration measured; empty in the default profile

  BoardFactors board;  ///< of `measured_gpu`

  std::vector<ProfileDataSet> data_sets;
  std::vector<ProfileParameter> parameters;  ///< in file order
};

/// Factors of a GPU: those of the profile on the GPU it was measured on, 1 elsewhere.
[[nodiscard]] BoardFactors board_factors(const CostProfile& profile, const GpuSpec& gpu);

/// Reads a profile in text format (hwspecs/proto/cost_profile.proto). `where` names it in errors.
/// Throws InputError: syntax, unknown, missing or repeated parameter, value out of bounds.
[[nodiscard]] CostProfile parse_cost_profile(std::string_view text, std::string_view where);

/// The profile in the binary (hwspecs/cost/default.textproto).
[[nodiscard]] const CostProfile& default_cost_profile();

/// What is believed of parameters before any measurement of a GPU (hwspecs/cost/prior.textproto):
/// those that a fit may move, log_sd above 0.
[[nodiscard]] const std::vector<ProfileParameter>& prior_parameters();
/// Reads such a file; `where` names it in errors. Throws InputError.
[[nodiscard]] std::vector<ProfileParameter> parse_prior_parameters(std::string_view text,
                                                                   std::string_view where);

/// The profile as a file in text format, parameters and data sets in their order.
[[nodiscard]] std::string format_cost_profile(const CostProfile& profile);

/// The profile with one parameter of another value, for fits and `--set`.
/// Throws InputError when there is no such parameter or the value is out of its bounds.
[[nodiscard]] CostProfile with_parameter(CostProfile profile, std::string_view name, double value);
/// Smallest and largest value that a parameter may have. Throws InputError when there is none.
[[nodiscard]] std::pair<double, double> parameter_bounds(std::string_view name);
/// The value of a parameter by name. Throws InputError when there is none.
[[nodiscard]] double get_parameter(const CostProfile& profile, std::string_view name);
/// Names of all parameters, in the order of the struct.
[[nodiscard]] std::vector<std::string> parameter_names();

}  // namespace tracecast
