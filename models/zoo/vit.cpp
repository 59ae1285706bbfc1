#include <array>
#include <string>

#include "models/zoo/parts/attention.hpp"
#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::string_view kDeit =
    "Touvron et al., arXiv 2012.12877, table 1; layers as in torchvision 0.15";

struct VitLayout {
  std::int64_t patch;
  int layers;
  std::int64_t width, heads, hidden;
};

struct Vit {
  GraphBuilder& b;
  const VitLayout& layout;
  bool is_fused, training;
  TensorId scale;

  /// torch.nn.functional.multi_head_attention_forward, batch first, step by step: tokens go before
  /// samples (a copy for the GEMM, whose bias is then a sum of its own), the GEMM's three parts are
  /// brought one behind the other, each is a view of that. Without gradients
  /// torch._native_multi_head_attention leaves them where they are (nn.MultiheadAttention's fast
  /// path; aten/src/ATen/native/transformers/cuda/attention.cu).
  TensorId fused_attention(const std::string& name, TensorId x) const {
    constexpr std::array<std::int64_t, 4> kPartsFirst{2, 0, 1, 3};
    const std::int64_t width = layout.width;
    const Shape shape = b.shape(x), part = {1, shape[0], shape[1], width};
    const AttentionAttributes attributes{.batch = shape[0],
                                         .heads = layout.heads,
                                         .kv_heads = layout.heads,
                                         .queries = shape[1],
                                         .keys = shape[1],
                                         .width = width / layout.heads};
    if (!training) {
      x = attend_fused(b, name, b.linear_layer(name + ".in_proj", x, 3 * width, true), attributes);
      return b.linear_layer(name + ".out_proj", x, width, true);
    }
    x = b.slice(name + ".tokens_first", viewed(b, name, x, 1), shape);
    x = b.linear_layer(name + ".in_proj", x, 3 * width, false);
    x = b.add(name + ".in_proj.add", x, b.weight(name + ".in_proj.bias", {3 * width}));
    x = b.reshape(name + ".in_proj.unflatten", x, {shape[0], shape[1], 3, width});
    x = b.transpose(name + ".in_proj.parts", viewed(b, name + ".in_proj", x, 2), kPartsFirst);
    const auto taken = [&](const std::string& of) {  // select; then heads: view, transpose, view
      return viewed(b, of, b.slice(of, x, part), 3);
    };
    x = attend_fused(b, name,
                     {taken(name + ".query"), taken(name + ".key"), taken(name + ".value")},
                     attributes);
    x = b.linear_layer(name + ".out_proj", viewed(b, name + ".context", x, 2), width, true);
    return viewed(b, name + ".samples_first", x, 2);
  }

  TensorId attention(const std::string& name, TensorId x) const {
    if (is_fused) return fused_attention(name, x);
    const Heads heads{layout.heads, layout.width / layout.heads};
    x = b.linear_layer(name + ".in_proj", x, 3 * layout.width, true);
    const auto [query, key, value] = split_heads(b, name, x, heads);
    const TensorId context = attend(b, name, b.mul(name + ".scale", query, scale), key, value,
                                    {.scale = scale, .scale_query = true}, true);
    return b.linear_layer(name + ".out_proj", from_heads(b, name, context), layout.width, true);
  }
  /// After the first attention whose tokens go before samples residuals lie so, too, and norms copy
  /// them.
  TensorId norm(const std::string& name, TensorId x, bool is_first) const {
    if (is_fused && training && !is_first) x = b.slice(name + ".contiguous", x, b.shape(x));
    return b.layer_norm_layer(name, x);
  }
  TensorId layer(const std::string& name, TensorId x, bool is_first) const {
    TensorId y = attention(name + ".self_attention", norm(name + ".ln_1", x, is_first));
    x = b.add(name + ".add_attention", y, x);
    y = norm(name + ".ln_2", x, false);
    y = b.activation(name + ".mlp.gelu", b.linear_layer(name + ".mlp.0", y, layout.hidden, true),
                     "gelu");
    return b.add(name + ".add_mlp", x, b.linear_layer(name + ".mlp.3", y, layout.width, true));
  }
};

