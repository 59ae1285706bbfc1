#include "hwspecs/gpu_loader.hpp"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hwspecs/proto/gpu_spec.pb.h"
#include "hwspecs/textproto.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {
namespace pb = google::protobuf;

/// What a value may be. Bounds are an order of magnitude beyond any GPU so far: they catch slips of unit.
struct Range {
  std::string_view field;
  double low, high;
};
constexpr Range kRanges[] = {
    {"release_year", 2006, 2100},
    {"process_nm", 1, 100},
    {"sm_count", 1, 4096},
    {"fp32_lanes_per_sm", 8, 1024},
    {"warp_schedulers_per_sm", 1, 32},
    {"max_threads_per_sm", 128, 16384},
    {"max_blocks_per_sm", 1, 512},
    {"warp_size", 8, 128},
    {"registers_per_sm", 4096, 4194304},
    {"shared_memory_per_sm_kib", 8, 8192},
    {"shared_memory_per_block_kib", 8, 8192},
    {"base_clock_mhz", 100, 10000},
    {"boost_clock_mhz", 100, 10000},
    {"application_clock_mhz", 100, 10000},
    {"l2_kib", 32, 4194304},
    {"memory_mib", 64, 16777216},
    {"dram_gb_per_s", 5, 100000},
    {"ecc_bandwidth_fraction", 0.5, 1},
    {"pcie_gb_per_s", 0.2, 2000},
    {"nvlink_gb_per_s", 0, 20000},
    {"tdp_w", 5, 10000},
    {"idle_w", 0.5, 1000},
    {"dies_per_board", 1, 64},
    {"utilization_window_s", 0.01, 10},
};
constexpr double kMostTflops = 1e6;
constexpr double kPeakTolerance = 0.03;  // vendors round to two or three digits

static_assert(static_cast<int>(proto::GpuSpec::BLACKWELL) - 1 ==
              static_cast<int>(Architecture::Blackwell));
static_assert(static_cast<int>(proto::GpuSpec::HBM3E) - 1 == static_cast<int>(MemoryType::Hbm3e));
static_assert(static_cast<int>(proto::GpuSpec::INT8) - 1 == static_cast<int>(Precision::Int8));
static_assert(static_cast<int>(proto::GpuSpec::TENSOR_CORE) - 1 ==
              static_cast<int>(MathUnit::TensorCore));

/// Our enumerators stand in the order of the schema's, which count from 1.
template <typename Enum, typename ProtoEnum>
Enum from_proto(ProtoEnum value) {
  return static_cast<Enum>(static_cast<int>(value) - 1);
}

