#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "models/ops.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

struct Layout {
  int layers;
  std::int64_t width, heads, feed_forward;
  std::int64_t narrowing;  ///< rarer words' vectors are shorter by this factor per cluster
  std::int64_t
      inference_memory;     ///< states kept of earlier segments; in training as many as tokens
  bool adaptive = true;     ///< otherwise every word meets the whole vocabulary
  bool in_session = false;  ///< as TensorFlow 1 evaluates it: the memory is fed to the session and
                            ///< fetched from it
};
constexpr std::int64_t kHeadWidth = 64;

/// Words of WikiText-103 by falling frequency. Guess: what share of a text the words of a cluster
/// are.
struct Cluster {
  std::int64_t words;
  double share;
};
constexpr std::array<Cluster, 4> kClusters{
    {{19997, 1.0}, {20000, 0.04}, {160000, 0.03}, {67738, 0.005}}};

struct TransformerXl {
  GraphBuilder& b;
  const Layout& layout;
  std::int64_t batch, tokens, memory;
  bool training;
  TensorId content_bias, position_bias, positions, scale, mask;

  [[nodiscard]] bool fetches() const { return layout.in_session && !training; }
  TensorId dropout(const std::string& name, TensorId x) const {
    return training ? b.dropout(name, x) : x;
  }
  /// (steps, batch, width) as (batch, heads, steps, width of a head).
  TensorId heads(const std::string& name, TensorId x) const {
    const Shape shape = b.shape(x);
    x = b.reshape(name + ".heads", x, {shape[0], shape[1], layout.heads, kHeadWidth});
    const std::int64_t order[] = {1, 2, 0, 3};
    return b.transpose(name + ".by_head", x, order);
  }
  /// Column j of row i moves to where its distance belongs: a column is added, and the block read
  /// one step further on.
  TensorId shift(const std::string& name, TensorId x) const {
    const std::int64_t before[] = {0, 0, 0, 1}, after[] = {0, 0, 0, 0};
    const Shape shape = b.shape(x);
    return b.slice(name + ".shift", b.pad(name + ".pad", x, before, after), shape);
  }
  TensorId attention(const std::string& name, TensorId x) const {
    const std::int64_t wide = layout.heads * kHeadWidth, all = memory + tokens;
    const TensorId parts[] = {b.buffer(name + ".memory", {memory, batch, layout.width}), x};
    const TensorId seen = b.concat(name + ".cat", parts, 0);
    if (fetches()) {
      const TensorId kept = b.concat(name + ".new_memory.cat", parts, 0);
      b.graph().outputs.push_back(
          b.slice(name + ".new_memory", kept, {memory, batch, layout.width}));
    }
    const std::int64_t thirds[] = {wide, wide, wide};
    const auto qkv = b.split(name + ".split",
                             b.linear_layer(name + ".qkv_net", seen, 3 * wide, false), 2, thirds);
    const TensorId q = b.slice(name + ".query", qkv[0], {tokens, batch, wide});
    const TensorId k = heads(name + ".key", qkv[1]), v = heads(name + ".value", qkv[2]);
    TensorId r = b.linear_layer(name + ".r_net", positions, wide, false);
    r = heads(name + ".position", b.reshape(name + ".r", r, {all, 1, wide}));
    const TensorId content = heads(name + ".q_content", b.add(name + ".rw", q, content_bias));
    const TensorId place = heads(name + ".q_position", b.add(name + ".rr", q, position_bias));
    TensorId scores = b.matmul(name + ".ac", content, k, false, true);
    const TensorId distances = shift(name, b.matmul(name + ".bd", place, r, false, true));
    scores = b.mul(name + ".scale", b.add(name + ".scores", scores, distances), scale);
    const TensorId masked[] = {scores, mask};
    if (layout.in_session) {  // times 1 - mask, less 1e30 times mask
      scores = b.mul(name + ".kept", scores, mask);
      const TensorId terms[] = {scores, mask};
      scores = b.softmax(name + ".softmax", b.binary(name + ".mask", "sub", terms));
    } else {
      scores = b.softmax(name + ".softmax", b.binary(name + ".mask", "where", masked));
    }
    TensorId y = b.matmul(name + ".context", dropout(name + ".dropatt", scores), v);
    const std::int64_t order[] = {2, 0, 1, 3};
    y = b.reshape(name + ".joined", b.transpose(name + ".by_step", y, order),
                  {tokens, batch, wide});
    y = b.linear_layer(name + ".o_net", y, layout.width, false);
    return b.layer_norm_layer(name + ".norm", b.add(name + ".add", x, dropout(name + ".drop", y)));
  }
  TensorId feed_forward(const std::string& name, TensorId x) const {
    TensorId y = b.linear_layer(name + ".0", x, layout.feed_forward, true);
    y = dropout(name + ".drop.0", b.activation(name + ".relu", y, "relu", true));
    y = dropout(name + ".drop.1", b.linear_layer(name + ".3", y, layout.width, true));
    return b.layer_norm_layer(name + ".norm", b.add(name + ".add", x, y));
  }
};

