#include "traces/cupti/event_timer.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>

#include "traces/cupti/find_function.hpp"

namespace tracecast::traces::cupti {
namespace {

constexpr std::size_t kMostTimed = 8192;
/// A float of milliseconds is exact to 60 ns up to here.
constexpr std::int64_t kReferenceNs = 1'000'000'000;
constexpr std::uint32_t kFirstStream = 7;  ///< as CUPTI numbers the default stream

/// A runtime call makes driver calls: the outermost is timed. Our own calls
/// within a callback are none of the program's.
thread_local int depth = 0;

}  // namespace

bool EventTimer::load_driver() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return false;
  const auto find = [library](auto& to, const char* name) {
    return find_function(library, to, name);
  };
  find(driver_.is_capturing, "cuStreamIsCapturing");
  return find(driver_.event_create, "cuEventCreate") &&
         find(driver_.event_record, "cuEventRecord") && find(driver_.event_query, "cuEventQuery") &&
         find(driver_.event_wait, "cuEventSynchronize") &&
         find(driver_.event_elapsed, "cuEventElapsedTime") &&
         find(driver_.set_context, "cuCtxSetCurrent") &&
         find(driver_.get_context, "cuCtxGetCurrent") && find(driver_.get_device, "cuCtxGetDevice");
}

std::string EventTimer::start() {
  if (!load_driver()) return "the driver lacks what CUDA events need";
  if (api_.subscribe(&subscriber_, on_call, this) != kSuccess)
    return "CUPTI takes no subscriber: another tool is attached";
  for (const CallbackDomain domain : {CallbackDomain::Driver, CallbackDomain::Runtime}) {
    for (std::uint32_t id = 1; id < kMostCallbackIds; ++id) {
      const char* name = nullptr;
      if (api_.get_callback_name(domain, id, &name) != kSuccess || name == nullptr) continue;
      const auto kind = launch_kind(name);
      if (!kind) continue;
      kinds_[{domain, id}] = *kind;
      api_.enable_callback(1, subscriber_, domain, id);
    }
  }
  return kinds_.empty() ? "CUPTI names no launches" : "";
}

void EventTimer::on_call(void* ours, CallbackDomain domain, std::uint32_t id,
                         const CallbackData* data) {
  auto& timer = *static_cast<EventTimer*>(ours);
  const auto kind = timer.kinds_.find({domain, id});
  if (kind == timer.kinds_.end()) return;
  const bool is_entry = data->site == 0;
  if (!is_entry) depth = std::max(0, depth - 1);
  if (depth == 0) {
    if (is_entry) {
      *data->scratch = 0;
      if (timer.is_active_) {
        timer.on_entry(read_launch(kind->second, data->function_name, data->parameters), *data);
      }
    } else {
      timer.on_return(*data);
    }
  }
  if (is_entry) ++depth;
}

EventTimer::Context* EventTimer::context_of(void* context) {
  const auto [at, is_new] = contexts_.try_emplace(context);
  Context& known = at->second;
  if (!is_new) return known.reference != nullptr ? &known : nullptr;
  // Once for a context its default stream is waited for: then is now.
  int device = 0;
  std::uint64_t now = 0;
  Event reference = nullptr;
  if (driver_.get_device(&device) != 0 || driver_.event_create(&reference, 0) != 0 ||
      driver_.event_record(reference, nullptr) != 0 || driver_.event_wait(reference) != 0) {
    return nullptr;
  }
  api_.get_timestamp(&now);
  known.reference = reference;
  known.reference_ns = now;
  known.device = static_cast<std::uint32_t>(device);
  return &known;
}

EventTimer::Timed* EventTimer::take(Context& context) {
  if (!context.free.empty()) {
    Timed* timed = context.free.back();
    context.free.pop_back();
    return timed;
  }
  if (all_.size() >= kMostTimed) return nullptr;
  Timed timed;
  if (driver_.event_create(&timed.first, 0) != 0 || driver_.event_create(&timed.second, 0) != 0)
    return nullptr;
  return &all_.emplace_back(std::move(timed));
}

