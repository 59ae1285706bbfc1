#pragma once
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "traces/bytes/byte_source.hpp"

namespace tracecast::test {

/// Text in pieces of at most `piece` bytes.
class TextSource final : public traces::ByteSource {
 public:
  explicit TextSource(std::string text, std::size_t piece = 1000)
      : text_(std::move(text)), piece_(piece) {}
  std::size_t read(char* to, std::size_t size) override {
    const std::size_t count = std::min({size, piece_, text_.size() - at_});
    std::memcpy(to, text_.data() + at_, count);
    at_ += count;
    return count;
  }

 private:
  std::string text_;
  std::size_t piece_, at_ = 0;
};

}  // namespace tracecast::test
