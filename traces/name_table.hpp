#pragma once
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "sim/base/ids.hpp"

namespace tracecast::traces {

using NameId = Id<struct NameTag>;

/// Texts that records share: each is kept once and named by a number. Number 0 is the empty text.
/// Views into the table stay valid as long as the table does.
class NameTable {
 public:
  NameTable();

  /// The number of `text`, which is added when it is new.
  NameId intern(std::string_view text);
  [[nodiscard]] std::string_view operator[](NameId id) const { return texts_[id.index]; }
  [[nodiscard]] std::size_t size() const { return texts_.size(); }

 private:
  std::string_view keep(std::string_view text);
  void grow();

  std::vector<std::string_view> texts_;
  std::vector<std::uint64_t> hashes_;  ///< of each text
  std::vector<std::uint32_t>
      slots_;  ///< open addressing: index + 1, 0 = free; a power of two, at most half full
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t block_left_ = 0;
  std::size_t next_block_ = 0;  ///< bytes; they grow with the table
  char* block_next_ = nullptr;
};

}  // namespace tracecast::traces
