#include <array>
#include <string>

#include "models/zoo/parts/attention.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

/// Heads are 32 wide everywhere; `width` is that of the first stage and doubles from one to the next.
struct SwinLayout {
  std::int64_t width;
  std::array<int, 4> depths;
};

constexpr std::int64_t kWindow = 7;
constexpr std::int64_t kHead = 32;

/// Images are batch x height x width x channels throughout.
struct Swin {
  GraphBuilder& b;
  bool training;
  TensorId scale;

  /// Learned bias per head of the distance of two tokens in a window.
  TensorId position_bias(const std::string& name, std::int64_t heads) const {
    constexpr std::int64_t kTokens = kWindow * kWindow, kOffsets = 2 * kWindow - 1;
    constexpr std::array<std::int64_t, 3> kHeadsFirst{2, 0, 1};
    const TensorId index = integer_table(b, name + ".index", {kTokens, kTokens}, 8);
    const TensorId bias = b.embedding_layer(name, index, kOffsets * kOffsets, heads);
    return b.transpose(name + ".heads", bias, kHeadsFirst);
  }
  /// torch.roll: a copy of the whole.
  TensorId roll(const std::string& name, TensorId x) const { return b.slice(name, x, b.shape(x)); }

  /// Which tokens of shifted windows were neighbours, found anew in every pass: filled region by region, then
  /// cut into windows and compared pair by pair.
  TensorId shift_mask(const std::string& name, TensorId x, std::int64_t windows) const {
    const TensorId read[] = {x};
    b.routine(name + ".regions", read, {.ops = 1 + 9 + 6});
    return b.buffer(name, {1, windows, 1, kWindow * kWindow, kWindow * kWindow});
  }
  /// Attention in windows of 7 x 7, in every second block shifted by half of one. An image that windows do not divide is
  /// filled up.
  TensorId attention(const std::string& name, TensorId x, bool is_odd) const {
    constexpr std::array<std::int64_t, 6> kSwap{0, 1, 3, 2, 4, 5};
    constexpr std::int64_t kTokens = kWindow * kWindow;
    const Shape whole = b.shape(x);
    const std::int64_t batch = whole[0], width = whole[3], heads = width / kHead;
    const std::int64_t rows = (whole[1] + kWindow - 1) / kWindow,
                       cols = (whole[2] + kWindow - 1) / kWindow, windows = rows * cols;
    const Shape padded = {batch, rows * kWindow, cols * kWindow, width};
    if (padded != whole) {
      const std::int64_t before[] = {0, 0, 0, 0};
      const std::int64_t after[] = {0, padded[1] - whole[1], padded[2] - whole[2], 0};
      x = b.pad(name + ".pad", x, before, after);
    }
    const bool shifts = is_odd && windows > 1;
    if (shifts) x = roll(name + ".roll", x);
    x = b.reshape(name + ".grid", x, {batch, rows, kWindow, cols, kWindow, width});
    x = b.reshape(name + ".windows", b.transpose(name + ".partition", x, kSwap),
                  {batch * windows, kTokens, width});

    const auto [query, key, value] =
        split_heads(b, name, b.linear_layer(name + ".qkv", x, 3 * width, true), {heads, kHead});
    TensorId y = b.matmul(name + ".scores", b.mul(name + ".scale", query, scale), key, false, true);
    y = b.add(name + ".bias", y, position_bias(name + ".position_bias", heads));
    if (shifts) {
      const Shape scores = b.shape(y);
      y = b.reshape(name + ".images", y, {batch, windows, heads, kTokens, kTokens});
      y = b.add(name + ".masked", y, shift_mask(name + ".shift_mask", x, windows));
      y = b.reshape(name + ".all_windows", y, scores);
    }
    y = b.matmul(name + ".context", b.softmax(name + ".softmax", y), value);
    x = b.linear_layer(name + ".proj", from_heads(b, name, y), width, true);

    x = b.reshape(name + ".window_grid", x, {batch, rows, cols, kWindow, kWindow, width});
    x = b.reshape(name + ".image", b.transpose(name + ".join", x, kSwap), padded);
    if (shifts) x = roll(name + ".roll_back", x);
    return padded == whole ? x : b.slice(name + ".unpad", x, whole);
  }
  /// Whole samples are dropped when training.
  TensorId residual(const std::string& name, TensorId x, TensorId y) const {
    if (training) {
      const TensorId kept = b.buffer(name + ".kept", {b.shape(y)[0], 1, 1, 1});
      y = b.mul(name + ".stochastic_depth", y, kept);
    }
    return b.add(name + ".add", x, y);
  }
  TensorId block(const std::string& name, TensorId x, bool is_odd) const {
    const std::int64_t width = b.shape(x)[3];
    TensorId y = attention(name + ".attn", b.layer_norm_layer(name + ".norm1", x), is_odd);
    x = residual(name + ".attn", x, y);
    y = b.linear_layer(name + ".mlp.0", b.layer_norm_layer(name + ".norm2", x), 4 * width, true);
    y = b.activation(name + ".mlp.1", y, "gelu");
    return residual(name + ".mlp", x, b.linear_layer(name + ".mlp.3", y, width, true));
  }
  /// Four neighbours become one token of twice the width. An odd side is filled up.
  TensorId merge(const std::string& name, TensorId x) const {
    const Shape in = b.shape(x);
    const std::int64_t rows = (in[1] + 1) / 2, cols = (in[2] + 1) / 2, width = in[3];
    if (in[1] % 2 != 0 || in[2] % 2 != 0) {
      const std::int64_t before[] = {0, 0, 0, 0}, after[] = {0, in[1] % 2, in[2] % 2, 0};
      x = b.pad(name + ".pad", x, before, after);
    }
    constexpr std::array<std::int64_t, 6> kNeighbours{0, 1, 3, 4, 2, 5};
    x = b.reshape(name + ".pairs", x, {in[0], rows, 2, cols, 2, width});
    x = b.reshape(name + ".tokens", b.transpose(name + ".cat", x, kNeighbours),
                  {in[0], rows, cols, 4 * width});
    x = b.layer_norm_layer(name + ".norm", x);
    return b.linear_layer(name + ".reduction", x, 2 * width, false);
  }
};

