#include <array>
#include <string>
#include <vector>

#include "models/zoo/parts/attention.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

/// What tells the versions apart.
struct DenoiserLayout {
  std::int64_t heads;       ///< of every attention; 0: of 64 channels each
  std::int64_t text_width;  ///< of the words that images attend to
  bool captions;            ///< words come as ids and are encoded on the way
  bool linear;  ///< GEMMs lead into transformers and out of them, else 1 x 1 convolutions
};

constexpr std::int64_t kChannels = 320, kTimeWidth = 1280, kGroups = 32, kTextTokens = 77;
constexpr std::array<std::int64_t, 4> kMultiples{1, 2, 4, 4};
constexpr int kBlocksPerLevel = 2, kLevelsWithAttention = 3;
constexpr std::int64_t kPixelsPerLatent = 8, kLatentChannels = 4;

/// Ops of github.com/Stability-AI/stablediffusion, ldm/modules/diffusionmodules/openaimodel.py and
/// ldm/modules/attention.py.
struct Denoiser {
  GraphBuilder& b;
  const DenoiserLayout& layout;
  bool fused;  ///< attention runs in one kernel
  TensorId time, text, scale;

  TensorId group_norm(const std::string& name, TensorId x) const {
    const std::int64_t channels = b.shape(x)[1];
    return b.group_norm(name, x, kGroups, b.weight(name + ".weight", {channels}),
                        b.weight(name + ".bias", {channels}));
  }
  TensorId convolution(const std::string& name, TensorId x, std::int64_t channels) const {
    x = b.activation(name + ".silu", group_norm(name + ".norm", x), "silu");
    return b.conv_layer(name, x, channels, Window::square(3, 1, 1), true);
  }
  TensorId residual_block(const std::string& name, TensorId x, std::int64_t channels) const {
    TensorId y = convolution(name + ".in", x, channels);
    TensorId step = b.activation(name + ".time.silu", time, "silu");
    step = b.linear_layer(name + ".time", step, channels, true);
    step = b.reshape(name + ".time.view", step, {b.shape(x)[0], channels, 1, 1});
    y = convolution(name + ".out", b.add(name + ".add_time", y, step), channels);
    if (b.shape(x)[1] != channels) {
      x = b.conv_layer(name + ".skip", x, channels, Window::square(1), true);
    }
    return b.add(name + ".add", x, y);
  }
  TensorId attention(const std::string& name, TensorId x, TensorId context) const {
    const std::int64_t batch = b.shape(x)[0], width = b.shape(x)[2];
    const std::int64_t heads = layout.heads > 0 ? layout.heads : width / 64;
    const Heads sharded{heads, width / heads};
    const TensorId query = b.linear_layer(name + ".to_q", x, width, false);
    const TensorId key = b.linear_layer(name + ".to_k", context, width, false);
    const TensorId value = b.linear_layer(name + ".to_v", context, width, false);
    TensorId y;
    if (fused) {
      y = attend_fused(b, name, {query, key, value},
                       {.batch = batch,
                        .heads = heads,
                        .kv_heads = heads,
                        .queries = b.shape(x)[1],
                        .keys = b.shape(context)[1],
                        .width = sharded.width});
    } else {
      y = from_heads(b, name,
                     attend(b, name, to_heads(b, name + ".to_q", query, sharded),
                            to_heads(b, name + ".to_k", key, sharded),
                            to_heads(b, name + ".to_v", value, sharded), {.scale = scale}, true));
    }
    return b.linear_layer(name + ".to_out", y, width, true);
  }
  /// Half of a GEMM's result times GELU of the other half.
  TensorId feed_forward(const std::string& name, TensorId x) const {
    const std::int64_t width = b.shape(x)[2];
    x = b.linear_layer(name + ".proj", x, 8 * width, true);
    const std::int64_t halves[] = {4 * width, 4 * width};
    const std::vector<TensorId> part = b.split(name + ".split", x, -1, halves);
    x = b.mul(name + ".mul", part[0], b.activation(name + ".gelu", part[1], "gelu"));
    return b.linear_layer(name + ".out", x, width, true);
  }
  TensorId transformer(const std::string& name, TensorId x) const {
    const Shape image = b.shape(x);
    const std::int64_t pixels = image[2] * image[3];
    TensorId y = group_norm(name + ".norm", x);
    if (!layout.linear) {
      y = b.conv_layer(name + ".proj_in", y, image[1], Window::square(1), true);
    }
    y = b.reshape(name + ".pixels", y, {image[0], image[1], pixels});
    constexpr std::array<std::int64_t, 3> kSwap{0, 2, 1};
    y = b.transpose(name + ".tokens", y, kSwap);
    if (layout.linear) y = b.linear_layer(name + ".proj_in", y, image[1], true);
    TensorId read = b.layer_norm_layer(name + ".norm1", y);
    y = b.add(name + ".add1", y, attention(name + ".attn1", read, read));
    read = b.layer_norm_layer(name + ".norm2", y);
    y = b.add(name + ".add2", y, attention(name + ".attn2", read, text));
    read = b.layer_norm_layer(name + ".norm3", y);
    y = b.add(name + ".add3", y, feed_forward(name + ".ff", read));
    if (layout.linear) y = b.linear_layer(name + ".proj_out", y, image[1], true);
    y = b.transpose(name + ".image", y, kSwap);
    y = b.reshape(name + ".back", y, image);
    if (!layout.linear) {
      y = b.conv_layer(name + ".proj_out", y, image[1], Window::square(1), true);
    }
    return b.add(name + ".add", x, y);
  }
  TensorId block(const std::string& name, TensorId x, int level) const {
    x = residual_block(name + ".res", x, kChannels * kMultiples[static_cast<std::size_t>(level)]);
    return level < kLevelsWithAttention ? transformer(name + ".attn", x) : x;
  }

