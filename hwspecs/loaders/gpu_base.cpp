#include "hwspecs/loaders/gpu_base.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "hwspecs/gpu_spec.hpp"
#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/proto/gpu_spec.pb.h"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

namespace pb = google::protobuf;

constexpr std::size_t kLongestChain = 8;
constexpr std::string_view kBaseField = "base";  ///< of values

/// An own value of the first leaves the base's values of the others behind.
struct Bond {
  const char* own;
  const char* left_behind;
};
constexpr std::array<Bond, 6> kBonds = {{{"dram_gb_per_s", "memory_clock_mhz"},
                                         {"dram_gb_per_s", "compute_memory_clock_mhz"},
                                         {"memory_type", "memory_clock_mhz"},
                                         {"memory_type", "compute_memory_clock_mhz"},
                                         {"tdp_w", "power_limit_min_w"},
                                         {"tdp_w", "power_limit_max_w"}}};
/// What the die decides.
constexpr std::array<const char*, 5> kOfTheDie = {"architecture", "compute_capability",
                                                  "process_nm", "fp32_lanes_per_sm",
                                                  "warp_schedulers_per_sm"};

bool has(const proto::GpuSpec& message, const char* field) {
  return message.GetReflection()->HasField(message,
                                           message.GetDescriptor()->FindFieldByName(field));
}

std::string name_of(const proto::GpuSpec::Peak& peak) {
  return to_lower(proto::GpuSpec::Precision_Name(peak.precision())) + ' ' +
         to_lower(proto::GpuSpec::Unit_Name(peak.unit()));
}

/// Multiply-adds per second of all lanes, which every peak is in proportion to.
double lanes_rate(const proto::GpuSpec& m) {
  return static_cast<double>(m.sm_count().value()) *
         static_cast<double>(m.fp32_lanes_per_sm().value()) *
         static_cast<double>(m.boost_clock_mhz().value());
}

constexpr char kOwner = '/';  ///< stands between the id of a base and the key of a source of its

/// Takes over what one completed base has.
class Heir {
 public:
  Heir(proto::GpuSpec& message, std::string_view where, const proto::GpuSpec& base)
      : message_(message), where_(where), base_(base) {}

  void take_over() {
    check_die();
    take_facts();
    take_peaks();
    if (!message_.has_chip()) message_.set_chip(base_.chip());
    take_sources();
  }

 private:
  void check_die() const {
    if (message_.has_chip()) return;
    for (const char* field : kOfTheDie) {
      if (has(message_, field)) {
        throw InputError(where_, fmt::format("{} beside the chip of {}", field, base_.id()),
                         "chip: \"...\" as well, for the die decides it");
      }
    }
  }

  void take_facts() {
    const pb::Descriptor* type = message_.GetDescriptor();
    const pb::Reflection& reflection = *message_.GetReflection();
    std::vector<const pb::FieldDescriptor*> taken;  // decided before any is: bonds ask what is own
    for (int i = 0; i < type->field_count(); ++i) {
      const pb::FieldDescriptor* field = type->field(i);
      if (field->message_type() == nullptr || field->is_repeated()) continue;
      if (reflection.HasField(message_, field) || !reflection.HasField(base_, field)) continue;
      const bool is_left = std::any_of(kBonds.begin(), kBonds.end(), [&](const Bond& bond) {
        return field->name() == bond.left_behind && has(message_, bond.own);
      });
      if (!is_left) taken.push_back(field);
    }
    for (const pb::FieldDescriptor* field : taken) {
      pb::Message* fact = reflection.MutableMessage(&message_, field);
      fact->CopyFrom(reflection.GetMessage(base_, field));
      const pb::FieldDescriptor* source = fact->GetDescriptor()->FindFieldByName("source");
      const std::string key = fact->GetReflection()->GetString(*fact, source);
      fact->GetReflection()->SetString(fact, source, inherited_key(key));
    }
  }

