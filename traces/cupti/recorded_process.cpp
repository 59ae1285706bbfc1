#include "traces/cupti/recorded_process.hpp"

#include <algorithm>

#include "traces/cupti/stream_reader.hpp"

namespace tracecast::traces::cupti {

RecordedProcess scan_stream(const std::filesystem::path& stream_file) {
  RecordedProcess process;
  process.stream_file = stream_file;
  process.is_cut_short = true;
  std::unordered_map<std::uint32_t, std::string> names;
  const auto small = [](std::int32_t value) {
    return value >= 0 ? std::optional<std::int64_t>(value) : std::nullopt;
  };
  for (StreamReader reader(stream_file); reader.next();) {
    switch (reader.kind()) {
      case RecordKind::Process: {
        const auto record = reader.as<ProcessRecord>();
        process.pid = record.pid;
        process.cupti_version = record.cupti_version;
        process.begin_ns = record.begin;
        process.rank = small(record.rank);
        process.world_size = small(record.world_size);
        process.is_by_events = record.timing == Timing::Events;
        if (record.refusal != 0) process.refusal = names[record.refusal];
        break;
      }
      case RecordKind::Name:
        names[reader.as<NameRecord>().id] = reader.text();
        break;
      case RecordKind::Kernel:
        ++process.kernels;
        break;
      case RecordKind::Copy:
        ++process.copies;
        break;
      case RecordKind::Memset:
        ++process.memsets;
        break;
      case RecordKind::Call:
        ++process.calls;
        break;
      case RecordKind::EventRecord: {
        const auto use = reader.as<EventRecord>();
        process.event_uses[use.event].push_back({use.correlation, use.stream});
        break;
      }
      case RecordKind::Loss: {
        const auto loss = reader.as<LossRecord>();
        process.losses[names[loss.name]] = loss.count;
        break;
      }
      case RecordKind::End:
        process.is_cut_short = false;
        break;
      default:
        break;
    }
  }
  for (auto& [event, uses] : process.event_uses) {
    std::sort(uses.begin(), uses.end(),
              [](const auto& a, const auto& b) { return a.correlation < b.correlation; });
  }
  return process;
}

}  // namespace tracecast::traces::cupti
