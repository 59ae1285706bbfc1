#include "traces/cupti/recorder.hpp"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "traces/cupti/buffer_pool.hpp"
#include "traces/cupti/cupti_api.hpp"
#include "traces/cupti/devices.hpp"
#include "traces/cupti/event_timer.hpp"
#include "traces/cupti/record_encoder.hpp"
#include "traces/cupti/stream_writer.hpp"

namespace tracecast::traces::cupti {
namespace {

using Clock = std::chrono::steady_clock;

/// How much of a recording a killed program may lose.
constexpr std::chrono::seconds kTick{1};

/// How often timed launches are looked at: their events are few.
constexpr std::chrono::milliseconds kCollect{20};

/// Work of the GPU. Without kernels there is no recording.
constexpr std::array kWorkKinds = {ActivityKind::ConcurrentKernel, ActivityKind::Memcpy,
                                   ActivityKind::MemcpyPeer, ActivityKind::Memset};
/// What the host does. A CUPTI may lack some.
constexpr std::array kHostKinds = {ActivityKind::Runtime,   ActivityKind::Driver,
                                   ActivityKind::Marker,    ActivityKind::Synchronization,
                                   ActivityKind::CudaEvent, ActivityKind::Overhead};

/// Path of the CUPTI that the program has loaded; empty when it has none.
std::string loaded_cupti() {
  std::string path;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        const std::string_view name = info->dlpi_name;
        if (!name.substr(name.rfind('/') + 1).starts_with("libcupti.so")) return 0;
        *static_cast<std::string*>(to) = name;
        return 1;
      },
      &path);
  return path;
}

/// Two CUPTIs in one process would fight over the driver: the program's own
/// goes before ours.
void* open_cupti(const std::vector<std::string>& libraries) {
  const std::string loaded = loaded_cupti();
  if (!loaded.empty()) return ::dlopen(loaded.c_str(), RTLD_NOW | RTLD_NODELETE);
  for (const std::string& name : libraries) {
    if (void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_NODELETE)) return handle;
  }
  return nullptr;
}

/// Signals are for the program's threads.
template <class Body>
std::thread start_thread_without_signals(Body body) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(body);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

class Recorder {
 public:
  explicit Recorder(const RecorderSettings& settings)
      : settings_(settings),
        owner_(::getpid()),
        pool_(settings.num_buffers),
        writer_(settings.folder + '/' + std::to_string(owner_) + ".stream"),
        encoder_(api_, writer_) {}

  void start();
  /// Writes the rest of the records, as the program ends.
  void finish();
  [[nodiscard]] void* library() const { return library_; }

  void give_buffer(std::uint8_t** buffer, std::size_t* bytes);
  void take_buffer(void* context, std::uint32_t stream, const FilledBuffer& buffer);

 private:
  /// Each returns why it cannot be, or an empty text.
  std::string prepare();
  std::string enable();
  std::string enable_work();
  void disable();
  void begin_stream(const std::string& refusal);
  void run();
  void on_tick();
  [[nodiscard]] bool is_in_window() const;
  void write_losses();
  void write_buffer(const FilledBuffer& buffer);
  void describe_once();
  std::string text_of(int result) const;

  const RecorderSettings settings_;
  const pid_t owner_;  ///< a fork copies us, but not our thread
  void* library_ = nullptr;
  Api api_;
  BufferPool pool_;
  StreamWriter writer_;
  RecordEncoder encoder_;
  std::unique_ptr<EventTimer> timer_;  ///< where CUPTI refuses records of the GPU's work
  std::thread thread_;
  std::atomic<std::uint64_t> dropped_{0};
  std::atomic<bool> is_running_{false};
  bool has_system_thread_ids_ = false;

  // Of the writing thread once it runs:
  Clock::time_point begin_, last_tick_;
  bool is_enabled_ = false, is_described_ = false;
};

/// Lives to the end of the process: CUPTI's callbacks may come late.
Recorder* recorder = nullptr;