  TensorId run(TensorId latents) const {
    TensorId x = b.conv_layer("conv_in", latents, kChannels, Window::square(3, 1, 1), true);
    std::vector<TensorId> skips{x};
    constexpr int kLevels = static_cast<int>(kMultiples.size());
    for (int level = 0; level < kLevels; ++level) {
      const std::string name = "down" + std::to_string(level);
      for (int i = 0; i < kBlocksPerLevel; ++i) {
        x = block(name + "." + std::to_string(i), x, level);
        skips.push_back(x);
      }
      if (level + 1 == kLevels) break;
      x = b.conv_layer(name + ".halve", x, b.shape(x)[1], Window::square(3, 2, 1), true);
      skips.push_back(x);
    }
    x = residual_block("middle.0", x, b.shape(x)[1]);
    x = transformer("middle.1", x);
    x = residual_block("middle.2", x, b.shape(x)[1]);
    for (int level = kLevels; level-- > 0;) {
      const std::string name = "up" + std::to_string(level);
      for (int i = 0; i <= kBlocksPerLevel; ++i) {
        const std::string part = name + "." + std::to_string(i);
        const TensorId both[] = {x, skips.back()};
        skips.pop_back();
        x = block(part, b.concat(part + ".cat", both, 1), level);
      }
      if (level == 0) break;
      const Shape shape = b.shape(x);
      x = b.resize(name + ".double", x, {shape[0], shape[1], 2 * shape[2], 2 * shape[3]},
                   "nearest");
      x = b.conv_layer(name + ".conv", x, shape[1], Window::square(3, 1, 1), true);
    }
    return convolution("conv_out", x, kLatentChannels);
  }
};

constexpr std::int64_t kWords = 49408;
constexpr int kTextLayers = 23;  ///< of OpenCLIP's ViT-H-14: the last of 24 is left out
constexpr std::int64_t kTextHeads = 16;

/// Ops of github.com/mlfoundations/open_clip, open_clip/transformer.py: what FrozenOpenCLIPEmbedder
/// runs of it.
struct TextEncoder {
  GraphBuilder& b;
  std::int64_t width;
  bool fused;  ///< attention runs in one kernel
  TensorId scale, mask;

  TensorId attention(const std::string& name, TensorId x) const {
    const std::int64_t batch = b.shape(x)[0], each = width / kTextHeads;
    const TensorId packed = b.linear_layer(name + ".in_proj", x, 3 * width, true);
    TensorId y;
    if (fused) {
      y = attend_fused(b, name, packed,
                       {.batch = batch,
                        .heads = kTextHeads,
                        .kv_heads = kTextHeads,
                        .queries = kTextTokens,
                        .keys = kTextTokens,
                        .width = each,
                        .causal = true});
    } else {
      const auto parts = split_heads(b, name, packed, {kTextHeads, each});
      y = from_heads(
          b, name,
          attend(b, name, parts[0], parts[1], parts[2], {.scale = scale, .mask = mask}, true));
    }
    return b.linear_layer(name + ".out_proj", y, width, true);
  }
  TensorId layer(const std::string& name, TensorId x) const {
    x = b.add(name + ".add1", x, attention(name + ".attn", b.layer_norm_layer(name + ".ln_1", x)));
    TensorId y =
        b.linear_layer(name + ".c_fc", b.layer_norm_layer(name + ".ln_2", x), 4 * width, true);
    y = b.linear_layer(name + ".c_proj", b.activation(name + ".gelu", y, "gelu"), width, true);
    return b.add(name + ".add2", x, y);
  }
  TensorId run(TensorId ids) const {
    TensorId x = b.embedding("text.words", ids, b.weight("text.words.weight", {kWords, width}));
    x = b.add("text.add_positions", x, b.weight("text.positions", {kTextTokens, width}));
    for (int i = 0; i < kTextLayers; ++i) x = layer("text." + std::to_string(i), x);
    return b.layer_norm_layer("text.ln_final", x);
  }
};

