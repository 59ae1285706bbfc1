#include "hwspecs/loaders/cpu_loader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>

#include "hwspecs/loaders/proto_units.hpp"
#include "hwspecs/loaders/spec_reader.hpp"
#include "hwspecs/proto/cpu_spec.pb.h"

namespace tracecast {
namespace {

/// A buffered POWER9 channel carries 29 GB/s, DDR5-6400 51.
constexpr double kMostGbPerSOfChannel = 60;

static_assert(static_cast<int>(proto::CpuSpec::SVE) - 1 == static_cast<int>(VectorIsa::Sve));

void convert(const proto::CpuSpec& m, CpuSpec& spec) {
  spec.microarchitecture = m.microarchitecture().value();
  spec.release_year = to_int(m.release_year());
  spec.cores = to_int(m.cores());
  spec.threads = to_int(m.threads());
  spec.base_clock = from_mhz(m.base_clock_mhz());
  spec.turbo_clock = from_mhz(m.turbo_clock_mhz());
  spec.all_core_clock = from_mhz(m.all_core_clock_mhz());
  spec.vector_clock = from_mhz(m.vector_clock_mhz());
  spec.single_thread_ipc = m.single_thread_ipc().value();
  spec.vector_isa = from_proto<VectorIsa>(m.vector_isa().value());
  spec.fp32_flop_per_cycle = to_int(m.fp32_flop_per_cycle());
  spec.bf16_flop_per_cycle = to_int(m.bf16_flop_per_cycle());
  spec.int8_op_per_cycle = to_int(m.int8_op_per_cycle());
  spec.l1d = from_kib(m.l1d_kib());
  spec.l2 = from_kib(m.l2_kib());
  spec.l3 = from_kib(m.l3_kib());
  spec.memory_channels = to_int(m.memory_channels());
  spec.memory_bandwidth = from_gb_per_s(m.memory_gb_per_s());
  spec.max_memory = from_gib(m.max_memory_gib());
  spec.pcie_generation = to_int(m.pcie_generation());
  spec.pcie_lanes = to_int(m.pcie_lanes());
  spec.tdp = from_w(m.tdp_w());
}

void check_clock(const SpecReader& reader, std::string_view field, Hertz clock,
                 std::string_view limit_field, Hertz limit) {
  reader.check(clock <= limit, field, fmt::format("{}", clock.in_mhz()),
               fmt::format("at most {} {}", limit_field, limit.in_mhz()));
}

/// Of a core and cycle: lanes x units, a multiply-add being two.
std::span<const int> possible_flop(VectorIsa isa) {
  static constexpr std::array<int, 1> kSse4 = {8};
  static constexpr std::array<int, 1> kFourLanes = {16};
  static constexpr std::array<int, 3> kX86 = {16, 32, 64};
  static constexpr std::array<int, 3> kNeon = {8, 16, 32};     // one to four units of four lanes
  static constexpr std::array<int, 4> kSve = {8, 16, 32, 64};  // 128 to 512 bits
  switch (isa) {
    case VectorIsa::Sse4:
      return kSse4;
    case VectorIsa::Avx:
    case VectorIsa::Vsx:
      return kFourLanes;
    case VectorIsa::Avx2:
    case VectorIsa::Avx512:
      return kX86;
    case VectorIsa::Neon:
      return kNeon;
    case VectorIsa::Sve:
      return kSve;
  }
  return {};
}

void check_consistency(const SpecReader& reader, const CpuSpec& s) {
  reader.check(s.threads % s.cores == 0, "threads", fmt::format("{}", s.threads),
               fmt::format("a multiple of cores {}", s.cores));
  check_clock(reader, "base_clock_mhz", s.base_clock, "all_core_clock_mhz", s.all_core_clock);
  check_clock(reader, "all_core_clock_mhz", s.all_core_clock, "turbo_clock_mhz", s.turbo_clock);
  check_clock(reader, "vector_clock_mhz", s.vector_clock, "all_core_clock_mhz", s.all_core_clock);
  const int flop = s.fp32_flop_per_cycle;
  const auto possible = possible_flop(s.vector_isa);
  reader.check(std::find(possible.begin(), possible.end(), flop) != possible.end(),
               "fp32_flop_per_cycle", fmt::format("{}", flop),
               fmt::format("{} with {}", fmt::join(possible, " or "), to_string(s.vector_isa)));
  const double gb_per_s = s.memory_bandwidth.in_gb_per_s();
  reader.check(gb_per_s <= kMostGbPerSOfChannel * s.memory_channels, "memory_gb_per_s",
               fmt::format("{}", gb_per_s),
               fmt::format("at most {} for each of {} memory_channels", kMostGbPerSOfChannel,
                           s.memory_channels));
}

}  // namespace

CpuSpec load_cpu_spec(std::string_view text, std::string_view where) {
  proto::CpuSpec message;
  CpuSpec spec;
  const SpecReader reader(text, where, {}, message, spec);
  convert(message, spec);
  check_consistency(reader, spec);
  return spec;
}

}  // namespace tracecast