std::string Recorder::text_of(int result) const {
  const char* text = nullptr;
  api_.get_result_string(result, &text);
  return text != nullptr ? text : "error " + std::to_string(result);
}

std::string Recorder::prepare() {
  library_ = open_cupti(settings_.libraries);
  if (library_ == nullptr) return "no CUPTI that opens";
  if (const char* missing = api_.load(library_)) return std::string("CUPTI lacks ") + missing;
  std::uint32_t version = 0;
  api_.get_version(&version);
  if (version < kOldestVersion) {
    return "CUPTI's version is " + std::to_string(version) + "; 10 (CUDA 9.0) or newer is needed";
  }
  has_system_thread_ids_ =
      api_.set_thread_id_type != nullptr && api_.set_thread_id_type(1) == kSuccess;
  const int result = api_.register_callbacks(
      [](std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
        *most_records = 0;
        recorder->give_buffer(buffer, bytes);
      },
      [](void* context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
         std::size_t valid_bytes) {
        recorder->take_buffer(context, stream, {buffer, valid_bytes});
      });
  if (result != kSuccess) return "CUPTI takes no callbacks: " + text_of(result);
  std::string why = enable();
  if (settings_.delay_s > 0) disable();
  return why;
}

/// Kernels by CUPTI's records, else, where the user may not have those, by CUDA
/// events.
std::string Recorder::enable_work() {
  for (const ActivityKind kind : kWorkKinds) {
    const int result = api_.activity_enable(kind);
    if (result == kSuccess) continue;
    for (const ActivityKind enabled : kWorkKinds) api_.activity_disable(enabled);
    if (result != kInsufficientPrivileges && result != kVirtualInsufficientPrivileges)
      return "CUPTI refuses records of kernels and copies: " + text_of(result);
    timer_ = std::make_unique<EventTimer>(api_);
    encoder_.set_loss(
        "exact times: CUDA events add microseconds to each kernel (" + text_of(result) + ")", 1);
    return timer_->start();
  }
  return "";
}

std::string Recorder::enable() {
  if (timer_ == nullptr) {
    if (std::string why = enable_work(); !why.empty()) return why;
  }
  for (const ActivityKind kind : kHostKinds) {
    const int result = api_.activity_enable(kind);
    if (result == kSuccess) continue;
    encoder_.set_loss("record kind " + std::to_string(static_cast<std::uint32_t>(kind)) +
                          " of CUPTI, which it refuses: " + text_of(result),
                      1);
  }
  encoder_.skip_boring_calls();
  if (timer_ != nullptr) timer_->set_active(true);
  is_enabled_ = true;
  return "";
}

void Recorder::disable() {
  is_enabled_ = false;
  if (timer_ != nullptr) timer_->set_active(false);
  for (const ActivityKind kind : kWorkKinds) api_.activity_disable(kind);
  for (const ActivityKind kind : kHostKinds) api_.activity_disable(kind);
}

void Recorder::begin_stream(const std::string& refusal) {
  ProcessRecord process{};
  process.pid = static_cast<std::uint32_t>(owner_);
  process.rank = settings_.rank;
  process.world_size = settings_.world_size;
  process.timing = timer_ != nullptr ? Timing::Events : Timing::Cupti;
  process.refusal = refusal.empty() ? 0 : writer_.name(refusal.c_str());
  if (api_.get_version != nullptr) api_.get_version(&process.cupti_version);
  if (api_.get_timestamp != nullptr) api_.get_timestamp(&process.begin);
  writer_.add(process);
}

void Recorder::start() {
  if (!writer_.is_open()) return;
  const std::string refusal = prepare();
  begin_stream(refusal);
  if (!refusal.empty()) {
    writer_.add(EndRecord{});
    writer_.flush();
    return;
  }
  writer_.flush();
  begin_ = last_tick_ = Clock::now();
  is_running_ = true;
  thread_ = start_thread_without_signals([this] { run(); });
  std::atexit([] { recorder->finish(); });
}

