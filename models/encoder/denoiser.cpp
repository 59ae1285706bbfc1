#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "models/encoder/families.hpp"
#include "models/zoo/parts/attention.hpp"

/// Networks that take a step of noise away from latents of images, and what leads from images to
/// latents and back. Sources: diffusers, unet_2d_condition.py and unet_2d_blocks.py,
/// autoencoder_kl.py and vae.py, transformer_sd3.py, transformer_flux.py, attention.py,
/// normalization.py, embeddings.py.
namespace tracecast::encoder {
namespace {

constexpr std::array<std::int64_t, 3> kLastTwo{0, 2, 1};
constexpr std::int64_t kPixelsPerLatent = 8, kStepChannels = 256;

/// What images and sequences of latents go through.
class Latents {
 public:
  Latents(GraphBuilder& b, const Question& q, std::int64_t groups)
      : b_(b), run_(run_of(b, q)), groups_(groups) {}

  TensorId group_norm(const std::string& name, TensorId x) const {
    const std::int64_t channels = b_.shape(x)[1];
    return b_.group_norm(name, x, groups_, b_.weight(name + ".weight", {channels}),
                         b_.weight(name + ".bias", {channels}));
  }
  TensorId convolution(const std::string& name, TensorId x, std::int64_t channels) const {
    x = b_.activation(name + ".silu", group_norm(name + ".norm", x), "silu");
    return b_.conv_layer(name + ".conv", x, channels, Window::square(3, 1, 1), true);
  }
  TensorId residual(const std::string& name, TensorId x, std::int64_t channels,
                    std::optional<TensorId> time) const {
    TensorId y = convolution(name + ".1", x, channels);
    if (time) {
      TensorId step = b_.activation(name + ".time.silu", *time, "silu");
      step = b_.linear_layer(name + ".time", step, channels, true);
      step = b_.reshape(name + ".time.view", step, {b_.shape(x)[0], channels, 1, 1});
      y = b_.add(name + ".add_time", y, step);
    }
    y = convolution(name + ".2", y, channels);
    if (b_.shape(x)[1] != channels) {
      x = b_.conv_layer(name + ".shortcut", x, channels, Window::square(1), true);
    }
    return b_.add(name + ".add", x, y);
  }
  /// softmax(q k) v of sequences side by side: batch x tokens x width each.
  TensorId attend(const std::string& name, TensorId query, TensorId key, TensorId value,
                  std::int64_t heads) const {
    const std::int64_t width = b_.shape(query)[2];
    const zoo_builders::Heads head_shape{heads, width / heads};
    if (run_.attention != AttentionKernels::Steps) {
      return zoo_builders::attend_fused(b_, name, {query, key, value},
                                        {.batch = b_.shape(query)[0],
                                         .heads = heads,
                                         .kv_heads = heads,
                                         .queries = b_.shape(query)[1],
                                         .keys = b_.shape(key)[1],
                                         .width = head_shape.width});
    }
    return zoo_builders::from_heads(
        b_, name,
        zoo_builders::attend(b_, name, zoo_builders::to_heads(b_, name + ".q", query, head_shape),
                             zoo_builders::to_heads(b_, name + ".k", key, head_shape),
                             zoo_builders::to_heads(b_, name + ".v", value, head_shape),
                             {.scale = run_.constant}, true));
  }
  TensorId attention(const std::string& name, TensorId x, TensorId read, std::int64_t heads,
                     bool biases) const {
    const std::int64_t width = b_.shape(x)[2];
    const TensorId query = b_.linear_layer(name + ".to_q", x, width, biases);
    const TensorId key = b_.linear_layer(name + ".to_k", read, width, biases);
    const TensorId value = b_.linear_layer(name + ".to_v", read, width, biases);
    return b_.linear_layer(name + ".to_out", attend(name, query, key, value, heads), width, true);
  }
  /// Cells of an image as tokens, and back.
  TensorId tokens(const std::string& name, TensorId x) const {
    const Shape s = b_.shape(x);
    return b_.transpose(name + ".tokens", b_.reshape(name + ".cells", x, {s[0], s[1], -1}),
                        kLastTwo);
  }
  TensorId image(const std::string& name, TensorId x, const Shape& shape) const {
    return b_.reshape(name + ".image", b_.transpose(name + ".channels", x, kLastTwo), shape);
  }
  TensorId halved(const std::string& name, TensorId x) const {
    return b_.conv_layer(name, x, b_.shape(x)[1], Window::square(3, 2, 1), true);
  }
  TensorId doubled(const std::string& name, TensorId x) const {
    const Shape s = b_.shape(x);
    x = b_.resize(name + ".resize", x, {s[0], s[1], 2 * s[2], 2 * s[3]}, "nearest");
    return b_.conv_layer(name + ".conv", x, s[1], Window::square(3, 1, 1), true);
  }
  /// Two linear layers with SiLU between.
  TensorId embedded_step(const std::string& name, TensorId x, std::int64_t width) const {
    x = b_.activation(name + ".silu", b_.linear_layer(name + ".1", x, width, true), "silu");
    return b_.linear_layer(name + ".2", x, width, true);
  }

