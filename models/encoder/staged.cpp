#include <array>
#include <string>
#include <vector>

#include "models/encoder/families.hpp"
#include "models/zoo/parts/attention.hpp"

/// Encoders of images whose stages halve the image's sides. Sources: transformers,
/// modeling_swin.py, _convnext.py, _convnextv2.py, _segformer.py.
namespace tracecast::encoder {
namespace {

constexpr std::array<std::int64_t, 4> kChannelsLast{0, 2, 3, 1}, kChannelsFirst{0, 3, 1, 2};
constexpr std::array<std::int64_t, 3> kTokensFirst{0, 2, 1};

/// Sizes of the stages, one each.
std::vector<std::int64_t> stage_sizes(const ConfigObject& c, const char* key,
                                      std::vector<std::int64_t> usual) {
  std::vector<std::int64_t> list = c.has(key) ? c.counts(key) : std::move(usual);
  if (list.empty() || list.size() > 16) {
    c.fail(key, std::to_string(list.size()) + " stages", "1 to 16");
  }
  const bool counts_layers = std::string_view(key) == "depths";
  for (const std::int64_t size : list) {
    if (counts_layers && size > language::kMostLayers) {
      c.fail(key, std::to_string(size), "at most 4096 layers");
    }
    if (size < 1) c.fail(key, std::to_string(size), "sizes from 1 on");
  }
  return list;
}
void must_match(const ConfigObject& c, const char* key, std::size_t found, std::size_t expected) {
  if (found != expected) {
    c.fail(key, std::to_string(found) + " stages", std::to_string(expected) + " stages");
  }
}

std::int64_t whole_ratio(const ConfigObject& c, const char* key, double usual, std::int64_t width) {
  return static_cast<std::int64_t>(c.number_or(key, usual) * static_cast<double>(width));
}

TensorId pixels_of(const Question& q, GraphBuilder& b, std::int64_t divisor) {
  const ConfigObject& c = q.config;
  for (const char* key : {"num_layers", "num_stages", "num_encoder_blocks", "hidden_size"}) {
    (void)c.count_or(key, 0);  // follow from the lists
  }
  const std::int64_t side = side_of(q, c.size_or("image_size", 224), divisor);
  return b.input("pixel_values", {q.options.batch, c.size_or("num_channels", 3), side, side});
}

/// Images are batch x height x width x channels.
class Swin {
 public:
  explicit Swin(const Question& q, const Run& run) : c_(q.config), run_(run), b_(run.b) {}

  TensorId block(const std::string& name, TensorId x, std::int64_t heads, bool shifts) const {
    const std::int64_t width = b_.shape(x)[3];
    TensorId y =
        attention(name + ".attention", b_.layer_norm_layer(name + ".norm1", x), heads, shifts);
    x = b_.add(name + ".add1", x, y);
    y = b_.linear_layer(name + ".mlp.in", b_.layer_norm_layer(name + ".norm2", x),
                        whole_ratio(c_, "mlp_ratio", 4, width), true);
    y = activate(run_, c_.text_or("hidden_act", "gelu"), name + ".mlp", y);
    return b_.add(name + ".add2", x, b_.linear_layer(name + ".mlp.out", y, width, true));
  }
  /// Four neighbours become one token of twice the width.
  TensorId merge(const std::string& name, TensorId x) const {
    const Shape in = b_.shape(x);
    const std::int64_t rows = in[1] / 2, cols = in[2] / 2;
    std::vector<TensorId> neighbours;
    for (int i = 0; i < 4; ++i) {
      neighbours.push_back(
          b_.slice_view(name + ".neighbour_" + std::to_string(i), x, {in[0], rows, cols, in[3]}));
    }
    x = b_.layer_norm_layer(name + ".norm", b_.concat(name + ".cat", neighbours, -1));
    return b_.linear_layer(name + ".reduction", x, 2 * in[3], false);
  }

