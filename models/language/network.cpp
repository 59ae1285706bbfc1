#include "models/language/network.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

double num(std::int64_t value) { return static_cast<double>(value); }

/// Weights of one norm over `width`.
double norm(const LanguageNetwork& network, std::int64_t width) {
  if (!network.norm_learned) return 0;
  return num(width) * (network.norm_biases ? 2.0 : 1.0);
}

struct MixerParameters {
  double weights = 0, norms = 0;
};

MixerParameters of(const LanguageNetwork&, const std::monostate&) { return {}; }

MixerParameters of(const LanguageNetwork& network, const GroupedQueryAttention& a) {
  const double width = num(network.width), queries = num(a.heads * a.head_width),
               others = num(a.kv_heads * a.head_width);
  const double kept = a.borrows_keys ? 0.0 : a.keys_are_values ? 1.0 : 2.0;
  const double given = queries * (a.output_gate ? 2.0 : 1.0) + kept * others;
  MixerParameters result{.weights = width * given + queries * width};
  if (a.input_biases) result.weights += given;
  if (a.output_bias) result.weights += width;
  if (a.sinks) result.weights += num(a.heads);
  if (!a.head_norm_learned) return result;
  const double factor = network.norm_biases ? 2.0 : 1.0;
  const double keys = a.borrows_keys ? 0.0 : 1.0;
  if (a.head_norm == HeadNorm::PerHead) result.norms = factor * (1 + keys) * num(a.head_width);
  if (a.head_norm == HeadNorm::OverAllHeads) result.norms = factor * (queries + keys * others);
  return result;
}

MixerParameters of(const LanguageNetwork& network, const CompressedAttention& a) {
  const double width = num(network.width), rank = num(a.query_rank), head = num(a.head_width);
  const double queries = num(a.heads) * head, results = num(a.output_groups * a.output_rank);
  MixerParameters result{.weights = width * rank + rank * queries + width * head +
                                    queries * num(a.output_rank) + results * width + num(a.heads),
                         .norms = rank + head};
  if (a.rate == 0) return result;
  const auto compressed = [&](std::int64_t wide, std::int64_t kept) {
    result.weights += 2 * width * num(wide) + num(a.rate * wide);
    result.norms += num(kept);
  };
  compressed(a.entry_width(), a.head_width);
  if (a.indexer) {
    compressed(a.index_width(), a.indexer->head_width);
    result.weights +=
        rank * num(a.indexer->heads * a.indexer->head_width) + width * num(a.indexer->heads);
  }
  return result;
}

/// Of one half of a layer: what mixes the streams, by their values, a constant and three scales.
double stream_weights(const LanguageNetwork& network) {
  if (network.streams <= 1) return 0;
  const double n = num(network.streams), mixed = (2 + n) * n;
  return mixed * n * num(network.width) + mixed + 3;
}

MixerParameters of(const LanguageNetwork& network, const LatentAttention& a) {
  const double width = num(network.width), heads = num(a.heads);
  const double query = heads * num(a.nope_width + a.rope_width), latent = num(a.kv_rank);
  const double rank = num(a.query_rank);
  MixerParameters result{.weights = width * (latent + num(a.rope_width)) +
                                    latent * heads * num(a.nope_width + a.value_width) +
                                    heads * num(a.value_width) * width,
                         .norms = latent};
  result.weights += rank > 0 ? width * rank + rank * query : width * query;
  result.norms += rank;
  if (a.biases) result.weights += rank + latent + num(a.rope_width) + width;
  if (a.indexer) {
    const SparseIndexer& i = *a.indexer;
    const double from = rank > 0 ? rank : width;
    result.weights +=
        from * num(i.heads * i.head_width) + width * num(i.head_width) + width * num(i.heads);
    result.norms += 2 * num(i.head_width);  // a layer norm with a bias, whatever the others are
  }
  return result;
}

MixerParameters of(const LanguageNetwork& network, const GatedDeltaNet& g) {
  const double width = num(network.width), values = num(g.values()), heads = num(g.value_heads);
  const double keys = num(g.keys()), decay = num(g.decay_rank), gate = num(g.gate_rank);
  // Queries, keys, values; the results' gate.
  double weights = width * (2 * keys + values) + num(g.channels() * g.convolution);
  weights += gate > 0 ? width * gate + gate * values : width * values;
  weights += values * width;
  if (g.fixed_decay) return {.weights = weights, .norms = values};
  // A strength per head; decays, their bias, and a rate per head.
  weights += width * heads + heads;
  weights += decay > 0 ? width * decay + decay * keys + keys : width * heads + heads;
  return {.weights = weights, .norms = num(g.value_width)};
}

