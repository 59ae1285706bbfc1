#pragma once
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/gpu_spec.hpp"

namespace tracecast {

/// How tensor cores are reported what to do, by generation of the instruction. PTX ISA names in
/// brackets.
enum class MmaKind {
  Warp,          ///< operands pass through registers into shared memory (wmma, mma; Volta, Turing)
  AsyncWarp,     ///< the same instructions fed by asynchronous copies (Ampere, Ada, consumer
                 ///< Blackwell)
  WarpGroup,     ///< four warps, operands in shared memory, fed by TMA (wgmma; Hopper)
  TensorMemory,  ///< one or two SMs, results in tensor memory (tcgen05; data-centre Blackwell)
};
inline constexpr std::size_t kMmaKindCount = 4;
[[nodiscard]] std::string_view to_string(MmaKind kind);
/// By compute capability: 7.x, 8.x and 12.x, 9.x, 10.x and whatever comes after. Source: PTX ISA,
/// target notes of mma, wgmma and tcgen05.mma; sm_120 has neither wgmma nor tcgen05.
[[nodiscard]] MmaKind mma_kind(const GpuSpec& gpu);

/// What a GEMM on tensor cores multiplies: formats of both operands and of the instruction. Results
/// have 16 bits.
enum class GemmFormat {
  Half,         ///< fp16 or bf16
  Tf32,         ///< fp32 in memory
  Fp8,          ///< one scale per tensor, per token or per channel
  Fp8Static,    ///< the same, the scale of the activations given beforehand
  Fp8Block,     ///< scales per 128 values of the activations and 128x128 weights
  Fp4,          ///< nvfp4, mxfp4: scales per 16 or 32 values
  Int8,         ///< both operands (SmoothQuant)
  Int8Weights,  ///< 16-bit GEMMs of weights kept in 8 bits
  Int4Weights,  ///< 16-bit GEMMs of weights kept in 4 bits
};
inline constexpr std::size_t kGemmFormatCount = 9;
[[nodiscard]] std::string_view to_string(GemmFormat format);
/// What formats below 16 bits ask of kernels, and so how alike engines' are.
enum class FormatFamily {
  Scaled,   ///< one scale a row or a tensor, after the GEMM
  Blocks,   ///< 8-bit floats, scales along k
  Fours,    ///< 4-bit floats, scales along k that the instruction takes
  Int8,     ///< both operands in 8-bit integers
  Weights,  ///< 16-bit GEMMs of narrow weights
};
inline constexpr std::size_t kFormatFamilyCount = 5;
[[nodiscard]] std::string_view to_string(FormatFamily family);
/// Of formats other than 16 bits and TF32.
[[nodiscard]] FormatFamily family_of(GemmFormat format);
/// Number format whose tensor-core peak bounds the GEMM.
[[nodiscard]] Precision math_of(GemmFormat format);
/// Bytes of one value of the activations and of the weights, scales included.
[[nodiscard]] double activation_bytes(GemmFormat format);
[[nodiscard]] double weight_bytes(GemmFormat format);

/// Whose kernels run: inference engines call libraries of their own and quantise activations
/// before.
enum class GemmEngine { TensorRtLlm, SgLang, Vllm };
inline constexpr std::size_t kGemmEngineCount = 3;
[[nodiscard]] std::string_view to_string(GemmEngine engine);

/// A factor per instruction generation on what all have in common; 1 where no row told.
struct ByMmaKind {
  std::array<double, kMmaKindCount> values{1, 1, 1, 1};
  [[nodiscard]] double operator[](MmaKind kind) const {
    return values[static_cast<std::size_t>(kind)];
  }
};

/// What a number format changes against 16-bit GEMMs of the same GPU.
struct FormatParameters {
  double efficiency = 1;    ///< of the format's own peak
  double energy = 1;        ///< per operation
  double stream = 1;        ///< bytes that a block draws per clock
  ByMmaKind efficiency_of;  ///< further factor on the efficiency
  ByMmaKind call_of;        ///< on what engines do before
};
/// What an engine's call adds to the GEMM, and how its kernels compare with the vendor's library.
struct EngineParameters {
  double call_us = 1;  ///< of kernels before the GEMM, whatever the size
  double traffic = 1;  ///< of their memory traffic, over one pass that reads and writes activations
  double row_cycles = 0;    ///< at 2 GHz, of an SM that holds 2,048 threads: to quantise a row of
                            ///< activations, whatever its length
  double value_cycles = 0;  ///< the same for each 1,024 values of the row, hidden behind memory
  double efficiency = 1;    ///< of the GEMM's kernels; of Fp8Static over Fp8's
  double stream = 1;        ///< bytes that a block draws per clock; the same
};

/// How an engine's kernels of one generation differ from its others: which tiles and stages they
/// have is their authors' choice.
struct EngineGeneration {
  double efficiency = 1;  ///< further factor on the efficiency
  double call = 1;        ///< on what it does before
};

/// Matrix GEMMs on tensor cores; formulas in sim/cost/GEMM.hpp.
struct TensorGemmParameters {
  double start_us =
      0;  ///< launch of the grid to the first block, and the last block's end, at 2 GHz
  double graph_gap_us = 0;  ///< from one kernel of a captured graph to the next
  double block_cycles = 0;  ///< to start and end a block
  /// Engines' kernels that hold an SM by one block (sim/cost/engine_tiles.cpp): cycles of its end
  /// that no other block hides, and times that where registers do not hold its results.
  double single_block_cycles = 0, single_block_spill = 1;
  /// Engines' kernels: exponent at which memory hides behind the rest; 1 = one after the other, 3 =
  /// as in the vendor's.
  double own_overlap = 3;
  /// Engines' kernels: SM cycles from one stage of 128 bytes of k to the next, however small the
  /// tile. By MmaKind.
  ByMmaKind step_cycles{{0, 0, 0, 0}};
  /// Engines' kernels on Hopper: further time of a tile past the last token, which bulk copies fill
  /// with zeros, over that of a tile.
  double tile_padding = 0;
  /// Engines' passes over activations before a GEMM: SM cycles for each KiB that comes from L2 or
  /// goes there, beside what misses it.
  double pass_cycles_per_kib = 0;
  /// TensorRT-LLM's pass with static scales: from one value of a thread to its next, which waits
  /// for memory.
  double scalar_round_us = 0;
  /// What a single call between two events adds, over the host's launch.
  double event_gap = 1;
  double block_depth = 0;  ///< elements of k whose time a block needs to fill its pipeline
  double operand_edge =
      0;  ///< edge of the square tile whose operands take as long as its arithmetic
  double wave_quantization = 0;  ///< 1 = a partial wave costs a whole one, 0 = not at all
  double resident_quantization =
      0;  ///< the same of kernels that stay on their SMs and take tile after tile
  /// Tiles of the vendor's kernels that one sweep of the grid is wide; 1 of engines' own, which
  /// sweep tile by tile.
  double band_tiles = 1;
  double early_rate = 1;       ///< rate of libraries without such kernels, over that of later ones
  double early_stream = 1;     ///< the same of what a block draws
  double serial_slice_us = 0;  ///< of slices of k that add to the results in turn: each at 2 GHz
  double packed_scales_us =
      0;  ///< to lay out fp32 scales of weights for tensor memory in every call
  /// The same for each million of those scales, of which every feature has one for 128 values of k
  /// by then.
  double packed_scales_us_per_million = 0;
  /// TensorRT-LLM's scales by block on data-centre Blackwell: to lay out those of tokens that are
  /// no multiple of four, and for a million of them.
  double uneven_tokens_us = 0, uneven_tokens_us_per_million = 0;
  /// vLLM's fp8 on data-centre Blackwell: what one token takes more, whose only scale goes by the
  /// way of tensors'.
  double single_token_us = 0;
  double split_us = 0;                ///< to add up slices of k, whatever the size
  double split_bytes_per_clock = 0;   ///< per SM, of partial results written and read again
  double stream_bytes_per_clock = 0;  ///< that a block draws, per KiB of its SM's shared memory
  double stream_growth = 0;           ///< of that from one instruction generation to the next
  double l2_share = 0;                ///< share of L2 that keeps data from one use to the next
  double unaligned = 0;               ///< rate of rows that do not begin at multiples of 16 bytes
  double unaligned_staged = 0;  ///< the same at multiples of 2 bytes where aligned ones are copied
                                ///< asynchronously
  double warp_share = 0;  ///< peak of warp-level instructions over that of the generation after it
  double dram_efficiency = 0;  ///< of the bandwidth without ECC
  double gddr = 0;             ///< of that, boards with GDDR
  double ecc_cost = 0;         ///< share of the bandwidth loss that the spec states for ECC on GDDR
  double efficiency = 0;       ///< of the peak, large tiles, before the operands' share
  double flop_pj = 0;          ///< per operation in 16 bits at 7 nm and 1.41 GHz
  double energy_step = 0;      ///< of that from one instruction generation to the next
  double node_exponent = 0;    ///< energy per operation goes with (process_nm / 7)^this
  double clock_exponent = 0;   ///< power of arithmetic goes with the clock to this
  double hbm_pj_per_byte = 0, gddr_pj_per_byte = 0;
  double base_share =
      0;  ///< of the power between active-idle and the limit, drawn whatever a kernel does

