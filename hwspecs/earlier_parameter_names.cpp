#include "hwspecs/earlier_parameter_names.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace tracecast {
namespace {

/// Parts of names between dots.
constexpr std::array<std::pair<std::string_view, std::string_view>, 22> kParts{{
    {"product", "tensor_gemm"},
    {"product_beyond", "tensor_gemm_beyond"},
    {"product_family", "tensor_gemm_family"},
    {"product_format", "tensor_gemm_format"},
    {"product_warp", "tensor_gemm_warp"},
    {"hbm_awake_pj_per_byte", "hbm_active_idle_pj_per_byte"},
    {"gddr_awake_pj_per_byte", "gddr_active_idle_pj_per_byte"},
    {"starved", "under_occupied"},
    {"triton_lone", "triton_single"},
    {"narrow", "low_precision"},
    {"narrow_arithmetic", "low_precision_arithmetic"},
    {"narrow_stream", "low_precision_stream"},
    {"narrow_call", "low_precision_call"},
    {"overhang", "tile_padding"},
    {"widened_per_clock", "upcasts_per_clock"},
    {"widen_us", "upcast_us"},
    {"pace_of", "factor_of"},
    {"lone_of", "single_of"},
    {"lone_call", "single_call"},
    {"lone_block_cycles", "single_block_cycles"},
    {"lone_block_spill", "single_block_spill"},
    {"lone_token_us", "single_token_us"},
}};

}  // namespace

std::string current_parameter_name(std::string_view name) {
  std::string current;
  for (;;) {
    const std::string_view part = name.substr(0, name.find('.'));
    const auto* known = std::find_if(kParts.begin(), kParts.end(),
                                     [&](const auto& names) { return names.first == part; });
    current += known == kParts.end() ? part : known->second;
    if (part.size() == name.size()) return current;
    current += '.';
    name.remove_prefix(part.size() + 1);
  }
}

bool is_retired_parameter(std::string_view name) {
  return name.starts_with("tensor.gemm.") || name == "clock.tensor_power_exponent" ||
         name == "clock.tensor_knee_w_per_tflops" || name == "error.product_format";
}

}  // namespace tracecast
