#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "tools/calibrate/calibrate_measure.hpp"

namespace tracecast {
namespace {

/// Spellings of a device's name from the fullest on: as it is, without the maker, without the
/// family.
std::vector<std::string> spellings(const calibrate::DeviceIdentity& device) {
  constexpr std::array<std::string_view, 5> kPrefixes = {"NVIDIA ", "Tesla ", "GeForce ", "Quadro ",
                                                         "GRID "};
  std::vector<std::string> names = {device.name};
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view prefix : kPrefixes) {
      if (!names.back().starts_with(prefix)) continue;
      names.push_back(names.back().substr(prefix.size()));
      found = true;
    }
  }
  const std::size_t plain = names.size();
  for (std::size_t i = 0; i < plain; ++i) {
    names.push_back(fmt::format("{} {:.0f}GB", names[i], std::ceil(device.memory.in_gib())));
  }
  return names;
}

/// ECC and the driver keep some of a board's memory; boards of one chip differ by more.
constexpr double kMemorySlack = 0.15;

bool fits(const GpuSpec& spec, const calibrate::DeviceIdentity& device) {
  return spec.compute_capability == device.compute_capability && spec.sm_count == device.sm_count &&
         std::abs(device.memory / spec.memory - 1) <= kMemorySlack;
}

}  // namespace

const GpuSpec& find_spec(const GpuCatalog& gpus, const calibrate::DeviceIdentity& device,
                         const std::string& id) {
  const std::string where = id.empty() ? "the GPU \"" + device.name + "\"" : "--spec " + id;
  const std::string what = fmt::format("{} SMs of compute capability {}.{} and {:.1f} GiB",
                                       device.sm_count, device.compute_capability / 10,
                                       device.compute_capability % 10, device.memory.in_gib());
  if (!id.empty()) {
    const GpuSpec& spec = gpus.find(id);
    if (fits(spec, device)) return spec;
    throw InputError(where, fmt::format("the GPU \"{}\" has {}", device.name, what),
                     fmt::format("{} SMs of {}.{} and {:.1f} GiB as {} has", spec.sm_count,
                                 spec.compute_capability / 10, spec.compute_capability % 10,
                                 spec.memory.in_gib(), spec.id));
  }
  const GpuSpec* of_name = nullptr;
  for (const std::string& name : spellings(device)) {
    try {
      const GpuSpec& spec = gpus.find(name);
      if (of_name == nullptr) of_name = &spec;
      if (fits(spec, device)) return spec;
    } catch (const InputError&) {
      continue;  // not a spelling of the catalog's
    }
  }
  throw InputError(where,
                   of_name != nullptr
                       ? fmt::format("{}, while {} has {} and {:.1f} GiB", what, of_name->id,
                                     of_name->sm_count, of_name->memory.in_gib())
                       : "no spec of that name, " + what,
                   "a spec named with --spec, or one added with --hwspecs");
}

Seconds parse_duration(const std::string& text, const std::string& flag) {
  const auto refuse = [&] {
    return InputError(flag, "\"" + text + "\"", "a time from 1s to 24h, such as 90s, 8m or 1h");
  };
  if (text.empty()) throw refuse();
  const double unit = text.back() == 's'   ? 1
                      : text.back() == 'm' ? 60
                      : text.back() == 'h' ? 3600
                                           : 0;
  const auto value = parse_double(std::string_view(text).substr(0, text.size() - 1));
  if (unit == 0 || !value || !(*value * unit >= 1) || *value * unit > 86400) throw refuse();
  return Seconds(*value * unit);
}

}  // namespace tracecast
