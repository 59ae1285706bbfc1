#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tracecast::traces {

/// Which of many words occur in a text, found in one pass over it however many they are.
/// Source: Aho and Corasick, "Efficient string matching", CACM 18(6), 1975.
class WordFinder {
 public:
  WordFinder() = default;
  explicit WordFinder(const std::vector<std::string>& words);
  /// One entry for each word: whether it occurs in `text`. The empty word always does.
  [[nodiscard]] std::vector<bool> find(std::string_view text) const;

 private:
  /// What has been read: the beginning of a word.
  struct State {
    std::vector<std::uint32_t> words;  ///< that end here
    std::uint32_t suffix =
        0;  ///< longest proper suffix that is a state where words end, or the start
  };
  [[nodiscard]] std::uint32_t& next(std::uint32_t state, char c) {
    return next_[state * letters_ + letter_[static_cast<unsigned char>(c)]];
  }
  void add(std::string_view word, std::uint32_t number);
  void link_suffixes();

  std::array<std::uint16_t, 256> letter_{};  ///< 0 = in no word
  std::size_t letters_ = 1;
  std::vector<State> states_;
  std::vector<std::uint32_t> next_;  ///< by state and letter
  std::size_t words_ = 0;
};

}  // namespace tracecast::traces
