#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tracecast {

/// The candidates that `word` is a family's name of: first those that begin with it ("resnet" of
/// resnet50), then those of which a part does (se_resnet50, quadro_rtx6000), then those that have
/// it elsewhere ("torch" of pytorch; not words of two letters), each in their order. Parts end
/// where letters meet digits or at '-', ' ', '.', '_'; case does not count. Nothing where the word
/// is less than whole parts of every candidate ("v10" of v100): that is a typing error.
[[nodiscard]] std::vector<std::string> find_family(std::string_view word,
                                                   std::span<const std::string> candidates);

/// What a catalogue calls one thing.
struct CatalogueEntry {
  std::string name;
  std::vector<std::string> others;  ///< further spellings
};

/// "one of bert_base, bert_large (all: `tracecast networks`)": the tail of an error message about a
/// word that names no entry of a catalogue. With the family of the word among names, else among
/// others ("geforce"), by name, the shortest of many; without a family with the number of entries
/// and the one of `spellings` that is nearest. `listing`: the command that lists all.
[[nodiscard]] std::string describe_entries(std::string_view word,
                                           std::span<const CatalogueEntry> entries,
                                           std::span<const std::string> spellings,
                                           std::string_view listing);

}  // namespace tracecast
