#include "tools/predict/recorded_host.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/base/error.hpp"
#include "traces/open.hpp"
#include "traces/summary.hpp"

namespace tracecast {
namespace {

constexpr std::size_t kFewestLaunches = 10;
/// A launch that takes longer than so many usual ones waits for room in the queue.
constexpr std::int64_t kUsualLaunches = 4;

/// Calls of a trace, in order of time.
struct HostCalls {
  std::vector<traces::Span> launches;
  std::vector<traces::Span> waits;  ///< in which the host may stand still
  std::size_t synchronizations = 0;
};

HostCalls calls_of(const traces::Trace& trace) {
  HostCalls calls;
  for (std::size_t i = 0; i < trace.calls.size(); ++i) {
    const traces::Span span = trace.calls.span[i];
    switch (traces::call_kind(trace[trace.calls.name[i]])) {
      case traces::CallKind::Launch:
        calls.launches.push_back(span);
        break;
      case traces::CallKind::Sync:
        ++calls.synchronizations;
        calls.waits.push_back(span);
        break;
      case traces::CallKind::Copy:
        calls.waits.push_back(span);
        break;
      default:
        break;
    }
  }
  const auto earlier = [](const traces::Span& a, const traces::Span& b) {
    return a.begin_ns < b.begin_ns;
  };
  std::sort(calls.launches.begin(), calls.launches.end(), earlier);
  std::sort(calls.waits.begin(), calls.waits.end(), earlier);
  return calls;
}

std::int64_t median_duration(std::vector<traces::Span> spans) {
  const auto middle = spans.begin() + static_cast<std::ptrdiff_t>(spans.size() / 2);
  std::nth_element(
      spans.begin(), middle, spans.end(),
      [](const traces::Span& a, const traces::Span& b) { return a.duration_ns < b.duration_ns; });
  return middle->duration_ns;
}

}  // namespace

void take_recorded_host(const std::string& file, Software& software) {
  const traces::Recording recording = traces::read_recording(file);
  const traces::Trace& trace = recording.traces.front();
  const HostCalls calls = calls_of(trace);
  if (calls.launches.size() < kFewestLaunches) {
    throw InputError(
        "--host-from",
        fmt::format("{}: {} launches of kernels recorded", file, calls.launches.size()),
        "a recording with the host's calls, of one step at least, such as PyTorch's "
        "profiler or Nsight Systems write");
  }
  const std::int64_t usual = std::max<std::int64_t>(1, median_duration(calls.launches));
  std::int64_t own = 0;
  std::size_t wait = 0;
  for (std::size_t i = 0; i + 1 < calls.launches.size(); ++i) {
    const traces::Span& launch = calls.launches[i];
    const std::int64_t next = calls.launches[i + 1].begin_ns;
    std::int64_t stood = std::max<std::int64_t>(0, launch.duration_ns - kUsualLaunches * usual);
    for (; wait < calls.waits.size() && calls.waits[wait].begin_ns < next; ++wait) {
      const traces::Span& span = calls.waits[wait];
      if (span.begin_ns < launch.begin_ns) continue;
      stood += std::min(span.end_ns(), next) - span.begin_ns;
    }
    own += std::max<std::int64_t>(0, next - launch.begin_ns - stood);
  }
  software.host_us_per_launch =
      static_cast<double>(own) * 1e-3 / static_cast<double>(calls.launches.size() - 1);
  const std::size_t steps = std::max<std::size_t>(
      1, traces::summarize(trace, traces::KernelNames::builtin()).steps.size());
  software.host_waits = calls.synchronizations >= steps;
}

}  // namespace tracecast