 protected:
  GraphBuilder& b_;
  Run run_;
  std::int64_t groups_;
};

/// One number for all levels, or one for each.
std::int64_t of_level(const ConfigObject& c, std::string_view key, std::size_t level,
                      std::size_t levels, std::int64_t usual) {
  if (!c.has(key)) return usual;
  return c.size_of_layer(key, static_cast<std::int64_t>(level), static_cast<std::int64_t>(levels));
}

std::vector<std::int64_t> channels_of(const ConfigObject& c) {
  std::vector<std::int64_t> channels = c.counts("block_out_channels");
  if (channels.empty() || channels.size() > 16) {
    c.fail("block_out_channels", std::to_string(channels.size()) + " levels", "1 to 16");
  }
  for (const std::int64_t count : channels) {
    if (count < 1) c.fail("block_out_channels", "0 channels", "1 or more");
  }
  return channels;
}

class Unet : public Latents {
 public:
  Unet(GraphBuilder& b, const Question& q)
      : Latents(b, q, q.config.size_or("norm_num_groups", 32)),
        q_(q),
        c_(q.config),
        channels_(channels_of(q.config)) {}

  TensorId run() {
    const std::int64_t layers = layers_of(c_, "layers_per_block", 2);
    const std::int64_t side = side_of(q_, kPixelsPerLatent * c_.size_or("sample_size", 64),
                                      kPixelsPerLatent << (channels_.size() - 1)) /
                              kPixelsPerLatent;
    const std::int64_t batch = q_.options.batch;
    constexpr std::int64_t kTextTokens = 77;
    text_ = b_.input("encoder_hidden_states",
                     {batch, q_.options.seq_len.value_or(kTextTokens),
                      of_level(c_, "cross_attention_dim", 0, channels_.size(), 1280)});
    TensorId time = embedded_step("time_embedding", b_.input("timestep", {batch, channels_[0]}),
                                  4 * channels_[0]);
    (void)c_.count_or("addition_time_embed_dim", 0);  // its channels are among those of `added`
    if (c_.text_or("addition_embed_type", "") == "text_time") {
      const TensorId more =
          b_.input("added", {batch, c_.size("projection_class_embeddings_input_dim")});
      time =
          b_.add("add_embedding.add", time, embedded_step("add_embedding", more, 4 * channels_[0]));
    }
    TensorId x = b_.conv_layer(
        "conv_in", b_.input("sample", {batch, c_.size_or("in_channels", 4), side, side}),
        channels_[0], Window::square(3, 1, 1), true);
    const std::vector<std::string> down = types("down_block_types"), up = types("up_block_types");
    std::vector<TensorId> skips{x};
    const std::size_t levels = channels_.size();
    for (std::size_t level = 0; level < levels; ++level) {
      const std::string name = "down." + std::to_string(level) + ".";
      for (std::int64_t i = 0; i < layers; ++i) {
        x = block(name + std::to_string(i), x, level, down[level], time);
        skips.push_back(x);
      }
      if (level + 1 == levels) break;
      x = halved(name + "downsample", x);
      skips.push_back(x);
    }
    x = residual("mid.0", x, channels_.back(), time);
    if (c_.text_or("mid_block_type", "UNetMidBlock2DCrossAttn") == "UNetMidBlock2DCrossAttn") {
      x = transformer("mid.attention", x, levels - 1);
    }
    x = residual("mid.1", x, channels_.back(), time);
    for (std::size_t i = 0; i < levels; ++i) {
      const std::size_t level = levels - 1 - i;
      const std::string name = "up." + std::to_string(i) + ".";
      for (std::int64_t j = 0; j <= layers; ++j) {
        const std::string part = name + std::to_string(j);
        const TensorId both[] = {x, skips.back()};
        skips.pop_back();
        x = block(part, b_.concat(part + ".cat", both, 1), level, up[i], time);
      }
      if (level > 0) x = doubled(name + "upsample", x);
    }
    return convolution("conv_out", x, c_.size_or("out_channels", 4));
  }

