#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/base/units.hpp"

/// What a decoder of tokens is made of: sizes alone, no weights. Graphs, shards, caches and
/// parameters follow from it.
namespace tracecast {

enum class LanguageNorm { Layer, RootMeanSquare };
/// How a token's place is reported.
enum class LanguagePositions {
  None,     ///< not at all, or by what the layers themselves compute
  Rotary,   ///< queries and keys are turned
  Learned,  ///< rows of a table are added to the words
  Alibi,    ///< scores fall with the distance (Press et al., arXiv 2108.12409)
};

/// Norms of queries and keys before their scores.
enum class HeadNorm {
  None,
  PerHead,       ///< one weight per channel of a head, shared by all heads
  OverAllHeads,  ///< one weight per channel of all heads together
};

/// Attention whose heads of queries share heads of keys and values (Ainslie et al., arXiv
/// 2305.13245).
struct GroupedQueryAttention {
  std::int64_t heads = 1, kv_heads = 1, head_width = 1;
  std::int64_t rotary_width = 0;  ///< channels of a head that are turned; 0: none
  /// A query sees as many keys up to its own; 0: all.
  std::int64_t window = 0;
  /// The window is the block of that many tokens that the query lies in, not those before it.
  bool is_chunk = false;
  bool packed = false;  ///< one GEMM gives queries, keys and values
  bool input_biases = false, output_bias = false;
  HeadNorm head_norm{};
  bool head_norm_learned = true;  ///< norms of heads have a weight
  bool sinks = false;             ///< one learned score per head that no value belongs to
  bool keys_are_values = false;   ///< one projection gives both (Gemma 4)
  bool borrows_keys =
      false;  ///< keys and values are those of the last layer alike that made its own
  bool output_gate = false;  ///< results times a sigmoid that the queries' GEMM gives besides
  friend bool operator==(const GroupedQueryAttention&, const GroupedQueryAttention&) = default;
};

/// Which keys a query attends to, chosen by scores of their own (DeepSeek-V3.2, sparse attention):
/// per head relu(q k) times a weight, summed over heads, then the `top_keys` greatest.
struct SparseIndexer {
  std::int64_t heads = 1, head_width = 1, top_keys = 1;
  friend bool operator==(const SparseIndexer&, const SparseIndexer&) = default;
};

/// Attention over keys and values of low rank (DeepSeek-V2, arXiv 2405.04434): per token `kv_rank`
/// numbers that all heads share and `rope_width` turned ones are kept; a head's query and key are
/// nope_width + rope_width wide.
struct LatentAttention {
  std::int64_t heads = 1;
  std::int64_t query_rank = 0;  ///< 0: queries by one GEMM
  std::int64_t kv_rank = 1, nope_width = 1, rope_width = 1, value_width = 1;
  bool biases = false;
  std::optional<SparseIndexer> indexer{};
  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

/// Linear attention by the gated delta rule (Yang et al., arXiv 2412.06464): per head of values a
/// state of key_width x value_width; a causal convolution over `convolution` tokens goes before (0:
/// none).
struct GatedDeltaNet {
  std::int64_t key_heads = 1, value_heads = 1, key_width = 1, value_width = 1, convolution = 1;
  /// Decays of every channel of the keys by two projections of that rank (Kimi Linear, arXiv
  /// 2510.26692); 0: one per head.
  std::int64_t decay_rank = 0;
  std::int64_t gate_rank = 0;  ///< the results' gate by two projections of that rank; 0: by one
  /// Decays are constants of the heads and nothing is taken back from the state; the norm is over
  /// all heads' values (lightning attention: MiniMax-01, arXiv 2501.08313).
  bool fixed_decay = false;
  [[nodiscard]] std::int64_t keys() const { return key_heads * key_width; }
  [[nodiscard]] std::int64_t values() const { return value_heads * value_width; }
  /// Channels of the convolution: queries, keys, values.
  [[nodiscard]] std::int64_t channels() const { return 2 * keys() + values(); }
  friend bool operator==(const GatedDeltaNet&, const GatedDeltaNet&) = default;
};

/// State space layer (Dao and Gu, arXiv 2405.21060): per head a state of head_width x state; B and
/// C are shared by the heads of a group.
struct Mamba2 {
  std::int64_t heads = 1, head_width = 1, groups = 1, state = 1, convolution = 1;
  std::int64_t chunk = 256;  ///< tokens that its kernels multiply at once
  bool biases = false, convolution_bias = true;
  bool norm = true;  ///< results are normalized before the last projection
  [[nodiscard]] std::int64_t inner() const { return heads * head_width; }
  /// Channels of the convolution: x, B, C.
  [[nodiscard]] std::int64_t channels() const { return inner() + 2 * groups * state; }
  friend bool operator==(const Mamba2&, const Mamba2&) = default;
};

/// Attention of many heads of queries to one head of keys, which are the values, too: those of a
/// window, and entries that stand for `rate` tokens each. Queries by two projections, results by
/// groups of heads (DeepSeek-V4).
struct CompressedAttention {
  std::int64_t heads = 1, head_width = 1, rotary_width = 0;
  std::int64_t query_rank = 1;
  std::int64_t output_groups = 1, output_rank = 1;
  std::int64_t window = 1;
  std::int64_t rate = 0;  ///< 0: the window alone
  bool overlaps = false;  ///< an entry reads the tokens of two: projections twice as wide
  std::optional<SparseIndexer> indexer{};  ///< of entries, which it compresses by itself
  /// Channels that a token gives to its entry; of the indexer's entries.
  [[nodiscard]] std::int64_t entry_width() const { return overlaps ? 2 * head_width : head_width; }
  [[nodiscard]] std::int64_t index_width() const {
    return indexer ? (overlaps ? 2 : 1) * indexer->head_width : 0;
  }
  /// Entries that a query reads, of `tokens` before it.
  [[nodiscard]] double entries(double tokens) const {
    if (rate == 0) return 0;
    const double all = tokens / static_cast<double>(rate);
    return indexer ? std::min(all, static_cast<double>(indexer->top_keys)) : all;
  }
  friend bool operator==(const CompressedAttention&, const CompressedAttention&) = default;
};

/// Selective state space layer (Gu and Dao, arXiv 2312.00752): each of `inner` channels has a state
/// of its own, and a step width that two projections of rank `step_rank` give.
struct Mamba {
  std::int64_t inner = 1, state = 1, step_rank = 1, convolution = 1;
  bool biases = false, convolution_bias = true;
  bool norms = false;  ///< step widths, B and C are normalized (Jamba)
  friend bool operator==(const Mamba&, const Mamba&) = default;
};

/// What mixes the tokens of a layer; monostate: nothing.
using LanguageMixer = std::variant<std::monostate, GroupedQueryAttention, LatentAttention,
                                   GatedDeltaNet, Mamba2, Mamba, CompressedAttention>;

enum class LanguageActivation {
  Silu,
  Gelu,
  GeluTanh,         ///< GELU by tanh in one kernel
  GeluTanhInSteps,  ///< the same, every step an op of its own
  Relu,
  SquaredRelu,
};

/// One feed-forward for all tokens.
struct DenseFeedForward {
  std::int64_t width = 1;
  bool gated = true;  ///< two GEMMs in, one times the activation of the other, one GEMM out
  bool biases = false;
  friend bool operator==(const DenseFeedForward&, const DenseFeedForward&) = default;
};

/// Experts of which each token takes `per_token`, and shared ones that every token takes.
struct ExpertFeedForward {
  std::int64_t experts = 1, per_token = 1;
  std::int64_t width = 1;         ///< of one expert
  std::int64_t shared_width = 0;  ///< of the shared ones together; 0: none
  bool gated = true, biases = false;
  bool clamped = false;          ///< what goes into the activation
  bool shared_gate = false;      ///< the shared experts' result times a sigmoid of its own
  bool sigmoid_scores = false;   ///< scores by sigmoid rather than softmax
  bool correction_bias = false;  ///< a number per expert that is added to scores for the choice
  bool loops = false;  ///< its source runs expert by expert; else GEMMs of all experts at once
  friend bool operator==(const ExpertFeedForward&, const ExpertFeedForward&) = default;
};

/// monostate: none.
using LanguageFeedForward = std::variant<std::monostate, DenseFeedForward, ExpertFeedForward>;

/// One layer: norm, mixer, sum; norm, feed-forward, sum.
struct LanguageLayer {
  LanguageMixer mixer{};
  LanguageFeedForward feed_forward{};
  bool parallel = false;     ///< both read the layer's input; one sum
  bool shared_norm = false;  ///< of a parallel layer: both read the same norm
  bool norms_after = false;  ///< results are normalised, too, before they are added
  bool norms_before = true;  ///< what both read is normalised
  LanguageMixer beside{};    ///< a second one that reads the same; both results are added
  friend bool operator==(const LanguageLayer&, const LanguageLayer&) = default;
};

/// Parameters by what holds them.
struct ParameterShares {
  double embedding = 0;     ///< words and learned positions
  double head = 0;          ///< words again where not tied, their bias
  double mixers = 0;        ///< GEMMs of attention and recurrent layers
  double feed_forward = 0;  ///< dense ones, and shared experts
  double experts = 0;       ///< routed ones
  double router = 0;
  double norms = 0;
  [[nodiscard]] double total() const {
    return embedding + head + mixers + feed_forward + experts + router + norms;
  }
};

/// Bits in memory per weight of a kind, scales of blocks included (MXFP4: 4.25).
struct WeightBits {
  double embedding = 16, head = 16, mixers = 16, feed_forward = 16, experts = 16, router = 16,
         norms = 16;
  [[nodiscard]] static WeightBits all(double bits);
};

struct LanguageNetwork {
  std::string family{};  ///< as the file's model_type names it
  std::int64_t width = 1, vocabulary = 1;
  bool tied = false;                 ///< the head is the table of words
  bool head_bias = false;            ///< a bias per word
  std::int64_t embedding_width = 0;  ///< of the table, where GEMMs lead from it and to it; 0: width
  LanguagePositions positions = LanguagePositions::Rotary;
  std::int64_t position_rows = 0;  ///< of the learned table
  /// Cosines and sines of rotary positions carry a factor besides (YaRN, arXiv 2309.00071,
  /// section 3.4).
  bool scales_rotation = false;
  std::int64_t context = 0;  ///< tokens it was made for; 0: not known
  LanguageNorm norm = LanguageNorm::RootMeanSquare;
  bool norm_biases = false;
  bool norm_learned = true;     ///< norms have a weight
  bool embedding_norm = false;  ///< words are normalised before the first layer
  bool last_norm = true;
  /// Residual streams; each half of a layer reads a mean of them by learned weights and is added to
  /// all, which are mixed (hyper-connections: arXiv 2409.19606). 1: an ordinary residual. Small ops
  /// that one mixing takes.
  std::int64_t streams = 1, mixing_ops = 0;
  /// Numbers per token and layer from a table of their own, which a gate joins to each layer's
  /// result (Gemma 4); 0: none.
  std::int64_t layer_input_width = 0, layer_input_vocabulary = 0;
  LanguageActivation activation = LanguageActivation::Silu;
  std::vector<LanguageLayer> kinds{};  ///< distinct layers
  std::vector<std::uint32_t> order{};  ///< kind of every layer, first to last
  /// Layers that predict tokens further on (multi-token prediction), and their kind. They share
  /// words and head; each has, besides its layer, norms of both its inputs and of its result and a
  /// GEMM of 2 width to width.
  std::int64_t prediction_layers = 0;
  std::uint32_t prediction_kind = 0;
  /// Parameters of an image's encoder and of what leads from it to the words; no layer of this
  /// network.
  double encoder_parameters = 0;
  /// Keys of the file that say sizes and that no reader knows.
  std::vector<std::string> unread{};