bool is_id(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

class Loader {
 public:
  Loader(std::string_view text, std::string_view where) : where_(where) {
    parse_textproto(text, where, message_, &lines_);
  }

  GpuSpec load() {
    load_names();
    load_sources();
    load_values();
    load_peaks();
    convert();
    check_consistency();
    return std::move(spec_);
  }

 private:
  [[noreturn]] void refuse(std::string_view field, std::string_view found,
                           std::string_view expected, int index = 0) const {
    const int line =
        lines_.find(message_.GetDescriptor()->FindFieldByName(std::string(field)), index);
    throw InputError(line > 0 ? fmt::format("{}:{}", where_, line) : where_,
                     fmt::format("{}{}{}", field, found.empty() ? "" : " ", found), expected);
  }

  void load_names() {
    if (!message_.has_id()) throw InputError(where_, "no id", "id: \"...\"");
    if (!is_id(message_.id())) {
      refuse("id", fmt::format("\"{}\"", message_.id()),
             "1 to 64 lower-case letters, digits and underscores");
    }
    if (message_.name().empty()) throw InputError(where_, "no name", "name: \"...\"");
    spec_.id = message_.id();
    spec_.name = message_.name();
    for (int i = 0; i < message_.alias_size(); ++i) {
      const std::string& alias = message_.alias(i);
      if (alias.empty() || to_lower(alias) != alias) {
        refuse("alias", fmt::format("\"{}\"", alias), "a word without capital letters", i);
      }
      spec_.aliases.push_back(alias);
    }
  }

  void load_sources() {
    for (int i = 0; i < message_.sources_size(); ++i) {
      const auto& source = message_.sources(i);
      if (source.key().empty() || source.title().empty() || source.where().empty()) {
        refuse("sources", fmt::format("\"{}\" without key, title or where", source.key()),
               "all three", i);
      }
      if (find_source(source.key())) {
        refuse("sources", fmt::format("key \"{}\" a second time", source.key()), "each key once",
               i);
      }
      spec_.sources.push_back({source.key(), source.title(), source.where()});
    }
  }

  [[nodiscard]] bool find_source(std::string_view key) const {
    return std::any_of(spec_.sources.begin(), spec_.sources.end(),
                       [&](const SpecSource& s) { return s.key == key; });
  }

  void check_source(std::string_view field, const std::string& key, int index = 0) const {
    if (find_source(key)) return;
    std::vector<std::string> keys;
    for (const SpecSource& source : spec_.sources) keys.push_back(source.key);
    refuse(field, key.empty() ? "without a source" : fmt::format("with source \"{}\"", key),
           keys.empty() ? "a key of the file's sources, of which there is none"
                        : describe_choices(key, keys),
           index);
  }

  /// Every fact: present, with a value in range and a known source.
  void load_values() {
    const pb::Descriptor* type = message_.GetDescriptor();
    for (int i = 0; i < type->field_count(); ++i) {
      const pb::FieldDescriptor* field = type->field(i);
      if (field->message_type() == nullptr || field->is_repeated()) continue;
      const std::string& name = field->name();
      if (!message_.GetReflection()->HasField(message_, field)) {
        throw InputError(where_, fmt::format("no {}", name),
                         fmt::format("{} {{ value: ... source: \"...\" }}", name));
      }
      const pb::Message& fact = message_.GetReflection()->GetMessage(message_, field);
      const pb::FieldDescriptor* value = fact.GetDescriptor()->FindFieldByName("value");
      const pb::FieldDescriptor* source = fact.GetDescriptor()->FindFieldByName("source");
      if (!fact.GetReflection()->HasField(fact, value)) refuse(name, "without a value", "one");
      const std::string key = fact.GetReflection()->GetString(fact, source);
      check_source(name, key);
      spec_.values.push_back({name, show(fact, value, name), key});
    }
  }

  std::string show(const pb::Message& fact, const pb::FieldDescriptor* value,
                   std::string_view name) const {
    const pb::Reflection& reflection = *fact.GetReflection();
    switch (value->cpp_type()) {
      case pb::FieldDescriptor::CPPTYPE_INT64: {
        const std::int64_t number = reflection.GetInt64(fact, value);
        check_range(name, static_cast<double>(number), fmt::format("{}", number));
        return fmt::format("{}", number);
      }
      case pb::FieldDescriptor::CPPTYPE_DOUBLE: {
        const double number = reflection.GetDouble(fact, value);
        check_range(name, number, fmt::format("{}", number));
        return fmt::format("{}", number);
      }
      case pb::FieldDescriptor::CPPTYPE_BOOL:
        return reflection.GetBool(fact, value) ? "true" : "false";
      case pb::FieldDescriptor::CPPTYPE_ENUM:
        return to_lower(reflection.GetEnum(fact, value)->name());
      default:
        return reflection.GetString(fact, value);
    }
  }

  void check_range(std::string_view field, double value, std::string_view shown) const {
    const auto* const range = std::find_if(std::begin(kRanges), std::end(kRanges),
                                           [&](const Range& r) { return r.field == field; });
    TRACECAST_CHECK(range != std::end(kRanges), "every number of a GPU spec has a range");
    if (value >= range->low && value <= range->high) return;  // NaN fails
    refuse(field, shown, fmt::format("a number from {} to {}", range->low, range->high));
  }

  void load_peaks() {
    for (int i = 0; i < message_.peak_size(); ++i) {
      const auto& peak = message_.peak(i);
      if (!peak.has_precision() || !peak.has_unit() || !peak.has_tflop_per_s()) {
        refuse("peak", "without precision, unit or tflop_per_s", "all three", i);
      }
      const auto precision = from_proto<Precision>(peak.precision());
      const auto unit = from_proto<MathUnit>(peak.unit());
      const std::string name = fmt::format("{} {}", to_string(precision), to_string(unit));
      check_source("peak", peak.source(), i);
      if (!(peak.tflop_per_s() > 0 && peak.tflop_per_s() <= kMostTflops)) {
        refuse("peak", fmt::format("{} {}", name, peak.tflop_per_s()),
               fmt::format("tflop_per_s above 0, at most {}", kMostTflops), i);
      }
      if (spec_.find_peak(precision, unit)) refuse("peak", name + " a second time", "each once", i);
      spec_.peaks.push_back({precision, unit, FlopsPerSecond(peak.tflop_per_s() * 1e12)});
      spec_.values.push_back(
          {fmt::format("peak.{}.{}.tflop_per_s", to_string(precision), to_string(unit)),
           fmt::format("{}", peak.tflop_per_s()), peak.source()});
    }
  }

  void convert() {
    const proto::GpuSpec& m = message_;
    const auto count = [](const proto::GpuSpec::Count& c) { return static_cast<int>(c.value()); };
    const auto mhz = [](const proto::GpuSpec::Count& c) {
      return Hertz(static_cast<double>(c.value()) * 1e6);
    };
    const auto kib = [](const proto::GpuSpec::Count& c) {
      return Bytes(static_cast<double>(c.value()) * 1024.0);
    };
    const auto gb_per_s = [](const proto::GpuSpec::Number& n) {
      return BytesPerSecond(n.value() * 1e9);
    };
    spec_.architecture = from_proto<Architecture>(m.architecture().value());
    spec_.compute_capability = parse_capability(m.compute_capability().value());
    spec_.release_year = count(m.release_year());
    spec_.process_nm = m.process_nm().value();
    spec_.sm_count = count(m.sm_count());
    spec_.fp32_lanes_per_sm = count(m.fp32_lanes_per_sm());
    spec_.warp_schedulers_per_sm = count(m.warp_schedulers_per_sm());
    spec_.max_threads_per_sm = count(m.max_threads_per_sm());
    spec_.max_blocks_per_sm = count(m.max_blocks_per_sm());
    spec_.warp_size = count(m.warp_size());
    spec_.registers_per_sm = count(m.registers_per_sm());
    spec_.shared_memory_per_sm = kib(m.shared_memory_per_sm_kib());
    spec_.shared_memory_per_block = kib(m.shared_memory_per_block_kib());
    spec_.base_clock = mhz(m.base_clock_mhz());
    spec_.boost_clock = mhz(m.boost_clock_mhz());
    spec_.application_clock = mhz(m.application_clock_mhz());
    spec_.l2 = kib(m.l2_kib());
    spec_.memory = 1024.0 * kib(m.memory_mib());
    spec_.memory_type = from_proto<MemoryType>(m.memory_type().value());
    spec_.dram_bandwidth = gb_per_s(m.dram_gb_per_s());
    spec_.ecc_default_on = m.ecc_default_on().value();
    spec_.ecc_bandwidth_fraction = m.ecc_bandwidth_fraction().value();
    spec_.pcie_bandwidth = gb_per_s(m.pcie_gb_per_s());
    spec_.nvlink_bandwidth = gb_per_s(m.nvlink_gb_per_s());
    spec_.tdp = Watts(m.tdp_w().value());
    spec_.idle_power = Watts(m.idle_w().value());
    spec_.dies_per_board = count(m.dies_per_board());
    spec_.has_utilization_window_1s = m.utilization_window_s().value() >= 0.5;
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
    refuse("compute_capability", fmt::format("\"{}\"", text), "major.minor such as \"7.0\"");
  }

  void check_consistency() const {
    const GpuSpec& s = spec_;
    const auto check = [&](bool good, std::string_view field, std::string_view found,
                           std::string_view expected) {
      if (!good) refuse(field, found, expected);
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
    check(s.idle_power < s.tdp, "idle_w", fmt::format("{}", s.idle_power.in_w()),
          fmt::format("less than tdp_w {}", s.tdp.in_w()));
    check_peaks();
  }

  void check_peaks() const {
    const auto fp32 = spec_.find_peak(Precision::Fp32, MathUnit::CudaCore);
    if (!fp32) throw InputError(where_, "no peak of FP32 on CUDA_CORE", "one");
    const double derived =
        spec_.boost_clock.in_si() * spec_.sm_count * spec_.fp32_lanes_per_sm * 2.0 * 1e-12;
    if (std::abs(fp32->in_tflop_per_s() / derived - 1.0) > kPeakTolerance) {
      const auto is_fp32 = [](const PeakRate& p) {
        return p.precision == Precision::Fp32 && p.unit == MathUnit::CudaCore;
      };
      const auto at = std::find_if(spec_.peaks.begin(), spec_.peaks.end(), is_fp32);
      refuse("peak", fmt::format("fp32 cuda_core {} TFLOP/s", fp32->in_tflop_per_s()),
             fmt::format("{:.4g} within 3 %: sm_count x fp32_lanes_per_sm x 2 x boost_clock_mhz",
                         derived),
             static_cast<int>(at - spec_.peaks.begin()));
    }
    for (std::size_t i = 0; i < spec_.peaks.size(); ++i) {
      const PeakRate& peak = spec_.peaks[i];
      if (peak.unit != MathUnit::TensorCore) continue;
      const auto cuda_core = spec_.find_peak(peak.precision, MathUnit::CudaCore);
      if (cuda_core && peak.rate < *cuda_core) {
        refuse("peak",
               fmt::format("{} tensor_core {} TFLOP/s", to_string(peak.precision),
                           peak.rate.in_tflop_per_s()),
               fmt::format("at least the {} of cuda_core", cuda_core->in_tflop_per_s()),
               static_cast<int>(i));
      }
    }
  }

  std::string where_;
  proto::GpuSpec message_;
  TextprotoLines lines_;
  GpuSpec spec_;
};

}  // namespace

GpuSpec load_gpu_spec(std::string_view text, std::string_view where) {
  return Loader(text, where).load();
}

}  // namespace tracecast