 private:
  std::vector<std::string> types(const char* key) const {
    std::vector<std::string> list = c_.texts(key);
    if (list.size() != channels_.size()) {
      c_.fail(key, std::to_string(list.size()) + " blocks",
              "one for each of " + std::to_string(channels_.size()) + " levels");
    }
    return list;
  }
  TensorId block(const std::string& name, TensorId x, std::size_t level, const std::string& type,
                 TensorId time) const {
    x = residual(name + ".resnet", x, channels_[level], time);
    return type.starts_with("CrossAttn") ? transformer(name + ".attention", x, level) : x;
  }
  TensorId transformer(const std::string& name, TensorId x, std::size_t level) const {
    const std::size_t levels = channels_.size();
    const Shape shape = b_.shape(x);
    const std::int64_t width = shape[1];
    const bool linear = c_.flag_or("use_linear_projection", false);
    // Earlier files say the number of heads under the name of their width.
    const char* key = c_.has("num_attention_heads") ? "num_attention_heads" : "attention_head_dim";
    const std::int64_t heads = of_level(c_, key, level, levels, 8);
    if (width % heads != 0) c_.fail(key, std::to_string(heads), "divisors of block_out_channels");
    TensorId y = group_norm(name + ".norm", x);
    if (!linear) y = b_.conv_layer(name + ".proj_in", y, width, Window::square(1), true);
    y = tokens(name, y);
    if (linear) y = b_.linear_layer(name + ".proj_in", y, width, true);
    const std::int64_t depth = of_level(c_, "transformer_layers_per_block", level, levels, 1);
    if (depth > language::kMostLayers) {
      c_.fail("transformer_layers_per_block", std::to_string(depth), "at most 4096");
    }
    for (std::int64_t i = 0; i < depth; ++i) {
      const std::string part = name + "." + std::to_string(i);
      TensorId read = b_.layer_norm_layer(part + ".norm1", y);
      y = b_.add(part + ".add1", y, attention(part + ".attn1", read, read, heads, false));
      read = b_.layer_norm_layer(part + ".norm2", y);
      y = b_.add(part + ".add2", y, attention(part + ".attn2", read, *text_, heads, false));
      read = b_.linear_layer(part + ".ff.proj", b_.layer_norm_layer(part + ".norm3", y), 8 * width,
                             true);
      const std::int64_t halves[] = {4 * width, 4 * width};
      const std::vector<TensorId> half = b_.split(part + ".ff.split", read, -1, halves);
      read = b_.mul(part + ".ff.mul", half[0], b_.activation(part + ".ff.gelu", half[1], "gelu"));
      y = b_.add(part + ".add3", y, b_.linear_layer(part + ".ff.out", read, width, true));
    }
    if (linear) y = b_.linear_layer(name + ".proj_out", y, width, true);
    y = image(name, y, shape);
    if (!linear) y = b_.conv_layer(name + ".proj_out", y, width, Window::square(1), true);
    return b_.add(name + ".add", x, y);
  }