MixerParameters of(const LanguageNetwork& network, const Mamba2& m) {
  const double width = num(network.width), inner = num(m.inner()), heads = num(m.heads);
  const double given = inner + num(m.channels()) + heads;
  MixerParameters result{
      .weights = width * given + num(m.channels() * m.convolution) + 3 * heads + inner * width,
      .norms = m.norm ? inner : 0.0};
  if (m.biases) result.weights += given + width;
  if (m.convolution_bias) result.weights += num(m.channels());
  return result;
}

MixerParameters of(const LanguageNetwork& network, const Mamba& m) {
  const double width = num(network.width), inner = num(m.inner), state = num(m.state);
  const double rank = num(m.step_rank);
  // Both halves in; step, B and C; the step's channels and their bias; rates, the way round the
  // state; out.
  MixerParameters result{.weights = width * 2 * inner + inner * (rank + 2 * state) + rank * inner +
                                    inner + inner * state + inner + inner * width +
                                    inner * num(m.convolution)};
  if (m.biases) result.weights += 2 * inner + width;
  if (m.convolution_bias) result.weights += inner;
  if (m.norms) result.norms = rank + 2 * state;
  return result;
}

double feed_forward_weights(double width, double hidden, bool gated, bool biases) {
  const double in = gated ? 2.0 : 1.0;
  return (in + 1) * width * hidden + (biases ? in * hidden + width : 0.0);
}

void add(ParameterShares& sum, const ParameterShares& more) {
  sum.embedding += more.embedding;
  sum.head += more.head;
  sum.mixers += more.mixers;
  sum.feed_forward += more.feed_forward;
  sum.experts += more.experts;
  sum.router += more.router;
  sum.norms += more.norms;
}

/// Norms over the width that a layer has.
int wide_norms(const LanguageLayer& layer) {
  const int parts = (layer.mixer.index() != 0 ? 1 : 0) + (layer.feed_forward.index() != 0 ? 1 : 0);
  if (layer.parallel && layer.shared_norm) return 1;
  return (layer.norms_before ? parts : 0) + (layer.norms_after ? parts : 0);
}

constexpr std::int64_t kMostWidth = 1 << 20, kMostVocabulary = 1 << 24, kMostLayers = 4096;
constexpr double kMostParameters = 1e15;

void must_be(bool holds, std::string_view where, const std::string& found,
             std::string_view expected) {
  if (!holds) throw InputError(where, found, expected);
}

void check_sizes(std::string_view where, std::string_view what,
                 std::initializer_list<std::int64_t> sizes) {
  for (const std::int64_t size : sizes) {
    must_be(size >= 1 && size <= kMostWidth, where, fmt::format("{} of {}", what, size),
            "1 to 1048576");
  }
}

