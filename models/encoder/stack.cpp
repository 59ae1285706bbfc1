#include "models/encoder/stack.hpp"

#include <array>
#include <vector>

#include "models/zoo/parts/attention.hpp"

namespace tracecast::encoder {
namespace {

using zoo_builders::Heads;

/// Weights of all layers, made by the first where they are shared.
class Layers {
 public:
  Layers(const Run& run, const StackLayout& layout, std::string name)
      : run_(run), b_(run.b), layout_(layout), name_(std::move(name)) {}

  TensorId run(TensorId x, std::optional<TensorId> memory) {
    make_tables(b_.shape(x)[1]);
    for (std::int64_t i = 0; i < layout_.layers; ++i) {
      next_ = 0;
      x = layer(i, x, memory);
    }
    return layout_.last_norm ? normed(name_ + "final_norm", x) : x;
  }

 private:
  /// A weight of a layer; the one of the first layer at the same place where layers are shared.
  TensorId weight(const std::string& name, Shape shape) {
    if (!layout_.shares_layers) return b_.weight(name, std::move(shape));
    if (next_ == shared_.size()) shared_.push_back(b_.weight(name, std::move(shape)));
    return shared_[next_++];
  }
  TensorId linear(const std::string& name, TensorId x, std::int64_t out, bool bias) {
    const TensorId w = weight(name + ".weight", {out, b_.shape(x).back()});
    std::optional<TensorId> add;
    if (bias) add = weight(name + ".bias", {out});
    return b_.linear(name, x, w, add);
  }
  TensorId normed(const std::string& name, TensorId x) {
    const std::int64_t width = b_.shape(x).back();
    if (layout_.root_mean_square) {
      const TensorId y = zoo_builders::rms_scaled(b_, name, name + ".scaled", x, run_.constant);
      return b_.mul(name, y, weight(name + ".weight", {width}));
    }
    const TensorId scale = weight(name + ".weight", {width});
    std::optional<TensorId> bias;
    if (layout_.norm_biases) bias = weight(name + ".bias", {width});
    return b_.layer_norm(name, x, -1, scale, bias);
  }
  [[nodiscard]] Heads heads() const { return {layout_.heads, layout_.width_of_head()}; }
  [[nodiscard]] bool is_windowed(std::int64_t i) const {
    return layout_.window > 0 && layout_.whole_every > 0 && i % layout_.whole_every != 0;
  }

  void make_tables(std::int64_t tokens) {
    if (layout_.relative == Relative::Rotary) {
      const Shape shape{1, 1, tokens, layout_.width_of_head()};
      cosine_ = b_.buffer(name_ + "rotary.cos", shape);
      sine_ = b_.buffer(name_ + "rotary.sin", shape);
    }
    if (layout_.relative == Relative::SharedTable)
      bias_ = distance_bias(name_ + "relative", tokens);
    if (layout_.causal) {
      causal_ = b_.buffer(name_ + "causal_mask", {1, 1, tokens, tokens});
    }
    if (layout_.window > 0) window_ = b_.buffer(name_ + "window_mask", {1, 1, tokens, tokens});
    if (layout_.relative == Relative::Disentangled) {
      positions_ = b_.weight(name_ + "rel_embeddings.weight", {layout_.buckets, layout_.width});
      if (layout_.relative_norm) positions_ = normed(name_ + "rel_embeddings.norm", *positions_);
    }
  }
  /// A bias per head of the distance of two tokens.
  TensorId distance_bias(const std::string& name, std::int64_t tokens) {
    constexpr std::array<std::int64_t, 3> kHeadsFirst{2, 0, 1};
    const TensorId buckets =
        zoo_builders::integer_table(b_, name + ".buckets", {tokens, tokens}, 8);
    TensorId bias =
        b_.gather(name, b_.weight(name + ".weight", {layout_.buckets, layout_.heads}), buckets, 0);
    bias = b_.transpose(name + ".heads", bias, kHeadsFirst);
    return b_.reshape(name + ".view", bias, {1, layout_.heads, tokens, tokens});
  }
  TensorId turned(const std::string& name, TensorId x) {
    TensorId y = b_.activation(name + ".rotate_half", x, "rotate_half");
    y = b_.mul(name + ".sin", y, *sine_);
    return b_.add(name + ".rotary", b_.mul(name + ".cos", x, *cosine_), y);
  }

