#include "hwspecs/loaders/gpu_loader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hwspecs/loaders/gpu_base.hpp"
#include "hwspecs/loaders/proto_units.hpp"
#include "hwspecs/loaders/spec_reader.hpp"
#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/proto/gpu_spec.pb.h"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

/// Facts that may be left out.
constexpr std::string_view kGpuOptional[] = {"power_limit_min_w", "power_limit_max_w",
                                             "memory_clock_mhz", "compute_memory_clock_mhz",
                                             "form_factor"};
constexpr double kMostTflops = 1e6;
constexpr double kPeakTolerance = 0.03;  // vendors round to two or three digits

static_assert(static_cast<int>(proto::GpuSpec::BLACKWELL) - 1 ==
              static_cast<int>(Architecture::Blackwell));
static_assert(static_cast<int>(proto::GpuSpec::GDDR7) - 1 == static_cast<int>(MemoryType::Gddr7));
static_assert(static_cast<int>(proto::FormFactor::SUPERCHIP) - 1 ==
              static_cast<int>(FormFactor::Superchip));
static_assert(static_cast<int>(proto::GpuSpec::FP4) - 1 == static_cast<int>(Precision::Fp4));
static_assert(static_cast<int>(proto::GpuSpec::TENSOR_CORE) - 1 ==
              static_cast<int>(MathUnit::TensorCore));

class GpuLoader {
 public:
  GpuLoader(std::string_view text, std::string_view where, const FindSpecText& find)
      : reader_(text, where, kGpuOptional, message_, spec_,
                [&] { bases_ = inherit(message_, where, find); }) {}

  GpuSpec load() {
    load_peaks();
    name_bases();
    convert();
    check_consistency();
    return std::move(spec_);
  }

 private:
  void load_peaks() {
    for (int i = 0; i < message_.peak_size(); ++i) {
      const auto& peak = message_.peak(i);
      if (!peak.has_precision() || !peak.has_unit() || !peak.has_tflop_per_s()) {
        reader_.refuse("peak", "without precision, unit or tflop_per_s", "all three", i);
      }
      const auto precision = from_proto<Precision>(peak.precision());
      const auto unit = from_proto<MathUnit>(peak.unit());
      const std::string name = fmt::format("{} {}", to_string(precision), to_string(unit));
      reader_.check_source("peak", peak.source(), i);
      if (!(peak.tflop_per_s() > 0 && peak.tflop_per_s() <= kMostTflops)) {
        reader_.refuse("peak", fmt::format("{} {}", name, peak.tflop_per_s()),
                       fmt::format("tflop_per_s above 0, at most {}", kMostTflops), i);
      }
      if (spec_.find_peak(precision, unit))
        reader_.refuse("peak", name + " a second time", "each once", i);
      spec_.peaks.push_back({precision, unit, FlopsPerSecond(peak.tflop_per_s() * 1e12)});
      spec_.values.push_back(
          {fmt::format("peak.{}.{}.tflop_per_s", to_string(precision), to_string(unit)),
           fmt::format("{}", peak.tflop_per_s()), peak.source()});
    }
  }

  /// Each base is a value of the file, whose source is that base's spec.
  void name_bases() {
    std::size_t at = 0;
    for (const SpecBase& base : bases_) {
      const std::string key = base.id + "/";
      spec_.sources.push_back(
          {key, base.name,
           fmt::format("spec {}: values that stand where none is stated", base.id)});
      spec_.values.insert(spec_.values.begin() + static_cast<std::ptrdiff_t>(at++),
                          {"base", base.id, key});
    }
  }

