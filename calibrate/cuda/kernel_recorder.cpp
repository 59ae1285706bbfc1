#include "calibrate/cuda/kernel_recorder.hpp"

#include <cupti.h>
#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace tracecast::calibrate::cuda {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;
constexpr std::size_t kMostKernels =
    4'000'000;  ///< of one recording; beyond it records are dropped

// Records grow with CUPTI's version; what we read has stayed where it was since CUDA 7.
using Record = CUpti_ActivityKernel10;
static_assert(offsetof(Record, start) == offsetof(CUpti_ActivityKernel3, start));
static_assert(offsetof(Record, end) == offsetof(CUpti_ActivityKernel3, end));
static_assert(offsetof(Record, name) == offsetof(CUpti_ActivityKernel3, name));
static_assert(offsetof(Record, name) == offsetof(CUpti_ActivityKernel4, name));
// Fills and copies within an operation (a gradient cleared, a workspace) tell their times in the
// same place.
static_assert(offsetof(Record, start) == offsetof(CUpti_ActivityMemset, start));
static_assert(offsetof(Record, end) == offsetof(CUpti_ActivityMemset4, end));
static_assert(offsetof(Record, start) == offsetof(CUpti_ActivityMemcpy, start));
static_assert(offsetof(Record, end) == offsetof(CUpti_ActivityMemcpy6, end));

struct Api {
  CUptiResult (*activity_enable)(CUpti_ActivityKind) = nullptr;
  CUptiResult (*activity_disable)(CUpti_ActivityKind) = nullptr;
  CUptiResult (*register_callbacks)(CUpti_BuffersCallbackRequestFunc,
                                    CUpti_BuffersCallbackCompleteFunc) = nullptr;
  CUptiResult (*flush)(std::uint32_t) = nullptr;
  CUptiResult (*next_record)(std::uint8_t*, std::size_t, CUpti_Activity**) = nullptr;
  CUptiResult (*result_text)(CUptiResult, const char**) = nullptr;
};

/// As people write it: demangled, without the argument list.
std::string plain_name(const char* mangled) {
  if (mangled == nullptr) return "";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  const std::string name = status == 0 && plain ? plain.get() : mangled;
  // The list is the last pair of brackets; "(anonymous namespace)" and "(int)3" come before it.
  if (name.empty() || name.back() != ')') return name;
  int depth = 0;
  for (std::size_t at = name.size(); at-- > 0;) {
    depth += name[at] == ')' ? 1 : name[at] == '(' ? -1 : 0;
    if (depth == 0) return at > 0 ? name.substr(0, at) : name;
  }
  return name;
}

/// What CUPTI's callbacks, which may come on a thread of its own, write to.
class Sink {
 public:
  void begin(const Api* api) {
    const std::lock_guard lock(mutex_);
    api_ = api;
    recording_ = {};
    names_.clear();
  }
  KernelRecording end() {
    const std::lock_guard lock(mutex_);
    api_ = nullptr;
    std::sort(
        recording_.kernels.begin(), recording_.kernels.end(),
        [](const RecordedKernel& a, const RecordedKernel& b) { return a.start_ns < b.start_ns; });
    return std::exchange(recording_, {});
  }
  void take(std::uint8_t* buffer, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (api_ == nullptr) return;
    CUpti_Activity* record = nullptr;
    while (api_->next_record(buffer, bytes, &record) == CUPTI_SUCCESS) add(*record);
  }

 private:
  void add(const CUpti_Activity& activity) {
    if (recording_.kernels.size() >= kMostKernels) return;
    const auto& record = reinterpret_cast<const Record&>(activity);
    std::string name;
    switch (activity.kind) {
      case CUPTI_ACTIVITY_KIND_KERNEL:
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        name = plain_name(record.name);
        break;
      case CUPTI_ACTIVITY_KIND_MEMSET:
        name = "memset";
        break;
      case CUPTI_ACTIVITY_KIND_MEMCPY:
        name = "memcpy";
        break;
      default:
        return;
    }
    const auto [at, is_new] = names_.emplace(name, recording_.names.size());
    if (is_new) recording_.names.push_back(name);
    recording_.kernels.push_back({record.start, record.end, at->second});
  }