struct MixerCheck {
  std::string_view where;
  void operator()(const std::monostate&) const {}
  void operator()(const GroupedQueryAttention& a) const {
    check_sizes(where, "attention heads and widths", {a.heads, a.kv_heads, a.head_width});
    check_sizes(where, "attention width", {a.heads * a.head_width});
    must_be(a.kv_heads <= a.heads && a.heads % a.kv_heads == 0, where,
            fmt::format("{} heads of queries over {} of keys and values", a.heads, a.kv_heads),
            "a multiple");
    must_be(a.rotary_width >= 0 && a.rotary_width <= a.head_width, where,
            fmt::format("rotary width {} of heads {} wide", a.rotary_width, a.head_width),
            "at most the head's width");
    must_be(a.window >= 0, where, fmt::format("window of {}", a.window), "0 or more tokens");
  }
  void operator()(const LatentAttention& a) const {
    check_sizes(where, "latent attention's heads, ranks and widths",
                {a.heads, a.kv_rank, a.nope_width, a.rope_width, a.value_width,
                 a.heads * (a.nope_width + a.rope_width), a.heads * a.value_width});
    must_be(a.query_rank >= 0 && a.query_rank <= kMostWidth, where,
            fmt::format("rank of queries {}", a.query_rank), "0 to 1048576");
    if (a.indexer) {
      check_sizes(where, "indexer's heads and keys",
                  {a.indexer->heads, a.indexer->head_width, a.indexer->top_keys,
                   a.indexer->heads * a.indexer->head_width});
      must_be(a.indexer->head_width >= a.rope_width, where,
              fmt::format("indexer's heads {} wide, {} of them turned", a.indexer->head_width,
                          a.rope_width),
              "at least the turned part");
    }
  }
  void operator()(const CompressedAttention& a) const {
    check_sizes(where, "compressed attention's heads, ranks, groups and window",
                {a.heads, a.head_width, a.heads * a.head_width, a.query_rank, a.output_groups,
                 a.output_rank, a.output_groups * a.output_rank, a.window, a.rate + 1});
    must_be(a.heads % a.output_groups == 0, where,
            fmt::format("{} heads in {} groups", a.heads, a.output_groups), "a multiple");
    must_be(a.rotary_width >= 0 && a.rotary_width <= a.head_width, where,
            fmt::format("rotary width {} of heads {} wide", a.rotary_width, a.head_width),
            "at most the head's width");
    if (!a.indexer) return;
    check_sizes(where, "indexer's heads and keys",
                {a.indexer->heads, a.indexer->head_width, a.indexer->top_keys,
                 a.indexer->heads * a.indexer->head_width});
    must_be(a.indexer->head_width >= a.rotary_width, where,
            fmt::format("indexer's heads {} wide, {} of them turned", a.indexer->head_width,
                        a.rotary_width),
            "at least the turned part");
  }
  void operator()(const GatedDeltaNet& g) const {
    check_sizes(where, "gated delta net's heads and widths",
                {g.key_heads, g.value_heads, g.key_width, g.value_width, g.convolution + 1,
                 g.keys(), g.values(), g.decay_rank + 1, g.gate_rank + 1});
    must_be(g.value_heads % g.key_heads == 0, where,
            fmt::format("{} heads of values over {} of keys", g.value_heads, g.key_heads),
            "a multiple");
  }
  void operator()(const Mamba2& m) const {
    check_sizes(
        where, "Mamba's heads, groups and widths",
        {m.heads, m.head_width, m.groups, m.state, m.convolution, m.inner(), m.groups * m.state});
    must_be(m.heads % m.groups == 0, where, fmt::format("{} heads in {} groups", m.heads, m.groups),
            "a multiple");
  }
  void operator()(const Mamba& m) const {
    check_sizes(where, "Mamba's channels, state and rank",
                {m.inner, m.state, m.step_rank, m.convolution});
  }
};

struct FeedForwardCheck {
  std::string_view where;
  void operator()(const std::monostate&) const {}
  void operator()(const DenseFeedForward& f) const {
    check_sizes(where, "feed-forward width", {f.width});
  }
  void operator()(const ExpertFeedForward& e) const {
    check_sizes(where, "experts and their width", {e.experts, e.per_token, e.width});
    must_be(e.per_token <= e.experts, where,
            fmt::format("{} experts per token of {}", e.per_token, e.experts),
            "at most as many as there are");
    must_be(e.shared_width >= 0 && e.shared_width <= kMostWidth, where,
            fmt::format("shared experts' width {}", e.shared_width), "0 to 1048576");
  }
};

}  // namespace

WeightBits WeightBits::all(double bits) { return {bits, bits, bits, bits, bits, bits, bits}; }

namespace {

/// Layers that read the keys of another have one before them that made such keys.
void check_borrowed_keys(const LanguageNetwork& network, std::string_view where) {
  const GroupedQueryAttention* made[2] = {};  // without a window, with one
  for (const std::uint32_t kind : network.order) {
    const auto* a = std::get_if<GroupedQueryAttention>(&network.kinds[kind].mixer);
    if (a == nullptr) continue;
    const GroupedQueryAttention*& last = made[a->window > 0 ? 1 : 0];
    if (!a->borrows_keys) {
      last = a;
      continue;
    }
    must_be(last != nullptr && last->kv_heads == a->kv_heads && last->head_width == a->head_width,
            where, "a layer that reads the keys of another", "a layer alike before it");
  }
}

}  // namespace

