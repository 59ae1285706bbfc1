#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "traces/cupti/cupti_api.hpp"
#include "traces/cupti/launch_calls.hpp"
#include "traces/cupti/stream_writer.hpp"

namespace tracecast::traces::cupti {

/// Times kernels, copies and memsets where CUPTI does not give their records:
/// its callbacks tell when a launch is made, and a CUDA event before and one
/// behind it in the same stream tell when the work ran. What it cannot tell:
/// the few microseconds that the events themselves take are in the work's time;
/// work in captured graphs is one stretch per graph; registers.
///   begin = time of a reference event of the context + elapsed(reference,
///   first event) end   = begin + elapsed(first event, second event)
/// The reference moves on with the work, since the driver's elapsed times are
/// floats of milliseconds.
class EventTimer {
 public:
  explicit EventTimer(const Api& api) : api_(api) {}

  /// Empty, or why launches cannot be timed.
  std::string start();
  /// Launches are timed while it is on.
  void set_active(bool is_active) { is_active_ = is_active; }
  /// Writes what has finished by now; with `wait`, everything that was
  /// launched. On the writing thread.
  void collect(StreamWriter& writer, bool wait);
  /// Work that was not timed for want of events, or since the driver refused.
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
  using Event = void*;
  struct Driver {
    int (*event_create)(Event*, unsigned) = nullptr;
    int (*event_record)(Event, void* stream) = nullptr;
    int (*event_query)(Event) = nullptr;
    int (*event_wait)(Event) = nullptr;
    int (*event_elapsed)(float* ms, Event, Event) = nullptr;
    int (*set_context)(void*) = nullptr;
    int (*get_context)(void**) = nullptr;
    int (*get_device)(int*) = nullptr;
    int (*is_capturing)(void* stream,
                        int*) = nullptr;  ///< since CUDA 10; may be null
  };
  /// A launch on its way, or one that waits for reuse of its events.
  struct Timed {
    Event first = nullptr, second = nullptr;
    void* context = nullptr;
    LaunchCall call;
    std::string name;
    std::uint32_t device = 0, stream = 0, correlation = 0;
  };
  struct Context {
    Event reference = nullptr;
    std::uint64_t reference_ns = 0;
    std::uint32_t device = 0;
    std::map<void*, std::uint32_t> streams;  ///< our numbers by handle
    std::vector<Timed*> free;
  };

  static void on_call(void* ours, CallbackDomain domain, std::uint32_t id,
                      const CallbackData* data);
  void on_entry(const LaunchCall& call, const CallbackData& data);
  void on_return(const CallbackData& data);
  Context* context_of(void* context);
  Timed* take(Context& context);
  void write(StreamWriter& writer, Timed& timed);
  bool load_driver();

  const Api& api_;
  Driver driver_;
  void* subscriber_ = nullptr;
  std::atomic<bool> is_active_{false};
  std::atomic<std::uint64_t> lost_{0};
  std::map<std::pair<CallbackDomain, std::uint32_t>, LaunchKind> kinds_;

  std::mutex mutex_;
  std::map<void*, Context> contexts_;
  std::deque<Timed> all_;  ///< at most kMostTimed
  std::deque<Timed*> launched_;
};

}  // namespace tracecast::traces::cupti