void EventTimer::on_entry(const LaunchCall& call, const CallbackData& data) {
  // Events in a captured stream would become part of the graph.
  int capturing = 0;
  if (driver_.is_capturing != nullptr &&
      (driver_.is_capturing(call.stream, &capturing) != 0 || capturing != 0)) {
    return;
  }
  void* handle = nullptr;
  if (driver_.get_context(&handle) != 0 || handle == nullptr) {
    ++lost_;
    return;
  }
  const std::lock_guard lock(mutex_);
  Context* context = context_of(handle);
  Timed* timed = context != nullptr ? take(*context) : nullptr;
  if (timed == nullptr) {
    ++lost_;
    return;
  }
  const auto next = static_cast<std::uint32_t>(kFirstStream + context->streams.size());
  timed->context = handle;
  timed->call = call;
  timed->device = context->device;
  timed->stream = context->streams.try_emplace(call.stream, next).first->second;
  timed->correlation = data.correlation;
  timed->name = data.symbol != nullptr ? data.symbol : "kernel without a name";
  if (call.work == LaunchCall::Work::Graph) timed->name = "CUDA graph";
  if (driver_.event_record(timed->first, call.stream) != 0) {
    context->free.push_back(timed);
    ++lost_;
    return;
  }
  *data.scratch = reinterpret_cast<std::uint64_t>(timed);
}

void EventTimer::on_return(const CallbackData& data) {
  auto* timed = reinterpret_cast<Timed*>(*data.scratch);
  if (timed == nullptr) return;
  const int result = driver_.event_record(timed->second, timed->call.stream);
  const std::lock_guard lock(mutex_);
  if (result == 0) {
    launched_.push_back(timed);
  } else {
    contexts_[timed->context].free.push_back(timed);
    ++lost_;
  }
}

void EventTimer::collect(StreamWriter& writer, bool wait) {
  std::deque<Timed*> launched;
  {
    const std::lock_guard lock(mutex_);
    launched.swap(launched_);
  }
  std::deque<Timed*> unfinished;
  void* current = nullptr;
  for (Timed* timed : launched) {
    if (timed->context != current) driver_.set_context(current = timed->context);
    const int result =
        wait ? driver_.event_wait(timed->second) : driver_.event_query(timed->second);
    constexpr int kNotReady = 600;  // CUDA_ERROR_NOT_READY
    if (result == kNotReady) {
      unfinished.push_back(timed);
      continue;
    }
    if (result == 0) {
      write(writer, *timed);
    } else {
      ++lost_;
    }
    const std::lock_guard lock(mutex_);
    contexts_[timed->context].free.push_back(timed);
  }
  const std::lock_guard lock(mutex_);
  launched_.insert(launched_.begin(), unfinished.begin(), unfinished.end());
}

void EventTimer::write(StreamWriter& writer, Timed& timed) {
  Context* context = nullptr;
  {
    const std::lock_guard lock(mutex_);
    context = &contexts_[timed.context];
  }
  float until_ms = 0, took_ms = 0;
  if (driver_.event_elapsed(&until_ms, context->reference, timed.first) != 0 ||
      driver_.event_elapsed(&took_ms, timed.first, timed.second) != 0) {
    ++lost_;
    return;
  }
  const std::int64_t until_ns = std::llround(1e6 * static_cast<double>(until_ms));
  const std::uint64_t begin = context->reference_ns + static_cast<std::uint64_t>(until_ns);
  const std::uint64_t end =
      begin + static_cast<std::uint64_t>(std::llround(1e6 * std::fmax(0.0, took_ms)));
  if (until_ns > kReferenceNs) {
    std::swap(context->reference, timed.first);
    context->reference_ns = begin;
  }
  const LaunchCall& call = timed.call;
  switch (call.work) {
    case LaunchCall::Work::Copy:
      return writer.add(CopyRecord{begin, end, call.bytes, timed.device, timed.stream,
                                   timed.correlation, call.copy_kind, 0, 0, 0});
    case LaunchCall::Work::Memset:
      return writer.add(
          MemsetRecord{begin, end, call.bytes, timed.device, timed.stream, timed.correlation, 0});
    default: {
      KernelRecord record{};
      record.begin = begin;
      record.end = end;
      record.name = writer.name(timed.name.c_str());
      record.device = timed.device;
      record.stream = timed.stream;
      record.correlation = timed.correlation;
      record.shared_bytes = call.shared_bytes;
      for (std::size_t i = 0; i < 3; ++i) {
        record.grid[i] = call.grid[i];
        record.block[i] = call.block[i];
      }
      writer.add(record);
    }
  }
}

}  // namespace tracecast::traces::cupti
