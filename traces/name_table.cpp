#include "traces/name_table.hpp"

#include <algorithm>
#include <cstring>

namespace tracecast::traces {
namespace {

constexpr std::size_t kFirstBlockBytes = 512;
constexpr std::size_t kBlockBytes = std::size_t{64} << 10;

/// Eight bytes at a time; good enough to spread names, and the same on every run.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0x9E3779B97F4A7C15u ^ text.size();
  const char* at = text.data();
  std::size_t left = text.size();
  const auto mix = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * 0xD6E8FEB86659FD93u;
    hash ^= hash >> 32;
  };
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    mix(word);
  }
  std::uint64_t tail = 0;
  if (left > 0) std::memcpy(&tail, at, left);  // an empty view may point nowhere
  mix(tail);
  return hash;
}

}  // namespace

NameTable::NameTable() : slots_(16) { intern(""); }

NameId NameTable::intern(std::string_view text) {
  const std::uint64_t hash = hash_of(text);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = hash & mask;; slot = (slot + 1) & mask) {
    const std::uint32_t found = slots_[slot];
    if (found == 0) {
      texts_.push_back(keep(text));
      hashes_.push_back(hash);
      slots_[slot] = static_cast<std::uint32_t>(texts_.size());
      if (texts_.size() * 2 > slots_.size()) grow();
      return NameId{static_cast<std::uint32_t>(texts_.size() - 1)};
    }
    if (hashes_[found - 1] == hash && texts_[found - 1] == text) return NameId{found - 1};
  }
}

std::string_view NameTable::keep(std::string_view text) {
  if (text.empty()) return {};
  if (text.size() > block_left_) {
    next_block_ = blocks_.empty() ? kFirstBlockBytes : std::min(2 * next_block_, kBlockBytes);
    block_left_ = std::max(next_block_, text.size());
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(block_left_));
    block_next_ = blocks_.back().get();
  }
  std::memcpy(block_next_, text.data(), text.size());
  const std::string_view kept(block_next_, text.size());
  block_next_ += text.size();
  block_left_ -= text.size();
  return kept;
}

void NameTable::grow() {
  slots_.assign(slots_.size() * 2, 0);
  const std::size_t mask = slots_.size() - 1;
  for (std::uint32_t i = 0; i < texts_.size(); ++i) {
    std::size_t slot = hashes_[i] & mask;
    while (slots_[slot] != 0) slot = (slot + 1) & mask;
    slots_[slot] = i + 1;
  }
}

}  // namespace tracecast::traces
