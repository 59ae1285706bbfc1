#include "models/language/layout.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

[[noreturn]] void refuse(std::string_view where, const std::string& what) {
  throw InputError(where, what,
                   "layers of grouped-query or latent attention and a feed-forward, alike but for "
                   "leading dense ones, to be shared among GPUs");
}

std::string_view name_of(const LanguageMixer& mixer) {
  if (const auto* g = std::get_if<GatedDeltaNet>(&mixer)) {
    return g->fixed_decay ? "lightning attention" : "a gated delta net";
  }
  if (std::holds_alternative<Mamba2>(mixer)) return "a Mamba 2 layer";
  if (std::holds_alternative<Mamba>(mixer)) return "a Mamba layer";
  if (std::holds_alternative<CompressedAttention>(mixer)) return "compressed attention";
  return "a layer without attention";
}

void leave_out(ShardableNetwork& result, bool has, std::string_view what) {
  const auto known = std::find(result.left_out.begin(), result.left_out.end(), what);
  if (has && known == result.left_out.end()) result.left_out.emplace_back(what);
}

bool same_heads(const TransformerLayout& a, const TransformerLayout& b) {
  return a.heads == b.heads && a.kv_heads == b.kv_heads && a.head_width == b.head_width &&
         a.norms_heads == b.norms_heads && a.latent == b.latent;
}

/// The heads of a layer, and what of its attention is left out.
class Heads {
 public:
  Heads(ShardableNetwork& result, std::int64_t width, std::string_view where)
      : result_(result), width_(width), where_(where) {}

  TransformerLayout of(const LanguageMixer& mixer) {
    if (const auto* a = std::get_if<GroupedQueryAttention>(&mixer)) return of(*a);
    if (const auto* a = std::get_if<LatentAttention>(&mixer)) return of(*a);
    refuse(where_, std::string(name_of(mixer)));
  }
  [[nodiscard]] bool all_biases() const { return all_biases_; }
  [[nodiscard]] bool some_biases() const { return some_biases_; }

 private:
  TransformerLayout of(const GroupedQueryAttention& a) {
    leave_out(result_, a.sinks, "sinks of attention");
    const bool by_head = a.head_norm == HeadNorm::PerHead && a.head_norm_learned;
    leave_out(result_, a.head_norm != HeadNorm::None && !by_head, "norms of queries and keys");
    leave_out(result_, a.borrows_keys || a.keys_are_values,
              "keys that layers share or that are values");
    leave_out(result_, a.output_gate, "gates of attention's results");
    all_biases_ = all_biases_ && a.input_biases && a.output_bias;
    some_biases_ = some_biases_ || a.input_biases || a.output_bias;
    return {.heads = a.heads,
            .kv_heads = a.kv_heads,
            .head_width = a.heads * a.head_width == width_ ? 0 : a.head_width,
            .norms_heads = by_head};
  }
  TransformerLayout of(const LatentAttention& a) {
    if (a.indexer) refuse(where_, "keys chosen by an indexer");
    all_biases_ = false;
    some_biases_ = some_biases_ || a.biases;
    return {.heads = a.heads,
            .kv_heads = a.heads,
            .latent = LatentHeads{.query_rank = a.query_rank,
                                  .kv_rank = a.kv_rank,
                                  .nope_width = a.nope_width,
                                  .rope_width = a.rope_width,
                                  .value_width = a.value_width}};
  }

  ShardableNetwork& result_;
  std::int64_t width_;
  std::string_view where_;
  bool all_biases_ = true, some_biases_ = false;
};

/// Of layers that see blocks of keys, half a block on average.
void add_windows(ShardableNetwork& result, const LanguageNetwork& network) {
  TransformerLayout& layout = result.layout;
  for (std::size_t i = 0; i < network.order.size(); ++i) {
    const auto* a = std::get_if<GroupedQueryAttention>(&network.layer(i).mixer);
    if (a == nullptr || a->window == 0) continue;
    const std::int64_t window = a->is_chunk ? a->window / 2 : a->window;
    if (layout.windowed_layers == 0) layout.window = window;
    leave_out(result, window != layout.window, "windows unlike the first layer's");
    if (window == layout.window) ++layout.windowed_layers;
  }
}

