#include "hwspecs/tensor_gemm_parameters.hpp"

#include <fmt/format.h>

namespace tracecast {
namespace {

constexpr std::array<std::string_view, kMmaKindCount> kGemmKinds = {"warp", "async_warp",
                                                                    "warp_group", "tensor_memory"};
constexpr std::array<std::string_view, kGemmFormatCount> kGemmFormats = {
    "half", "tf32", "fp8", "fp8_static", "fp8_block", "fp4", "int8", "int8_wo", "int4_wo"};
constexpr std::array<std::string_view, kFormatFamilyCount> kFormatFamilies = {
    "scaled", "blocks", "fours", "int8", "weights"};
constexpr std::array<std::string_view, kGemmEngineCount> kEngines = {"trtllm", "sglang", "vllm"};

/// Activations of fewer bytes are quantised before.
constexpr double kHalfBytes = 2;

using Find = double& (*)(TensorGemmParameters&, std::size_t, std::size_t);

/// Whether an engine has a call of its own for the format: 16-bit GEMMs go straight to the vendor's
/// library.
bool has_call(std::size_t format) {
  return format != static_cast<std::size_t>(GemmFormat::Half) &&
         format != static_cast<std::size_t>(GemmFormat::Tf32);
}

}  // namespace

std::string_view to_string(MmaKind kind) { return kGemmKinds[static_cast<std::size_t>(kind)]; }
std::string_view to_string(GemmFormat format) {
  return kGemmFormats[static_cast<std::size_t>(format)];
}
std::string_view to_string(GemmEngine engine) { return kEngines[static_cast<std::size_t>(engine)]; }

std::string_view to_string(FormatFamily family) {
  return kFormatFamilies[static_cast<std::size_t>(family)];
}

FormatFamily family_of(GemmFormat format) {
  switch (format) {
    case GemmFormat::Fp8Block:
      return FormatFamily::Blocks;
    case GemmFormat::Fp4:
      return FormatFamily::Fours;
    case GemmFormat::Int8:
      return FormatFamily::Int8;
    case GemmFormat::Int8Weights:
    case GemmFormat::Int4Weights:
      return FormatFamily::Weights;
    default:
      return FormatFamily::Scaled;
  }
}

MmaKind mma_kind(const GpuSpec& gpu) {
  const int major = gpu.compute_capability / 10;
  if (major <= 7) return MmaKind::Warp;
  if (major == 8 || major == 12) return MmaKind::AsyncWarp;
  return major == 9 ? MmaKind::WarpGroup : MmaKind::TensorMemory;
}

Precision math_of(GemmFormat format) {
  switch (format) {
    case GemmFormat::Tf32:
      return Precision::Tf32;
    case GemmFormat::Fp8:
    case GemmFormat::Fp8Static:
    case GemmFormat::Fp8Block:
      return Precision::Fp8;
    case GemmFormat::Fp4:
      return Precision::Fp4;
    case GemmFormat::Int8:
      return Precision::Int8;
    case GemmFormat::Half:
    case GemmFormat::Int8Weights:
    case GemmFormat::Int4Weights:
      break;
  }
  return Precision::Fp16;
}

double activation_bytes(GemmFormat format) {
  switch (format) {
    case GemmFormat::Tf32:
      return 4;
    case GemmFormat::Fp8:
    case GemmFormat::Fp8Static:
    case GemmFormat::Int8:
      return 1;
    case GemmFormat::Fp8Block:
      return 1 + 4.0 / 128;  // fp32 scales
    case GemmFormat::Fp4:
      return 0.5 + 1.0 / 16;
    case GemmFormat::Half:
    case GemmFormat::Int8Weights:
    case GemmFormat::Int4Weights:
      break;
  }
  return 2;
}

double weight_bytes(GemmFormat format) {
  switch (format) {
    case GemmFormat::Int8Weights:
    case GemmFormat::Fp8Block:
      return 1;
    case GemmFormat::Int4Weights:
      return 0.5 + 2.0 / 128;  // 16-bit scales of 128 values
    default:
      return activation_bytes(format);
  }
}

std::vector<GemmSlot> gemm_slots() {
  std::vector<GemmSlot> slots;
  const auto add = [&](std::string name, double low, double high, Find find, std::size_t i = 0,
                       std::size_t j = 0) {
    slots.push_back({"tensor_gemm." + std::move(name), low, high, find, i, j, false});
  };
  using P = TensorGemmParameters;
  using I = std::size_t;
  add("start_us", 0, 50, [](P& p, I, I) -> double& { return p.start_us; });
  add("graph_gap_us", 0, 20, [](P& p, I, I) -> double& { return p.graph_gap_us; });
  add("block_cycles", 0, 50000, [](P& p, I, I) -> double& { return p.block_cycles; });
  add("engine.single_block_cycles", 0, 500000,
      [](P& p, I, I) -> double& { return p.single_block_cycles; });
  slots.back().is_factor = true;
  add("engine.single_block_spill", 0.1, 50,
      [](P& p, I, I) -> double& { return p.single_block_spill; });
  slots.back().is_factor = true;
  add("engine.overlap", 1, 10, [](P& p, I, I) -> double& { return p.own_overlap; });
  slots.back().is_factor = true;
  for (I k = static_cast<I>(MmaKind::AsyncWarp); k < kMmaKindCount; ++k) {
    add(
        fmt::format("engine.step_cycles.{}", kGemmKinds[k]), 0, 5000,
        [](P& p, I i, I) -> double& { return p.step_cycles.values[i]; }, k);
    slots.back().is_factor = true;
  }
  add("engine.tile_padding", 0, 10, [](P& p, I, I) -> double& { return p.tile_padding; });
  slots.back().is_factor = true;
  add("engine.serial_slice_us", 0, 100, [](P& p, I, I) -> double& { return p.serial_slice_us; });
  slots.back().is_factor = true;
  add("engine.packed_scales_us", 0, 100, [](P& p, I, I) -> double& { return p.packed_scales_us; });
  slots.back().is_factor = true;
  add("engine.packed_scales_us_per_million", 0, 1000,
      [](P& p, I, I) -> double& { return p.packed_scales_us_per_million; });
  slots.back().is_factor = true;
  add("engine.uneven_tokens_us", 0, 100, [](P& p, I, I) -> double& { return p.uneven_tokens_us; });
  slots.back().is_factor = true;
  add("engine.uneven_tokens_us_per_million", 0, 1000,
      [](P& p, I, I) -> double& { return p.uneven_tokens_us_per_million; });
  slots.back().is_factor = true;
  add("engine.single_token_us", 0, 100, [](P& p, I, I) -> double& { return p.single_token_us; });
  slots.back().is_factor = true;
  add("engine.pass_cycles_per_kib", 0, 5000,
      [](P& p, I, I) -> double& { return p.pass_cycles_per_kib; });
  slots.back().is_factor = true;
  add("engine.scalar_round_us", 0, 20, [](P& p, I, I) -> double& { return p.scalar_round_us; });
  slots.back().is_factor = true;
  add("engine.event_gap", 0.01, 5, [](P& p, I, I) -> double& { return p.event_gap; });
  slots.back().is_factor = true;
  add("block_depth", 0, 5000, [](P& p, I, I) -> double& { return p.block_depth; });
  add("operand_edge", 0, 500, [](P& p, I, I) -> double& { return p.operand_edge; });
  add("wave_quantization", 0, 1, [](P& p, I, I) -> double& { return p.wave_quantization; });
  add("resident_quantization", 0, 1, [](P& p, I, I) -> double& { return p.resident_quantization; });
  add("band_tiles", 1, 1000, [](P& p, I, I) -> double& { return p.band_tiles; });
  add("early_rate", 0.1, 2, [](P& p, I, I) -> double& { return p.early_rate; });
  add("early_stream", 0.1, 2, [](P& p, I, I) -> double& { return p.early_stream; });
  add("split_us", 0, 50, [](P& p, I, I) -> double& { return p.split_us; });
  add("split_bytes_per_clock", 0.1, 2000,
      [](P& p, I, I) -> double& { return p.split_bytes_per_clock; });
  add("stream_bytes_per_clock", 0.001, 10,
      [](P& p, I, I) -> double& { return p.stream_bytes_per_clock; });
  add("stream_growth", 0.3, 5, [](P& p, I, I) -> double& { return p.stream_growth; });
  add("l2_share", 0.01, 2, [](P& p, I, I) -> double& { return p.l2_share; });
  add("unaligned", 0.05, 1, [](P& p, I, I) -> double& { return p.unaligned; });
  add("unaligned_staged", 0.05, 1, [](P& p, I, I) -> double& { return p.unaligned_staged; });
  add("warp_share", 0.2, 1, [](P& p, I, I) -> double& { return p.warp_share; });
  add("dram_efficiency", 0.2, 1, [](P& p, I, I) -> double& { return p.dram_efficiency; });
  add("gddr", 0.5, 1.5, [](P& p, I, I) -> double& { return p.gddr; });
  add("ecc_cost", 0.001, 2, [](P& p, I, I) -> double& { return p.ecc_cost; });
  add("efficiency", 0.2, 2, [](P& p, I, I) -> double& { return p.efficiency; });
  add("flop_pj", 0.01, 50, [](P& p, I, I) -> double& { return p.flop_pj; });
  add("energy_step", 0.2, 2, [](P& p, I, I) -> double& { return p.energy_step; });
  add("node_exponent", 0, 4, [](P& p, I, I) -> double& { return p.node_exponent; });
  add("clock_exponent", 1, 4, [](P& p, I, I) -> double& { return p.clock_exponent; });
  add("hbm_pj_per_byte", 0, 1000, [](P& p, I, I) -> double& { return p.hbm_pj_per_byte; });
  add("gddr_pj_per_byte", 0, 1000, [](P& p, I, I) -> double& { return p.gddr_pj_per_byte; });
  add("base_share", 0, 0.8, [](P& p, I, I) -> double& { return p.base_share; });
  for (I k = 0; k < kMmaKindCount; ++k) {
    const auto of = [&](std::string_view what, Find find) {
      add(fmt::format("{}_of.{}", what, kGemmKinds[k]), 0.1, 10, find, k);
    };
    of("efficiency", [](P& p, I i, I) -> double& { return p.efficiency_of.values[i]; });
    of("stream", [](P& p, I i, I) -> double& { return p.stream_of.values[i]; });
    of("energy", [](P& p, I i, I) -> double& { return p.energy_of.values[i]; });
    of("depth", [](P& p, I i, I) -> double& { return p.depth_of.values[i]; });
    of("start", [](P& p, I i, I) -> double& { return p.start_of.values[i]; });
    of("sustained", [](P& p, I i, I) -> double& { return p.sustained_of.values[i]; });
  }
  for (I f = 1; f < kGemmFormatCount; ++f) {
    if (f == static_cast<I>(GemmFormat::Fp8Static)) continue;
    const auto of = [&](std::string_view what, Find find, I j = 0) {
      add(fmt::format("format.{}.{}", kGemmFormats[f], what), 0.05, 5, find, f, j);
    };
    of("efficiency", [](P& p, I i, I) -> double& { return p.formats[i].efficiency; });
    of("energy", [](P& p, I i, I) -> double& { return p.formats[i].energy; });
    of("stream", [](P& p, I i, I) -> double& { return p.formats[i].stream; });
    for (I k = 0; k < kMmaKindCount; ++k) {
      of(
          fmt::format("efficiency_of.{}", kGemmKinds[k]),
          [](P& p, I i, I j) -> double& { return p.formats[i].efficiency_of.values[j]; }, k);
      of(
          fmt::format("call_of.{}", kGemmKinds[k]),
          [](P& p, I i, I j) -> double& { return p.formats[i].call_of.values[j]; }, k);
    }
  }
  for (I e = 0; e < kGemmEngineCount; ++e) {
    for (I f = 0; f < kGemmFormatCount; ++f) {
      if (!has_call(f)) continue;
      const auto of = [&](std::string_view what, double low, double high, Find find) {
        add(fmt::format("engine.{}.{}.{}", kEngines[e], kGemmFormats[f], what), low, high, find, e,
            f);
      };
      of("call_us", 0, 500, [](P& p, I i, I j) -> double& { return p.engines[i][j].call_us; });
      of("traffic", 0, 20, [](P& p, I i, I j) -> double& { return p.engines[i][j].traffic; });
      if (activation_bytes(static_cast<GemmFormat>(f)) < kHalfBytes) {
        of("row_cycles", 0, 50000,
           [](P& p, I i, I j) -> double& { return p.engines[i][j].row_cycles; });
        of("value_cycles", 0, 50000,
           [](P& p, I i, I j) -> double& { return p.engines[i][j].value_cycles; });
      }
      of("efficiency", 0.05, 5,
         [](P& p, I i, I j) -> double& { return p.engines[i][j].efficiency; });
      of("stream", 0.02, 20, [](P& p, I i, I j) -> double& { return p.engines[i][j].stream; });
    }
  }
  for (const FormatFamily family : {FormatFamily::Scaled, FormatFamily::Blocks}) {
    for (I e = 0; e < kGemmEngineCount; ++e) {
      for (I k = static_cast<I>(MmaKind::AsyncWarp); k < kMmaKindCount; ++k) {
        const auto of = [&](std::string_view what, Find find) {
          add(fmt::format("engine.{}.{}.{}.{}", to_string(family), what, kEngines[e],
                          kGemmKinds[k]),
              0.1, 10, find, static_cast<I>(family) * kGemmEngineCount + e, k);
          slots.back().is_factor = true;
        };
        of("factor_of", [](P& p, I i, I j) -> double& {
          return p.generations[i / kGemmEngineCount][i % kGemmEngineCount][j].efficiency;
        });
        of("call_of", [](P& p, I i, I j) -> double& {
          return p.generations[i / kGemmEngineCount][i % kGemmEngineCount][j].call;
        });
      }
    }
  }
  return slots;
}

}  // namespace tracecast