void check(const LanguageNetwork& network, std::string_view where) {
  check_sizes(where, "width", {network.width, network.words_width()});
  must_be(network.vocabulary >= 1 && network.vocabulary <= kMostVocabulary, where,
          fmt::format("{} words", network.vocabulary), "1 to 16777216");
  must_be(network.layers() >= 1 && network.layers() <= kMostLayers, where,
          fmt::format("{} layers", network.layers()), "1 to 4096");
  must_be(network.prediction_layers >= 0 && network.prediction_layers <= kMostLayers, where,
          fmt::format("{} prediction layers", network.prediction_layers), "0 to 4096");
  const bool learned = network.positions == LanguagePositions::Learned;
  must_be(learned ? network.position_rows >= 1 && network.position_rows <= kMostVocabulary
                  : network.position_rows == 0,
          where, fmt::format("{} rows of positions", network.position_rows),
          learned ? "1 to 16777216" : "none: positions are not learned");
  check_sizes(where, "residual streams", {network.streams});
  must_be(network.streams <= 64, where, fmt::format("{} residual streams", network.streams),
          "1 to 64");
  check_sizes(where, "numbers per token and layer", {network.layer_input_width + 1});
  must_be(network.layer_input_vocabulary >= 0 && network.layer_input_vocabulary <= kMostVocabulary,
          where, fmt::format("{} rows per layer", network.layer_input_vocabulary), "0 to 16777216");
  for (const std::uint32_t kind : network.order) {
    TRACECAST_CHECK(kind < network.kinds.size(), "every layer has a kind");
  }
  TRACECAST_CHECK(network.prediction_kind < network.kinds.size(), "prediction layers have a kind");
  for (const LanguageLayer& layer : network.kinds) {
    std::visit(MixerCheck{where}, layer.mixer);
    std::visit(MixerCheck{where}, layer.beside);
    std::visit(FeedForwardCheck{where}, layer.feed_forward);
    must_be(layer.mixer.index() + layer.feed_forward.index() > 0, where, "an empty layer",
            "attention, a recurrent layer or a feed-forward");
  }
  check_borrowed_keys(network, where);
  // A graph has ops of each expert that runs by itself.
  constexpr std::int64_t kMostLoops = 1 << 15;
  std::int64_t loops = 0;
  for (const std::uint32_t kind : network.order) {
    const auto* e = std::get_if<ExpertFeedForward>(&network.kinds[kind].feed_forward);
    if (e != nullptr && e->loops) loops += e->experts;
  }
  must_be(loops <= kMostLoops, where, fmt::format("{} experts that run one by one", loops),
          "at most 32768 in all layers");
  const double count = parameters(network).total();
  must_be(count < kMostParameters, where, fmt::format("{:.3g} parameters", count), "below 10^15");
}

void add_layer(LanguageNetwork& network, const LanguageLayer& layer) {
  const auto found = std::find(network.kinds.begin(), network.kinds.end(), layer);
  network.order.push_back(static_cast<std::uint32_t>(found - network.kinds.begin()));
  if (found == network.kinds.end()) network.kinds.push_back(layer);
}

ParameterShares layer_parameters(const LanguageNetwork& network, const LanguageLayer& layer) {
  const MixerParameters mixer =
      std::visit([&](const auto& m) { return of(network, m); }, layer.mixer);
  const MixerParameters beside =
      std::visit([&](const auto& m) { return of(network, m); }, layer.beside);
  const double halves =
      (layer.mixer.index() != 0 ? 1 : 0) + (layer.feed_forward.index() != 0 ? 1 : 0);
  ParameterShares result{.mixers = mixer.weights + beside.weights,
                         .norms = mixer.norms + beside.norms +
                                  wide_norms(layer) * norm(network, network.width) +
                                  halves * stream_weights(network)};
  const double width = num(network.width);
  if (network.layer_input_width > 0) {
    result.mixers += 2 * width * num(network.layer_input_width);
    result.norms += norm(network, network.width);
  }
  if (const auto* dense = std::get_if<DenseFeedForward>(&layer.feed_forward)) {
    result.feed_forward =
        feed_forward_weights(width, num(dense->width), dense->gated, dense->biases);
  }
  if (const auto* e = std::get_if<ExpertFeedForward>(&layer.feed_forward)) {
    result.experts =
        num(e->experts) * feed_forward_weights(width, num(e->width), e->gated, e->biases);
    result.router = num(e->experts) * (width + (e->biases ? 1 : 0) + (e->correction_bias ? 1 : 0));
    if (e->shared_width > 0) {
      result.feed_forward = feed_forward_weights(width, num(e->shared_width), e->gated, false);
      if (e->shared_gate) result.router += width;
    }
  }
  return result;
}

