#include "models/transformer/layout.hpp"

#include <algorithm>
#include <cmath>

namespace tracecast {
namespace {

double num(std::int64_t value) { return static_cast<double>(value); }

/// Weights of GEMMs in and out of a feed-forward of that width.
double feed_forward_weights(const TransformerLayout& layout, std::int64_t hidden) {
  return (layout.gated ? 3.0 : 2.0) * num(layout.width) * num(hidden);
}

double norm_parameters(const TransformerLayout& layout) {
  const bool shifts = layout.norm == TransformerNorm::LayerNorm && layout.biases;
  return num(layout.width) * (shifts ? 2.0 : 1.0);
}

double latent_weights(const TransformerLayout& layout, const LatentHeads& a) {
  const double queries = num(layout.heads) * num(a.key_width());
  const double query = a.query_rank > 0 ? num(a.query_rank) * (num(layout.width) + queries)
                                        : num(layout.width) * queries;
  const double down = num(layout.width) * num(a.kv_rank + a.rope_width);
  const double up = num(a.kv_rank) * num(layout.heads) * num(a.nope_width + a.value_width);
  return query + down + up + num(layout.heads) * num(a.value_width) * num(layout.width);
}

double attention_weights(const TransformerLayout& layout) {
  if (layout.latent) return latent_weights(layout, *layout.latent);
  const double head = num(layout.width_of_head());
  const double packed = (num(layout.heads) + 2 * num(layout.kv_heads)) * head;
  return num(layout.width) * (packed + num(layout.heads) * head);
}

}  // namespace

double TransformerLayout::attention_parameters() const {
  if (latent) {
    return attention_weights(*this) + num(latent->query_rank + latent->kv_rank) +
           2 * norm_parameters(*this);
  }
  const double head = num(width_of_head());
  const double shift = biases ? (num(heads) + 2 * num(kv_heads)) * head + num(width) : 0.0;
  return attention_weights(*this) + shift + 2 * norm_parameters(*this) +
         (norms_heads ? 2 * head : 0.0);
}

double TransformerLayout::feed_forward_parameters() const {
  const double shift = biases ? (gated ? 2.0 : 1.0) * num(feed_forward) + num(width) : 0.0;
  return feed_forward_weights(*this, feed_forward) + shift;
}

double TransformerLayout::expert_parameters() const {
  return experts ? num(experts->count) * feed_forward_weights(*this, experts->feed_forward) : 0.0;
}

double TransformerLayout::router_parameters() const {
  if (!experts) return 0;
  return num(width) * num(experts->count) +
         feed_forward_weights(*this, experts->shared_feed_forward);
}

double TransformerLayout::embedding_parameters() const {
  return num(width) * (num(vocabulary) + num(positions));
}

double TransformerLayout::head_parameters() const {
  return norm_parameters(*this) + (tied ? 0.0 : num(width) * num(vocabulary));
}

double TransformerLayout::parameters() const {
  double sum = embedding_parameters() + head_parameters();
  for (int layer = 0; layer < layers; ++layer) {
    sum += attention_parameters() + (has_experts(layer) ? expert_parameters() + router_parameters()
                                                        : feed_forward_parameters());
  }
  return sum;
}

double TransformerLayout::weight_macs() const {
  double sum = num(width) * num(vocabulary);
  for (int layer = 0; layer < layers; ++layer) {
    sum += attention_weights(*this);
    if (has_experts(layer)) {
      sum += num(experts->per_token) * feed_forward_weights(*this, experts->feed_forward) +
             router_parameters();
    } else {
      sum += feed_forward_weights(*this, feed_forward);
    }
  }
  return sum;
}

std::int64_t TransformerLayout::mean_window(std::int64_t tokens) const {
  if (!causal || windowed_layers == 0 || window >= tokens) return 0;
  const double all = num(tokens), seen = num(window) - num(window) * num(window) / (2 * all);
  const double share = num(windowed_layers) / num(layers);
  const double mean = share * seen + (1 - share) * all / 2;
  return std::max<std::int64_t>(1, std::llround(all * (1 - std::sqrt(1 - 2 * mean / all))));
}

double TransformerLayout::forward_macs(std::int64_t tokens) const {
  const double attention =
      num(tokens) * num(heads) * num(width_of_head() + width_of_value()) * num(layers);
  return (weight_macs() + attention) * num(tokens);
}

double TransformerLayout::adapter_parameters(const LowRankAdapters& adapters) const {
  double sides = 0;  // inputs and outputs of the GEMMs that have one
  const double attended = num(heads) * num(width_of_head());
  const double packed = attended + 2 * num(kv_heads) * num(width_of_head());
  for (int layer = 0; layer < layers; ++layer) {
    sides += num(width) + packed + attended + num(width);
    if (adapters.targets == AdapterTargets::Linear && !has_experts(layer)) {
      sides += 2 * num(width) + (gated ? 3.0 : 2.0) * num(feed_forward);
    }
  }
  return sides * num(adapters.rank);
}

}  // namespace tracecast