  [[nodiscard]] std::int64_t layers() const { return static_cast<std::int64_t>(order.size()); }
  [[nodiscard]] const LanguageLayer& layer(std::size_t i) const { return kinds[order[i]]; }
  /// Elements of that table.
  [[nodiscard]] double layer_input_table() const {
    return static_cast<double>(layer_input_vocabulary) *
           static_cast<double>(layers() * layer_input_width);
  }
  [[nodiscard]] std::int64_t words_width() const {
    return embedding_width > 0 ? embedding_width : width;
  }
  friend bool operator==(const LanguageNetwork&, const LanguageNetwork&) = default;
};

/// Throws InputError naming `where` unless sizes are positive and moderate, heads and ranks agree,
/// and every layer has a kind: a network that passes has counts below 2^53.
void check(const LanguageNetwork& network, std::string_view where);

/// Adds a layer, its kind known already or new.
void add_layer(LanguageNetwork& network, const LanguageLayer& layer);

/// Parameters of one layer: GEMMs width x ..., biases, norms, convolutions, gates.
[[nodiscard]] ParameterShares layer_parameters(const LanguageNetwork& network,
                                               const LanguageLayer& layer);
/// Parameters of the network, without prediction layers and encoders.
[[nodiscard]] ParameterShares parameters(const LanguageNetwork& network);
/// Those of the prediction layers, tables not counted again.
[[nodiscard]] ParameterShares prediction_parameters(const LanguageNetwork& network);
/// Parameters whose values one token is multiplied with: `per_token` of the experts, the table of
/// words once (as head).
[[nodiscard]] double active_parameters(const LanguageNetwork& network);

[[nodiscard]] Bytes weight_bytes(const ParameterShares& parameters, const WeightBits& bits);

/// What a sequence leaves in memory for the tokens to come.
struct SequenceState {
  double growing = 0;       ///< elements per token: keys and values of full attention, latents
  double indices = 0;       ///< elements per token: keys of sparse attention's indexers
  double windowed = 0;      ///< elements per token of layers that see a window alone
  std::int64_t window = 0;  ///< its tokens, of the layer that sees most; 0: no such layer
  double fixed = 0;  ///< elements per sequence: states of recurrent layers and their convolutions
};
/// Of the network on one GPU, prediction layers left out. Per layer and token 2 kv_heads
/// head_width, or kv_rank + rope_width; of recurrent layers one state and convolution - 1 tokens of
/// its channels.
[[nodiscard]] SequenceState sequence_state(const LanguageNetwork& network);
/// Of one sequence of that many tokens.
[[nodiscard]] Bytes cache_bytes(const SequenceState& state, std::int64_t tokens, Bytes element);

}  // namespace tracecast