void add_experts(TransformerLayout& layout, const LanguageNetwork& network,
                 std::string_view where) {
  for (std::size_t i = 0; i < network.order.size(); ++i) {
    const LanguageFeedForward& part = network.layer(i).feed_forward;
    const auto* e = std::get_if<ExpertFeedForward>(&part);
    if (e == nullptr) {
      if (layout.experts) refuse(where, "a dense layer after experts");
      continue;
    }
    const ExpertLayout experts{.count = e->experts,
                               .per_token = e->per_token,
                               .feed_forward = e->width,
                               .shared_feed_forward = e->shared_width,
                               .dense_layers = static_cast<int>(i),
                               .biases = e->biases,
                               .clamped = e->clamped};
    if (!layout.experts) layout.experts = experts;
    if (experts.count != layout.experts->count ||
        experts.feed_forward != layout.experts->feed_forward) {
      refuse(where, "experts of several sizes");
    }
  }
}

}  // namespace

ShardableNetwork shardable(const LanguageNetwork& network, std::string_view where) {
  const auto* dense = std::get_if<DenseFeedForward>(&network.layer(0).feed_forward);
  const auto* experts = std::get_if<ExpertFeedForward>(&network.layer(0).feed_forward);
  ShardableNetwork result;
  Heads heads(result, network.width, where);
  const TransformerLayout first = heads.of(network.layer(0).mixer);
  bool all_biases = network.norm_biases, some_biases = false, gated = true;
  for (const LanguageLayer& layer : network.kinds) {
    if (layer.beside.index() != 0) refuse(where, std::string(name_of(layer.beside)));
    if (!same_heads(heads.of(layer.mixer), first)) refuse(where, "layers with unlike heads");
    if (layer.feed_forward.index() == 0) refuse(where, "a layer without a feed-forward");
    const auto* d = std::get_if<DenseFeedForward>(&layer.feed_forward);
    const auto* e = std::get_if<ExpertFeedForward>(&layer.feed_forward);
    if (d != nullptr && dense != nullptr && d->width != dense->width) {
      refuse(where, "dense feed-forwards of several widths");
    }
    all_biases = all_biases && d != nullptr && d->biases;
    some_biases = some_biases || (e != nullptr && e->biases);
    gated = d != nullptr ? d->gated : e->gated;
    leave_out(result, layer.norms_after && layer.norms_before, "norms of results");
    leave_out(result, layer.parallel, "attention and feed-forward side by side");
  }
  all_biases = all_biases && heads.all_biases();
  leave_out(result, (some_biases || heads.some_biases()) && !all_biases, "biases of GEMMs");
  leave_out(result, network.layer_input_width > 0, "inputs of single layers");
  leave_out(result, network.prediction_layers > 0, "layers that predict further tokens");
  result.layout = {.layers = static_cast<int>(network.layers()),
                   .width = network.width,
                   .heads = first.heads,
                   .kv_heads = first.kv_heads,
                   .head_width = first.head_width,
                   .feed_forward = dense != nullptr ? dense->width : experts->width,
                   .vocabulary = network.vocabulary,
                   .positions = network.position_rows,
                   .norm = network.norm == LanguageNorm::Layer ? TransformerNorm::LayerNorm
                                                               : TransformerNorm::RootMeanSquare,
                   .rotary = network.positions == LanguagePositions::Rotary,
                   .norms_heads = first.norms_heads,
                   .scales_rotation = network.scales_rotation,
                   .gated = gated,
                   .biases = all_biases,
                   .tied = network.tied,
                   .latent = first.latent};
  add_windows(result, network);
  add_experts(result.layout, network, where);
  return result;
}

}  // namespace tracecast