  const Question& q_;
  const ConfigObject& c_;
  std::vector<std::int64_t> channels_;
  std::optional<TensorId> text_;
};

class Autoencoder : public Latents {
 public:
  Autoencoder(GraphBuilder& b, const Question& q)
      : Latents(b, q, q.config.size_or("norm_num_groups", 32)),
        q_(q),
        c_(q.config),
        channels_(channels_of(q.config)) {}

  TensorId run() {
    const std::int64_t layers = layers_of(c_, "layers_per_block", 2),
                       latent = c_.size_or("latent_channels", 4);
    const std::int64_t side =
        side_of(q_, c_.size_or("sample_size", 512), std::int64_t{1} << (channels_.size() - 1));
    TensorId x = b_.input("sample", {q_.options.batch, c_.size_or("in_channels", 3), side, side});
    x = b_.conv_layer("encoder.conv_in", x, channels_[0], Window::square(3, 1, 1), true);
    for (std::size_t level = 0; level < channels_.size(); ++level) {
      const std::string name = "encoder." + std::to_string(level) + ".";
      for (std::int64_t i = 0; i < layers; ++i) {
        x = residual(name + std::to_string(i), x, channels_[level], {});
      }
      if (level + 1 < channels_.size()) x = halved(name + "downsample", x);
    }
    x = convolution("encoder.conv_out", middle("encoder.mid", x), 2 * latent);
    if (c_.flag_or("use_quant_conv", true)) {
      x = b_.conv_layer("quant_conv", x, 2 * latent, Window::square(1), true);
    }
    x = b_.slice("latents", x, {b_.shape(x)[0], latent, b_.shape(x)[2], b_.shape(x)[3]});
    if (c_.flag_or("use_post_quant_conv", true)) {
      x = b_.conv_layer("post_quant_conv", x, latent, Window::square(1), true);
    }
    x = b_.conv_layer("decoder.conv_in", x, channels_.back(), Window::square(3, 1, 1), true);
    x = middle("decoder.mid", x);
    for (std::size_t level = channels_.size(); level-- > 0;) {
      const std::string name = "decoder." + std::to_string(level) + ".";
      for (std::int64_t i = 0; i <= layers; ++i) {
        x = residual(name + std::to_string(i), x, channels_[level], {});
      }
      if (level > 0) x = doubled(name + "upsample", x);
    }
    return convolution("decoder.conv_out", x, c_.size_or("out_channels", 3));
  }

 private:
  TensorId middle(const std::string& name, TensorId x) const {
    x = residual(name + ".0", x, b_.shape(x)[1], {});
    if (c_.flag_or("mid_block_add_attention", true)) {
      const TensorId read = tokens(name + ".attention", group_norm(name + ".norm", x));
      const TensorId y = attention(name + ".attention", read, read, 1, true);
      x = b_.add(name + ".add", x, image(name + ".attention", y, b_.shape(x)));
    }
    return residual(name + ".1", x, b_.shape(x)[1], {});
  }

  const Question& q_;
  const ConfigObject& c_;
  std::vector<std::int64_t> channels_;
};

/// Layers that read tokens of image and text together, shifted and scaled by the step (MMDiT: arXiv
/// 2403.03206).
class JointLayers : public Latents {
 public:
  JointLayers(GraphBuilder& b, const Question& q)
      : Latents(b, q, 32),
        heads_(q.config.size("num_attention_heads")),
        head_width_(q.config.size("attention_head_dim")),
        width_(heads_ * head_width_) {}

  [[nodiscard]] std::int64_t width() const { return width_; }