  void convert() {
    const proto::GpuSpec& m = message_;
    spec_.architecture = from_proto<Architecture>(m.architecture().value());
    spec_.chip = m.chip();
    if (spec_.chip.empty() || spec_.chip.size() > 16)
      reader_.refuse("chip", fmt::format("\"{}\"", spec_.chip), "the die's name, such as GV100");
    spec_.compute_capability = parse_capability(m.compute_capability().value());
    spec_.release_year = to_int(m.release_year());
    spec_.process_nm = m.process_nm().value();
    spec_.sm_count = to_int(m.sm_count());
    spec_.fp32_lanes_per_sm = to_int(m.fp32_lanes_per_sm());
    spec_.warp_schedulers_per_sm = to_int(m.warp_schedulers_per_sm());
    spec_.max_threads_per_sm = to_int(m.max_threads_per_sm());
    spec_.max_blocks_per_sm = to_int(m.max_blocks_per_sm());
    spec_.warp_size = to_int(m.warp_size());
    spec_.registers_per_sm = to_int(m.registers_per_sm());
    spec_.shared_memory_per_sm = from_kib(m.shared_memory_per_sm_kib());
    spec_.shared_memory_per_block = from_kib(m.shared_memory_per_block_kib());
    spec_.base_clock = from_mhz(m.base_clock_mhz());
    spec_.boost_clock = from_mhz(m.boost_clock_mhz());
    spec_.application_clock = from_mhz(m.application_clock_mhz());
    spec_.l2 = from_kib(m.l2_kib());
    spec_.memory = from_mib(m.memory_mib());
    spec_.memory_type = from_proto<MemoryType>(m.memory_type().value());
    spec_.dram_bandwidth = from_gb_per_s(m.dram_gb_per_s());
    spec_.ecc_default_on = m.ecc_default_on().value();
    spec_.ecc_bandwidth_fraction = m.ecc_bandwidth_fraction().value();
    spec_.pcie_bandwidth = from_gb_per_s(m.pcie_gb_per_s());
    spec_.nvlink_bandwidth = from_gb_per_s(m.nvlink_gb_per_s());
    spec_.tdp = spec_.rated_power = from_w(m.tdp_w());
    spec_.idle_power = from_w(m.idle_w());
    if (m.has_power_limit_min_w()) spec_.min_power_limit = from_w(m.power_limit_min_w());
    if (m.has_power_limit_max_w()) spec_.max_power_limit = from_w(m.power_limit_max_w());
    if (m.has_memory_clock_mhz()) spec_.memory_clock = from_mhz(m.memory_clock_mhz());
    if (m.has_compute_memory_clock_mhz()) hold_memory(from_mhz(m.compute_memory_clock_mhz()));
    spec_.dies_per_board = to_int(m.dies_per_board());
    if (m.has_form_factor()) spec_.form_factor = from_proto<FormFactor>(m.form_factor().value());
    spec_.has_utilization_window_1s = m.utilization_window_s().value() >= 0.5;
  }

  /// CUDA programs run in a performance state below the highest, where memory is slower.
  void hold_memory(Hertz clock) {
    reader_.check(spec_.memory_clock && clock <= *spec_.memory_clock, "compute_memory_clock_mhz",
                  fmt::format("{}", clock.in_mhz()), "memory_clock_mhz stated, and at most that");
    spec_.dram_bandwidth = spec_.dram_bandwidth * (clock / *spec_.memory_clock);
    spec_.memory_clock = clock;
  }

  /// "7.0" to 70.
  int parse_capability(std::string_view text) const {
    const std::size_t dot = text.find('.');
    if (dot != text.npos && dot + 2 == text.size()) {
      const auto major = parse_integer(text.substr(0, dot));
      const auto minor = parse_integer(text.substr(dot + 1));
      if (major && minor && *major >= 2 && *major <= 99 && *minor >= 0) {
        return static_cast<int>(*major * 10 + *minor);
      }
    }
    reader_.refuse("compute_capability", fmt::format("\"{}\"", text),
                   "major.minor such as \"7.0\"");
  }

