#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace tracecast {

/// A framework's device allocator: keeps what it got from the driver, hands out the smallest free
/// block that is large enough, splits blocks and joins free neighbours.
///   A request is rounded up to `block` bytes. When no free block fits, a new segment comes from the
///   driver: requests up to 1 MiB from 2 MiB segments, larger ones below half of `large_segment` from
///   segments of that size, the rest in multiples of 2 MiB.
/// Small and large requests use separate pools. Source: PyTorch, c10/cuda/CUDACachingAllocator.cpp
/// (kSmallSize, kSmallBuffer, kLargeBuffer, kMinLargeAlloc, kRoundLarge); TensorFlow's best-fit
/// allocator with coalescing (BFC) differs in its bins, not in what it needs.
class CachingAllocator {
 public:
  using Handle = std::size_t;
  /// Both positive; `large_segment` 0 = every large request its own segment.
  CachingAllocator(std::int64_t block, std::int64_t large_segment);

  /// `size` at least 1.
  [[nodiscard]] Handle allocate(std::int64_t size);
  void release(Handle handle);

  /// Bytes taken from the driver so far.
  [[nodiscard]] std::int64_t reserved() const { return reserved_; }

 private:
  struct Block {
    std::int64_t size = 0;
    bool free = false;
    bool small = false;
    Handle previous = kNone, next = kNone;  ///< neighbours in the same segment
  };
  static constexpr Handle kNone = static_cast<Handle>(-1);
  using FreeBlocks = std::set<std::pair<std::int64_t, Handle>>;

  Handle new_block(const Block& block);
  void absorb_next(Handle handle);
  FreeBlocks& pool(bool small) { return small ? free_small_ : free_large_; }

  std::int64_t block_, large_segment_, reserved_ = 0;
  std::vector<Block> blocks_;
  std::vector<Handle> unused_;
  FreeBlocks free_small_, free_large_;
};

}  // namespace tracecast