// torchvision/models/vision_transformer.py, after Dosovitskiy et al., arXiv 2010.11929: an image is
// a sequence of square patches and a class token. The table of positions grows with the image. Its
// dropout has probability 0, which PyTorch does not run.
NetworkGraph vit(const BuildOptions& options, const VitLayout& layout) {
  constexpr std::array<std::int64_t, 3> kPatchesFirst{0, 2, 1};
  const std::int64_t batch = options.batch, width = layout.width;
  GraphBuilder b("vit", batch);
  TensorId x = b.input("images", {batch, 3, *options.image_size, *options.image_size});
  x = b.conv_layer("conv_proj", x, width, Window::square(layout.patch, layout.patch), true);
  x = b.reshape("patches", x, {batch, width, -1});
  x = b.transpose("sequence", x, kPatchesFirst);
  const TensorId token = b.append({.name = "class_token.expand",
                                   .kind = OpKind::Gather,
                                   .attributes = ElementwiseAttributes{.name = "expand"},
                                   .inputs = {b.weight("class_token", {1, 1, width})}},
                                  {batch, 1, width});
  const TensorId both[] = {token, x};
  x = b.concat("with_class_token", both, 1);
  x = b.add("add_position", x, b.weight("pos_embedding", {1, b.shape(x)[1], width}));
  const Vit blocks{b, layout, options.attention != AttentionKernels::Steps, options.training,
                   scalar(b, "scale")};
  for (int i = 0; i < layout.layers; ++i) {
    x = blocks.layer("encoder_layer_" + std::to_string(i), x, i == 0);
  }
  x = blocks.norm("ln", x, false);
  x = b.reshape("class.view", b.slice("class", x, {batch, 1, width}), {batch, width});
  b.graph().outputs = {b.linear_layer("head", x, *options.classes, true)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> vit_networks() {
  return {
      {.name = "vit_b_16",
       .title = "ViT-B/16",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(86'567'656),
       .macs = torchvision_gmacs(17.56),
       .image_size = 224,
       .build = build<vit, VitLayout{16, 12, 768, 12, 3072}>},
      {.name = "vit_b_32",
       .title = "ViT-B/32",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(88'224'232),
       .macs = torchvision_gmacs(4.41),
       .image_size = 224,
       .build = build<vit, VitLayout{32, 12, 768, 12, 3072}>},
      {.name = "vit_l_16",
       .title = "ViT-L/16",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(304'326'632),
       .macs = torchvision_gmacs(61.55),
       .image_size = 224,
       .build = build<vit, VitLayout{16, 24, 1024, 16, 4096}>},
      {.name = "vit_l_32",
       .title = "ViT-L/32",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(306'535'400),
       .macs = torchvision_gmacs(15.38),
       .image_size = 224,
       .build = build<vit, VitLayout{32, 24, 1024, 16, 4096}>},
      {.name = "vit_h_14",
       .title = "ViT-H/14",
       .source = "torchvision 0.15",
       .parameters =
           exact(632'045'800, "torchvision 0.15, ViT_H_14_Weights.IMAGENET1K_SWAG_LINEAR_V1"),
       .macs = torchvision_gmacs(167.29),
       .image_size = 224,
       .build = build<vit, VitLayout{14, 32, 1280, 16, 5120}>},
      {.name = "deit_tiny",
       .aliases = {"vit_ti_16", "deit_tiny_patch16_224"},
       .title = "DeiT tiny, ViT-Ti/16",
       .source = kDeit,
       .parameters = rounded(5.7e6, 0.1e6, kDeit),
       .image_size = 224,
       .build = build<vit, VitLayout{16, 12, 192, 3, 768}>},
      {.name = "deit_small",
       .aliases = {"vit_s_16", "deit_small_patch16_224"},
       .title = "DeiT small, ViT-S/16",
       .source = kDeit,
       .parameters = rounded(22.1e6, 0.1e6, kDeit),
       .image_size = 224,
       .build = build<vit, VitLayout{16, 12, 384, 6, 1536}>},
  };
}

}  // namespace tracecast::zoo_builders