 private:
  TensorId attention(const std::string& name, TensorId x, std::int64_t heads, bool shifts) const {
    constexpr std::array<std::int64_t, 6> kWindows{0, 1, 3, 2, 4, 5};
    constexpr std::array<std::int64_t, 3> kHeadsFirst{2, 0, 1};
    const Shape whole = b_.shape(x);
    const std::int64_t stated = c_.size_or("window_size", 7);
    const std::int64_t window = std::min({stated, whole[1], whole[2]});
    const std::int64_t rows = (whole[1] + window - 1) / window,
                       cols = (whole[2] + window - 1) / window;
    const std::int64_t batch = whole[0], width = whole[3], tokens = window * window;
    const Shape padded{batch, rows * window, cols * window, width};
    if (padded != whole) {
      const std::int64_t before[] = {0, 0, 0, 0};
      const std::int64_t after[] = {0, padded[1] - whole[1], padded[2] - whole[2], 0};
      x = b_.pad(name + ".pad", x, before, after);
    }
    const bool rolls = shifts && rows * cols > 1;
    if (rolls) x = b_.slice(name + ".roll", x, padded);
    x = b_.reshape(name + ".grid", x, {batch, rows, window, cols, window, width});
    x = b_.reshape(name + ".windows", b_.transpose(name + ".partition", x, kWindows),
                   {batch * rows * cols, tokens, width});
    const bool bias = c_.flag_or("qkv_bias", true);
    const zoo_builders::Heads head_shape{heads, width / heads};
    const auto part = [&](const std::string& of) {
      return zoo_builders::to_heads(b_, name + of, b_.linear_layer(name + of, x, width, bias),
                                    head_shape);
    };
    const TensorId query = part(".query"), key = part(".key"), value = part(".value");
    const TensorId index = zoo_builders::integer_table(b_, name + ".index", {tokens, tokens}, 8);
    TensorId distances = b_.gather(
        name + ".distances",
        b_.weight(name + ".distances.weight", {(2 * stated - 1) * (2 * stated - 1), heads}), index,
        0);
    distances = b_.reshape(name + ".distances.view",
                           b_.transpose(name + ".distances.heads", distances, kHeadsFirst),
                           {1, heads, tokens, tokens});
    TensorId y = zoo_builders::attend(b_, name, query, key, value,
                                      {.scale = run_.constant, .mask = distances}, true);
    y = b_.linear_layer(name + ".output", zoo_builders::from_heads(b_, name, y), width, true);
    y = b_.reshape(name + ".window_grid", y, {batch, rows, cols, window, window, width});
    y = b_.reshape(name + ".image", b_.transpose(name + ".join", y, kWindows), padded);
    if (rolls) y = b_.slice(name + ".roll_back", y, padded);
    return padded == whole ? y : b_.slice(name + ".unpad", y, whole);
  }

