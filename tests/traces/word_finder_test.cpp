#include "traces/kernel_names/word_finder.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

using tracecast::traces::WordFinder;

TEST_CASE("words are found wherever they stand: within each other, side by side, at either end") {
  const WordFinder finder({"he", "she", "hers", "his", "", "s", "xyz", "she"});
  const auto found = [&finder](const char* text) { return finder.find(text); };
  CHECK(found("ushers") == std::vector<bool>{1, 1, 1, 0, 1, 1, 0, 1});
  CHECK(found("") == std::vector<bool>{0, 0, 0, 0, 1, 0, 0, 0});
  CHECK(found("hihis") == std::vector<bool>{0, 0, 0, 1, 1, 1, 0, 0});
  CHECK(found("x?yz") == std::vector<bool>{0, 0, 0, 0, 1, 0, 0, 0});
  CHECK(WordFinder(std::vector<std::string>()).find("abc").empty());
  CHECK(WordFinder().find("abc").empty());
}

TEST_CASE("what is found is what looking for each word finds") {
  std::mt19937 random(7);
  const auto text_of = [&random](std::size_t size) {
    std::string text;
    while (text.size() < size) text += static_cast<char>('a' + random() % 3);
    return text;
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> words;
    for (int i = 0; i < 30; ++i) words.push_back(text_of(1 + random() % 6));
    const WordFinder finder(words);
    const std::string text = text_of(random() % 40);
    const std::vector<bool> found = finder.find(text);
    for (std::size_t i = 0; i < words.size(); ++i) {
      CAPTURE(words[i]);
      CAPTURE(text);
      CHECK(found[i] == (text.find(words[i]) != std::string::npos));
    }
  }
}
