#include "hwspecs/attention_parameters.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace tracecast {
namespace {

constexpr std::array<std::string_view, kAttentionFormatCount> kAttentionFormats = {
    "half", "half_over_8", "fp8"};
constexpr std::array<std::string_view, kEngineKindCount> kAttentionKinds = {
    "async_warp", "warp_group", "tensor_memory"};
constexpr std::array<std::string_view, kHeadWidthCount> kAttentionWidths = {"64", "128", "192",
                                                                            "256", "512"};

/// Adds the slots of one struct below a prefix.
template <class Parameters>
class AttentionSlots {
 public:
  using Part = Parameters& (*)(AttentionParameters&);
  AttentionSlots(std::vector<AttentionSlot>& all, std::string prefix, Part part)
      : all_(all), prefix_(std::move(prefix)), part_(part) {}

  void add(std::string_view name, double low, double high, double Parameters::*member) {
    push(std::string(name), low, high, false,
         [part = part_, member](AttentionParameters& p) -> double& { return part(p).*member; });
  }
  void add_factor(std::string_view name, double low, double high, double Parameters::*member) {
    push(std::string(name), low, high, true,
         [part = part_, member](AttentionParameters& p) -> double& { return part(p).*member; });
  }
  void add_by_kind(std::string_view name,
                   std::array<double, kEngineKindCount> Parameters::*member) {
    for (std::size_t k = 0; k < kEngineKindCount; ++k) {
      push(fmt::format("{}.{}", name, kAttentionKinds[k]), 0.1, 10, true,
           [part = part_, member, k](AttentionParameters& p) -> double& {
             return (part(p).*member)[k];
           });
    }
  }
  void add_by_engine(std::string_view name, double high, bool is_factor,
                     std::array<double, kGemmEngineCount> Parameters::*member) {
    for (std::size_t e = 0; e < kGemmEngineCount; ++e) {
      push(fmt::format("{}.{}", name, to_string(static_cast<GemmEngine>(e))), 0.01, high, is_factor,
           [part = part_, member, e](AttentionParameters& p) -> double& {
             return (part(p).*member)[e];
           });
    }
  }
  void add_pairs(std::string_view name, ByEngineKind Parameters::*member) {
    each_pair([&](std::size_t e, std::size_t k, const std::string& key) {
      push(fmt::format("{}.{}", name, key), 0.02, 100, true,
           [part = part_, member, e, k](AttentionParameters& p) -> double& {
             return (part(p).*member).values[e][k];
           });
    });
  }
  void add_triples(std::string_view name, ByEngineKindFormat Parameters::*member) {
    each_pair([&](std::size_t e, std::size_t k, const std::string& key) {
      for (std::size_t f = 0; f < kAttentionFormatCount; ++f) {
        push(fmt::format("{}.{}.{}", name, key, kAttentionFormats[f]), 0.01, 100, true,
             [part = part_, member, e, k, f](AttentionParameters& p) -> double& {
               return (part(p).*member).values[e][k][f];
             });
      }
    });
  }
  void add_efficiency() {
    each_pair([&](std::size_t e, std::size_t k, const std::string& key) {
      for (std::size_t f = 0; f < kAttentionFormatCount; ++f) {
        for (std::size_t w = 0; w < kHeadWidthCount; ++w) {
          push(fmt::format("factor_of.{}.{}.{}", key, kAttentionFormats[f], kAttentionWidths[w]),
               0.02, 10, true, [part = part_, e, k, f, w](AttentionParameters& p) -> double& {
                 return part(p).factor.values[e][k][f][w];
               });
        }
      }
    });
  }

