#include "traces/cupti/stream_reader.hpp"

#include <cerrno>
#include <cstring>

#include "sim/base/error.hpp"

namespace tracecast::traces::cupti {
namespace {

/// Payload bytes of a record, 0 for an unknown kind; a name's text comes on
/// top.
std::size_t size_of(RecordKind kind) {
  switch (kind) {
    case RecordKind::Process:
      return sizeof(ProcessRecord);
    case RecordKind::Name:
      return sizeof(NameRecord);
    case RecordKind::Kernel:
      return sizeof(KernelRecord);
    case RecordKind::Copy:
      return sizeof(CopyRecord);
    case RecordKind::Memset:
      return sizeof(MemsetRecord);
    case RecordKind::Call:
      return sizeof(CallRecord);
    case RecordKind::Sync:
      return sizeof(SyncRecord);
    case RecordKind::EventRecord:
      return sizeof(EventRecord);
    case RecordKind::Marker:
      return sizeof(MarkerRecord);
    case RecordKind::Overhead:
      return sizeof(OverheadRecord);
    case RecordKind::Device:
      return sizeof(DeviceRecord);
    case RecordKind::Loss:
      return sizeof(LossRecord);
    case RecordKind::End:
      return sizeof(EndRecord);
  }
  return 0;
}

}  // namespace

StreamReader::StreamReader(const std::filesystem::path& path)
    : path_(path), file_(path, std::ios::binary) {
  char magic[kMagicBytes];
  if (!file_) throw InputError(path.string(), std::strerror(errno), "a recorder's stream");
  if (!file_.read(magic, kMagicBytes) || std::memcmp(magic, kMagic, kMagicBytes) != 0) {
    throw InputError(path.string(), "no stream of the recorder", "\"tracecast-rec 1\" first");
  }
}

void StreamReader::refuse(const std::string& found) const {
  throw InputError(path_.string() + ", byte " + std::to_string(offset_), found,
                   "a record of the recorder");
}

bool StreamReader::next() {
  if (head_.payload_bytes != 0) offset_ += sizeof head_ + head_.payload_bytes;
  if (!file_.read(reinterpret_cast<char*>(&head_), sizeof head_)) return false;
  const std::size_t least = size_of(head_.kind);
  if (least == 0) refuse("record kind " + std::to_string(static_cast<std::uint32_t>(head_.kind)));
  const bool is_name = head_.kind == RecordKind::Name;
  if (head_.payload_bytes < least || head_.payload_bytes > kMostPayloadBytes ||
      (!is_name && head_.payload_bytes != least)) {
    refuse("a record of " + std::to_string(head_.payload_bytes) + " bytes");
  }
  payload_.resize(head_.payload_bytes);
  if (!file_.read(payload_.data(), static_cast<std::streamsize>(payload_.size()))) return false;
  if (is_name && as<NameRecord>().bytes > head_.payload_bytes - sizeof(NameRecord)) {
    refuse("a name of " + std::to_string(as<NameRecord>().bytes) + " bytes");
  }
  return true;
}

}  // namespace tracecast::traces::cupti
