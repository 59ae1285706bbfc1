#include <array>
#include <string>
#include <utility>
#include <vector>

#include "models/zoo/parts/attention.hpp"
#include "models/zoo/parts/family.hpp"
#include "models/zoo/parts/language.hpp"

namespace tracecast::zoo_builders {
namespace {

/// GPT-J: attention and feed-forward read the same tokens side by side behind one norm; no biases
/// in attention.
struct GptjLayout {
  int layers;
  std::int64_t width, heads, vocabulary;
  std::int64_t rotary;  ///< of a head's channels, those that carry the position
};

struct Decoder {
  GraphBuilder& b;
  const GptjLayout& layout;
  TensorId constant, cosine, sine, mask;

  /// Rotary positions on a part of each head: x cos + turned(x) sin, then the two parts joined
  /// again.
  TensorId rotate(const std::string& name, TensorId x) const {
    Shape turning = b.shape(x), passing = turning;
    turning.back() = layout.rotary;
    passing.back() -= layout.rotary;
    const TensorId part = b.slice(name + ".rotary", x, turning);
    TensorId turned = b.activation(name + ".rotate_half", part, "rotate_half");
    turned = b.mul(name + ".sin", turned, sine);
    turned = b.add(name + ".turned", b.mul(name + ".cos", part, cosine), turned);
    const TensorId both[] = {turned, b.slice(name + ".pass", x, passing)};
    return b.concat(name + ".cat", both, 3);
  }
  TensorId attention(const std::string& name, TensorId x) const {
    const Heads heads{layout.heads, layout.width / layout.heads};
    const auto project = [&](const std::string& part) {
      return to_heads(b, part, b.linear_layer(part, x, layout.width, false), heads);
    };
    const TensorId query = project(name + ".q_proj"), key = project(name + ".k_proj");
    const TensorId context = attend(b, name, rotate(name + ".query", query),
                                    rotate(name + ".key", key), project(name + ".v_proj"),
                                    {.scale = constant, .mask = mask, .mask_selects = true}, true);
    return b.linear_layer(name + ".dense", from_heads(b, name, context), layout.width, false);
  }
  TensorId feed_forward(const std::string& name, TensorId x) const {
    x = b.linear_layer(name + ".fc_in", x, 4 * layout.width, true);
    x = gelu_by_tanh(b, name + ".gelu", x, constant);
    return b.linear_layer(name + ".fc_out", x, layout.width, true);
  }
  TensorId layer(const std::string& name, TensorId x) const {
    const TensorId normed = b.layer_norm_layer(name + ".ln_1", x);
    const TensorId attended = attention(name + ".attn", normed);
    const TensorId both = b.add(name + ".add", attended, feed_forward(name + ".mlp", normed));
    return b.add(name + ".residual", both, x);
  }
};

// Hugging Face transformers 4.40, modeling_gptj.py (eager attention). Its dropout has probability
// 0, which PyTorch does not run.
NetworkGraph gptj(const BuildOptions& options, const GptjLayout& layout) {
  GraphBuilder b("gptj", options.batch);
  const std::int64_t tokens = *options.seq_len;
  const TensorId ids = b.input("input_ids", {options.batch, tokens}, true);
  TensorId x = b.embedding_layer("embed_in", ids, layout.vocabulary, layout.width);
  const Decoder blocks{b,
                       layout,
                       scalar(b, "constant"),
                       b.buffer("rotary.cos", {1, 1, tokens, layout.rotary}),
                       b.buffer("rotary.sin", {1, 1, tokens, layout.rotary}),
                       integer_table(b, "causal_mask", {1, 1, tokens, tokens}, 1)};
  for (int i = 0; i < layout.layers; ++i) x = blocks.layer("layers." + std::to_string(i), x);
  x = b.layer_norm_layer("final_layer_norm", x);
  b.graph().outputs = {loss_logits(b, b.linear_layer("embed_out", x, layout.vocabulary, true),
                                   options.training, options.casts_as_written)};
  return std::move(b).take();
}

constexpr GptjLayout kGptj6b{28, 4096, 16, 50400, 64};

/// GPT-NeoX and Pythia: a norm for attention and one for the feed-forward beside it, one GEMM for
/// queries, keys and values, biases everywhere, positions on a quarter of each head; attention in
/// one kernel, as transformers calls PyTorch's since 2024.
struct NeoxLayout {
  int layers;
  std::int64_t width, heads, vocabulary;
};

LanguageNetwork gpt_neox(const NeoxLayout& layout) {
  const std::int64_t width = layout.width / layout.heads;
  LanguageNetwork network{.family = "gpt_neox",
                          .width = layout.width,
                          .vocabulary = layout.vocabulary,
                          .norm = LanguageNorm::Layer,
                          .norm_biases = true,
                          .activation = LanguageActivation::Gelu};
  for (int i = 0; i < layout.layers; ++i) {
    add_layer(network,
              {.mixer = GroupedQueryAttention{.heads = layout.heads,
                                              .kv_heads = layout.heads,
                                              .head_width = width,
                                              .rotary_width = width / 4,
                                              .packed = true,
                                              .input_biases = true,
                                              .output_bias = true},
               .feed_forward =
                   DenseFeedForward{.width = 4 * layout.width, .gated = false, .biases = true},
               .parallel = true});
  }
  return network;
}

template <NeoxLayout layout>
ZooEntry neox(std::string_view name, std::string_view title, std::int64_t parameters,
              std::string_view source) {
  return shardable_entry<gpt_neox, layout, 2048>({name, title, source},
                                                 exact(parameters, kCheckpoint), 2048);
}

constexpr std::string_view kNeox = "Black et al., arXiv 2204.06745; transformers 5";
constexpr std::string_view kPythia = "Biderman et al., arXiv 2304.01373, table 1; transformers 5";

}  // namespace

std::vector<ZooEntry> parallel_decoder_networks() {
  return {
      {.name = "gptj_6b",
       .aliases = {"gpt_j_6b", "gptj"},
       .title = "GPT-J 6B",
       .source = "Wang and Komatsuzaki, GPT-J-6B, 2021; transformers 4.40",
       .parameters = exact(6'050'882'784, kCheckpoint),
       .seq_len = 2048,
       .most_tokens = 2048,
       .build = build<gptj, kGptj6b>,
       .transformer = TransformerLayout{.layers = kGptj6b.layers,
                                        .width = kGptj6b.width,
                                        .heads = kGptj6b.heads,
                                        .kv_heads = kGptj6b.heads,
                                        .feed_forward = 4 * kGptj6b.width,
                                        .vocabulary = kGptj6b.vocabulary,
                                        .rotary = true,
                                        .biases = false,
                                        .tied = false}},
      neox<NeoxLayout{44, 6144, 64, 50432}>("gpt_neox_20b", "GPT-NeoX 20B", 20'554'567'680, kNeox),
      neox<NeoxLayout{6, 512, 8, 50304}>("pythia_70m", "Pythia 70M", 70'426'624, kPythia),
      neox<NeoxLayout{12, 768, 12, 50304}>("pythia_160m", "Pythia 160M", 162'322'944, kPythia),
      neox<NeoxLayout{24, 1024, 16, 50304}>("pythia_410m", "Pythia 410M", 405'334'016, kPythia),
      neox<NeoxLayout{16, 2048, 8, 50304}>("pythia_1b", "Pythia 1B", 1'011'781'632, kPythia),
      neox<NeoxLayout{24, 2048, 16, 50304}>("pythia_1.4b", "Pythia 1.4B", 1'414'647'808, kPythia),
      neox<NeoxLayout{32, 2560, 32, 50304}>("pythia_2.8b", "Pythia 2.8B", 2'775'208'960, kPythia),
      neox<NeoxLayout{32, 4096, 32, 50432}>("pythia_6.9b", "Pythia 6.9B", 6'857'302'016, kPythia),
      neox<NeoxLayout{36, 5120, 40, 50688}>("pythia_12b", "Pythia 12B", 11'846'072'320, kPythia),
  };
}

}  // namespace tracecast::zoo_builders
