#pragma once
#include <string_view>

#include "hwspecs/loaders/catalog.hpp"
#include "hwspecs/loaders/spec_identity.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

enum class DiskKind { Hdd, SataSsd, NvmeSsd, Network };
[[nodiscard]] std::string_view to_string(DiskKind kind);

/// Public facts about one disk or volume. A DiskSpec that exists is valid.
struct DiskSpec : SpecIdentity {
  DiskKind kind{};
  BytesPerSecond sequential_read{};
  BytesPerSecond sequential_write{};
  Hertz random_read_rate{};  ///< 4 KiB reads a second, with as many in flight as the device wants
  Seconds latency{};         ///< of one small read of an idle device
};

/// Reads and checks one spec in text format (hwspecs/proto/disk_spec.proto). `where` names it in
/// errors. Throws InputError with line or field: bad syntax, a missing value, a value without a
/// source or with an unknown one, out of range, or random reads of 4 KiB that outrun sequential
/// ones by more than a tenth.
[[nodiscard]] DiskSpec load_disk_spec(std::string_view text, std::string_view where);

using DiskCatalog = Catalog<DiskSpec>;

}  // namespace tracecast
