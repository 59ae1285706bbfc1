#pragma once
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "traces/cupti/recorder.hpp"

namespace tracecast::traces::cupti {

struct FilledBuffer {
  std::uint8_t* bytes = nullptr;
  std::size_t valid_bytes = 0;
};

/// A fixed number of buffers that go round between CUPTI's callbacks, on any
/// thread, and one writing thread. A buffer's memory is taken when it is first
/// needed.
class BufferPool {
 public:
  enum class Event { Filled, Timeout, Closed };

  explicit BufferPool(int num_buffers) : num_unmade_(num_buffers) {}

  /// A buffer of kBufferBytes, or null when all are in use.
  std::uint8_t* take_empty() {
    const std::lock_guard lock(mutex_);
    if (!empty_.empty()) {
      std::uint8_t* bytes = empty_.back();
      empty_.pop_back();
      return bytes;
    }
    if (num_unmade_ == 0) return nullptr;
    memory_.emplace_back(static_cast<std::uint8_t*>(std::aligned_alloc(64, kBufferBytes)));
    if (memory_.back() != nullptr) --num_unmade_;
    return memory_.back().get();
  }
  void put_filled(const FilledBuffer& buffer) {
    {
      const std::lock_guard lock(mutex_);
      filled_.push_back(buffer);
    }
    changed_.notify_one();
  }
  void put_empty(std::uint8_t* bytes) {
    const std::lock_guard lock(mutex_);
    empty_.push_back(bytes);
  }
  /// Closed once `close` was called and nothing is filled.
  Event wait_filled(FilledBuffer& buffer, std::chrono::steady_clock::time_point until) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, until, [this] { return is_closed_ || !filled_.empty(); });
    if (filled_.empty()) return is_closed_ ? Event::Closed : Event::Timeout;
    // A flood of buffers must not put off what is done once a tick.
    if (!is_closed_ && std::chrono::steady_clock::now() >= until) return Event::Timeout;
    buffer = filled_.front();
    filled_.pop_front();
    return Event::Filled;
  }
  void close() {
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
    }
    changed_.notify_one();
  }

 private:
  struct Free {
    void operator()(std::uint8_t* bytes) const { std::free(bytes); }
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  int num_unmade_;
  std::vector<std::unique_ptr<std::uint8_t, Free>> memory_;
  std::vector<std::uint8_t*> empty_;
  std::deque<FilledBuffer> filled_;
  bool is_closed_ = false;
};

}  // namespace tracecast::traces::cupti
