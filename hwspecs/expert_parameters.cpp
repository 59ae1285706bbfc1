#include "hwspecs/expert_parameters.hpp"

#include <fmt/format.h>

#include <utility>

namespace tracecast {
namespace {

constexpr std::array<std::string_view, kExpertFormatCount> kExpertFormats = {
    "half", "fp8", "fp8_block", "fp4", "int4_wo", "fp4_wo", "fp4_wo_fp8", "int4_wo_fp8"};
constexpr std::array<std::string_view, kEngineKindCount> kExpertKinds = {"async_warp", "warp_group",
                                                                         "tensor_memory"};

template <class Parameters>
class ExpertSlots {
 public:
  using Part = Parameters& (*)(MoeParameters&);
  ExpertSlots(std::vector<MoeSlot>& all, std::string prefix, Part part)
      : all_(all), prefix_(std::move(prefix)), part_(part) {}

  void add(std::string_view name, double low, double high, double Parameters::*member) {
    push(std::string(name), low, high, false,
         [part = part_, member](MoeParameters& p) -> double& { return part(p).*member; });
  }
  template <std::size_t N>
  void add_array(std::string_view name, double high, bool is_factor,
                 std::array<double, N> Parameters::*member) {
    for (std::size_t i = 0; i < N; ++i) {
      push(fmt::format("{}.{}", name, word<N>(i)), 0.005, high, is_factor,
           [part = part_, member, i](MoeParameters& p) -> double& { return (part(p).*member)[i]; });
    }
  }
  void add_pairs(std::string_view name, ByEngineKind Parameters::*member) {
    for (std::size_t e = 0; e < kGemmEngineCount; ++e) {
      for (std::size_t k = 0; k < kEngineKindCount; ++k) {
        push(fmt::format("{}.{}.{}", name, to_string(static_cast<GemmEngine>(e)), kExpertKinds[k]),
             0.02, 50, true, [part = part_, member, e, k](MoeParameters& p) -> double& {
               return (part(p).*member).values[e][k];
             });
      }
    }
  }
  void add_triples(std::string_view name, ByEngineKindExperts Parameters::*member) {
    for (std::size_t e = 0; e < kGemmEngineCount; ++e) {
      for (std::size_t k = 0; k < kEngineKindCount; ++k) {
        for (std::size_t f = 0; f < kExpertFormatCount; ++f) {
          push(fmt::format("{}.{}.{}.{}", name, to_string(static_cast<GemmEngine>(e)),
                           kExpertKinds[k], kExpertFormats[f]),
               0.02, 20, true, [part = part_, member, e, k, f](MoeParameters& p) -> double& {
                 return (part(p).*member).values[e][k][f];
               });
        }
      }
    }
  }

