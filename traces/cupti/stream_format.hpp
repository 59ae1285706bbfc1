#pragma once
#include <cstdint>
#include <type_traits>

/// The file that the injected library writes while the program runs: kMagic,
/// then records, each a RecordHead and its payload in the machine's own byte
/// order. Every payload is one of the structs below (NameRecord is followed by
/// its text) and is padded with zeros to a multiple of 8 bytes. A program that
/// is killed leaves a file that ends anywhere: whole records before the end
/// hold. Times are CUPTI's nanoseconds; `name` is the id of a NameRecord
/// further up, 0 = none.
namespace tracecast::traces::cupti {

inline constexpr char kMagic[17] = "tracecast-rec 1\n";
inline constexpr std::uint32_t kMagicBytes = 16;
inline constexpr std::uint32_t kMostPayloadBytes = 1 << 17;
inline constexpr std::uint32_t kMostNameBytes = 1 << 16;

enum class RecordKind : std::uint32_t {
  Process = 1,
  Name,
  Kernel,
  Copy,
  Memset,
  Call,
  Sync,
  EventRecord,
  Marker,
  Overhead,
  Device,
  Loss,
  End,
};
struct RecordHead {
  RecordKind kind;
  std::uint32_t payload_bytes;  ///< without the head, padding included
};

enum class Timing : std::uint32_t { Cupti, Events };

struct ProcessRecord {
  static constexpr RecordKind kKind = RecordKind::Process;
  std::uint64_t begin;
  std::uint32_t pid, cupti_version;
  std::int32_t rank, world_size;  ///< -1 = not told
  Timing timing;
  std::uint32_t refusal;  ///< name of the reason why nothing is recorded
};
struct NameRecord {
  static constexpr RecordKind kKind = RecordKind::Name;
  std::uint32_t id, bytes;  ///< of the text that follows
};
struct KernelRecord {
  static constexpr RecordKind kKind = RecordKind::Kernel;
  std::uint64_t begin, end;
  std::uint32_t name, device, stream, correlation;
  std::uint32_t grid[3], block[3];
  std::uint32_t shared_bytes, registers_per_thread;  ///< 0 = not told
};
struct CopyRecord {
  static constexpr RecordKind kKind = RecordKind::Copy;
  std::uint64_t begin, end, bytes;
  std::uint32_t device, stream, correlation;
  std::uint8_t copy_kind, source_kind, target_kind, unused;  ///< CUPTI's numbers
};
struct MemsetRecord {
  static constexpr RecordKind kKind = RecordKind::Memset;
  std::uint64_t begin, end, bytes;
  std::uint32_t device, stream, correlation, unused;
};
struct CallRecord {
  static constexpr RecordKind kKind = RecordKind::Call;
  std::uint64_t begin, end;
  std::uint32_t name, thread, correlation, is_driver;
};
struct SyncRecord {
  static constexpr RecordKind kKind = RecordKind::Sync;
  std::uint64_t begin, end;
  std::uint32_t type, correlation, stream,
      event;  ///< stream and event: 0xFFFFFFFF = none
};
struct EventRecord {
  static constexpr RecordKind kKind = RecordKind::EventRecord;
  std::uint32_t correlation, stream, event, unused;
};
struct MarkerRecord {
  static constexpr RecordKind kKind = RecordKind::Marker;
  std::uint64_t at;
  std::uint32_t flags, id, name, thread;
};
struct OverheadRecord {
  static constexpr RecordKind kKind = RecordKind::Overhead;
  std::uint64_t begin, end;
  std::uint32_t kind, thread;
};
struct DeviceRecord {
  static constexpr RecordKind kKind = RecordKind::Device;
  std::uint64_t memory_bytes;
  std::int32_t id, compute_major, compute_minor, sm_count;
  std::int32_t warp_size, threads_per_sm, registers_per_sm, shared_bytes_per_sm;
  std::uint32_t name, driver_version;
};
/// What is missing from the recording, in words, and how often so far; the last
/// count of a name holds.
struct LossRecord {
  static constexpr RecordKind kKind = RecordKind::Loss;
  std::uint64_t count;
  std::uint32_t name, unused;
};
struct EndRecord {
  static constexpr RecordKind kKind = RecordKind::End;
  std::uint64_t at;
};

}  // namespace tracecast::traces::cupti