  void check_consistency() const {
    const GpuSpec& s = spec_;
    const auto check = [&](bool good, std::string_view field, std::string_view found,
                           std::string_view expected) {
      reader_.check(good, field, found, expected);
    };
    check(s.max_threads_per_sm % s.warp_size == 0, "max_threads_per_sm",
          fmt::format("{}", s.max_threads_per_sm),
          fmt::format("a multiple of warp_size {}", s.warp_size));
    check(s.fp32_lanes_per_sm % s.warp_schedulers_per_sm == 0, "fp32_lanes_per_sm",
          fmt::format("{}", s.fp32_lanes_per_sm),
          fmt::format("a multiple of warp_schedulers_per_sm {}", s.warp_schedulers_per_sm));
    check(s.shared_memory_per_block <= s.shared_memory_per_sm, "shared_memory_per_block_kib",
          fmt::format("{}", s.shared_memory_per_block.in_bytes() / 1024),
          fmt::format("at most shared_memory_per_sm_kib {}",
                      s.shared_memory_per_sm.in_bytes() / 1024));
    for (const auto& [field, clock] : {std::pair{"base_clock_mhz", s.base_clock},
                                       std::pair{"application_clock_mhz", s.application_clock}}) {
      check(clock <= s.boost_clock, field, fmt::format("{}", clock.in_mhz()),
            fmt::format("at most boost_clock_mhz {}", s.boost_clock.in_mhz()));
    }
    check(s.min_power_limit.value_or(s.tdp) <= s.tdp, "power_limit_min_w",
          fmt::format("{}", s.min_power_limit.value_or(s.tdp).in_w()),
          fmt::format("at most tdp_w {}", s.tdp.in_w()));
    check(s.max_power_limit.value_or(s.tdp) >= s.tdp, "power_limit_max_w",
          fmt::format("{}", s.max_power_limit.value_or(s.tdp).in_w()),
          fmt::format("at least tdp_w {}", s.tdp.in_w()));
    check(s.idle_power < s.tdp, "idle_w", fmt::format("{}", s.idle_power.in_w()),
          fmt::format("less than tdp_w {}", s.tdp.in_w()));
    check(s.form_factor == FormFactor::Pcie || s.nvlink_bandwidth > BytesPerSecond(0),
          "form_factor", fmt::format("{} without NVLink", to_string(s.form_factor)),
          "nvlink_gb_per_s above 0: modules have NVLinks");
    check_peaks();
  }

  void check_peaks() const {
    const auto fp32 = spec_.find_peak(Precision::Fp32, MathUnit::CudaCore);
    if (!fp32) throw InputError(reader_.where(), "no peak of FP32 on CUDA_CORE", "one");
    const double derived =
        spec_.boost_clock.in_si() * spec_.sm_count * spec_.fp32_lanes_per_sm * 2.0 * 1e-12;
    if (std::abs(fp32->in_tflop_per_s() / derived - 1.0) > kPeakTolerance) {
      const auto is_fp32 = [](const PeakRate& p) {
        return p.precision == Precision::Fp32 && p.unit == MathUnit::CudaCore;
      };
      const auto at = std::find_if(spec_.peaks.begin(), spec_.peaks.end(), is_fp32);
      reader_.refuse(
          "peak", fmt::format("fp32 cuda_core {} TFLOP/s", fp32->in_tflop_per_s()),
          fmt::format("{:.4g} within 3 %: sm_count x fp32_lanes_per_sm x 2 x boost_clock_mhz",
                      derived),
          static_cast<int>(at - spec_.peaks.begin()));
    }
    for (std::size_t i = 0; i < spec_.peaks.size(); ++i) {
      const PeakRate& peak = spec_.peaks[i];
      if (peak.unit != MathUnit::TensorCore) continue;
      const auto cuda_core = spec_.find_peak(peak.precision, MathUnit::CudaCore);
      if (cuda_core && peak.rate < *cuda_core) {
        reader_.refuse("peak",
                       fmt::format("{} tensor_core {} TFLOP/s", to_string(peak.precision),
                                   peak.rate.in_tflop_per_s()),
                       fmt::format("at least the {} of cuda_core", cuda_core->in_tflop_per_s()),
                       static_cast<int>(i));
      }
    }
  }

  proto::GpuSpec message_;
  GpuSpec spec_;
  std::vector<SpecBase> bases_;
  SpecReader reader_;
};

}  // namespace

GpuSpec load_gpu_spec(std::string_view text, std::string_view where) {
  return load_gpu_spec(text, where, {});
}

GpuSpec load_gpu_spec(std::string_view text, std::string_view where, const FindSpecText& find) {
  return GpuLoader(text, where, find).load();
}

GpuNames read_gpu_names(std::string_view text, std::string_view where) {
  proto::GpuSpec message;
  parse_textproto(text, where, message);
  return {.id = message.id(),
          .name = message.name(),
          .aliases = {message.alias().begin(), message.alias().end()}};
}

}  // namespace tracecast
