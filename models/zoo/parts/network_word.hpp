#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/zoo/zoo.hpp"

namespace tracecast {

/// What a word that names a network says: which one, and of what size.
struct NetworkWord {
  const ZooEntry* entry = nullptr;
  std::optional<std::int64_t> seq_len{};     ///< "bert_large_seq384"
  std::optional<std::int64_t> image_size{};  ///< "vit_base_patch16_384"
  std::string
      stored{};  ///< how the weights are stored ("-FP8"), a word of --precision; empty: not said
};

/// Reads a name: an id or alias of the zoo, or a spelling of hwspecs/name, whatever its case, '-',
/// '_' and blanks, which between two digits are a point; then the same where letters and digits
/// alone mean one network; then without what may follow a name ("_seq384", "-Instruct"); then
/// behind its publisher ("meta-llama/Llama-3.1-8B"). Nothing: it names none.
[[nodiscard]] std::optional<NetworkWord> read_network_word(std::string_view name);

/// The networks that families in C++ state: what `zoo()` has beside those of models/zoo/config.
[[nodiscard]] std::span<const ZooEntry> families();

/// Every spelling of hwspecs/name of one network.
[[nodiscard]] std::vector<std::string> spellings_of(const ZooEntry& entry);

}  // namespace tracecast
