#include <array>
#include <string>
#include <vector>

#include "models/zoo/parts/attention.hpp"
#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

/// Heads are 32 wide everywhere; `width` is that of the first stage and doubles from one to the
/// next.
struct SwinLayout {
  std::int64_t width;
  std::array<int, 4> depths;
};

constexpr std::int64_t kWindow = 7;
constexpr std::int64_t kHead = 32;

/// Images are batch x height x width x channels throughout.
struct Swin {
  GraphBuilder& b;
  TensorId scale;

  /// Learned bias per head of the distance of two tokens in a window.
  TensorId position_bias(const std::string& name, std::int64_t heads) const {
    constexpr std::int64_t kTokens = kWindow * kWindow, kOffsets = 2 * kWindow - 1;
    constexpr std::array<std::int64_t, 3> kHeadsFirst{2, 0, 1};
    const TensorId index = integer_table(b, name + ".index", {kTokens, kTokens}, 8);
    const TensorId table = b.weight(name + ".weight", {kOffsets * kOffsets, heads});
    const TensorId bias = b.gather(name, table, index, 0);
    return viewed(b, name, b.transpose(name + ".heads", bias, kHeadsFirst), 2);
  }
  /// torch.roll along two dimensions: a copy of the whole for each.
  TensorId roll(const std::string& name, TensorId x) const {
    return b.slice(name + ".columns", b.slice(name + ".rows", x, b.shape(x)), b.shape(x));
  }
  /// Cells beyond the last row and column; a copy even where none are missing (constant_pad_nd
  /// clones).
  TensorId filled(const std::string& name, TensorId x, const Shape& padded) const {
    const Shape whole = b.shape(x);
    const std::int64_t before[] = {0, 0, 0, 0};
    const std::int64_t after[] = {0, padded[1] - whole[1], padded[2] - whole[2], 0};
    return b.pad(name, x, before, after);
  }