/// Captions encoded by a network that is not trained.
TensorId encoded_captions(GraphBuilder& b, std::int64_t width, bool fused) {
  const TensorId ids = b.input("captions", {b.graph().batch, kTextTokens}, true);
  const auto first = static_cast<std::uint32_t>(b.graph().tensors().size());
  const TextEncoder encoder{.b = b,
                            .width = width,
                            .fused = fused,
                            .scale = scalar(b, "text.scale"),
                            .mask = integer_table(b, "text.mask", {kTextTokens, kTextTokens}, 4)};
  const TensorId text = encoder.run(ids);
  for (std::uint32_t t = first; t < b.graph().tensors().size(); ++t) {
    if (b.graph().tensors()[t].role == TensorRole::Weight) b.graph().set_untrained(TensorId{t});
  }
  return text;
}

/// One step of noise taken away: latents, step numbers and encoded words in; text encoder and
/// decoder of images are networks of their own. Latents have an eighth of the image's sides.
NetworkGraph denoiser(const BuildOptions& options, const DenoiserLayout& layout) {
  GraphBuilder b("stable_diffusion", options.batch);
  const std::int64_t side = *options.image_size / kPixelsPerLatent;
  const TensorId latents = b.input("latents", {options.batch, kLatentChannels, side, side});
  const bool fused = options.attention != AttentionKernels::Steps;
  const TensorId text = layout.captions
                            ? encoded_captions(b, layout.text_width, fused)
                            : b.input("text", {options.batch, kTextTokens, layout.text_width});
  TensorId time = b.input("time", {options.batch, kChannels});
  time = b.activation("time.silu", b.linear_layer("time.0", time, kTimeWidth, true), "silu");
  time = b.linear_layer("time.2", time, kTimeWidth, true);
  const Denoiser net{.b = b,
                     .layout = layout,
                     .fused = fused,
                     .time = time,
                     .text = text,
                     .scale = scalar(b, "scale")};
  b.graph().outputs = {net.run(latents)};
  return std::move(b).take();
}

constexpr DenoiserLayout kVersion1{
    .heads = 8, .text_width = 768, .captions = false, .linear = false};
constexpr DenoiserLayout kVersion2{
    .heads = 0, .text_width = 1024, .captions = false, .linear = true};
constexpr DenoiserLayout kVersion2Captions{
    .heads = 0, .text_width = 1024, .captions = true, .linear = true};
constexpr std::string_view kCount = "Hugging Face diffusers, checkpoint's unet";

}  // namespace

std::vector<ZooEntry> stable_diffusion_networks() {
  return {
      {.name = "stable_diffusion_v1_unet",
       .title = "Stable Diffusion 1.x, U-Net",
       .source = "Rombach et al., arXiv 2112.10752; ldm/modules/diffusionmodules/openaimodel.py",
       .parameters = exact(859'520'964, kCount),
       .image_size = 512,
       .classes = 1,
       .build = build<denoiser, kVersion1>},
      {.name = "stable_diffusion_v2_unet",
       .aliases = {"stable_diffusion"},
       .title = "Stable Diffusion 2.x, U-Net",
       .source = "Rombach et al., arXiv 2112.10752; ldm/modules/diffusionmodules/openaimodel.py",
       .parameters = exact(865'910'724, kCount),
       .image_size = 512,
       .classes = 1,
       .build = build<denoiser, kVersion2>},
      {.name = "stable_diffusion_v2_captions",
       .title = "Stable Diffusion 2.x, U-Net behind its text encoder, which is not trained",
       .source = "Rombach et al., arXiv 2112.10752; MLPerf training v3.1, stable_diffusion",
       .parameters = exact(865'910'724, kCount),
       .image_size = 512,
       .classes = 1,
       .build = build<denoiser, kVersion2Captions>}};
}

}  // namespace tracecast::zoo_builders