 private:
  template <std::size_t N>
  static std::string_view word(std::size_t i) {
    static_assert(kEngineKindCount == kGemmEngineCount && kExpertFormatCount > 3);
    return N == kExpertFormatCount ? kExpertFormats[i] : to_string(static_cast<GemmEngine>(i));
  }
  void push(const std::string& name, double low, double high, bool is_factor,
            std::function<double&(MoeParameters&)> find) {
    all_.push_back({fmt::format("{}.{}", prefix_, name), low, high, std::move(find), is_factor});
  }
  std::vector<MoeSlot>& all_;
  std::string prefix_;
  Part part_;
};

void add_experts(std::vector<MoeSlot>& all) {
  using P = ExpertParameters;
  const auto part = [](MoeParameters& p) -> P& { return p.experts; };
  ExpertSlots<P> s(all, "experts", part);
  s.add("efficiency", 0.05, 2, &P::efficiency);
  s.add("stream_bytes_per_clock", 0.001, 10, &P::stream_bytes_per_clock);
  s.add("dram_efficiency", 0.2, 1, &P::dram_efficiency);
  s.add("l2_share", 0.01, 3, &P::l2_share);
  s.add("l2_bytes_per_clock", 1, 500, &P::l2_bytes_per_clock);
  s.add("wave_quantization", 0, 1, &P::wave_quantization);
  s.add("block_depth", 0, 5000, &P::block_depth);
  s.add("operand_edge", 0, 500, &P::operand_edge);
  s.add("block_cycles", 0, 100000, &P::block_cycles);
  s.add("clock_exponent", 0, 3, &P::clock_exponent);
  s.add("stray", 0, 1, &P::stray);
  s.add_array("efficiency_by", 10, true, &P::efficiency_by);
  s.add_array("stream_by", 10, true, &P::stream_by);
  for (std::size_t k = 0; k < kEngineKindCount; ++k) {
    all.push_back({fmt::format("experts.efficiency_of.{}", kExpertKinds[k]), 0.1, 10,
                   [k](MoeParameters& p) -> double& { return p.experts.efficiency_of[k]; }, true});
    all.push_back({fmt::format("experts.stream_of.{}", kExpertKinds[k]), 0.1, 10,
                   [k](MoeParameters& p) -> double& { return p.experts.stream_of[k]; }, true});
  }
  s.add_array("call_us", 1000, false, &P::call_us);
  s.add_array("traffic", 50, true, &P::traffic);
  s.add_array("route", 500, true, &P::route);
  s.add_array("expert", 500, true, &P::expert);
  s.add_array("pair", 500, true, &P::pair);
  s.add_array("passed", 5, true, &P::passed);
  all.push_back({"experts.passed_whole", 0.001, 5,
                 [](MoeParameters& p) -> double& { return p.experts.passed_whole; }, true});
  all.push_back({"experts.alone", 0.02, 5,
                 [](MoeParameters& p) -> double& { return p.experts.alone; }, true});
  s.add_pairs("stray_of", &P::stray_of);
  s.add_pairs("expert_of", &P::expert_of);
  s.add_triples("call_of", &P::call_of);
  s.add_triples("efficiency_at", &P::efficiency_at);
  s.add_triples("stream_at", &P::stream_at);
}

void add_quantization(std::vector<MoeSlot>& all) {
  using P = QuantizationParameters;
  const auto part = [](MoeParameters& p) -> P& { return p.quantization; };
  ExpertSlots<P> s(all, "quantization", part);
  s.add("l2_share", 0.01, 3, &P::l2_share);
  s.add("l2_sharpness", 1, 10, &P::l2_sharpness);
  s.add("dram_efficiency", 0.2, 1, &P::dram_efficiency);
  s.add("l2_bytes_per_clock", 1, 500, &P::l2_bytes_per_clock);
  s.add("values_per_clock", 0.1, 500, &P::values_per_clock);
  s.add("row_values_per_clock", 0.1, 500, &P::row_values_per_clock);
  s.add("clock_exponent", 0, 3, &P::clock_exponent);
  s.add_array("call_us", 500, false, &P::call_us);
  s.add_array("traffic", 50, true, &P::traffic);
  s.add_array("cache", 20, true, &P::cache);
  s.add_pairs("call_of", &P::call_of);
  s.add_pairs("values_of", &P::values_of);
}

}  // namespace

std::vector<MoeSlot> moe_slots() {
  std::vector<MoeSlot> all;
  add_experts(all);
  add_quantization(all);
  return all;
}

std::string_view to_string(ExpertFormat format) {
  return kExpertFormats[static_cast<std::size_t>(format)];
}

GemmFormat gemms_of(ExpertFormat format) {
  switch (format) {
    case ExpertFormat::Fp8:
    case ExpertFormat::Fp8Block:
    case ExpertFormat::Fp4WeightsFp8:
    case ExpertFormat::Int4WeightsFp8:
      return GemmFormat::Fp8;
    case ExpertFormat::Fp4:
      return GemmFormat::Fp4;
    case ExpertFormat::Half:
    case ExpertFormat::Int4Weights:
    case ExpertFormat::Fp4Weights:
      break;
  }
  return GemmFormat::Half;
}

double expert_activation_bytes(ExpertFormat format) {
  switch (format) {
    case ExpertFormat::Fp8:
    case ExpertFormat::Int4WeightsFp8:
      return 1;
    case ExpertFormat::Fp8Block:
      return 1 + 4.0 / 128;  // fp32 scales
    case ExpertFormat::Fp4WeightsFp8:
      return 1 + 1.0 / 32;  // 8-bit scales of 32 values
    case ExpertFormat::Fp4:
      return 0.5 + 1.0 / 16;
    case ExpertFormat::Half:
    case ExpertFormat::Int4Weights:
    case ExpertFormat::Fp4Weights:
      break;
  }
  return 2;
}

double expert_weight_bytes(ExpertFormat format) {
  switch (format) {
    case ExpertFormat::Half:
      return 2;
    case ExpertFormat::Fp8:
    case ExpertFormat::Fp8Block:
      return 1;
    case ExpertFormat::Fp4:
      return 0.5 + 1.0 / 16;
    case ExpertFormat::Int4Weights:
    case ExpertFormat::Int4WeightsFp8:
      return 0.5 + 2.0 / 128;  // 16-bit scales of 128 values
    case ExpertFormat::Fp4Weights:
    case ExpertFormat::Fp4WeightsFp8:
      break;
  }
  return 0.5 + 1.0 / 32;
}

}  // namespace tracecast
