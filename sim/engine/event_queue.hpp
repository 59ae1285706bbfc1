#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/engine/time.hpp"

namespace tracecast::engine {

/// What happens first among events of one time: resources are given back before they are asked for.
enum class Phase : std::uint16_t { Completion = 0, Start = 1 };

/// What will happen: a number the owner of the queue understands, and a kind to switch on.
template <class Time>
struct Event {
  Time time{};
  std::uint32_t id = 0;
  std::uint16_t kind = 0;
  Phase phase = Phase::Completion;
};

/// Pending events in the order (time, phase, first in first out), and the clock they drive.
///
/// A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, "Faster algorithms for the shortest path problem",
/// J. ACM 37(2), 1990) with digits of 4 bits: an event waits in the bucket of the highest digit in
/// which its time differs from now. When the clock enters a bucket, its events move to buckets of
/// lower digits, so each moves at most 16 times and in practice 2 to 4; there are no comparisons to
/// mispredict. Events of one time are always in the same bucket, appended in the order they came,
/// so first in first out needs no sequence number. Why this one: notes/0001.
///
/// The price: time must not run backwards. push() refuses an event before now().
template <class Time>
class EventQueue {
 public:
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }
  /// The time of the last event taken; zero before.
  [[nodiscard]] Time now() const { return now_; }
  /// Whether the next event happens at now(): constant time.
  [[nodiscard]] bool has_event_now() const {
    return due_[0].head < due_[0].events.size() || due_[1].head < due_[1].events.size();
  }
  /// The time of the next event; needs one. Looks through one bucket and does not move the clock.
  [[nodiscard]] Time next_time() const;

  /// An event at `time` >= now().
  void push(Time time, std::uint32_t id, std::uint16_t kind = 0, Phase phase = Phase::Completion) {
    TRACECAST_CHECK(time >= now_, "an event lies in the past");
    ++size_;
    place({time, id, kind, phase});
  }
  /// Takes the next event and moves the clock to it; needs one.
  [[nodiscard]] Event<Time> pop();

 private:
  using Bucket = std::vector<Event<Time>>;
  static constexpr unsigned kDigitBits = 4, kDigits = 1u << kDigitBits;
  static constexpr unsigned kLevels = 64 / kDigitBits;
  /// Buckets give back storage beyond this many events when they empty, so that memory follows the
  /// number of pending events: at most 256 * 1024 * 16 bytes = 4 MiB stay behind.
  static constexpr std::size_t kKeptCapacity = 1024;

  /// Events at now_ of one phase; those before `head` are gone.
  struct Due {
    Bucket events;
    std::size_t head = 0;
  };

  static void empty_out(Bucket& bucket) {
    bucket.clear();
    if (bucket.capacity() > kKeptCapacity) Bucket().swap(bucket);
  }
  void place(const Event<Time>& event) {
    const auto ticks = static_cast<std::uint64_t>(event.time.count());
    const std::uint64_t difference = ticks ^ static_cast<std::uint64_t>(now_.count());
    if (difference == 0) {
      due_[static_cast<std::size_t>(event.phase)].events.push_back(event);
      return;
    }
    const unsigned level = (63u - static_cast<unsigned>(std::countl_zero(difference))) / kDigitBits;
    const unsigned digit = (ticks >> (level * kDigitBits)) & (kDigits - 1);
    buckets_[level * kDigits + digit].push_back(event);
    digits_[level] = static_cast<std::uint16_t>(digits_[level] | (1u << digit));
    levels_ = static_cast<std::uint16_t>(levels_ | (1u << level));
  }
  /// The lowest bucket with an event: it holds the next one. Needs one that is not due.
  [[nodiscard]] std::size_t first_bucket() const {
    const auto level = static_cast<std::size_t>(std::countr_zero(levels_));
    return level * kDigits + static_cast<std::size_t>(std::countr_zero(digits_[level]));
  }
  static Time earliest(const Bucket& bucket) {
    Time earliest = Time::most();
    for (const Event<Time>& event : bucket) earliest = std::min(earliest, event.time);
    return earliest;
  }

  Time now_{};
  std::size_t size_ = 0;
  std::uint16_t levels_ = 0;                       ///< bit l: level l has an event
  std::array<std::uint16_t, kLevels> digits_{};    ///< bit d of [l]: bucket (l, d) has an event
  std::array<Due, 2> due_;                         ///< by phase
  std::array<Bucket, kLevels * kDigits> buckets_;  ///< by level, then digit
  Bucket moving_;                                  ///< the bucket the clock has just entered
};

template <class Time>
Time EventQueue<Time>::next_time() const {
  TRACECAST_CHECK(!empty(), "an empty queue has no next event");
  return has_event_now() ? now_ : earliest(buckets_[first_bucket()]);
}

template <class Time>
Event<Time> EventQueue<Time>::pop() {
  TRACECAST_CHECK(!empty(), "an empty queue has no next event");
  --size_;
  for (;;) {
    for (Due& due : due_) {
      if (due.head == due.events.size()) continue;
      const Event<Time> event = due.events[due.head++];
      if (due.head == due.events.size()) {
        empty_out(due.events);
        due.head = 0;
      } else if (due.head >= kKeptCapacity && 2 * due.head >= due.events.size()) {
        due.events.erase(due.events.begin(), due.events.begin() + static_cast<long>(due.head));
        due.head = 0;
      }
      return event;
    }
    const std::size_t index = first_bucket(), level = index / kDigits;
    Bucket& bucket = buckets_[index];
    digits_[level] = static_cast<std::uint16_t>(digits_[level] & (digits_[level] - 1));
    if (digits_[level] == 0) levels_ = static_cast<std::uint16_t>(levels_ & (levels_ - 1));
    if (bucket.size() == 1) {  // common when few events are pending: nothing to move
      const Event<Time> event = bucket.front();
      bucket.clear();
      now_ = event.time;
      return event;
    }
    moving_.swap(bucket);
    now_ = earliest(moving_);
    for (const Event<Time>& event : moving_) place(event);
    empty_out(moving_);
  }
}

}  // namespace tracecast::engine
