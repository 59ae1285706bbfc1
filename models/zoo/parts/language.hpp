#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "models/language/graph.hpp"
#include "models/language/layout.hpp"
#include "models/zoo/parts/family.hpp"

/// Entries of networks that models/language describes: the family's file states the layers, all
/// else follows.
namespace tracecast::zoo_builders {

/// What `family` makes of one of its layouts, for texts of `context` tokens.
template <auto family, auto layout, std::int64_t context>
LanguageNetwork describe() {
  LanguageNetwork network = family(layout);
  network.context = context;
  return network;
}
/// Its forward pass; `options` have seq_len set.
[[nodiscard]] inline NetworkGraph build_described(const LanguageNetwork& network,
                                                  const BuildOptions& options) {
  return language_graph(network, {.batch = options.batch,
                                  .tokens = *options.seq_len,
                                  .attention = options.attention,
                                  .grouped_attention = options.grouped_attention,
                                  .casts_as_written = options.casts_as_written,
                                  .is_compiled = options.is_compiled,
                                  .training = options.training});
}
template <auto family, auto layout>
NetworkGraph build_language(const BuildOptions& options) {
  return build_described(family(layout), options);
}

struct LanguageTitle {
  std::string_view name, title, source;
  std::vector<std::string_view> aliases{};
};

/// An entry of sequences, `tokens` long as a rule. `context`: what the configuration says that was
/// published with the weights (max_position_embeddings of config.json); where releases under one
/// name differ, the longest.
template <auto family, auto layout, std::int64_t context>
[[nodiscard]] ZooEntry language_entry(LanguageTitle title, Published parameters,
                                      std::int64_t tokens) {
  return {.name = title.name,
          .aliases = std::move(title.aliases),
          .title = title.title,
          .source = title.source,
          .parameters = parameters,
          .seq_len = tokens,
          .build = build_language<family, layout>,
          .language = describe<family, layout, context>};
}
/// The same for networks whose layers can be shared among GPUs.
template <auto family, auto layout, std::int64_t context>
[[nodiscard]] ZooEntry shardable_entry(LanguageTitle title, Published parameters,
                                       std::int64_t tokens) {
  ZooEntry entry = language_entry<family, layout, context>(std::move(title), parameters, tokens);
  entry.transformer = shardable(family(layout), entry.name).layout;
  return entry;
}

}  // namespace tracecast::zoo_builders