  /// Numbers per channel that the step gives, `count` of them, each batch x 1 x width.
  std::vector<TensorId> modulation(const std::string& name, TensorId step,
                                   std::int64_t count) const {
    const TensorId y = b_.linear_layer(
        name + ".linear", b_.activation(name + ".silu", step, "silu"), count * width_, true);
    const TensorId view = b_.reshape(name + ".view", y, {b_.shape(step)[0], 1, count * width_});
    return b_.split(name + ".chunk", view, -1,
                    std::vector<std::int64_t>(static_cast<std::size_t>(count), width_));
  }
  TensorId shifted(const std::string& name, TensorId x, TensorId shift, TensorId scale) const {
    x = b_.mul(name + ".scale", b_.layer_norm(name + ".norm", x, -1, std::nullopt, std::nullopt),
               scale);
    return b_.add(name + ".shift", x, shift);
  }
  struct Projected {
    TensorId query, key, value;
  };
  Projected projected(const std::string& name, TensorId x, bool norms) const {
    Projected p{b_.linear_layer(name + ".q", x, width_, true),
                b_.linear_layer(name + ".k", x, width_, true),
                b_.linear_layer(name + ".v", x, width_, true)};
    if (norms) {
      p.query = normed_heads(name + ".norm_q", p.query);
      p.key = normed_heads(name + ".norm_k", p.key);
    }
    return p;
  }
  /// Root mean square over each head's channels.
  TensorId normed_heads(const std::string& name, TensorId x) const {
    const Shape s = b_.shape(x);
    x = b_.reshape(name + ".view", x, {s[0], s[1], heads_, head_width_});
    x = zoo_builders::rms_norm(b_, name, x, run_.constant);
    return b_.reshape(name + ".merge", x, s);
  }
  TensorId both(const std::string& name, TensorId first, TensorId second) const {
    const TensorId parts[] = {first, second};
    return b_.concat(name, parts, 1);
  }
  TensorId turned(const std::string& name, TensorId x) {
    if (!cosine_) {
      const Shape table{1, b_.shape(x)[1], width_};
      cosine_ = b_.buffer("rotary.cos", table);
      sine_ = b_.buffer("rotary.sin", table);
    }
    TensorId y = b_.mul(name + ".sin", b_.activation(name + ".rotate", x, "rotate_half"), *sine_);
    return b_.add(name + ".rotary", b_.mul(name + ".cos", x, *cosine_), y);
  }
  TensorId dense(const std::string& name, TensorId x) const {
    x = b_.activation(name + ".gelu", b_.linear_layer(name + ".in", x, 4 * width_, true), "gelu");
    return b_.linear_layer(name + ".out", x, width_, true);
  }
  TensorId gated_sum(const std::string& name, TensorId x, TensorId y, TensorId gate) const {
    return b_.add(name + ".add", x, b_.mul(name + ".gate", y, gate));
  }