  std::mutex mutex_;
  const Api* api_ = nullptr;
  KernelRecording recording_;
  std::map<std::string, std::size_t, std::less<>> names_;
};

/// CUPTI's callbacks have no argument for the caller's own: the one place where they find it.
Sink& sink() {
  static Sink one;
  return one;
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(64, kBufferBytes));
  *bytes = *buffer != nullptr ? kBufferBytes : 0;
  *most_records = 0;
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                          std::size_t valid_bytes) {
  sink().take(buffer, valid_bytes);
  std::free(buffer);
}

}  // namespace

struct KernelRecorder::State {
  Library library;
  Api api;
};

std::unique_ptr<KernelRecorder> KernelRecorder::open(Library library, std::string& why) {
  auto state = std::make_unique<State>(State{std::move(library), {}});
  Symbols symbols(state->library);
  symbols.need(state->api.activity_enable, {"cuptiActivityEnable"});
  symbols.need(state->api.activity_disable, {"cuptiActivityDisable"});
  symbols.need(state->api.register_callbacks, {"cuptiActivityRegisterCallbacks"});
  symbols.need(state->api.flush, {"cuptiActivityFlushAll"});
  symbols.need(state->api.next_record, {"cuptiActivityGetNextRecord"});
  symbols.need(state->api.result_text, {"cuptiGetResultString"});
  if (!symbols.missing().empty()) {
    why = "CUPTI lacks " + symbols.missing();
    return nullptr;
  }
  auto recorder = std::unique_ptr<KernelRecorder>(new KernelRecorder(std::move(state)));
  const Api& api = recorder->state_->api;
  if (api.register_callbacks(give_buffer, take_buffer) != CUPTI_SUCCESS) {
    why = "CUPTI takes no callbacks: another tool is attached";
    return nullptr;
  }
  return recorder;
}

KernelRecorder::KernelRecorder(std::unique_ptr<State> state) : state_(std::move(state)) {}
KernelRecorder::~KernelRecorder() = default;

bool KernelRecorder::start(std::string& why) {
  sink().begin(&state_->api);
  const CUptiResult result = state_->api.activity_enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (result == CUPTI_SUCCESS) {
    // Without these, operations that clear memory look shorter; no reason to do without kernels.
    state_->api.activity_enable(CUPTI_ACTIVITY_KIND_MEMSET);
    state_->api.activity_enable(CUPTI_ACTIVITY_KIND_MEMCPY);
    return true;
  }
  const char* text = nullptr;
  state_->api.result_text(result, &text);
  why = fmt::format("CUPTI refuses kernel records ({})", text != nullptr ? text : "unknown error");
  static_cast<void>(sink().end());
  return false;
}

KernelRecording KernelRecorder::stop() {
  state_->api.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  for (const CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                        CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_MEMCPY}) {
    state_->api.activity_disable(kind);
  }
  return sink().end();
}

std::optional<KernelTimes> divide(const KernelRecording& recording, int repetitions) {
  const std::size_t count = recording.kernels.size();
  const auto wanted = static_cast<std::size_t>(repetitions);
  if (repetitions <= 0 || count == 0 || count % wanted != 0) return std::nullopt;
  const std::size_t each = count / wanted;
  KernelTimes times;
  times.kernels = static_cast<int>(each);
  std::vector<double> by_name(recording.names.size());
  for (std::size_t r = 0; r < wanted; ++r) {
    Seconds sum{};
    for (std::size_t i = r * each; i < (r + 1) * each; ++i) {
      const RecordedKernel& kernel = recording.kernels[i];
      if (kernel.start_ns == 0 || kernel.end_ns < kernel.start_ns) return std::nullopt;
      // Every repetition launches the same kernels in the same order, or the parallel layout is
      // wrong.
      if (kernel.name != recording.kernels[i - r * each].name) return std::nullopt;
      const double duration = static_cast<double>(kernel.end_ns - kernel.start_ns) * 1e-9;
      sum += Seconds(duration);
      by_name[kernel.name] += duration;
    }
    times.durations.push_back(sum);
  }
  times.longest = recording.names[static_cast<std::size_t>(
      std::max_element(by_name.begin(), by_name.end()) - by_name.begin())];
  return times;
}

}  // namespace tracecast::calibrate::cuda
