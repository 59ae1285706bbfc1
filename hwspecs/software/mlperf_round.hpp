#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/gpu_spec.hpp"
#include "hwspecs/loaders/spec_identity.hpp"
#include "hwspecs/loaders/spec_text.hpp"

namespace tracecast {

/// How the programs of a round divide a network among GPUs, beyond what results state.
struct MlperfLayout {
  std::string software;           ///< id of a TrainingSoftware
  std::int64_t chunks = 1;        ///< of layers on every rank, where a result does not state them
  std::optional<bool> dropout{};  ///< nothing: as the network has it
  std::int64_t lora_rank = 0;     ///< of adapters beside the attention's GEMMs; 0: none
};

/// A benchmark of MLPerf Training as submissions of a round ran it.
struct MlperfBenchmark {
  std::string name;         ///< "resnet"
  std::string network;      ///< of the zoo; empty: none of ours
  std::string unpredicted;  ///< why not
  std::string optimizer = "adam", framework = "pytorch", precision = "amp";
  std::optional<Architecture> fp8_on;  ///< GPUs whose runs are in fp8
  bool cuda_graphs = false;
  bool samples_differ = false;  ///< sentences, or images of differing sizes
  bool sentences = false;
  double share_of_tokens = 1;  ///< that are words: padding is left out
  std::string fused_network;   ///< on GPUs for which attention in one kernel was written
  std::vector<int> fused_on;   ///< their compute capabilities, 80
  std::optional<MlperfLayout> parallel_layout;  ///< nothing: data parallelism alone
  std::string strategy;                         ///< id of a StrategyProfile; empty: the round's

  [[nodiscard]] const std::string& network_on(const GpuSpec* gpu) const;
  [[nodiscard]] std::string precision_on(const GpuSpec* gpu) const;
};

/// A round: hwspecs/mlperf/*.textproto. One that exists is valid.
struct MlperfRound {
  std::string id;  ///< "v1.0"
  std::string name;
  std::string month;     ///< of its results: no software in it is newer
  std::string strategy;  ///< id of a StrategyProfile
  double sample_sd = 0;  ///< of the time of one sample where samples differ
  double tokens_per_sentence = 1;
  std::vector<MlperfBenchmark> benchmarks;
  std::vector<SpecSource> sources;
  std::vector<SpecValue> values;

  /// Null: not of this round nor of one before.
  [[nodiscard]] const MlperfBenchmark* find(std::string_view benchmark) const;
};

/// Reads text format (hwspecs/proto/mlperf_round.proto); `where` names it in errors. `find` has the
/// round that it is based on. Throws InputError: syntax, a missing or absurd value, a value without
/// a source, no such round before.
[[nodiscard]] MlperfRound parse_mlperf_round(std::string_view text, std::string_view where,
                                             const FindSpecText& find);

}  // namespace tracecast