  void take_peaks() {
    const int own = message_.peak_size();
    const bool same_rate =
        std::abs(lanes_rate(message_) - lanes_rate(base_)) <= 1e-9 * std::abs(lanes_rate(base_));
    for (const proto::GpuSpec::Peak& peak : base_.peak()) {
      const auto first = message_.peak().begin();
      if (std::any_of(first, first + own, [&](const proto::GpuSpec::Peak& p) {
            return p.precision() == peak.precision() && p.unit() == peak.unit();
          }))
        continue;
      if (!same_rate) {
        throw InputError(where_,
                         fmt::format("the peak {} of {}, which has another sm_count, "
                                     "fp32_lanes_per_sm or boost_clock_mhz",
                                     name_of(peak), base_.id()),
                         "a peak of its own, as of every precision and unit");
      }
      proto::GpuSpec::Peak* taken = message_.add_peak();
      *taken = peak;
      taken->set_source(inherited_key(peak.source()));
    }
  }

  /// The key under which a source of the base's is known here.
  std::string inherited_key(const std::string& key) {
    std::string known = key.find(kOwner) == key.npos ? base_.id() + kOwner + key : key;
    taken_.insert(known);
    return known;
  }

  /// Of the values taken over alone.
  void take_sources() {
    for (const proto::Source& source : base_.sources()) {
      const std::string& key = source.key();
      const std::string known = key.find(kOwner) == key.npos ? base_.id() + kOwner + key : key;
      if (!taken_.contains(known)) continue;
      proto::Source* taken = message_.add_sources();
      *taken = source;
      taken->set_key(known);
    }
  }

  proto::GpuSpec& message_;
  std::string_view where_;
  const proto::GpuSpec& base_;
  std::set<std::string, std::less<>> taken_;
};

void check_own_keys(const proto::GpuSpec& message, std::string_view where) {
  for (const proto::Source& source : message.sources()) {
    if (source.key().find(kOwner) == std::string::npos) continue;
    throw InputError(where, fmt::format("sources key \"{}\"", source.key()),
                     "a key without '/', which is for those of a base");
  }
}

std::vector<SpecBase> inherit_along(proto::GpuSpec& message, std::string_view where,
                                    const FindSpecText& find, std::vector<std::string>& chain) {
  check_own_keys(message, where);
  if (!message.has_base()) return {};
  const std::string id = message.base();
  chain.push_back(message.id());
  const std::string found = fmt::format("base \"{}\"", id);
  if (std::find(chain.begin(), chain.end(), id) != chain.end()) {
    throw InputError(where,
                     fmt::format("{} in a circle: {} -> {}", found, fmt::join(chain, " -> "), id),
                     "bases that end with a spec without one");
  }
  if (chain.size() > kLongestChain) {
    throw InputError(where, found, fmt::format("a chain of at most {} bases", kLongestChain));
  }
  const auto text = find ? find(id) : std::nullopt;
  if (!text) throw InputError(where, found, "the id of a GPU that has a spec (tracecast gpus)");
  proto::GpuSpec base;
  parse_textproto(text->text, text->where, base);
  std::vector<SpecBase> bases{{base.id(), base.name()}};
  const std::vector<SpecBase> theirs = inherit_along(base, text->where, find, chain);
  bases.insert(bases.end(), theirs.begin(), theirs.end());
  Heir(message, where, base).take_over();
  return bases;
}

}  // namespace

std::vector<SpecBase> inherit(proto::GpuSpec& message, std::string_view where,
                              const FindSpecText& find) {
  std::vector<std::string> chain;
  return inherit_along(message, where, find, chain);
}

std::vector<SpecBase> bases_of(const SpecIdentity& spec) {
  std::vector<SpecBase> bases;
  for (const SpecValue& value : spec.values) {
    if (value.field != kBaseField) continue;
    const auto source = std::find_if(spec.sources.begin(), spec.sources.end(),
                                     [&](const SpecSource& s) { return s.key == value.source; });
    TRACECAST_CHECK(source != spec.sources.end(), "every base is a source");
    bases.push_back({value.value, source->title});
  }
  return bases;
}

std::string_view inherited_from(const SpecValue& value) {
  const std::size_t end = value.source.find(kOwner);
  if (end == std::string::npos || value.field == kBaseField) return {};
  return std::string_view(value.source).substr(0, end);
}

}  // namespace tracecast