ParameterShares parameters(const LanguageNetwork& network) {
  ParameterShares sum;
  const double words = num(network.vocabulary) * num(network.words_width());
  sum.embedding = words + num(network.position_rows) * num(network.width);
  sum.head = network.tied ? 0.0 : words;
  if (network.head_bias) sum.head += num(network.vocabulary);
  if (network.embedding_width > 0 && network.embedding_width != network.width) {
    sum.embedding += num(network.embedding_width) * num(network.width);
    sum.head += num(network.embedding_width) * num(network.width);
  }
  if (network.embedding_norm) sum.norms += norm(network, network.width);
  if (network.last_norm) sum.norms += norm(network, network.width);
  if (const double n = num(network.streams); n > 1) sum.norms += n * n * num(network.width) + n + 1;
  if (network.layer_input_width > 0) {
    sum.embedding += network.layer_input_table();
    sum.mixers += num(network.width) * num(network.layers() * network.layer_input_width);
    sum.norms += norm(network, network.layer_input_width);
  }
  std::vector<double> count(network.kinds.size());
  for (const std::uint32_t kind : network.order) ++count[kind];
  for (std::size_t kind = 0; kind < count.size(); ++kind) {
    const ParameterShares one = layer_parameters(network, network.kinds[kind]);
    add(sum, {.mixers = count[kind] * one.mixers,
              .feed_forward = count[kind] * one.feed_forward,
              .experts = count[kind] * one.experts,
              .router = count[kind] * one.router,
              .norms = count[kind] * one.norms});
  }
  return sum;
}

ParameterShares prediction_parameters(const LanguageNetwork& network) {
  ParameterShares sum;
  if (network.prediction_layers == 0) return sum;
  ParameterShares one = layer_parameters(network, network.kinds[network.prediction_kind]);
  one.mixers += 2 * num(network.width) * num(network.width);
  one.norms += 3 * norm(network, network.width);
  for (std::int64_t i = 0; i < network.prediction_layers; ++i) add(sum, one);
  return sum;
}

double active_parameters(const LanguageNetwork& network) {
  const ParameterShares all = parameters(network);
  double sum =
      all.total() - all.experts - (network.tied ? network.layer_input_table() : all.embedding);
  for (const std::uint32_t kind : network.order) {
    const LanguageLayer& layer = network.kinds[kind];
    const auto* e = std::get_if<ExpertFeedForward>(&layer.feed_forward);
    if (e == nullptr) continue;
    sum += layer_parameters(network, layer).experts * num(e->per_token) / num(e->experts);
  }
  return sum;
}

Bytes weight_bytes(const ParameterShares& p, const WeightBits& bits) {
  return Bytes((p.embedding * bits.embedding + p.head * bits.head + p.mixers * bits.mixers +
                p.feed_forward * bits.feed_forward + p.experts * bits.experts +
                p.router * bits.router + p.norms * bits.norms) /
               8);
}

namespace {

void add_state(SequenceState& state, const LanguageMixer& mixer) {
  if (const auto* a = std::get_if<GroupedQueryAttention>(&mixer)) {
    if (a->borrows_keys) return;
    const double kept = 2 * num(a->kv_heads) * num(a->head_width);
    (a->window > 0 ? state.windowed : state.growing) += kept;
    state.window = std::max(state.window, a->window);
  } else if (const auto* l = std::get_if<LatentAttention>(&mixer)) {
    state.growing += num(l->kv_rank + l->rope_width);
    if (l->indexer) state.indices += num(l->indexer->head_width);
  } else if (const auto* c = std::get_if<CompressedAttention>(&mixer)) {
    state.windowed += num(c->head_width);
    state.window = std::max(state.window, c->window);
    if (c->rate > 0) state.growing += num(c->head_width) / num(c->rate);
    if (c->indexer) state.indices += num(c->indexer->head_width) / num(c->rate);
  } else if (const auto* g = std::get_if<GatedDeltaNet>(&mixer)) {
    state.fixed += num(g->value_heads) * num(g->key_width) * num(g->value_width) +
                   num(g->channels()) * num(std::max<std::int64_t>(g->convolution - 1, 0));
  } else if (const auto* m = std::get_if<Mamba2>(&mixer)) {
    state.fixed += num(m->inner()) * num(m->state) + num(m->channels()) * num(m->convolution - 1);
  } else if (const auto* one = std::get_if<Mamba>(&mixer)) {
    state.fixed += num(one->inner) * num(one->state) + num(one->inner) * num(one->convolution - 1);
  }
}

}  // namespace

SequenceState sequence_state(const LanguageNetwork& network) {
  SequenceState state;
  for (const std::uint32_t kind : network.order) {
    add_state(state, network.kinds[kind].mixer);
    add_state(state, network.kinds[kind].beside);
  }
  return state;
}

Bytes cache_bytes(const SequenceState& state, std::int64_t tokens, Bytes element) {
  const std::int64_t seen = state.window > 0 ? std::min(tokens, state.window) : tokens;
  return element *
         ((state.growing + state.indices) * num(tokens) + state.windowed * num(seen) + state.fixed);
}

}  // namespace tracecast