  /// Which tokens of shifted windows were neighbours, found anew in every pass: filled region by
  /// region, then cut into windows and compared pair by pair.
  TensorId shift_mask(const std::string& name, TensorId x, std::int64_t windows) const {
    // Nine regions, each two slices and a fill; view, permute, copy, two views, difference,
    // comparisons, fills of a copy.
    const TensorId read[] = {x};
    b.routine(name + ".regions", read, {.ops = 1 + 9 + 1 + 1 + 2 + 2 * 2});
    const TensorId mask = b.buffer(name, {1, windows, 1, kWindow * kWindow, kWindow * kWindow});
    return viewed(b, name, mask, 2 * 9 + 2 + 2 + 2);
  }
  /// Attention in windows of 7 x 7, in every second block shifted by half of one. An image that
  /// windows do not divide is filled up.
  TensorId attention(const std::string& name, TensorId x, bool is_odd) const {
    constexpr std::array<std::int64_t, 6> kSwap{0, 1, 3, 2, 4, 5};
    constexpr std::int64_t kTokens = kWindow * kWindow;
    const Shape whole = b.shape(x);
    const std::int64_t batch = whole[0], width = whole[3], heads = width / kHead;
    const std::int64_t rows = (whole[1] + kWindow - 1) / kWindow,
                       cols = (whole[2] + kWindow - 1) / kWindow, windows = rows * cols;
    const Shape padded = {batch, rows * kWindow, cols * kWindow, width};
    x = filled(name + ".pad", x, padded);
    const bool shifts = is_odd && windows > 1;
    if (shifts) x = roll(name + ".roll", x);
    x = b.reshape(name + ".grid", x, {batch, rows, kWindow, cols, kWindow, width});
    x = b.reshape(name + ".windows", b.transpose(name + ".partition", x, kSwap),
                  {batch * windows, kTokens, width});

    TensorId parts = b.linear_layer(name + ".qkv", x, 3 * width, true);
    parts = b.append({.name = name + ".parts",
                      .kind = OpKind::Reshape,
                      .inputs = {viewed(b, name + ".qkv", parts, 1)}},
                     {3, batch * windows, heads, kTokens, kHead});
    // Each a view; a GEMM wants them side by side.
    const Shape part = {1, batch * windows, heads, kTokens, kHead},
                operand = {batch * windows, heads, kTokens, kHead};
    const auto taken = [&](const std::string& of) {
      return b.reshape(of + ".select", b.slice(of, parts, part), operand);
    };
    const auto copied = [&](const std::string& of, TensorId y) {
      return b.slice(of + ".contiguous", y, operand);
    };
    TensorId y = b.mul(name + ".scale", taken(name + ".query"), scale);
    const TensorId key = copied(name + ".key", taken(name + ".key"));
    y = b.matmul(name + ".scores", copied(name + ".query", y), key, false, true);
    y = b.add(name + ".bias", y, position_bias(name + ".position_bias", heads));
    if (shifts) {
      const Shape scores = b.shape(y);
      y = b.reshape(name + ".images", y, {batch, windows, heads, kTokens, kTokens});
      y = b.add(name + ".masked", y, shift_mask(name + ".shift_mask", x, windows));
      y = b.reshape(name + ".all_windows", y, scores);
    }
    y = b.softmax(name + ".softmax", y);
    y = b.matmul(name + ".context", y, copied(name + ".value", taken(name + ".value")));
    x = b.linear_layer(name + ".proj", from_heads(b, name, y), width, true);

    x = b.reshape(name + ".window_grid", x, {batch, rows, cols, kWindow, kWindow, width});
    x = b.reshape(name + ".image", b.transpose(name + ".join", x, kSwap), padded);
    if (shifts) x = roll(name + ".roll_back", x);
    return padded == whole ? x : b.slice(name + ".unpad", x, whole);
  }
  TensorId residual(const std::string& name, TensorId x, TensorId y, bool drops) const {
    return b.add(name + ".add", x, drops ? stochastic_depth(b, name, y) : y);
  }
  /// `drops`: whole samples.
  TensorId block(const std::string& name, TensorId x, bool is_odd, bool drops) const {
    const std::int64_t width = b.shape(x)[3];
    TensorId y = attention(name + ".attn", b.layer_norm_layer(name + ".norm1", x), is_odd);
    x = residual(name + ".attn", x, y, drops);
    y = b.linear_layer(name + ".mlp.0", b.layer_norm_layer(name + ".norm2", x), 4 * width, true);
    y = b.activation(name + ".mlp.1", y, "gelu");
    return residual(name + ".mlp", x, b.linear_layer(name + ".mlp.3", y, width, true), drops);
  }
  /// Four neighbours become one token of twice the width. An odd side is filled up.
  TensorId merge(const std::string& name, TensorId x) const {
    const Shape in = b.shape(x);
    const std::int64_t rows = (in[1] + 1) / 2, cols = (in[2] + 1) / 2, width = in[3];
    x = filled(name + ".pad", x, {in[0], 2 * rows, 2 * cols, width});
    std::vector<TensorId> neighbours;
    for (int i = 0; i < 4; ++i) {
      const std::string part = name + ".neighbour_" + std::to_string(i);
      const TensorId row = b.slice_view(part + ".rows", x, {in[0], rows, 2 * cols, width});
      neighbours.push_back(b.slice_view(part, row, {in[0], rows, cols, width}));
    }
    x = b.concat(name + ".cat", neighbours, -1);
    x = b.layer_norm_layer(name + ".norm", x);
    return b.linear_layer(name + ".reduction", x, 2 * width, false);
  }
};

// torchvision/models/swin_transformer.py, after Liu et al., arXiv 2103.14030. Its dropout has
// probability 0, which PyTorch does not run.
NetworkGraph swin(const BuildOptions& options, const SwinLayout& layout) {
  constexpr std::array<std::int64_t, 4> kChannelsLast{0, 2, 3, 1};
  constexpr std::array<std::int64_t, 2> kImage{1, 2};
  GraphBuilder b("swin", options.batch);
  b.graph().reserve(1800, 800);
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  x = b.conv_layer("features.0.0", x, layout.width, Window::square(4, 4), true);
  x = b.layer_norm_layer("features.0.2", b.transpose("features.0.1", x, kChannelsLast));
  const Swin net{b, scalar(b, "scale")};
  for (std::size_t stage = 0; stage < layout.depths.size(); ++stage) {
    if (stage > 0) x = net.merge("features." + std::to_string(2 * stage), x);
    const std::string name = "features." + std::to_string(2 * stage + 1) + ".";
    for (int i = 0; i < layout.depths[stage]; ++i) {
      x = net.block(name + std::to_string(i), x, i % 2 == 1,
                    options.training && (stage > 0 || i > 0));
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