  /// Scores of content with position and of position with content, as DeBERTa adds them; both
  /// gathered by distance.
  TensorId with_positions(const std::string& name, TensorId scores, TensorId query, TensorId key) {
    const Shape shape = b_.shape(scores);
    const auto projected = [&](const std::string& part, bool bias) {
      if (layout_.shares_relative) {
        // The same weights as those of content.
        const TensorId w = part == ".pos_key" ? *key_weight_ : *query_weight_;
        return b_.linear(name + part, *positions_, w, std::nullopt);
      }
      return linear(name + part, *positions_, layout_.inner(), bias);
    };
    const auto heads_of = [&](const std::string& part, TensorId x) {
      return zoo_builders::to_heads(
          b_, name + part,
          b_.reshape(name + part + ".batch", x, {1, layout_.buckets, layout_.inner()}), heads());
    };
    const auto added = [&](const std::string& part, TensorId with, TensorId places) {
      TensorId y = b_.matmul(name + part + ".scores", with, places, false, true);
      y = b_.append({.name = name + part + ".gather",
                     .kind = OpKind::Gather,
                     .attributes = ElementwiseAttributes{.name = "gather"},
                     .inputs = {y}},
                    shape);
      return b_.mul(name + part + ".scale", y, run_.constant);
    };
    const TensorId keys = heads_of(".pos_key", projected(".pos_key", false));
    scores = b_.add(name + ".add_c2p", scores, added(".c2p", query, keys));
    const TensorId queries =
        heads_of(".pos_query", projected(".pos_query", layout_.relative_biases));
    return b_.add(name + ".add_p2c", scores, added(".p2c", key, queries));
  }

  struct Operands {
    TensorId query, key, value;  ///< batch x tokens x inner
  };
  Operands operands(const std::string& name, TensorId x, TensorId read) {
    const std::int64_t inner = layout_.inner();
    if (layout_.packed && x == read) {
      const TensorId all = linear(name + ".qkv", x, 3 * inner, layout_.query_bias);
      const std::int64_t sizes[] = {inner, inner, inner};
      const std::vector<TensorId> part = b_.split(name + ".split", all, -1, sizes);
      return {part[0], part[1], part[2]};
    }
    Operands result{linear(name + ".query", x, inner, layout_.query_bias),
                    linear(name + ".key", read, inner, layout_.key_bias),
                    linear(name + ".value", read, inner, layout_.value_bias)};
    if (layout_.shares_relative) {
      query_weight_ = producer_weight(result.query);
      key_weight_ = producer_weight(result.key);
    }
    return result;
  }
  /// The weight of the GEMM that made `y`, the op added for it.
  TensorId producer_weight(TensorId y) const {
    for (const Op& op : b_.graph().ops()) {
      if (!op.outputs.empty() && op.outputs[0] == y) return op.inputs[1];
    }
    return y;
  }

