#include "sim/step/memory/caching_allocator.hpp"

#include <algorithm>

#include "sim/base/error.hpp"
#include "sim/base/round_up.hpp"

namespace tracecast {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kSmallRequest = kMiB;
constexpr std::int64_t kSmallSegment = 2 * kMiB;
constexpr std::int64_t kLargeMultiple = 2 * kMiB;

}  // namespace

CachingAllocator::CachingAllocator(std::int64_t block, std::int64_t large_segment,
                                   std::int64_t limit)
    : block_(block), large_segment_(large_segment), limit_(limit) {
  TRACECAST_CHECK(block > 0 && large_segment >= 0, "an allocator has a block size");
}

CachingAllocator::Handle CachingAllocator::new_block(const Block& block) {
  if (unused_.empty()) {
    blocks_.push_back(block);
    return blocks_.size() - 1;
  }
  const Handle handle = unused_.back();
  unused_.pop_back();
  blocks_[handle] = block;
  return handle;
}

std::int64_t CachingAllocator::segment_size(std::int64_t wanted, bool small) const {
  if (small) return kSmallSegment;
  if (large_segment_ == 0) return wanted;
  return wanted < large_segment_ / 2 ? large_segment_ : round_up(wanted, kLargeMultiple);
}

/// Costs what is given back, not what is kept: a step that does not fit asks at each of its
/// segments.
void CachingAllocator::return_free_segments(Pool& pool) {
  for (const auto& [size, handle] : pool.segments.all()) {
    reserved_ -= size;
    ++num_returned_;
    unused_.push_back(handle);
    pool.free.erase({size, handle});
  }
  pool.segments.clear();
}

void CachingAllocator::release_cached() {
  return_free_segments(small_);
  return_free_segments(large_);
}

std::int64_t CachingAllocator::largest_available() const {
  return std::max({large_.free.largest(), limit_ - reserved_, std::int64_t{0}});
}

bool CachingAllocator::has_room(std::int64_t size) const {
  const std::int64_t wanted = round_up(size, block_);
  const bool small = wanted <= kSmallRequest;
  const FreeBlocks& free = small ? small_.free : large_.free;
  if (free.largest() >= wanted) return true;
  std::int64_t left = limit_ - reserved_;
  for (const Pool* pool : {&small_, &large_}) {
    for (const auto& [segment, handle] : pool->segments.all()) left += segment;
  }
  return segment_size(wanted, small) <= left;
}

CachingAllocator::Handle CachingAllocator::take_segment(std::int64_t size, bool small) {
  if (reserved_ + size > limit_) {
    release_cached();
  }
  reserved_ += size;
  ++num_taken_;
  most_reserved_ = std::max(most_reserved_, reserved_);
  return new_block({.size = size, .free = true, .small = small});
}

CachingAllocator::Handle CachingAllocator::allocate(std::int64_t size) {
  const std::int64_t wanted = round_up(size, block_);
  const bool small = wanted <= kSmallRequest;
  Pool& blocks = pool(small);

  Handle handle = kNone;
  if (const auto fit = blocks.free.find(wanted)) {
    handle = fit->handle;
    if (is_segment(handle)) blocks.segments.erase(*fit);
    blocks.free.erase(*fit);
  } else {
    handle = take_segment(segment_size(wanted, small), small);
  }

  // Large blocks are split only when more than 1 MiB is left over, as PyTorch does.
  const std::int64_t rest = blocks_[handle].size - wanted;
  if (rest >= (small ? block_ : kSmallRequest + 1)) {
    const Handle next = blocks_[handle].next;
    const Handle tail =
        new_block({.size = rest, .free = true, .small = small, .previous = handle, .next = next});
    if (next != kNone) blocks_[next].previous = tail;
    blocks_[handle].next = tail;
    blocks_[handle].size = wanted;
    blocks.free.insert({rest, tail});
  }
  blocks_[handle].free = false;
  return handle;
}

void CachingAllocator::absorb_next(Handle handle) {
  const Handle gone = blocks_[handle].next;
  blocks_[handle].size += blocks_[gone].size;
  blocks_[handle].next = blocks_[gone].next;
  if (blocks_[gone].next != kNone) blocks_[blocks_[gone].next].previous = handle;
  unused_.push_back(gone);
}

void CachingAllocator::release(Handle handle) {
  TRACECAST_CHECK(!blocks_[handle].free, "a block is released once");
  Pool& blocks = pool(blocks_[handle].small);
  if (const Handle next = blocks_[handle].next; next != kNone && blocks_[next].free) {
    blocks.free.erase({blocks_[next].size, next});
    absorb_next(handle);
  }
  if (const Handle previous = blocks_[handle].previous;
      previous != kNone && blocks_[previous].free) {
    blocks.free.erase({blocks_[previous].size, previous});
    absorb_next(previous);
    handle = previous;
  }
  blocks_[handle].free = true;
  blocks.free.insert({blocks_[handle].size, handle});
  if (is_segment(handle)) blocks.segments.insert({blocks_[handle].size, handle});
}

}  // namespace tracecast