  struct Streams {
    TensorId image, text;
  };
  /// `last`: the text's stream ends here. `second`: a second attention of the image alone (SD 3.5
  /// medium).
  Streams joint_block(const std::string& name, Streams in, TensorId step, bool norms, bool turns,
                      bool last, bool second) {
    const auto m = modulation(name + ".norm1", step, second ? 9 : 6);
    const auto t = modulation(name + ".norm1_context", step, last ? 2 : 6);
    const TensorId read = shifted(name + ".image", in.image, m[0], m[1]);
    const TensorId text_read = shifted(name + ".text", in.text, t[0], t[1]);
    const Projected p = projected(name + ".attn", read, norms);
    const Projected a = projected(name + ".attn.add", text_read, norms);
    TensorId query = both(name + ".query", a.query, p.query),
             key = both(name + ".key", a.key, p.key);
    const TensorId value = both(name + ".value", a.value, p.value);
    if (turns) {
      query = turned(name + ".query", query);
      key = turned(name + ".key", key);
    }
    const TensorId y = attend(name + ".attn", query, key, value, heads_);
    const Shape image_shape = b_.shape(in.image), text_shape = b_.shape(in.text);
    TensorId image_part = b_.linear_layer(
        name + ".attn.to_out", b_.slice(name + ".attn.image", y, image_shape), width_, true);
    Streams out{gated_sum(name + ".attn", in.image, image_part, m[2]), in.text};
    if (second) {
      const TensorId again = shifted(name + ".image2", in.image, m[6], m[7]);
      const Projected s = projected(name + ".attn2", again, norms);
      image_part =
          b_.linear_layer(name + ".attn2.to_out",
                          attend(name + ".attn2", s.query, s.key, s.value, heads_), width_, true);
      out.image = gated_sum(name + ".attn2", out.image, image_part, m[8]);
    }
    out.image = gated_sum(name + ".ff", out.image,
                          dense(name + ".ff", shifted(name + ".ff", out.image, m[3], m[4])), m[5]);
    if (last) return out;
    const TensorId text_part = b_.linear_layer(
        name + ".attn.to_add_out", b_.slice(name + ".attn.text", y, text_shape), width_, true);
    out.text = gated_sum(name + ".attn_context", in.text, text_part, t[2]);
    out.text = gated_sum(
        name + ".ff_context", out.text,
        dense(name + ".ff_context", shifted(name + ".ff_context", out.text, t[3], t[4])), t[5]);
    return out;
  }
  /// Attention and feed-forward side by side on all tokens (FLUX).
  TensorId single_block(const std::string& name, TensorId x, TensorId step) {
    const auto m = modulation(name + ".norm", step, 3);
    const TensorId read = shifted(name, x, m[0], m[1]);
    const TensorId wide = b_.activation(
        name + ".gelu", b_.linear_layer(name + ".proj_mlp", read, 4 * width_, true), "gelu");
    Projected p = projected(name + ".attn", read, true);
    p.query = turned(name + ".query", p.query);
    p.key = turned(name + ".key", p.key);
    const TensorId parts[] = {attend(name + ".attn", p.query, p.key, p.value, heads_), wide};
    const TensorId y =
        b_.linear_layer(name + ".proj_out", b_.concat(name + ".cat", parts, -1), width_, true);
    return gated_sum(name, x, y, m[2]);
  }
  TensorId last(TensorId x, TensorId step, std::int64_t channels) const {
    const auto m = modulation("norm_out", step, 2);
    return b_.linear_layer("proj_out", shifted("norm_out", x, m[0], m[1]), channels, true);
  }