  ByMmaKind efficiency_of, stream_of, energy_of, depth_of, start_of;
  /// Energy per operation in the middle of a long run on real data, over that of the short runs
  /// that the fit sees.
  ByMmaKind sustained_of;
  std::array<FormatParameters, kGemmFormatCount> formats;
  std::array<std::array<EngineParameters, kGemmFormatCount>, kGemmEngineCount> engines;
  /// By family of formats, engine and MmaKind; of families that several generations have.
  std::array<std::array<std::array<EngineGeneration, kMmaKindCount>, kGemmEngineCount>,
             kFormatFamilyCount>
      generations;

  /// Fp8Static is Fp8 but for the engine's call.
  [[nodiscard]] const FormatParameters& format(GemmFormat f) const {
    return formats[static_cast<std::size_t>(f == GemmFormat::Fp8Static ? GemmFormat::Fp8 : f)];
  }
  [[nodiscard]] const EngineParameters& engine(GemmEngine e, GemmFormat f) const {
    return engines[static_cast<std::size_t>(e)][static_cast<std::size_t>(f)];
  }
  [[nodiscard]] const EngineGeneration& generation(GemmEngine e, GemmFormat f, MmaKind k) const {
    return generations[static_cast<std::size_t>(family_of(f))][static_cast<std::size_t>(e)]
                      [static_cast<std::size_t>(k)];
  }
};

/// A parameter of the struct by name, "tensor_gemm.format.fp8.energy", and what values make sense.
struct GemmSlot {
  std::string name;
  double low = 0, high = 0;
  double& (*find)(TensorGemmParameters&, std::size_t, std::size_t);
  std::size_t i = 0, j = 0;  ///< handed to `find`
  bool is_factor = false;    ///< may be missing from a profile: without effect
};
[[nodiscard]] std::vector<GemmSlot> gemm_slots();

}  // namespace tracecast