  TensorId attention(const std::string& name, TensorId x, TensorId read, std::int64_t index) {
    const bool is_self = x == read;
    const Operands in = operands(name, x, read);
    const std::int64_t batch = b_.shape(x)[0], queries = b_.shape(x)[1], keys = b_.shape(read)[1];
    std::optional<TensorId> bias;
    if (is_self && layout_.relative == Relative::SharedTable) bias = bias_;
    if (is_self && layout_.relative == Relative::LayerTable) {
      bias = distance_bias(name + ".relative", queries);
    }
    const bool windowed = is_self && is_windowed(index) && layout_.window < keys;
    const bool causal = is_self && layout_.causal;
    const bool disentangled = is_self && layout_.relative == Relative::Disentangled;
    const bool fused =
        run_.attention != AttentionKernels::Steps && !layout_.is_eager && !disentangled;
    TensorId y;
    if (fused && bias && layout_.composes_bias && !causal) {
      y = zoo_builders::attend_composed(
          b_, name, zoo_builders::view_heads(b_, name + ".query", in.query, heads()),
          zoo_builders::view_heads(b_, name + ".key", in.key, heads()),
          zoo_builders::view_heads(b_, name + ".value", in.value, heads()),
          {.constant = run_.constant, .mask = *bias, .dropout = run_.training && run_.dropout > 0});
      y = zoo_builders::from_heads(b_, name, y);
    } else if (fused) {
      TensorId query = zoo_builders::view_heads(b_, name + ".query", in.query, heads());
      TensorId key = zoo_builders::view_heads(b_, name + ".key", in.key, heads());
      if (is_self && cosine_) {
        query = turned(name + ".query", query);
        key = turned(name + ".key", key);
      }
      std::vector<TensorId> inputs{
          query, key, zoo_builders::view_heads(b_, name + ".value", in.value, heads())};
      if (bias && causal) bias = b_.add(name + ".bias", *bias, *causal_);
      if (windowed) bias = window_;
      if (bias) inputs.push_back(*bias);
      y = zoo_builders::attend_fused(b_, name, std::move(inputs),
                                     {.batch = batch,
                                      .heads = layout_.heads,
                                      .kv_heads = layout_.heads,
                                      .queries = queries,
                                      .keys = keys,
                                      .width = layout_.width_of_head(),
                                      .causal = causal && !bias});
    } else {
      TensorId query = zoo_builders::to_heads(b_, name + ".query", in.query, heads());
      TensorId key = zoo_builders::to_heads(b_, name + ".key", in.key, heads());
      const TensorId value = zoo_builders::to_heads(b_, name + ".value", in.value, heads());
      if (is_self && cosine_) {
        query = turned(name + ".query", query);
        key = turned(name + ".key", key);
      }
      TensorId scores = b_.matmul(name + ".scores", query, key, false, true);
      if (layout_.scales_scores) scores = b_.mul(name + ".scale", scores, run_.constant);
      if (disentangled) scores = with_positions(name, scores, query, key);
      if (bias) scores = b_.add(name + ".bias", scores, *bias);
      if (causal) scores = b_.add(name + ".mask", scores, *causal_);
      if (windowed) scores = b_.add(name + ".window", scores, *window_);
      scores = b_.softmax(name + ".softmax", scores);
      scores = dropped(run_, name + ".dropout", scores);
      y = zoo_builders::from_heads(b_, name, b_.matmul(name + ".context", scores, value));
    }
    return linear(name + ".output", y, layout_.width, layout_.output_bias);
  }
  TensorId dense(const std::string& name, TensorId x) {
    const bool bias = layout_.feed_forward_biases;
    TensorId y = linear(name + ".in", x, layout_.hidden, bias);
    y = activate(run_, layout_.activation, name, y);
    if (layout_.gated)
      y = b_.mul(name + ".mul", y, linear(name + ".gate", x, layout_.hidden, bias));
    return linear(name + ".out", y, layout_.width, bias);
  }
  /// A result joins the residual.
  TensorId joined(const std::string& name, TensorId x, TensorId y) {
    y = dropped(run_, name + ".dropout_out", y);
    if (layout_.layer_scale) {
      y = b_.mul(name + ".layer_scale", y, weight(name + ".lambda", {layout_.width}));
    }
    x = b_.add(name + ".add", y, x);
    return layout_.norm_place == NormPlace::AfterSum ? normed(name + ".norm", x) : x;
  }
  TensorId before(const std::string& name, TensorId x, bool has_norm = true) {
    if (layout_.norm_place == NormPlace::AfterSum || !has_norm) return x;
    return normed(name + ".norm", x);
  }
  TensorId layer(std::int64_t i, TensorId x, std::optional<TensorId> memory) {
    const std::string name = name_ + "layer." + std::to_string(i);
    TensorId read = before(name + ".attention", x, i > 0 || layout_.first_norm);
    x = joined(name + ".attention", x, attention(name + ".attention", read, read, i));
    if (layout_.cross && memory) {
      read = before(name + ".cross", x);
      x = joined(name + ".cross", x, attention(name + ".cross", read, *memory, i));
    }
    read = before(name + ".mlp", x);
    return joined(name + ".mlp", x, dense(name + ".mlp", read));
  }