 private:
  std::int64_t heads_, head_width_, width_;
  std::optional<TensorId> cosine_, sine_;
};

NetworkGraph sd3(const Question& q) {
  const ConfigObject& c = q.config;
  GraphBuilder b("sd3", q.options.batch);
  JointLayers net(b, q);
  const std::int64_t patch = c.size_or("patch_size", 2), batch = q.options.batch;
  const std::int64_t layers = c.size("num_layers");
  if (layers > language::kMostLayers) c.fail("num_layers", std::to_string(layers), "at most 4096");
  const std::int64_t side =
      side_of(q, kPixelsPerLatent * c.size_or("sample_size", 128), kPixelsPerLatent * patch) /
      kPixelsPerLatent;
  constexpr std::int64_t kTextTokens = 333;  // 77 of CLIP, 256 of T5
  TensorId image =
      patches(b, "pos_embed", b.input("sample", {batch, c.size_or("in_channels", 16), side, side}),
              net.width(), patch, true);
  image = b.add("pos_embed.add", image,
                b.buffer("pos_embed.table", {1, b.shape(image)[1], net.width()}));
  TensorId text = b.input("encoder_hidden_states", {batch, q.options.seq_len.value_or(kTextTokens),
                                                    c.size_or("joint_attention_dim", 4096)});
  text = b.linear_layer("context_embedder", text, net.width(), true);
  const TensorId step =
      b.add("time_text_embed.add",
            net.embedded_step("time_text_embed.time", b.input("timestep", {batch, kStepChannels}),
                              net.width()),
            net.embedded_step("time_text_embed.text",
                              b.input("pooled", {batch, c.size_or("pooled_projection_dim", 2048)}),
                              net.width()));
  std::vector<std::int64_t> dual;
  if (c.has("dual_attention_layers")) dual = c.counts("dual_attention_layers");
  const bool norms = c.text_or("qk_norm", "") == "rms_norm";
  if (c.size_or("caption_projection_dim", net.width()) != net.width()) {
    c.fail("caption_projection_dim", std::to_string(c.size("caption_projection_dim")),
           "the heads' channels together, " + std::to_string(net.width()));
  }
  JointLayers::Streams streams{image, text};
  for (std::int64_t i = 0; i < layers; ++i) {
    const bool second = std::find(dual.begin(), dual.end(), i) != dual.end();
    streams = net.joint_block("blocks." + std::to_string(i), streams, step, norms, false,
                              i + 1 == layers, second);
  }
  b.graph().outputs = {
      net.last(streams.image, step, patch * patch * c.size_or("out_channels", 16))};
  return std::move(b).take();
}

NetworkGraph flux(const Question& q) {
  const ConfigObject& c = q.config;
  GraphBuilder b("flux", q.options.batch);
  JointLayers net(b, q);
  const std::int64_t batch = q.options.batch, channels = c.size_or("in_channels", 64);
  const std::int64_t layers = c.size("num_layers"), singles = c.count_or("num_single_layers", 0);
  if (layers + singles > language::kMostLayers) {
    c.fail("num_layers", std::to_string(layers + singles), "at most 4096");
  }
  // Two by two latents are a token.
  constexpr std::int64_t kUsualSide = 1024, kTextTokens = 512, kPixels = 2 * kPixelsPerLatent;
  const std::int64_t across = side_of(q, kUsualSide, kPixels) / kPixels;
  const TensorId image =
      b.linear_layer("x_embedder", b.input("hidden_states", {batch, across * across, channels}),
                     net.width(), true);
  const TensorId text = b.linear_layer(
      "context_embedder",
      b.input("encoder_hidden_states", {batch, q.options.seq_len.value_or(kTextTokens),
                                        c.size_or("joint_attention_dim", 4096)}),
      net.width(), true);
  TensorId step = net.embedded_step("time_text_embed.time",
                                    b.input("timestep", {batch, kStepChannels}), net.width());
  if (c.flag_or("guidance_embeds", false)) {
    step = b.add("time_text_embed.add_guidance", step,
                 net.embedded_step("time_text_embed.guidance",
                                   b.input("guidance", {batch, kStepChannels}), net.width()));
  }
  step =
      b.add("time_text_embed.add", step,
            net.embedded_step("time_text_embed.text",
                              b.input("pooled", {batch, c.size_or("pooled_projection_dim", 768)}),
                              net.width()));
  JointLayers::Streams streams{image, text};
  for (std::int64_t i = 0; i < layers; ++i) {
    streams = net.joint_block("transformer_blocks." + std::to_string(i), streams, step, true, true,
                              false, false);
  }
  TensorId x = net.both("all", streams.text, streams.image);
  for (std::int64_t i = 0; i < singles; ++i) {
    x = net.single_block("single_transformer_blocks." + std::to_string(i), x, step);
  }
  x = b.slice("image", x, b.shape(streams.image));
  b.graph().outputs = {net.last(x, step, c.size_or("out_channels", channels))};
  return std::move(b).take();
}

}  // namespace

NetworkGraph denoiser(const Question& question) {
  if (question.family == "SD3Transformer2DModel") return sd3(question);
  if (question.family == "FluxTransformer2DModel") return flux(question);
  GraphBuilder b(std::string(question.family), question.options.batch);
  if (question.family == "AutoencoderKL") {
    b.graph().outputs = {Autoencoder(b, question).run()};
  } else {
    b.graph().outputs = {Unet(b, question).run()};
  }
  return std::move(b).take();
}

}  // namespace tracecast::encoder