  const ConfigObject& c_;
  const Run& run_;
  GraphBuilder& b_;
};

NetworkGraph swin(const Question& q) {
  const ConfigObject& c = q.config;
  const std::vector<std::int64_t> depths = stage_sizes(c, "depths", {2, 2, 6, 2});
  const std::vector<std::int64_t> heads = stage_sizes(c, "num_heads", {3, 6, 12, 24});
  must_match(c, "num_heads", heads.size(), depths.size());
  GraphBuilder b("swin", q.options.batch);
  const Run run = run_of(b, q);
  const std::int64_t patch = c.size_or("patch_size", 4), width = c.size("embed_dim");
  const std::int64_t divisor = patch << (depths.size() - 1);
  TensorId x = b.conv_layer("embeddings.projection", pixels_of(q, b, divisor), width,
                            Window::square(patch, patch), true);
  x = b.layer_norm_layer("embeddings.norm", b.transpose("embeddings.last", x, kChannelsLast));
  const Swin net(q, run);
  for (std::size_t stage = 0; stage < depths.size(); ++stage) {
    const std::string name = "encoder." + std::to_string(stage) + ".";
    if (b.shape(x)[3] % heads[stage] != 0) {
      c.fail("num_heads", std::to_string(heads[stage]), "divisors of the stages' widths");
    }
    for (std::int64_t i = 0; i < depths[stage]; ++i) {
      x = net.block(name + std::to_string(i), x, heads[stage], i % 2 == 1);
    }
    if (stage + 1 < depths.size()) x = net.merge(name + "downsample", x);
  }
  constexpr std::array<std::int64_t, 2> kImage{1, 2};
  x = b.reduce("pooler", b.layer_norm_layer("norm", x), kImage, false, "mean");
  if (is_for(q, "ForImageClassification")) x = b.linear_layer("classifier", x, labels_of(c), true);
  b.graph().outputs = {x};
  return std::move(b).take();
}

NetworkGraph convnext(const Question& q) {
  const ConfigObject& c = q.config;
  const bool is_second = q.family == "convnextv2";
  const std::vector<std::int64_t> depths = stage_sizes(c, "depths", {3, 3, 9, 3});
  const std::vector<std::int64_t> widths = stage_sizes(c, "hidden_sizes", {96, 192, 384, 768});
  must_match(c, "hidden_sizes", widths.size(), depths.size());
  GraphBuilder b(std::string(q.family), q.options.batch);
  const Run run = run_of(b, q);
  const std::int64_t patch = c.size_or("patch_size", 4);
  const auto last = [&](const std::string& name, TensorId x) {
    return b.append({.name = name, .kind = OpKind::Reshape, .inputs = {x}},
                    {b.shape(x)[0], b.shape(x)[2], b.shape(x)[3], b.shape(x)[1]});
  };
  const auto first = [&](const std::string& name, TensorId x) {
    return b.append({.name = name, .kind = OpKind::Reshape, .inputs = {x}},
                    {b.shape(x)[0], b.shape(x)[3], b.shape(x)[1], b.shape(x)[2]});
  };
  TensorId x = b.conv_layer("embeddings.patches", pixels_of(q, b, patch << (depths.size() - 1)),
                            widths[0], Window::square(patch, patch), true);
  x = first(
      "embeddings.first",
      b.layer_norm_layer("embeddings.norm", b.transpose("embeddings.last", x, kChannelsLast)));
  for (std::size_t stage = 0; stage < depths.size(); ++stage) {
    const std::string name = "encoder." + std::to_string(stage) + ".";
    const std::int64_t width = widths[stage];
    if (stage > 0) {
      x = first(name + "down.first",
                b.layer_norm_layer(name + "down.norm", last(name + "down.last", x)));
      x = b.conv_layer(name + "down.conv", x, width, Window::square(2, 2), true);
      b.lay_channels_last(x);
    }
    for (std::int64_t i = 0; i < depths[stage]; ++i) {
      const std::string block = name + std::to_string(i);
      TensorId y = b.conv_layer(block + ".dwconv", x, width, Window::square(7, 1, 3), true, width);
      b.lay_channels_last(y);
      y = b.layer_norm_layer(block + ".norm", last(block + ".last", y));
      y = activate(run, c.text_or("hidden_act", "gelu"), block,
                   b.linear_layer(block + ".pwconv1", y, 4 * width, true));
      if (is_second) {  // norm over the image, over its mean of all channels, times a weight, plus
                        // a bias
        constexpr std::array<std::int64_t, 2> kImage{1, 2};
        constexpr std::array<std::int64_t, 1> kLast{-1};
        TensorId share = b.reduce(block + ".grn.norm", y, kImage, true, "sum");
        share = b.mul(block + ".grn.share", share,
                      b.reduce(block + ".grn.mean", share, kLast, true, "mean"));
        share = b.mul(block + ".grn.response", y, share);
        share = b.mul(block + ".grn.scaled", share, b.weight(block + ".grn.weight", {4 * width}));
        share = b.add(block + ".grn.shifted", share, b.weight(block + ".grn.bias", {4 * width}));
        y = b.add(block + ".grn.add", share, y);
      }
      y = first(block + ".first", b.linear_layer(block + ".pwconv2", y, width, true));
      if (!is_second && c.number_or("layer_scale_init_value", 1e-6) > 0) {
        y = b.mul(block + ".scaled", y, b.weight(block + ".layer_scale", {width, 1, 1}));
      }
      x = b.add(block + ".add", y, x);
    }
  }
  x = b.flatten("pooled", b.global_avg_pool("pooler", x));
  x = b.layer_norm_layer("norm", x);
  if (is_for(q, "ForImageClassification")) x = b.linear_layer("classifier", x, labels_of(c), true);
  b.graph().outputs = {x};
  return std::move(b).take();
}

/// Tokens of an image that lies batch x channels x height x width, and back.
TensorId to_tokens(GraphBuilder& b, const std::string& name, TensorId x) {
  const Shape shape = b.shape(x);
  return b.transpose(name + ".tokens", b.reshape(name + ".flatten", x, {shape[0], shape[1], -1}),
                     kTokensFirst);
}
TensorId to_image(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t rows,
                  std::int64_t cols) {
  const Shape shape = b.shape(x);
  return b.reshape(name + ".image", b.transpose(name + ".channels", x, kTokensFirst),
                   {shape[0], shape[2], rows, cols});
}

NetworkGraph segformer(const Question& q) {
  const ConfigObject& c = q.config;
  const std::vector<std::int64_t> depths = stage_sizes(c, "depths", {2, 2, 2, 2});
  const std::vector<std::int64_t> widths = stage_sizes(c, "hidden_sizes", {32, 64, 160, 256});
  const std::vector<std::int64_t> heads = stage_sizes(c, "num_attention_heads", {1, 2, 5, 8});
  const std::vector<std::int64_t> reduced = stage_sizes(c, "sr_ratios", {8, 4, 2, 1});
  const std::vector<std::int64_t> ratios = stage_sizes(c, "mlp_ratios", {4, 4, 4, 4});
  const std::vector<std::int64_t> cells = stage_sizes(c, "patch_sizes", {7, 3, 3, 3});
  const std::vector<std::int64_t> strides = stage_sizes(c, "strides", {4, 2, 2, 2});
  for (const auto& [key, list] :
       {std::pair{"hidden_sizes", &widths}, std::pair{"num_attention_heads", &heads},
        std::pair{"sr_ratios", &reduced}, std::pair{"mlp_ratios", &ratios},
        std::pair{"patch_sizes", &cells}, std::pair{"strides", &strides}}) {
    must_match(c, key, list->size(), depths.size());
  }
  GraphBuilder b("segformer", q.options.batch);
  const Run run = run_of(b, q);
  std::int64_t divisor = 1;
  for (const std::int64_t stride : strides)
    divisor = std::min<std::int64_t>(divisor * stride, 1024);
  TensorId x = pixels_of(q, b, divisor);
  std::vector<TensorId> maps;
  for (std::size_t stage = 0; stage < depths.size(); ++stage) {
    const std::string name = "encoder." + std::to_string(stage) + ".";
    const std::int64_t width = widths[stage];
    x = b.conv_layer(name + "patches", x, width,
                     Window::square(cells[stage], strides[stage], cells[stage] / 2), true);
    const std::int64_t rows = b.shape(x)[2], cols = b.shape(x)[3];
    TensorId y = b.layer_norm_layer(name + "patches.norm", to_tokens(b, name + "patches", x));
    if (width % heads[stage] != 0) {
      c.fail("num_attention_heads", std::to_string(heads[stage]), "divisors of hidden_sizes");
    }
    const zoo_builders::Heads head_shape{heads[stage], width / heads[stage]};
    for (std::int64_t i = 0; i < depths[stage]; ++i) {
      const std::string block = name + std::to_string(i);
      TensorId read = b.layer_norm_layer(block + ".norm1", y);
      TensorId keys = read;
      if (reduced[stage] > 1) {
        keys = b.conv_layer(block + ".sr", to_image(b, block + ".sr", read, rows, cols), width,
                            Window::square(reduced[stage], reduced[stage]), true);
        keys = b.layer_norm_layer(block + ".sr.norm", to_tokens(b, block + ".sr.out", keys));
      }
      const auto part = [&](const std::string& of, TensorId from) {
        return zoo_builders::to_heads(b, block + of, b.linear_layer(block + of, from, width, true),
                                      head_shape);
      };
      TensorId z = zoo_builders::attend(b, block, part(".query", read), part(".key", keys),
                                        part(".value", keys), {.scale = run.constant}, true);
      z = b.linear_layer(block + ".output", zoo_builders::from_heads(b, block, z), width, true);
      y = b.add(block + ".add1", z, y);
      const std::int64_t hidden = ratios[stage] * width;
      z = b.linear_layer(block + ".dense1", b.layer_norm_layer(block + ".norm2", y), hidden, true);
      z = b.conv_layer(block + ".dwconv", to_image(b, block + ".mlp", z, rows, cols), hidden,
                       Window::square(3, 1, 1), true, hidden);
      z = activate(run, c.text_or("hidden_act", "gelu"), block,
                   to_tokens(b, block + ".mlp.out", z));
      y = b.add(block + ".add2", b.linear_layer(block + ".dense2", z, width, true), y);
    }
    y = b.layer_norm_layer(name + "norm", y);
    x = to_image(b, name + "map", y, rows, cols);
    maps.push_back(x);
  }
  b.graph().outputs = {x};
  if (is_for(q, "ForImageClassification")) {
    constexpr std::array<std::int64_t, 1> kTokens{1};
    const TensorId mean = b.reduce("pooler", to_tokens(b, "pooler", x), kTokens, false, "mean");
    b.graph().outputs = {b.linear_layer("classifier", mean, labels_of(c), true)};
  } else if (is_for(q, "ForSemanticSegmentation")) {
    const std::int64_t width = c.size_or("decoder_hidden_size", 256);
    const Shape large = b.shape(maps[0]);
    std::vector<TensorId> all;
    for (std::size_t i = maps.size(); i-- > 0;) {
      const std::string name = "decode_head." + std::to_string(i);
      TensorId y = b.linear_layer(name, to_tokens(b, name, maps[i]), width, true);
      y = to_image(b, name, y, b.shape(maps[i])[2], b.shape(maps[i])[3]);
      if (i > 0) y = b.resize(name + ".resize", y, {large[0], width, large[2], large[3]}, "linear");
      all.push_back(y);
    }
    TensorId y = b.concat("decode_head.cat", all, 1);
    y = b.conv_layer("decode_head.fuse", y, width, Window::square(1), false);
    y = b.activation("decode_head.relu", b.batch_norm_layer("decode_head.norm", y), "relu", true);
    b.graph().outputs = {
        b.conv_layer("decode_head.classifier", y, labels_of(c), Window::square(1), true)};
  }
  return std::move(b).take();
}

}  // namespace

NetworkGraph staged_image_encoder(const Question& question) {
  if (question.family == "swin") return swin(question);
  if (question.family == "segformer") return segformer(question);
  return convnext(question);
}

}  // namespace tracecast::encoder
