#include <algorithm>
#include <array>
#include <string>

#include "models/encoder/families.hpp"
#include "models/zoo/parts/attention.hpp"

/// Encoders with decoders that read their result, of texts and of sounds; encoders of sounds.
/// Sources: transformers, modeling_t5.py, _mt5.py, _bart.py, _mbart.py, _pegasus.py, _marian.py,
/// _m2m_100.py, _whisper.py, _wav2vec2.py, _hubert.py.
namespace tracecast::encoder {
namespace {

constexpr std::string_view kPairWidth[] = {"d_model", "hidden_size"};

/// What a family with both has beside BART.
struct PairTraits {
  std::string_view model_type;
  NormPlace norm_place = NormPlace::AfterSum;
  bool learned_positions = true, embedding_norm = true, last_norm = false;
};
constexpr auto kPairs = std::to_array<PairTraits>({
    {.model_type = "bart"},
    {.model_type = "m2m_100",
     .norm_place = NormPlace::Before,
     .learned_positions = false,
     .embedding_norm = false,
     .last_norm = true},
    {.model_type = "marian", .learned_positions = false, .embedding_norm = false},
    {.model_type = "mbart", .norm_place = NormPlace::Before, .last_norm = true},
    {.model_type = "pegasus",
     .norm_place = NormPlace::Before,
     .learned_positions = false,
     .embedding_norm = false,
     .last_norm = true},
});

bool is_t5(std::string_view family) {
  return family == "t5" || family == "mt5" || family == "umt5";
}

StackLayout t5_layout(const ConfigObject& c, std::string_view family) {
  const std::string activation =
      c.text_or("feed_forward_proj", family == "t5" ? "relu" : "gated-gelu");
  const bool gated = activation.starts_with("gated-");
  const std::string function = gated ? activation.substr(6) : activation;
  return {.layers = layers_of(c, "num_layers"),
          .width = c.size("d_model"),
          .heads = c.size("num_heads"),
          .hidden = c.size("d_ff"),
          .head_width = c.size("d_kv"),
          .root_mean_square = true,
          .norm_biases = false,
          .query_bias = false,
          .key_bias = false,
          .value_bias = false,
          .output_bias = false,
          .feed_forward_biases = false,
          .gated = gated,
          .activation = gated && function == "gelu" ? "gelu_new" : function,
          .scales_scores = false,
          .last_norm = true,
          // Every layer of UMT5 has a table of its own.
          .relative = family == "umt5" ? Relative::LayerTable : Relative::SharedTable,
          .buckets = c.size_or("relative_attention_num_buckets", 32),
          .composes_bias = true};
}

NetworkGraph t5(const Question& q) {
  const ConfigObject& c = q.config;
  StackLayout layout = t5_layout(c, q.family);
  GraphBuilder b(std::string(q.family), q.options.batch);
  Run run = run_of(b, q);
  run.dropout = c.share_or("dropout_rate", 0.1);
  const std::int64_t tokens = tokens_of(q, 1 << 20);
  const TensorId words = b.weight("shared.weight", {c.size("vocab_size"), layout.width});
  TensorId memory =
      b.embedding("encoder.embed", b.input("input_ids", {q.options.batch, tokens}, true), words);
  memory = run_stack(run, layout, "encoder.", dropped(run, "encoder.dropout", memory));
  if (is_for(q, "EncoderModel")) {
    b.graph().outputs = {memory};
    return std::move(b).take();
  }
  layout.layers = layers_of(c, "num_decoder_layers", layout.layers);
  layout.causal = layout.cross = true;
  TensorId x = b.embedding("decoder.embed",
                           b.input("decoder_input_ids", {q.options.batch, tokens}, true), words);
  x = run_stack(run, layout, "decoder.", dropped(run, "decoder.dropout", x), memory);
  const bool tied = c.flag_or("tie_word_embeddings", q.family == "t5");
  const TensorId head = tied ? words : b.weight("lm_head.weight", b.shape(words));
  if (tied) x = b.mul("lm_head.scale", x, run.constant);
  b.graph().outputs = {b.linear("lm_head", x, head, std::nullopt)};
  return std::move(b).take();
}

StackLayout side_of_pair(const ConfigObject& c, const std::string& side, bool is_decoder) {
  (void)c.count_or("num_hidden_layers", 0);  // the encoder's again
  const std::string_view width = c.first_of(kPairWidth);
  const std::string layers = side + "_layers", heads = side + "_attention_heads",
                    hidden = side + "_ffn_dim";
  return {.layers = layers_of(c, layers),
          .width = c.size(width),
          .heads = c.size(heads),
          .hidden = c.size(hidden),
          .activation = c.text_or("activation_function", "gelu"),
          .causal = is_decoder,
          .cross = is_decoder};
}

NetworkGraph pair_of_texts(const Question& q) {
  const ConfigObject& c = q.config;
  const PairTraits& traits = *std::find_if(
      kPairs.begin(), kPairs.end(), [&](const PairTraits& t) { return t.model_type == q.family; });
  GraphBuilder b(std::string(q.family), q.options.batch);
  Run run = run_of(b, q);
  run.dropout = c.share_or("dropout", 0.1);
  const std::int64_t positions = c.size("max_position_embeddings");
  const std::int64_t tokens = tokens_of(q, positions);
  const std::int64_t width = c.size(c.first_of(kPairWidth));
  const TensorId words = b.weight("shared.weight", {c.size("vocab_size"), width});
  const auto side = [&](const std::string& name, std::optional<TensorId> memory) {
    StackLayout layout = side_of_pair(c, name, memory.has_value());
    layout.norm_place = traits.norm_place;
    layout.last_norm = traits.last_norm;
    TensorId x = b.embedding(name + ".embed",
                             b.input(name + "_input_ids", {q.options.batch, tokens}, true), words);
    if (traits.learned_positions) {
      constexpr std::int64_t kOffset = 2;  // rows that the class adds
      const TensorId ids = zoo_builders::integer_table(b, name + ".position_ids", {1, tokens}, 8);
      x = b.add(name + ".add_positions", x,
                b.embedding_layer(name + ".positions", ids, positions + kOffset, width));
    } else {
      x = b.add(name + ".add_positions", x, b.buffer(name + ".positions", {1, tokens, width}));
    }
    if (traits.embedding_norm) x = norm(run, layout, name + ".layernorm_embedding", x);
    return run_stack(run, layout, name + ".", dropped(run, name + ".dropout", x), memory);
  };
  const TensorId memory = side("encoder", {});
  const TensorId x = side("decoder", memory);
  if (is_for(q, "ForConditionalGeneration") || is_for(q, "MTModel") || !c.has("architectures")) {
    b.graph().outputs = {b.linear("lm_head", x, words, std::nullopt)};
  } else if (is_for(q, "ForSequenceClassification")) {
    TensorId y = first_token(b, "head.last", x);
    y = b.activation("head.tanh", b.linear_layer("head.dense", y, width, true), "tanh");
    b.graph().outputs = {b.linear_layer("head.out_proj", y, labels_of(c), true)};
  } else {
    b.graph().outputs = {x};
  }
  return std::move(b).take();
}

}  // namespace

NetworkGraph encoder_decoder(const Question& question) {
  return is_t5(question.family) ? t5(question) : pair_of_texts(question);
}

namespace {

constexpr std::array<std::int64_t, 3> kFramesFirst{0, 2, 1};

NetworkGraph whisper(const Question& q) {
  const ConfigObject& c = q.config;
  GraphBuilder b("whisper", q.options.batch);
  Run run = run_of(b, q);
  run.dropout = c.share_or("dropout", 0);
  StackLayout encoder = side_of_pair(c, "encoder", false);
  encoder.key_bias = false;
  encoder.last_norm = true;
  const std::int64_t frames = c.size_or("max_source_positions", 1500), width = encoder.width;
  TensorId x = b.input("input_features", {q.options.batch, c.size("num_mel_bins"), 2 * frames});
  x = b.conv_layer("encoder.conv1", x, width, {.kernel_w = 3, .pads = {.left = 1, .right = 1}},
                   true);
  x = b.activation("encoder.gelu1", x, "gelu");
  x = b.conv_layer("encoder.conv2", x, width,
                   {.kernel_w = 3, .stride_w = 2, .pads = {.left = 1, .right = 1}}, true);
  x = b.transpose("encoder.frames", b.activation("encoder.gelu2", x, "gelu"), kFramesFirst);
  x = b.add("encoder.add_positions", x, b.weight("encoder.positions", {frames, width}));
  const TensorId memory = run_stack(run, encoder, "encoder.", x);
  if (q.is_part) {
    b.graph().outputs = {memory};
    return std::move(b).take();
  }
  StackLayout decoder = side_of_pair(c, "decoder", true);
  decoder.key_bias = false;
  decoder.last_norm = true;
  const std::int64_t positions = c.size_or("max_target_positions", 448);
  const std::int64_t tokens = tokens_of(q, positions);
  const TensorId words = b.weight("decoder.embed.weight", {c.size("vocab_size"), width});
  TensorId y = b.embedding("decoder.embed",
                           b.input("decoder_input_ids", {q.options.batch, tokens}, true), words);
  const TensorId ids = zoo_builders::integer_table(b, "decoder.position_ids", {1, tokens}, 8);
  y = b.add("decoder.add_positions", y,
            b.embedding_layer("decoder.positions", ids, positions, width));
  y = run_stack(run, decoder, "decoder.", y, memory);
  b.graph().outputs = {b.linear("lm_head", y, words, std::nullopt)};
  return std::move(b).take();
}

/// Samples through seven convolutions, then layers with a convolution for positions. Leaves out the
/// lengths of that convolution's weight norm, one per tap.
NetworkGraph waves(const Question& q) {
  const ConfigObject& c = q.config;
  GraphBuilder b(std::string(q.family), q.options.batch);
  Run run = run_of(b, q);
  run.dropout = c.share_or("hidden_dropout", 0.1);
  constexpr std::int64_t kTenSeconds = 160'000;
  const std::vector<std::int64_t> usual_dim(7, 512), usual_kernel{10, 3, 3, 3, 3, 2, 2},
      usual_stride{5, 2, 2, 2, 2, 2, 2};
  const auto list = [&](const char* key, const std::vector<std::int64_t>& usual) {
    return c.has(key) ? c.counts(key) : usual;
  };
  const std::vector<std::int64_t> dims = list("conv_dim", usual_dim),
                                  kernels = list("conv_kernel", usual_kernel),
                                  strides = list("conv_stride", usual_stride);
  if (dims.empty() || dims.size() > 64 || kernels.size() != dims.size() ||
      strides.size() != dims.size()) {
    c.fail("conv_kernel", std::to_string(kernels.size()) + " sizes", "as many as conv_dim has");
  }
  const bool by_groups = c.text_or("feat_extract_norm", "group") == "group";
  const bool bias = c.flag_or("conv_bias", false);
  TensorId x =
      b.input("input_values", {q.options.batch, 1, q.options.seq_len.value_or(kTenSeconds)});
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::string name = "feature_extractor." + std::to_string(i);
    if (dims[i] < 1) c.fail("conv_dim", "0", "1 channel or more");
    x = b.conv_layer(name, x, dims[i], {.kernel_w = kernels[i], .stride_w = strides[i]}, bias);
    if (by_groups && i == 0) {
      x = b.group_norm(name + ".norm", x, dims[i], b.weight(name + ".norm.weight", {dims[i]}),
                       b.weight(name + ".norm.bias", {dims[i]}));
    } else if (!by_groups) {
      x = b.transpose(name + ".frames", x, kFramesFirst);
      x = b.layer_norm_layer(name + ".norm", x);
      x = b.transpose(name + ".channels", x, kFramesFirst);
    }
    x = b.activation(name + ".gelu", x, "gelu");
  }
  const bool stable = c.flag_or("do_stable_layer_norm", false);
  const StackLayout layout{.layers = layers_of(c, "num_hidden_layers"),
                           .width = c.size("hidden_size"),
                           .heads = c.size("num_attention_heads"),
                           .hidden = c.size("intermediate_size"),
                           .norm_place = stable ? NormPlace::Before : NormPlace::AfterSum,
                           .activation = c.text_or("hidden_act", "gelu"),
                           .last_norm = stable};
  x = b.layer_norm_layer("feature_projection.norm", b.transpose("frames", x, kFramesFirst));
  x = b.linear_layer("feature_projection", x, layout.width, true);
  // Spans of training samples are replaced by this vector.
  x = b.add("masked", x, b.weight("masked_spec_embed", {layout.width}));
  const std::int64_t taps = c.size_or("num_conv_pos_embeddings", 128);
  const std::int64_t groups = c.size_or("num_conv_pos_embedding_groups", 16);
  TensorId places = b.transpose("positions.channels", x, kFramesFirst);
  places = b.conv_layer(
      "positions", places, layout.width,
      {.kernel_w = taps, .pads = {.left = taps / 2, .right = taps - 1 - taps / 2}}, true, groups);
  places =
      b.transpose("positions.frames", b.activation("positions.gelu", places, "gelu"), kFramesFirst);
  x = b.add("add_positions", x, places);
  if (!stable) x = norm(run, layout, "encoder.norm", x);
  x = run_stack(run, layout, "encoder.", x);
  const std::int64_t letters = c.size_or("vocab_size", 32);
  if (is_for(q, "ForCTC")) x = b.linear_layer("lm_head", x, letters, true);
  b.graph().outputs = {x};
  return std::move(b).take();
}

}  // namespace

NetworkGraph sound_encoder(const Question& question) {
  return question.family == "whisper" ? whisper(question) : waves(question);
}

}  // namespace tracecast::encoder