  Run run_;
  GraphBuilder& b_;
  const StackLayout& layout_;
  std::string name_;
  std::vector<TensorId> shared_;
  std::size_t next_ = 0;
  std::optional<TensorId> cosine_, sine_, bias_, causal_, window_, positions_, query_weight_,
      key_weight_;
};

}  // namespace

TensorId run_stack(const Run& run, const StackLayout& layout, const std::string& name, TensorId x,
                   std::optional<TensorId> memory) {
  return Layers(run, layout, name).run(x, memory);
}

TensorId norm(const Run& run, const StackLayout& layout, const std::string& name, TensorId x) {
  if (layout.root_mean_square) return zoo_builders::rms_norm(run.b, name, x, run.constant);
  const std::int64_t width = run.b.shape(x).back();
  const TensorId scale = run.b.weight(name + ".weight", {width});
  std::optional<TensorId> bias;
  if (layout.norm_biases) bias = run.b.weight(name + ".bias", {width});
  return run.b.layer_norm(name, x, -1, scale, bias);
}

TensorId activate(const Run& run, const std::string& function, const std::string& name,
                  TensorId x) {
  GraphBuilder& b = run.b;
  if (function == "gelu_new" || function == "gelu_fast" || function == "gelu_accurate") {
    return zoo_builders::gelu_by_tanh(b, name + ".gelu", x, run.constant);
  }
  if (function == "quick_gelu") {  // x sigmoid(1.702 x)
    const TensorId scaled = b.mul(name + ".scale", x, run.constant);
    return b.mul(name + ".quick_gelu", x, b.activation(name + ".sigmoid", scaled, "sigmoid"));
  }
  if (function == "silu" || function == "swish") return b.activation(name + ".silu", x, "silu");
  if (function == "relu" || function == "tanh")
    return b.activation(name + "." + function, x, function);
  return b.activation(name + ".gelu", x, "gelu");
}

TensorId attend_between(const Run& run, const StackLayout& layout, const std::string& name,
                        TensorId queries, TensorId keys) {
  GraphBuilder& b = run.b;
  const Heads heads{layout.heads, layout.width_of_head()};
  const TensorId query = b.linear_layer(name + ".query", queries, layout.inner(), true);
  const TensorId key = b.linear_layer(name + ".key", keys, layout.inner(), true);
  const TensorId value = b.linear_layer(name + ".value", keys, layout.inner(), true);
  TensorId y = zoo_builders::attend(
      b, name, zoo_builders::to_heads(b, name + ".query", query, heads),
      zoo_builders::to_heads(b, name + ".key", key, heads),
      zoo_builders::to_heads(b, name + ".value", value, heads), {.scale = run.constant}, true);
  y = zoo_builders::from_heads(b, name, y);
  return b.linear_layer(name + ".out_proj", y, layout.width, true);
}

TensorId feed_forward(const Run& run, const StackLayout& layout, const std::string& name,
                      TensorId x) {
  TensorId y = run.b.linear_layer(name + ".in", x, layout.hidden, true);
  y = activate(run, layout.activation, name, y);
  return run.b.linear_layer(name + ".out", y, layout.width, true);
}

TensorId dropped(const Run& run, const std::string& name, TensorId x) {
  return run.training && run.dropout > 0 ? run.b.dropout(name, x) : x;
}

TensorId learned_tokens(GraphBuilder& b, const std::string& name, std::int64_t count,
                        std::int64_t width) {
  return b.append({.name = name + ".expand",
                   .kind = OpKind::Gather,
                   .attributes = ElementwiseAttributes{.name = "expand"},
                   .inputs = {b.weight(name, {1, count, width})}},
                  {b.graph().batch, count, width});
}

}  // namespace tracecast::encoder
