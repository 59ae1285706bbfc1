#include "traces/trace_builder.hpp"

#include <cmath>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast::traces {
namespace {

constexpr std::uint64_t kMostRecords = std::uint64_t{64} << 20;
constexpr std::uint64_t kFreeRecords = 100'000;
/// Until 2042 since 1970. Twice that, and the distance from the earliest to the latest end, are
/// within int64.
constexpr std::int64_t kLargestUs = std::int64_t{2'300'000'000'000'000};

}  // namespace

TraceBuilder::TraceBuilder(Trace& trace) : trace_(trace) {}

StreamId TraceBuilder::stream(std::int64_t device, std::int64_t number) {
  const Stream wanted{device, number};
  if (!trace_.streams.empty() && trace_.streams[last_stream_.index] == wanted) return last_stream_;
  const auto [at, is_new] =
      streams_.try_emplace(wanted, StreamId{static_cast<std::uint32_t>(trace_.streams.size())});
  if (is_new) trace_.streams.push_back(wanted);
  return last_stream_ = at->second;
}

ThreadId TraceBuilder::thread(std::string_view process, std::string_view thread) {
  if (!trace_.threads.empty()) {
    const Thread& last = trace_.threads[last_thread_.index];
    if (last.thread == thread && last.process == process) return last_thread_;
  }
  const auto [at, is_new] =
      threads_.try_emplace({std::string(process), std::string(thread)},
                           ThreadId{static_cast<std::uint32_t>(trace_.threads.size())});
  if (is_new) trace_.threads.push_back({std::string(process), std::string(thread)});
  return last_thread_ = at->second;
}

GeometryId TraceBuilder::geometry(const Geometry& geometry) {
  if (geometry == Geometry{}) return {};
  const auto [at, is_new] = geometries_.try_emplace(
      geometry, GeometryId{static_cast<std::uint32_t>(trace_.geometries.size())});
  if (is_new) trace_.geometries.push_back(geometry);
  return at->second;
}

void TraceBuilder::count_record() {
  if (++records_ > kMostRecords) {
    throw InputError(trace_.source, "more than 64 million records", "a shorter recording");
  }
}

void TraceBuilder::count_record(std::uint64_t bytes, std::uint64_t least) {
  count_record();
  if (records_ > kFreeRecords && records_ > bytes / least) {
    throw InputError(trace_.source,
                     std::to_string(records_) + " records in " + std::to_string(bytes) + " bytes",
                     "a recording, whose records say what they are of");
  }
}

std::optional<std::int64_t> nanoseconds_of_us(std::string_view text) {
  std::size_t at = 0;
  const bool negative = !text.empty() && text[0] == '-';
  if (negative) ++at;
  std::int64_t us = 0, ns = 0;
  const std::size_t first = at;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    us = us * 10 + (text[at] - '0');
    if (us > kLargestUs) return std::nullopt;
  }
  if (at == first) return std::nullopt;
  if (at < text.size() && text[at] == '.') {
    ++at;
    std::int64_t place = 100;
    bool rounds_up = false;
    for (int decimal = 0; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at, ++decimal) {
      if (decimal < 3) ns += (text[at] - '0') * place;
      if (decimal == 3) rounds_up = text[at] >= '5';
      place /= 10;
    }
    if (rounds_up) ++ns;
  }
  if (at < text.size()) {  // an exponent: rare, and as exact as a double
    const auto value = parse_double(text);
    if (!value || !(std::abs(*value) <= static_cast<double>(kLargestUs))) return std::nullopt;
    return static_cast<std::int64_t>(std::llround(*value * 1e3));
  }
  const std::int64_t total = us * 1000 + ns;
  return negative ? -total : total;
}

}  // namespace tracecast::traces
