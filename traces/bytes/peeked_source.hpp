#pragma once
#include <string_view>
#include <vector>

#include "traces/bytes/byte_source.hpp"

namespace tracecast::traces {

/// A source whose first bytes can be looked at before they are read.
class PeekedSource final : public ByteSource {
 public:
  explicit PeekedSource(ByteSource& source) : source_(source) {}

  /// The first `size` bytes, fewer where the source ends; valid until the next call. Nothing may
  /// have been read yet. Takes memory as bytes come, not as they are asked for.
  std::string_view peek(std::size_t size);
  std::size_t read(char* to, std::size_t size) override;
  void count_unpacked(std::uint64_t bytes) override { source_.count_unpacked(bytes); }

 private:
  ByteSource& source_;
  std::vector<char> head_;
  std::size_t given_ = 0;
};

}  // namespace tracecast::traces
