#include "calibrate/table/gpu_word.hpp"

#include <algorithm>
#include <array>

#include "sim/base/text.hpp"

namespace tracecast {
namespace {

struct Meaning {
  std::string_view table, word, id;
};
/// Tables by their names, as their publishers' notes or their figures tell the board.
constexpr std::array<Meaning, 1> kMeanings = {{
    {"vidur_linear.csv", "a100", "a100_pcie_80gb"},  // 80 GB; by its bandwidth the card
}};

}  // namespace

std::string_view gpu_word(std::string_view word, std::string_view table) {
  if (table.ends_with(".gz")) table.remove_suffix(3);
  const auto* meaning = std::find_if(kMeanings.begin(), kMeanings.end(), [&](const Meaning& m) {
    return m.table == table && m.word == to_lower(word);
  });
  return meaning == kMeanings.end() ? word : meaning->id;
}

}  // namespace tracecast
