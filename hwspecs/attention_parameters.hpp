#pragma once
#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "hwspecs/tensor_gemm_parameters.hpp"

namespace tracecast {

/// In what number formats attention computes and keeps its cache.
enum class AttentionFormat {
  Half,       ///< 16 bits throughout
  HalfOver8,  ///< 16-bit queries over a cache of 8-bit floats; kernels may compute in either
  Fp8,        ///< GEMMs in 8-bit floats
};
inline constexpr std::size_t kAttentionFormatCount = 3;
[[nodiscard]] std::string_view to_string(AttentionFormat format);

/// Widths of heads that libraries build kernels for: up to 64, 128, 192, 256, and beyond. Latent
/// attention: projected, absorbed.
inline constexpr std::size_t kHeadWidthCount = 5;
[[nodiscard]] constexpr std::size_t head_width_class(double width) {
  return width <= 64 ? 0 : width <= 128 ? 1 : width <= 192 ? 2 : width <= 256 ? 3 : 4;
}

/// Engines write kernels for each generation of the MMA instruction from asynchronous copies on;
/// older GPUs run the first's.
inline constexpr std::size_t kEngineKindCount = 3;
[[nodiscard]] constexpr std::size_t engine_kind(MmaKind kind) {
  return kind == MmaKind::Warp ? 0 : static_cast<std::size_t>(kind) - 1;
}

template <std::size_t N>
constexpr std::array<double, N> ones() {
  std::array<double, N> all{};
  all.fill(1);
  return all;
}
/// Factors on what engines or generations have in common; 1 where no row told.
struct ByEngineKind {
  std::array<std::array<double, kEngineKindCount>, kGemmEngineCount> values{
      ones<kEngineKindCount>(), ones<kEngineKindCount>(), ones<kEngineKindCount>()};
};
/// Further by format.
struct ByEngineKindFormat {
  std::array<std::array<std::array<double, kAttentionFormatCount>, kEngineKindCount>,
             kGemmEngineCount>
      values;
  ByEngineKindFormat() {
    for (auto& engine : values) engine.fill(ones<kAttentionFormatCount>());
  }
};

/// What engines' kernels reach of the factor below: by engine, generation, format and width of
/// head. Which kernel an engine has for a width and a format, written for this generation or an
/// older one, is decided by its authors and not by the hardware.
struct AttentionFactors {
  std::array<std::array<std::array<std::array<double, kHeadWidthCount>, kAttentionFormatCount>,
                        kEngineKindCount>,
             kGemmEngineCount>
      values;
  AttentionFactors() {
    for (auto& engine : values)
      for (auto& kind : engine) kind.fill(ones<kHeadWidthCount>());
  }
};

/// Attention of many new tokens; formulas in sim/cost/prefill.hpp.
struct PrefillParameters {
  double efficiency = 0.5;  ///< of the tensor cores' peak, GEMMs alone
  double wide = 0;          ///< time more per 128 of width beyond 128: fewer registers and buffers
  double softmax = 1;       ///< time of a score over one result of the special function units
  double overlap = 3;       ///< exponent at which GEMMs and softmax of a tile overlap; 1 = in turn
  double block_cycles = 0;  ///< to start and end a block
  double tile_cycles = 0;   ///< to load and store 128 queries of width 128
  double latency_cycles = 0;       ///< of a single block
  double key_cycles = 0;           ///< of a single block, per tile of keys
  double tail = 0;                 ///< share of the longest block that no other covers
  double energy = 1;               ///< per operation over that of GEMMs
  double l2_share = 1;             ///< share of L2 that keeps data from one repetition to the next
  double dram_efficiency = 0.8;    ///< of the bandwidth
  double l2_bytes_per_clock = 50;  ///< per SM
  double triton = 1;               ///< factor of Triton's kernels over an engine's usual ones
  double clock_exponent = 0.5;     ///< calls take (2 GHz / clock)^this as long
  double write_us = 0;             ///< of the call, what writes the cache
  double cast_us = 0;              ///< more, where a call narrows what it gets
  double host_us = 0;              ///< of a call that the host launches kernel by kernel
  double upcasts_per_clock = 1;    ///< 8-bit values of a cache made 16-bit ones, per SM
  std::array<double, kEngineKindCount> host_of = ones<kEngineKindCount>();
  std::array<double, kEngineKindCount> efficiency_of = ones<kEngineKindCount>();
  std::array<double, kEngineKindCount> softmax_of = ones<kEngineKindCount>();
  std::array<double, kGemmEngineCount> call_us{10, 10, 10};  ///< kernels before and after
  std::array<double, kGemmEngineCount> traffic = ones<kGemmEngineCount>();  ///< of those
  std::array<double, kGemmEngineCount> softmax_by = ones<kGemmEngineCount>();
  ByEngineKind call_of;
  ByEngineKind low_precision_call;  ///< on it, where GEMMs are of 8 bits
  ByEngineKind late_call;           ///< on it, in versions of mid-2026
  ByEngineKind block_of;
  ByEngineKind window;  ///< tiles of keys that a block reads beyond its window
  AttentionFactors factor;
};

/// Attention of one new token a sequence over its cache; formulas in sim/cost/decode.hpp.
struct DecodeParameters {
  double keys_per_split = 128;          ///< fewest of a part
  double fill = 1.5;                    ///< blocks per SM that parts are made for
  double wave_quantization = 0.5;       ///< 1 = a partial wave costs a whole one, 0 = not at all
  double stream_bytes_per_clock = 0.1;  ///< that an SM draws, per KiB of its blocks' buffers
  double efficiency = 0.5;              ///< of the tensor cores' peak
  double softmax = 1;                   ///< as PrefillParameters::softmax
  double block_cycles = 1000;           ///< to start and end a block, at 2 GHz
  double padding = 1;         ///< cost of keys that fill up the last tile of 64, of a key's
  double splits = 40;         ///< most parts of a sequence's keys
  double ungrouped = 1;       ///< time of a single head's kernel for its keys, over a group's
  double ungrouped_rows = 4;  ///< queries whose arithmetic it does for each
  double l2_share = 0.8;
  double dram_efficiency = 0.9;
  double l2_bytes_per_clock = 30;
  double clock_exponent = 0.7;
  double cast_us = 0, host_us = 0;  ///< as PrefillParameters has them
  double upcasts_per_clock = 1;     ///< the same
  double triton = 1;                ///< factor of Triton's kernels, as PrefillParameters has it
  double upcast_us = 0;             ///< the kernel that does so, before its values
  std::array<double, kEngineKindCount> host_of = ones<kEngineKindCount>();
  /// Time of Triton's kernel for a single head of a latent cache over that for groups.
  std::array<double, kGemmEngineCount> triton_single = ones<kGemmEngineCount>();
  double embed_us =
      0;  ///< saved where TensorRT-LLM's kernel embeds positions and writes the cache itself
  double copy_us = 4;  ///< to regroup queries and results, where a kernel wants a group as rows
  std::array<double, kEngineKindCount> efficiency_of = ones<kEngineKindCount>();
  std::array<double, kEngineKindCount> stream_of = ones<kEngineKindCount>();
  std::array<double, kGemmEngineCount> call_us{9, 9, 9};
  std::array<double, kGemmEngineCount> efficiency_by = ones<kGemmEngineCount>();
  std::array<double, kGemmEngineCount> combine_us{1, 1, 1};  ///< to add up parts
  std::array<double, kGemmEngineCount> traffic =
      ones<kGemmEngineCount>();  ///< of its kernels around
  ByEngineKind block_of;
  ByEngineKindFormat call_of;
  ByEngineKindFormat late_call;  ///< as PrefillParameters has it
  ByEngineKind late_block;       ///< on a block's start and end, in those versions
  ByEngineKindFormat splits_of;
  ByEngineKindFormat single_call;  ///< on the call, of a single head's kernel; TensorRT-LLM alone
  ByEngineKindFormat single_of;    ///< on `ungrouped`; the same
  ByEngineKindFormat window;       ///< tiles of 128 keys read beyond the window
  AttentionFactors factor;
};

/// Attention with keys and values of its own heads, and over one latent vector a token.
struct AttentionParameters {
  PrefillParameters prefill, latent_prefill;
  DecodeParameters decode, latent_decode;
};

/// A parameter of the struct by name, "attention.prefill.softmax", and what values make sense.
struct AttentionSlot {
  std::string name;
  double low = 0, high = 0;
  std::function<double&(AttentionParameters&)> find;
  bool is_factor = false;  ///< may be missing from a profile: 1, or 0 of times that no row told
};
[[nodiscard]] std::vector<AttentionSlot> attention_slots();

}  // namespace tracecast
