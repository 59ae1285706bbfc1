#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/software/attention_kernels.hpp"
#include "models/graph.hpp"
#include "models/language/network.hpp"
#include "models/transformer/layout.hpp"

namespace tracecast {

/// What a network is built for.
struct BuildOptions {
  std::int64_t batch = 1;
  std::optional<std::int64_t> image_size{};  ///< side of square images; nothing = the usual one
  std::optional<std::int64_t> seq_len{};     ///< tokens per sample; nothing = the usual number
  bool training = false;                     ///< with dropout and auxiliary heads
  std::optional<std::int64_t> classes{};     ///< nothing = the usual number
  /// Of networks of sampled graphs: in-neighbours that a node draws of each relation, hop by hop
  /// from the seeds; empty: the usual ones.
  std::vector<std::int64_t> fan_out{};
  AttentionKernels attention = AttentionKernels::Steps;  ///< of language models and denoisers
  /// Of language models whose heads share keys; nothing: as `attention`.
  std::optional<AttentionKernels> grouped_attention{};
  /// The network runs in 16 bits; what its code casts to 32 is (NetworkCode).
  bool casts_as_written = false;
  bool is_compiled = false;             ///< NetworkCode::is_compiled
  std::vector<std::string> stepwise{};  ///< NetworkCode::stepwise, of networks that files describe
  bool as_written = false;              ///< of exported files: op by op, nothing put back together
  bool channels_last = false;           ///< of exported files: the job lays images so
};

/// A figure as others print it.
struct Published {
  double value = 0;
  double unit = 1;  ///< of the last digit printed: 1 for an exact count, 1e7 for "4.09 G"
  std::string_view source;
};

/// A network the zoo can build. Its family states it: models/zoo/STEM.cpp defines
/// `std::vector<ZooEntry> STEM_networks()`; or a file of models/zoo/config does.
struct ZooEntry {
  std::string_view name;                    ///< canonical: "resnet50"
  std::vector<std::string_view> aliases{};  ///< other names of the same network
  std::string_view title;                   ///< one line for people
  std::string_view source;                  ///< definition that the builder follows
  /// Published count at the usual classes, without auxiliary heads; nothing = none known for sure.
  std::optional<Published> parameters{};
  /// Published multiply-adds of one sample's forward pass at the usual size; nothing = none.
  std::optional<Published> macs{};
  std::int64_t image_size = 0;          ///< usual side of the image; 0 = reads no images
  std::int64_t seq_len = 0;             ///< usual tokens per sample; 0 = reads no sequences
  std::int64_t most_tokens = 0;         ///< learned positions; 0 = any length
  std::int64_t classes = 1000;          ///< usual number of classes; 1 = does not classify
  bool rates_count_tokens = false;      ///< published rates count tokens, not sequences of seq_len
  std::vector<std::int64_t> fan_out{};  ///< usual, by hop; empty = samples no graph
  /// Usual data set, an id of hwspecs/dataset; empty: follows from what the network reads.
  std::string_view data_set{};
  /// The family whose code the builder follows (NetworkCode::attention_of): model_type of its
  /// config.json; empty: none of those.
  std::string_view code{};
  /// `options` have batch and classes, and image_size or seq_len, set and in range.
  std::function<NetworkGraph(const BuildOptions& options)> build{};
  /// What its layers are made of, where they are alike and can be sharded
  /// (models/transformer/shard.hpp).
  std::optional<TransformerLayout> transformer{};
  /// What a language model consists of, where models/language describes it: caches and weights
  /// follow from it.
  std::function<LanguageNetwork()> language{};
  /// A file of models/zoo/config states it: defaults are those of a config.json.
  bool is_configured = false;
};

/// Every network, sorted by name.
[[nodiscard]] std::span<const ZooEntry> zoo();

/// The entry of that name, alias or other spelling (parts/network_word.hpp says which); case,
/// hyphens and underscores do not count ("ResNet-50", "resnet50"). Sizes may stand in the name:
/// "bert_large_seq384", "vit_base_patch16_384".
[[nodiscard]] const ZooEntry* find_network(std::string_view name);

/// The smallest square image on which every window of the network fits (`options.image_size` is
/// ignored). 0 for networks that read no images.
[[nodiscard]] std::int64_t smallest_image_size(const ZooEntry& entry, const BuildOptions& options);

/// The network of that name, built; `options.seq_len` goes before a length in the name.
/// Throws InputError: unknown name (with the nearest one), image too small for the network, more
/// tokens than it has positions, batch or classes out of range.
[[nodiscard]] NetworkGraph build_network(std::string_view name, const BuildOptions& options);

}  // namespace tracecast
