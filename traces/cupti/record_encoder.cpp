#include "traces/cupti/record_encoder.hpp"

#include <utility>

#include "traces/cupti/boring_calls.hpp"

namespace tracecast::traces::cupti {
namespace {

template <class Record>
const Record& as(const Activity& activity) {
  return reinterpret_cast<const Record&>(activity);
}

/// Copies within a device and between two have the same fields, in other
/// places.
template <class Copy>
CopyRecord copy_record(const Copy& copy) {
  return {copy.start,       copy.end,       copy.bytes,       copy.device,      copy.stream,
          copy.correlation, copy.copy_kind, copy.source_kind, copy.target_kind, 0};
}

}  // namespace

void RecordEncoder::write(const Activity& activity) {
  switch (activity.kind) {
    case ActivityKind::Kernel:
    case ActivityKind::ConcurrentKernel:
      return write_kernel(as<KernelActivity>(activity));
    case ActivityKind::Runtime:
      return write_call(as<ApiActivity>(activity), CallbackDomain::Runtime);
    case ActivityKind::Driver:
      return write_call(as<ApiActivity>(activity), CallbackDomain::Driver);
    case ActivityKind::Memcpy:
      return writer_.add(copy_record(as<MemcpyActivity>(activity)));
    case ActivityKind::MemcpyPeer:
      return writer_.add(copy_record(as<MemcpyPeerActivity>(activity)));
    case ActivityKind::Memset: {
      const auto& fill = as<MemsetActivity>(activity);
      return writer_.add(MemsetRecord{fill.start, fill.end, fill.bytes, fill.device, fill.stream,
                                      fill.correlation, 0});
    }
    case ActivityKind::Marker: {
      const auto& mark = as<MarkerActivity>(activity);
      const std::uint32_t name = writer_.name(mark.name);
      return writer_.add(MarkerRecord{mark.timestamp, mark.flags, mark.id, name, mark.thread});
    }
    case ActivityKind::Overhead: {
      const auto& lost = as<OverheadActivity>(activity);
      return writer_.add(OverheadRecord{lost.start, lost.end, lost.overhead_kind, lost.thread});
    }
    case ActivityKind::Synchronization: {
      const auto& sync = as<SynchronizationActivity>(activity);
      return writer_.add(
          SyncRecord{sync.start, sync.end, sync.type, sync.correlation, sync.stream, sync.event});
    }
    case ActivityKind::CudaEvent: {
      const auto& event = as<CudaEventActivity>(activity);
      return writer_.add(EventRecord{event.correlation, event.stream, event.event, 0});
    }
  }
  ++losses_["records of kinds that were not asked for"].now;
}

void RecordEncoder::write_kernel(const KernelActivity& kernel) {
  if (kernel.start == 0 || kernel.end < kernel.start) {
    ++losses_["kernels whose times CUPTI does not tell"].now;
    return;
  }
  KernelRecord record{.begin = kernel.start,
                      .end = kernel.end,
                      .name = writer_.name(kernel.name),
                      .device = kernel.device,
                      .stream = kernel.stream,
                      .correlation = kernel.correlation,
                      .grid = {},
                      .block = {},
                      .shared_bytes = static_cast<std::uint32_t>(kernel.static_shared_bytes +
                                                                 kernel.dynamic_shared_bytes),
                      .registers_per_thread = kernel.registers_per_thread};
  for (int i = 0; i < 3; ++i) {
    record.grid[i] = static_cast<std::uint32_t>(kernel.grid[i]);
    record.block[i] = static_cast<std::uint32_t>(kernel.block[i]);
  }
  writer_.add(record);
}

void RecordEncoder::write_call(const ApiActivity& call, CallbackDomain domain) {
  if (call.thread == own_thread_ || call.callback_id >= kMostCallbackIds) return;
  CallName& name = call_name(domain, call.callback_id);
  if (name.is_boring) return;
  if (name.generation != writer_.generation()) {
    name.id = writer_.name(name.text);
    name.generation = writer_.generation();
  }
  writer_.add(CallRecord{call.start, call.end, name.id, call.thread, call.correlation,
                         domain == CallbackDomain::Driver});
}

RecordEncoder::CallName& RecordEncoder::call_name(CallbackDomain domain,
                                                  std::uint32_t callback_id) {
  std::vector<CallName>& names = call_names_[static_cast<std::size_t>(domain)];
  if (names.empty()) names.resize(kMostCallbackIds);
  CallName& name = names[callback_id];
  if (name.text == nullptr) {
    const int result = api_.get_callback_name(domain, callback_id, &name.text);
    if (result != kSuccess || name.text == nullptr) name.text = "call that CUPTI does not name";
    name.is_boring = is_boring_call(name.text);
  }
  return name;
}

void RecordEncoder::skip_boring_calls() {
  const auto skip = [&](CallbackDomain domain, int (*enable)(std::uint32_t, std::uint8_t)) {
    if (enable == nullptr) return;
    for (std::uint32_t id = 1; id < kMostCallbackIds; ++id) {
      if (call_name(domain, id).is_boring) enable(id, 0);
    }
  };
  skip(CallbackDomain::Runtime, api_.enable_runtime_api);
  skip(CallbackDomain::Driver, api_.enable_driver_api);
}

void RecordEncoder::write_losses() {
  for (auto& [what, loss] : losses_) {
    if (std::exchange(loss.written, loss.now) == loss.now) continue;
    const std::uint32_t name = writer_.name(what.c_str());
    writer_.add(LossRecord{loss.now, name, 0});
  }
}

}  // namespace tracecast::traces::cupti