 private:
  template <class Visit>
  static void each_pair(const Visit& visit) {
    for (std::size_t e = 0; e < kGemmEngineCount; ++e) {
      for (std::size_t k = 0; k < kEngineKindCount; ++k) {
        visit(e, k,
              fmt::format("{}.{}", to_string(static_cast<GemmEngine>(e)), kAttentionKinds[k]));
      }
    }
  }
  void push(const std::string& name, double low, double high, bool is_factor,
            std::function<double&(AttentionParameters&)> find) {
    all_.push_back({fmt::format("{}.{}", prefix_, name), low, high, std::move(find), is_factor});
  }
  std::vector<AttentionSlot>& all_;
  std::string prefix_;
  Part part_;
};

void add_prefill(std::vector<AttentionSlot>& all, const std::string& prefix,
                 AttentionSlots<PrefillParameters>::Part part, bool has_windows) {
  using P = PrefillParameters;
  AttentionSlots<P> s(all, prefix, part);
  s.add("efficiency", 0.05, 1.5, &P::efficiency);
  s.add("wide", 0, 2, &P::wide);
  s.add("softmax", 0.05, 20, &P::softmax);
  s.add("overlap", 1, 10, &P::overlap);
  s.add("block_cycles", 0, 100000, &P::block_cycles);
  s.add("tile_cycles", 0, 100000, &P::tile_cycles);
  s.add("latency_cycles", 0, 100000, &P::latency_cycles);
  s.add("key_cycles", 0, 100000, &P::key_cycles);
  s.add("tail", 0, 1, &P::tail);
  s.add("energy", 0.1, 5, &P::energy);
  s.add("l2_share", 0.01, 3, &P::l2_share);
  s.add("dram_efficiency", 0.2, 1, &P::dram_efficiency);
  s.add("l2_bytes_per_clock", 1, 500, &P::l2_bytes_per_clock);
  s.add("clock_exponent", 0, 2, &P::clock_exponent);
  s.add_by_kind("efficiency_of", &P::efficiency_of);
  s.add_by_kind("softmax_of", &P::softmax_of);
  s.add_factor("triton", 0.01, 5, &P::triton);
  if (has_windows) {
    s.add_factor("write_us", 0, 100, &P::write_us);
    s.add_factor("cast_us", 0, 100, &P::cast_us);
    s.add_pairs("low_precision_call", &P::low_precision_call);
    s.add_pairs("late_call", &P::late_call);
  } else {
    s.add_factor("host_us", 1, 5000, &P::host_us);
    s.add_factor("upcasts_per_clock", 0.05, 50, &P::upcasts_per_clock);
    s.add_by_kind("host_of", &P::host_of);
  }
  s.add_by_engine("call_us", 1000, false, &P::call_us);
  s.add_by_engine("traffic", 50, true, &P::traffic);
  s.add_by_engine("softmax_by", 10, true, &P::softmax_by);
  s.add_pairs("call_of", &P::call_of);
  s.add_pairs("block_of", &P::block_of);
  s.add_pairs("window", &P::window);
  s.add_efficiency();
}

void add_decode(std::vector<AttentionSlot>& all, const std::string& prefix,
                AttentionSlots<DecodeParameters>::Part part, bool has_groups) {
  using P = DecodeParameters;
  AttentionSlots<P> s(all, prefix, part);
  s.add("keys_per_split", 16, 4096, &P::keys_per_split);
  s.add("fill", 0.2, 8, &P::fill);
  s.add("wave_quantization", 0, 1, &P::wave_quantization);
  s.add("stream_bytes_per_clock", 0.001, 10, &P::stream_bytes_per_clock);
  s.add("efficiency", 0.01, 5, &P::efficiency);
  s.add("softmax", 0.01, 20, &P::softmax);
  s.add("block_cycles", 0, 100000, &P::block_cycles);
  s.add("padding", 0, 1, &P::padding);
  s.add("splits", 1, 1000, &P::splits);
  s.add_factor("triton", 0.01, 5, &P::triton);
  if (has_groups) {
    s.add("ungrouped", 0.01, 50, &P::ungrouped);
    s.add("ungrouped_rows", 0.1, 64, &P::ungrouped_rows);
    s.add_triples("single_call", &P::single_call);
    s.add_triples("single_of", &P::single_of);
    s.add("copy_us", 0, 100, &P::copy_us);
    s.add_factor("embed_us", 0, 100, &P::embed_us);
    s.add_factor("cast_us", 0, 100, &P::cast_us);
    s.add_triples("late_call", &P::late_call);
    s.add_pairs("late_block", &P::late_block);
  } else {
    s.add_factor("host_us", 1, 5000, &P::host_us);
    s.add_factor("upcasts_per_clock", 0.05, 50, &P::upcasts_per_clock);
    s.add_factor("upcast_us", 0, 100, &P::upcast_us);
    s.add_by_kind("host_of", &P::host_of);
    s.add_by_engine("triton_single", 20, true, &P::triton_single);
  }
  s.add("l2_share", 0.01, 3, &P::l2_share);
  s.add("dram_efficiency", 0.2, 1, &P::dram_efficiency);
  s.add("l2_bytes_per_clock", 1, 500, &P::l2_bytes_per_clock);
  s.add("clock_exponent", 0, 2, &P::clock_exponent);
  s.add_by_kind("efficiency_of", &P::efficiency_of);
  s.add_by_kind("stream_of", &P::stream_of);
  s.add_by_engine("call_us", 1000, false, &P::call_us);
  s.add_by_engine("efficiency_by", 20, true, &P::efficiency_by);
  s.add_by_engine("combine_us", 100, false, &P::combine_us);
  s.add_by_engine("traffic", 50, true, &P::traffic);
  s.add_pairs("block_of", &P::block_of);
  s.add_triples("call_of", &P::call_of);
  s.add_triples("splits_of", &P::splits_of);
  s.add_triples("window", &P::window);
  s.add_efficiency();
}

}  // namespace

std::string_view to_string(AttentionFormat format) {
  return kAttentionFormats[static_cast<std::size_t>(format)];
}

std::vector<AttentionSlot> attention_slots() {
  std::vector<AttentionSlot> all;
  using A = AttentionParameters;
  add_prefill(
      all, "attention.prefill", [](A& p) -> PrefillParameters& { return p.prefill; }, true);
  add_decode(
      all, "attention.decode", [](A& p) -> DecodeParameters& { return p.decode; }, true);
  add_prefill(
      all, "latent.prefill", [](A& p) -> PrefillParameters& { return p.latent_prefill; }, false);
  add_decode(
      all, "latent.decode", [](A& p) -> DecodeParameters& { return p.latent_decode; }, false);
  return all;
}

}  // namespace tracecast
