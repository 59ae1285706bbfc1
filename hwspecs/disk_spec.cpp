#include "hwspecs/disk_spec.hpp"

#include <fmt/format.h>

#include "hwspecs/loaders/proto_units.hpp"
#include "hwspecs/loaders/spec_reader.hpp"
#include "hwspecs/proto/disk_spec.pb.h"

namespace tracecast {
namespace {

static_assert(static_cast<int>(proto::DiskSpec::NETWORK) - 1 ==
              static_cast<int>(DiskKind::Network));

BytesPerSecond from_mb_per_s(const proto::Number& n) { return BytesPerSecond(n.value() * 1e6); }

}  // namespace

std::string_view to_string(DiskKind kind) {
  switch (kind) {
    case DiskKind::Hdd:
      return "hdd";
    case DiskKind::SataSsd:
      return "sata_ssd";
    case DiskKind::NvmeSsd:
      return "nvme_ssd";
    case DiskKind::Network:
      return "network";
  }
  return "unknown";
}

DiskSpec load_disk_spec(std::string_view text, std::string_view where) {
  proto::DiskSpec message;
  DiskSpec spec;
  const SpecReader reader(text, where, {}, message, spec);
  spec.kind = from_proto<DiskKind>(message.kind().value());
  spec.sequential_read = from_mb_per_s(message.sequential_read_mb_per_s());
  spec.sequential_write = from_mb_per_s(message.sequential_write_mb_per_s());
  spec.random_read_rate = Hertz(message.random_read_iops().value());
  spec.latency = from_us(message.latency_us());
  const double most = spec.sequential_read.in_si() / 4096 * 1.1;
  reader.check(spec.random_read_rate.in_si() <= most, "random_read_iops",
               fmt::format("{}", spec.random_read_rate.in_si()),
               fmt::format("at most {:.0f}: 4 KiB each within sequential_read_mb_per_s", most));
  return spec;
}

}  // namespace tracecast
