#include <algorithm>
#include <array>
#include <string>

#include "models/encoder/families.hpp"
#include "models/zoo/parts/attention.hpp"
#include "sim/base/error.hpp"

/// Encoders of texts. Sources: transformers, modeling_bert.py, _roberta.py, _electra.py,
/// _distilbert.py, _albert.py, _mpnet.py, _deberta.py, _deberta_v2.py, _modernbert.py,
/// _xlm_roberta_xl.py.
namespace tracecast::encoder {
namespace {

/// What a family has beside BERT.
struct TextTraits {
  std::string_view model_type;
  NormPlace norm_place = NormPlace::AfterSum;
  Relative relative = Relative::None;
  std::int64_t types = 2;  ///< where the file says none
  bool has_types = true;
  bool has_positions = true;
  bool pools = true;
  bool pool_tanh = true;
  bool low_precision_embedding = false;  ///< embedding_size, and a GEMM to the width
  bool shares_layers = false, packed = false, key_bias = true, gated = false, biases = true;
  bool norm_biases = true;
  bool first_norm = true, last_norm = false;
  bool eager = false;
  std::string_view activation = "gelu";
  /// The head for masked tokens: what its transform is called. "dense" of the width, norm, table.
  bool has_transform = true;
};
constexpr auto kTextTraits = std::to_array<TextTraits>({
    {.model_type = "albert",
     .low_precision_embedding = true,
     .shares_layers = true,
     .activation = "gelu_new"},
    {.model_type = "bert"},
    {.model_type = "camembert", .types = 1},
    {.model_type = "data2vec-text", .types = 2},
    {.model_type = "deberta",
     .relative = Relative::Disentangled,
     .types = 0,
     .pools = false,
     .key_bias = false,
     .eager = true},
    {.model_type = "deberta-v2",
     .relative = Relative::Disentangled,
     .types = 0,
     .pools = false,
     .eager = true},
    {.model_type = "distilbert", .has_types = false, .pools = false},
    {.model_type = "electra", .pools = false, .low_precision_embedding = true},
    {.model_type = "ernie"},
    {.model_type = "modernbert",
     .norm_place = NormPlace::Before,
     .relative = Relative::Rotary,
     .has_types = false,
     .has_positions = false,
     .pools = false,
     .packed = true,
     .gated = true,
     .biases = false,
     .norm_biases = false,
     .first_norm = false,
     .last_norm = true},
    {.model_type = "mpnet", .relative = Relative::SharedTable, .has_types = false, .eager = true},
    {.model_type = "nomic_bert",
     .relative = Relative::Rotary,
     .has_positions = false,
     .pools = false,
     .packed = true,
     .gated = true,
     .biases = false,
     .activation = "silu"},
    {.model_type = "roberta"},
    {.model_type = "roberta-prelayernorm", .norm_place = NormPlace::Before, .last_norm = true},
    {.model_type = "xlm-roberta"},
    {.model_type = "xlm-roberta-xl", .norm_place = NormPlace::Before, .last_norm = true},
});

constexpr std::string_view kTextWidth[] = {"hidden_size", "dim", "n_embd"};
constexpr std::string_view kTextLayers[] = {"num_hidden_layers", "n_layers", "n_layer"};
constexpr std::string_view kTextHeads[] = {"num_attention_heads", "n_heads", "n_head"};
constexpr std::string_view kTextHidden[] = {"intermediate_size", "hidden_dim", "n_inner"};
constexpr std::string_view kTextPositions[] = {"max_position_embeddings", "n_positions"};
constexpr std::string_view kTextDropout[] = {"hidden_dropout_prob", "dropout", "resid_pdrop"};
constexpr std::string_view kTextActivation[] = {"hidden_act", "hidden_activation", "activation",
                                                "activation_function"};

const TextTraits& text_traits(std::string_view family) {
  return *std::find_if(kTextTraits.begin(), kTextTraits.end(),
                       [&](const TextTraits& t) { return t.model_type == family; });
}

StackLayout text_layout(const ConfigObject& c, const TextTraits& traits) {
  StackLayout layout{.layers = layers_of(c, c.first_of(kTextLayers)),
                     .width = c.size(c.first_of(kTextWidth)),
                     .heads = c.size(c.first_of(kTextHeads)),
                     .hidden = c.size(c.first_of(kTextHidden)),
                     .norm_place = traits.norm_place,
                     .norm_biases = c.flag_or("norm_bias", traits.norm_biases),
                     .query_bias = traits.biases || c.flag_or("attention_bias", false),
                     .key_bias = traits.biases && traits.key_bias,
                     .value_bias = traits.biases,
                     .output_bias = traits.biases || c.flag_or("attention_bias", false),
                     .feed_forward_biases = traits.biases || c.flag_or("mlp_bias", false),
                     .gated = traits.gated,
                     .packed = traits.packed,
                     .activation = c.text_or(c.first_of(kTextActivation), traits.activation),
                     .shares_layers = traits.shares_layers,
                     .first_norm = traits.first_norm,
                     .last_norm = traits.last_norm,
                     .relative = traits.relative,
                     .is_eager = traits.eager};
  if (layout.width % layout.heads != 0) {
    c.fail(c.first_of(kTextWidth), std::to_string(layout.width), "a multiple of the heads");
  }
  if (layout.relative == Relative::SharedTable) {
    layout.buckets = c.size_or("relative_attention_num_buckets", 32);
  }
  if (layout.relative == Relative::Disentangled) {
    if (!c.flag_or("relative_attention", true)) layout.relative = Relative::None;
    // As many places either way: buckets of distances where the file says so, else all.
    const bool stated = c.has("position_buckets") && !c.is_negative("position_buckets");
    layout.buckets =
        2 * (stated ? c.size("position_buckets") : c.size_or("max_position_embeddings", 512));
    layout.shares_relative = c.flag_or("share_att_key", false);
    layout.relative_biases = true;
    layout.relative_norm =
        c.text_or("norm_rel_ebd", "none").find("layer_norm") != std::string::npos;
  }
  layout.head_width = c.count_or("attention_head_size", 0);
  if (c.has("local_attention")) {
    layout.window = c.size("local_attention");
    layout.whole_every = c.size_or("global_attn_every_n_layers", 3);
  }
  return layout;
}

/// Words, types and positions, normalized; in the width of the table.
TensorId text_embedding(const Run& run, const Question& q, const TextTraits& traits,
                        const StackLayout& layout, std::int64_t tokens, TensorId table) {
  GraphBuilder& b = run.b;
  const ConfigObject& c = q.config;
  const std::int64_t wide = b.graph().tensor(table).shape[1];
  TensorId x =
      b.embedding("embeddings.word", b.input("input_ids", {q.options.batch, tokens}, true), table);
  const std::int64_t types = traits.has_types ? c.count_or("type_vocab_size", traits.types) : 0;
  if (types > 0) {
    const TensorId ids = b.input("token_type_ids", {q.options.batch, tokens}, true);
    x = b.add("embeddings.add_type", x, b.embedding_layer("embeddings.type", ids, types, wide));
  }
  if (traits.has_positions && c.flag_or("position_biased_input", true)) {
    const TensorId ids = zoo_builders::integer_table(b, "position_ids", {1, tokens}, 8);
    x = b.add(
        "embeddings.add_position", x,
        b.embedding_layer("embeddings.position", ids, c.size(c.first_of(kTextPositions)), wide));
  }
  x = norm(run, layout, "embeddings.norm", x);
  x = dropped(run, "embeddings.dropout", x);
  if (wide != layout.width) x = b.linear_layer("embeddings_project", x, layout.width, true);
  return x;
}

/// The class in `architectures` on the states.
std::vector<TensorId> text_head(const Run& run, const Question& q, const TextTraits& traits,
                                const StackLayout& layout, TensorId x, TensorId table) {
  GraphBuilder& b = run.b;
  const std::int64_t wide = b.graph().tensor(table).shape[1];
  const std::int64_t vocabulary = b.graph().tensor(table).shape[0];
  const std::string activation = layout.activation;
  const bool pretrains = is_for(q, "ForPreTraining") && traits.pools;
  if (is_for(q, "ForMaskedLM") || pretrains || is_for(q, "LMHeadModel")) {
    std::vector<TensorId> results;
    if (pretrains) {
      results.push_back(b.linear_layer("cls.next", pooled(b, "pooler", x), 2, true));
    }
    TensorId y = b.linear_layer("head.dense", x, wide, traits.biases);
    y = norm(run, layout, "head.norm", activate(run, activation, "head", y));
    results.insert(results.begin(),
                   b.linear("head.decoder", y, table, b.weight("head.decoder.bias", {vocabulary})));
    return results;
  }
  if (is_for(q, "ForPreTraining")) {  // whether each token was replaced
    const TensorId y =
        activate(run, "gelu", "head", b.linear_layer("head.dense", x, layout.width, true));
    return {b.linear_layer("head.prediction", y, 1, true)};
  }
  if (is_for(q, "ForTokenClassification")) {
    return {b.linear_layer("classifier", x, labels_of(q.config), true)};
  }
  if (is_for(q, "ForQuestionAnswering")) return {b.linear_layer("qa_outputs", x, 2, true)};
  if (is_for(q, "ForSequenceClassification") || is_for(q, "ForMultipleChoice")) {
    const std::int64_t classes = is_for(q, "ForMultipleChoice") ? 1 : labels_of(q.config);
    return {b.linear_layer("classifier", pooled(b, "pooler", x), classes, true)};
  }
  if (q.is_part || !traits.pools || !q.config.flag_or("add_pooling_layer", true)) return {x};
  return {pooled(b, "pooler", x, traits.pool_tanh)};
}

}  // namespace

NetworkGraph text_encoder(const Question& question) {
  const ConfigObject& c = question.config;
  const TextTraits& traits = text_traits(question.family);
  const StackLayout layout = text_layout(c, traits);
  const std::int64_t tokens =
      tokens_of(question, traits.has_positions ? c.size(c.first_of(kTextPositions)) : 1 << 20);
  GraphBuilder b(std::string(question.family), question.options.batch);
  Run run = run_of(b, question);
  run.dropout = c.share_or(c.first_of(kTextDropout), 0.1);
  const std::int64_t wide =
      traits.low_precision_embedding ? c.size_or("embedding_size", layout.width) : layout.width;
  const TensorId table = b.weight("embeddings.word.weight", {c.size("vocab_size"), wide});
  TensorId x = text_embedding(run, question, traits, layout, tokens, table);
  x = run_stack(run, layout, "encoder.", x);
  b.graph().outputs = text_head(run, question, traits, layout, x, table);
  return std::move(b).take();
}

}  // namespace tracecast::encoder