// torchvision/models/swin_transformer.py, after Liu et al., arXiv 2103.14030. Its dropout has probability 0, which
// PyTorch does not run.
NetworkGraph swin(const BuildOptions& options, const SwinLayout& layout) {
  constexpr std::array<std::int64_t, 4> kChannelsLast{0, 2, 3, 1};
  constexpr std::array<std::int64_t, 2> kImage{1, 2};
  GraphBuilder b("swin", options.batch);
  b.graph().reserve(1800, 800);
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  x = b.conv_layer("features.0.0", x, layout.width, Window::square(4, 4), true);
  x = b.layer_norm_layer("features.0.2", b.transpose("features.0.1", x, kChannelsLast));
  const Swin net{b, options.training, scalar(b, "scale")};
  for (std::size_t stage = 0; stage < layout.depths.size(); ++stage) {
    if (stage > 0) x = net.merge("features." + std::to_string(2 * stage), x);
    const std::string name = "features." + std::to_string(2 * stage + 1) + ".";
    for (int i = 0; i < layout.depths[stage]; ++i) {
      x = net.block(name + std::to_string(i), x, i % 2 == 1);
    }
  }
  x = b.reduce("avgpool", b.layer_norm_layer("norm", x), kImage, false, "mean");
  b.graph().outputs = {b.linear_layer("head", x, *options.classes, true)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> swin_networks() {
  return {
      {.name = "swin_t",
       .aliases = {"swin_tiny"},
       .title = "Swin transformer, tiny",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(28'288'354),
       .macs = torchvision_gmacs(4.49),
       .image_size = 224,
       .build = build<swin, SwinLayout{96, {2, 2, 6, 2}}>},
      {.name = "swin_s",
       .aliases = {"swin_small"},
       .title = "Swin transformer, small",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(49'606'258),
       .macs = torchvision_gmacs(8.74),
       .image_size = 224,
       .build = build<swin, SwinLayout{96, {2, 2, 18, 2}}>},
      {.name = "swin_b",
       .aliases = {"swin_base"},
       .title = "Swin transformer, base",
       .source = "torchvision 0.15",
       .parameters = torchvision_parameters(87'768'224),
       .macs = torchvision_gmacs(15.43),
       .image_size = 224,
       .build = build<swin, SwinLayout{128, {2, 2, 18, 2}}>},
  };
}

}  // namespace tracecast::zoo_builders
