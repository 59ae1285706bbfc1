#include "models/language/layout.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

[[noreturn]] void refuse(std::string_view where, const std::string& what) {
  throw InputError(where, what,
                   "layers of grouped-query attention and a feed-forward, alike but for leading "
                   "dense ones, to be shared among GPUs");
}

std::string_view name_of(const LanguageMixer& mixer) {
  if (std::holds_alternative<LatentAttention>(mixer)) return "latent attention";
  if (std::holds_alternative<GatedDeltaNet>(mixer)) return "a gated delta net";
  if (std::holds_alternative<Mamba2>(mixer)) return "a Mamba 2 layer";
  return "a layer without attention";
}

void leave_out(ShardableNetwork& result, bool has, std::string_view what) {
  const auto known = std::find(result.left_out.begin(), result.left_out.end(), what);
  if (has && known == result.left_out.end()) result.left_out.emplace_back(what);
}

/// Whether all layers have the same heads.
bool same_heads(const GroupedQueryAttention& a, const GroupedQueryAttention& b) {
  return a.heads == b.heads && a.kv_heads == b.kv_heads && a.head_width == b.head_width;
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
  const auto* first = std::get_if<GroupedQueryAttention>(&network.layer(0).mixer);
  const auto* dense = std::get_if<DenseFeedForward>(&network.layer(0).feed_forward);
  const auto* experts = std::get_if<ExpertFeedForward>(&network.layer(0).feed_forward);
  ShardableNetwork result;
  bool all_biases = network.norm_biases, gated = true;
  for (const LanguageLayer& layer : network.kinds) {
    const auto* a = std::get_if<GroupedQueryAttention>(&layer.mixer);
    if (a == nullptr) refuse(where, std::string(name_of(layer.mixer)));
    if (layer.feed_forward.index() == 0) refuse(where, "a layer without a feed-forward");
    if (!same_heads(*a, *first)) refuse(where, "layers with unlike heads");
    const auto* d = std::get_if<DenseFeedForward>(&layer.feed_forward);
    if (d != nullptr && dense != nullptr && d->width != dense->width) {
      refuse(where, "dense feed-forwards of several widths");
    }
    all_biases = all_biases && a->input_biases && a->output_bias && d != nullptr && d->biases;
    gated = d != nullptr ? d->gated : std::get<ExpertFeedForward>(layer.feed_forward).gated;
    leave_out(result, a->window > 0, "windows of attention");
    leave_out(result, a->sinks, "sinks of attention");
    leave_out(result, a->head_norm != HeadNorm::None, "norms of queries and keys");
    leave_out(result, a->output_gate, "gates of attention's results");
    leave_out(result, layer.norms_after, "norms of results");
    leave_out(result, layer.parallel, "attention and feed-forward side by side");
  }
  result.layout = {
      .layers = static_cast<int>(network.layers()),
      .width = network.width,
      .heads = first->heads,
      .kv_heads = first->kv_heads,
      .head_width = first->heads * first->head_width == network.width ? 0 : first->head_width,
      .feed_forward = dense != nullptr ? dense->width : experts->width,
      .vocabulary = network.vocabulary,
      .positions = network.position_rows,
      .norm = network.norm == LanguageNorm::Layer ? TransformerNorm::LayerNorm
                                                  : TransformerNorm::RootMeanSquare,
      .rotary = network.positions == LanguagePositions::Rotary,
      .gated = gated,
      .biases = all_biases,
      .tied = network.tied};
  add_experts(result.layout, network, where);
  for (const LanguageLayer& layer : network.kinds) {
    const auto& a = std::get<GroupedQueryAttention>(layer.mixer);
    const auto* e = std::get_if<ExpertFeedForward>(&layer.feed_forward);
    const bool some = a.input_biases || a.output_bias || (e != nullptr && e->biases);
    leave_out(result, some && !all_biases, "biases of products");
  }
  return result;
}

}  // namespace tracecast