void Recorder::finish() {
  if (::getpid() != owner_ || !is_running_.exchange(false)) return;
  if (timer_ != nullptr) timer_->set_active(false);
  api_.flush_all(1);
  pool_.close();
  thread_.join();
}

void Recorder::give_buffer(std::uint8_t** buffer, std::size_t* bytes) {
  *buffer = ::getpid() == owner_ ? pool_.take_empty() : nullptr;
  *bytes = *buffer != nullptr ? kBufferBytes : 0;
}

void Recorder::take_buffer(void* context, std::uint32_t stream, const FilledBuffer& buffer) {
  std::size_t dropped = 0;
  if (api_.get_num_dropped(context, stream, &dropped) == kSuccess) dropped_ += dropped;
  if (buffer.bytes != nullptr) pool_.put_filled(buffer);
}

void Recorder::run() {
  encoder_.set_own_thread(has_system_thread_ids_ ? static_cast<std::uint32_t>(::syscall(SYS_gettid))
                                                 : static_cast<std::uint32_t>(::pthread_self()));
  for (bool is_open = true; is_open;) {
    FilledBuffer buffer;
    const Clock::time_point tick = last_tick_ + kTick;
    const Clock::time_point until =
        timer_ != nullptr ? std::min(tick, Clock::now() + kCollect) : tick;
    switch (pool_.wait_filled(buffer, until)) {
      case BufferPool::Event::Filled:
        write_buffer(buffer);
        pool_.put_empty(buffer.bytes);
        break;
      case BufferPool::Event::Timeout:
        if (timer_ != nullptr) timer_->collect(writer_, false);
        if (Clock::now() >= tick) on_tick();
        break;
      case BufferPool::Event::Closed:
        is_open = false;
    }
  }
  if (timer_ != nullptr) {
    describe_once();
    timer_->collect(writer_, true);
  }
  write_losses();
  EndRecord end{};
  api_.get_timestamp(&end.at);
  writer_.add(end);
  writer_.flush();
}

bool Recorder::is_in_window() const {
  const double elapsed_s = std::chrono::duration<double>(last_tick_ - begin_).count();
  return elapsed_s >= settings_.delay_s &&
         (settings_.duration_s < 0 || elapsed_s < settings_.delay_s + settings_.duration_s);
}

void Recorder::on_tick() {
  last_tick_ = Clock::now();
  const bool is_wanted = is_in_window() && !writer_.has_failed();
  if (is_wanted && !is_enabled_) {
    if (const std::string why = enable(); !why.empty()) encoder_.set_loss(why, 1);
  } else if (is_enabled_) {
    if (!is_wanted) disable();
    api_.flush_all(0);
  }
  write_losses();
  writer_.flush();
}

void Recorder::write_losses() {
  encoder_.set_loss("records dropped for want of buffers", dropped_);
  if (timer_ != nullptr) encoder_.set_loss("launches that were not timed", timer_->lost());
  encoder_.write_losses();
}

void Recorder::describe_once() {
  if (!std::exchange(is_described_, true)) describe_devices(writer_);
}

void Recorder::write_buffer(const FilledBuffer& buffer) {
  describe_once();
  Activity* record = nullptr;
  while (api_.get_next_record(buffer.bytes, buffer.valid_bytes, &record) == kSuccess) {
    encoder_.write(*record);
  }
}

}  // namespace

void start_recording(const RecorderSettings& settings) {
  static std::once_flag once;
  std::call_once(once, [&] {
    recorder = new Recorder(settings);
    recorder->start();
  });
}

void* find_cupti_function(const RecorderSettings& settings, const char* name) {
  start_recording(settings);
  return recorder->library() != nullptr ? ::dlsym(recorder->library(), name) : nullptr;
}

}  // namespace tracecast::traces::cupti
