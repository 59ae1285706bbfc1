#pragma once
#include <atomic>
#include <mutex>
#include <utility>

namespace tracecast {

/// Something that is done once, by whichever thread comes first; the others wait. What it throws
/// reaches who came, and who comes next does it again. In the place of std::call_once, out of which
/// nothing can be thrown in our binary: it goes through a function of the C library, and the
/// unwinder there is not the one that is linked into the binary.
class Once {
 public:
  template <class Do>
  void operator()(Do&& act) {
    if (done_.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(mutex_);
    if (done_.load(std::memory_order_relaxed)) return;
    std::forward<Do>(act)();
    done_.store(true, std::memory_order_release);
  }

 private:
  std::atomic<bool> done_ = false;
  std::mutex mutex_;
};

}  // namespace tracecast