std::int64_t words_of(const Cluster& cluster, std::int64_t rows) {
  return std::max<std::int64_t>(std::llround(cluster.share * static_cast<double>(rows)), 1);
}

// Dai et al., arXiv 1901.02860, as NVIDIA's DeepLearningExamples trains it on WikiText-103
// (PyTorch/LanguageModeling/Transformer-XL, mem_transformer.py). Adaptive inputs and softmax, their
// tables tied: words of rare clusters are looked up, and meet their cluster's table, on their own.
// Which words are in a text is not known here, but what share.
// TensorFlow/LanguageModeling/Transformer-XL, tf/main.py and model.py: the same for TensorFlow 1;
// its evaluate() feeds every layer's memory to the session in fp32 arrays and fetches the new one
// from it.
NetworkGraph transformer_xl(const BuildOptions& options, const Layout& layout) {
  GraphBuilder b("transformer_xl", options.batch);
  const std::int64_t batch = options.batch, tokens = *options.seq_len, width = layout.width;
  const std::int64_t memory = options.training ? tokens : layout.inference_memory;
  const std::int64_t rows = tokens * batch, all = memory + tokens;
  const bool downcasts = layout.narrowing > 1;
  const TransformerXl net{b,
                          layout,
                          batch,
                          tokens,
                          memory,
                          options.training,
                          b.weight("r_w_bias", {layout.heads * kHeadWidth}),
                          b.weight("r_r_bias", {layout.heads * kHeadWidth}),
                          b.buffer("positions", {all, width}),
                          b.buffer("scale", {1}),
                          b.buffer("mask", {1, 1, tokens, all})};

  const std::int64_t memory_bytes = layout.layers * memory * batch * width * 4;
  if (net.fetches()) b.routine("feed", {}, {.ops = layout.layers, .fed_bytes = memory_bytes});
  std::vector<TensorId> tables;
  std::int64_t vocabulary = 0;
  for (const Cluster& cluster : kClusters) vocabulary += cluster.words;
  if (downcasts) {
    std::int64_t low_precision = width;
    for (std::size_t i = 0; i < kClusters.size(); ++i, low_precision /= layout.narrowing) {
      tables.push_back(b.weight("embedding." + std::to_string(i) + ".weight",
                                {kClusters[i].words, low_precision}));
    }
  } else {
    tables.push_back(b.weight("embedding.weight", {vocabulary, width}));
  }
  TensorId x = b.embedding("embedding", b.input("ids", {rows}, true), tables.front());
  for (std::size_t i = 1; i < tables.size(); ++i) {
    const std::string name = "embedding." + std::to_string(i);
    const std::int64_t words = words_of(kClusters[i], rows);
    TensorId rare = b.embedding(name, b.input(name + ".ids", {words}, true), tables[i]);
    rare = b.linear_layer(name + ".proj", rare, width, false);
    x = b.scatter_rows(name + ".place", x, b.input(name + ".places", {words}, true), rare);
  }
  x = b.mul("embedding.scaled", b.reshape("embedding.steps", x, {tokens, batch, width}), net.scale);
  x = net.dropout("embedding.drop", x);
  for (int i = 0; i < layout.layers; ++i) {
    const std::string name = "layers." + std::to_string(i);
    x = net.attention(name + ".attn", x);
    x = net.feed_forward(name + ".ff", x);
  }
  x = b.reshape("rows", net.dropout("drop", x), {rows, width});

  if (net.fetches()) {
    b.routine("fetch", b.graph().outputs,
              {.ops = layout.layers, .waits = true, .fetched_bytes = memory_bytes});
    b.graph().outputs.clear();
  }
  if (!layout.adaptive) {
    const TensorId bias = b.weight("softmax.bias", {vocabulary});
    x = b.reshape("softmax.steps", x, {tokens, batch, width});
    b.graph().outputs.push_back(b.linear("softmax", x, tables.front(), bias));
    return std::move(b).take();
  }
  const std::int64_t tails = static_cast<std::int64_t>(kClusters.size()) - 1;
  for (std::size_t i = 0; i < kClusters.size(); ++i) {
    const std::string name = "softmax." + std::to_string(i);
    const std::int64_t words = i == 0 ? rows : words_of(kClusters[i], rows);
    TensorId hidden = x;
    if (i > 0) hidden = b.gather(name + ".rows", x, b.input(name + ".ids", {words}, true), 0);
    const TensorId table = downcasts ? tables[i] : tables.front();
    const std::int64_t low_precision = b.shape(table)[1];
    if (low_precision < width)
      hidden = b.linear_layer(name + ".proj", hidden, low_precision, false);
    TensorId weight =
        downcasts ? table : b.slice(name + ".table", table, {kClusters[i].words, low_precision});
    std::int64_t results = kClusters[i].words;
    if (i == 0) {
      const TensorId both[] = {weight, b.weight("cluster.weight", {tails, low_precision})};
      weight = b.concat(name + ".weight", both, 0);
      results += tails;
    }
    const TensorId bias = b.weight(name + ".bias", {results});
    if (i == 0) hidden = b.reshape(name + ".steps", hidden, {tokens, batch, low_precision});
    b.graph().outputs.push_back(b.linear(name, hidden, weight, bias));
  }
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> transformer_xl_networks() {
  constexpr std::string_view kSource =
      "NVIDIA/DeepLearningExamples, PyTorch/LanguageModeling/Transformer-XL";
  constexpr std::string_view kFlat =
      "lambdal/deeplearning-benchmark, pytorch/scripts/config_v1: NVIDIA's program without "
      "--adaptive and --div_val";
  constexpr std::string_view kSession =
      "NVIDIA/DeepLearningExamples, TensorFlow/LanguageModeling/Transformer-XL";
  return {{.name = "transformer_xl_base",
           .title = "Transformer-XL base on WikiText-103",
           .source = kSource,
           .parameters = rounded(192e6, 1e6, kSource),
           .seq_len = 192,
           .rates_count_tokens = true,
           .build = build<transformer_xl, Layout{16, 512, 8, 2048, 1, 640}>},
          {.name = "transformer_xl_large",
           .title = "Transformer-XL large on WikiText-103",
           .source = kSource,
           .seq_len = 384,
           .rates_count_tokens = true,
           .build = build<transformer_xl, Layout{18, 1024, 16, 4096, 4, 1600}>},
          {.name = "transformer_xl_base_flat",
           .title = "Transformer-XL base, without adaptive softmax",
           .source = kFlat,
           .seq_len = 192,
           .rates_count_tokens = true,
           .build = build<transformer_xl, Layout{16, 512, 8, 2048, 1, 640, false}>},
          {.name = "transformer_xl_large_flat",
           .title = "Transformer-XL large, without adaptive softmax",
           .source = kFlat,
           .seq_len = 256,
           .rates_count_tokens = true,
           .build = build<transformer_xl, Layout{18, 1024, 16, 4096, 1, 1600, false}>},
          {.name = "transformer_xl_base_session",
           .title = "Transformer-XL base in a session of TensorFlow 1",
           .source = kSession,
           .seq_len = 192,
           .rates_count_tokens = true,
           .build = build<transformer_xl, Layout{16, 512, 8, 2048, 1, 640, true, true}>}};
}

}  // namespace tracecast::zoo_builders
