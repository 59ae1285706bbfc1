#pragma once
#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tracecast {

/// A framework's device allocator: keeps what it got from the driver, hands out the smallest free
/// block that is large enough, splits blocks and joins free neighbours.
///   A request is rounded up to `block` bytes. When no free block fits, a new segment comes from
///   the driver: requests up to 1 MiB from 2 MiB segments, larger ones below half of
///   `large_segment` from segments of that size, the rest in multiples of 2 MiB.
/// Small and large requests use separate pools. When the driver has no more (`limit`), segments
/// without a block in use go back to it first; a request that still finds no room is granted all
/// the same, and `most_reserved` tells. Source: PyTorch, c10/cuda/CUDACachingAllocator.cpp
/// (kSmallSize, kSmallBuffer, kLargeBuffer, kMinLargeAlloc, kRoundLarge); TensorFlow's best-fit
/// allocator with coalescing (BFC) differs in its bins, not in what it needs.
class CachingAllocator {
 public:
  using Handle = std::size_t;
  /// `large_segment` 0 = every large request a segment of its own size; `limit`: bytes that the
  /// driver has.
  CachingAllocator(std::int64_t block, std::int64_t large_segment, std::int64_t limit = INT64_MAX);

  /// `size` at least 1.
  [[nodiscard]] Handle allocate(std::int64_t size);
  void release(Handle handle);
  /// Gives segments without a block in use back to the driver.
  void release_cached();

  /// Size of the largest request that needs no segment given back first: what the driver has left,
  /// or a free block.
  [[nodiscard]] std::int64_t largest_available() const;
  /// Whether a request finds room, segments without a block in use given back first if need be.
  [[nodiscard]] bool has_room(std::int64_t size) const;
  /// Bytes taken from the driver and not given back.
  [[nodiscard]] std::int64_t reserved() const { return reserved_; }
  /// The most there has been of them; above the limit when the requests do not fit.
  [[nodiscard]] std::int64_t most_reserved() const { return most_reserved_; }
  /// Segments taken from the driver so far, and those given back: cudaMalloc and cudaFree.
  [[nodiscard]] std::size_t num_taken() const { return num_taken_; }
  [[nodiscard]] std::size_t num_returned() const { return num_returned_; }

 private:
  struct Block {
    std::int64_t size = 0;
    bool free = false;
    bool small = false;
    Handle previous = kNone, next = kNone;  ///< neighbours in the same segment
  };
  static constexpr Handle kNone = static_cast<Handle>(-1);
  /// Free blocks by size, then handle. They are few, and a sorted vector takes no memory for each;
  /// entries are moved as bytes, which a std::pair is not.
  class FreeBlocks {
   public:
    struct Entry {
      std::int64_t size;
      Handle handle;
      friend auto operator<=>(const Entry&, const Entry&) = default;
    };
    void insert(const Entry& entry) { entries_.insert(position(entry), entry); }
    void erase(const Entry& entry) {
      const auto at = position(entry);
      if (at != entries_.end() && *at == entry) entries_.erase(at);
    }
    /// The smallest one of `size` or more.
    [[nodiscard]] std::optional<Entry> find(std::int64_t size) {
      const auto at = position({size, 0});
      return at == entries_.end() ? std::nullopt : std::optional(*at);
    }
    [[nodiscard]] std::int64_t largest() const {
      return entries_.empty() ? 0 : entries_.back().size;
    }
    [[nodiscard]] const std::vector<Entry>& all() const { return entries_; }
    void clear() { entries_.clear(); }

   private:
    std::vector<Entry>::iterator position(const Entry& entry) {
      return std::lower_bound(entries_.begin(), entries_.end(), entry);
    }
    std::vector<Entry> entries_;
  };

  Handle new_block(const Block& block);
  void absorb_next(Handle handle);
  [[nodiscard]] std::int64_t segment_size(std::int64_t wanted, bool small) const;
  Handle take_segment(std::int64_t size, bool small);
  /// The blocks of one kind that are free.
  struct Pool {
    FreeBlocks free;
    FreeBlocks segments;  ///< those of them that are whole segments
  };
  [[nodiscard]] bool is_segment(Handle handle) const {
    return blocks_[handle].previous == kNone && blocks_[handle].next == kNone;
  }
  void return_free_segments(Pool& pool);
  Pool& pool(bool small) { return small ? small_ : large_; }

  std::int64_t block_, large_segment_, limit_;
  std::int64_t reserved_ = 0, most_reserved_ = 0;
  std::size_t num_taken_ = 0, num_returned_ = 0;
  std::vector<Block> blocks_;
  std::vector<Handle> unused_;
  Pool small_, large_;
};

}  // namespace tracecast
