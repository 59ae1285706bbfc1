#include "traces/kernel_names/word_finder.hpp"

namespace tracecast::traces {

WordFinder::WordFinder(const std::vector<std::string>& words) : words_(words.size()) {
  for (const std::string& word : words) {
    for (const char c : word) {
      std::uint16_t& letter = letter_[static_cast<unsigned char>(c)];
      if (letter == 0) letter = static_cast<std::uint16_t>(letters_++);
    }
  }
  states_.resize(1);
  next_.assign(letters_, 0);
  for (std::uint32_t i = 0; i < words.size(); ++i) add(words[i], i);
  link_suffixes();
}

/// Makes the states of a word's prefixes. No way leads back to the start yet, so 0 stands for none.
void WordFinder::add(std::string_view word, std::uint32_t number) {
  std::uint32_t state = 0;
  for (const char c : word) {
    if (next(state, c) == 0) {
      next(state, c) = static_cast<std::uint32_t>(states_.size());
      states_.emplace_back();
      next_.resize(next_.size() + letters_, 0);
    }
    state = next(state, c);
  }
  states_[state].words.push_back(number);
}

/// Short states first: where a state has no way on, its longest proper suffix's way is taken.
void WordFinder::link_suffixes() {
  std::vector<std::uint32_t> longest_suffix(states_.size(), 0), order{0};
  for (std::size_t at = 0; at < order.size(); ++at) {
    const std::uint32_t state = order[at], shorter = longest_suffix[state];
    states_[state].suffix = states_[shorter].words.empty() ? states_[shorter].suffix : shorter;
    for (std::size_t letter = 1; letter < letters_; ++letter) {
      std::uint32_t& way = next_[state * letters_ + letter];
      const std::uint32_t way_of_shorter = state == 0 ? 0 : next_[shorter * letters_ + letter];
      if (way == 0) {
        way = way_of_shorter;
      } else {
        longest_suffix[way] = way_of_shorter;
        order.push_back(way);
      }
    }
  }
}

std::vector<bool> WordFinder::find(std::string_view text) const {
  std::vector<bool> found(words_);
  if (states_.empty()) return found;
  std::vector<bool> is_seen(states_.size());
  const auto see = [&](std::uint32_t state) {
    // The suffixes of a state that was seen have been seen with it.
    for (; !is_seen[state]; state = states_[state].suffix) {
      is_seen[state] = true;
      for (const std::uint32_t word : states_[state].words) found[word] = true;
    }
  };
  see(0);
  std::size_t state = 0;
  for (const char c : text) {
    state = next_[state * letters_ + letter_[static_cast<unsigned char>(c)]];
    see(static_cast<std::uint32_t>(state));
  }
  return found;
}

}  // namespace tracecast::traces
