#include "sim/job/hardware_factor.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

constexpr double kLeastFactor = 1e-3, kMostFactor = 1e3;

using OfKind = bool (*)(LinkKind);

constexpr bool any_link(LinkKind) { return true; }
constexpr bool is_nvlink(LinkKind kind) { return kind == LinkKind::Nvlink; }
/// What a GPU has of its host's, whatever carries it.
constexpr bool is_pcie(LinkKind kind) {
  return kind == LinkKind::Pcie || kind == LinkKind::C2c || kind == LinkKind::Socket;
}
constexpr bool is_network(LinkKind kind) {
  return kind == LinkKind::Ethernet || kind == LinkKind::Infiniband || kind == LinkKind::Ipoib;
}

/// What a factor makes of specs and of the cost profile; nothing where it leaves them as they are.
struct HardwareFactor {
  std::string_view path;
  GpuSpec (*of_gpu)(GpuSpec gpu, double factor);
  LinkSpec (*of_link)(LinkSpec link, double factor);
  CostProfile (*of_cost)(CostProfile cost, double factor) = nullptr;
};

GpuSpec with_memory(GpuSpec gpu, double factor) {
  gpu.dram_bandwidth = gpu.dram_bandwidth * factor;
  return gpu;
}

/// Memory of more bandwidth takes as much less energy per byte: at its full rate it draws what it
/// drew, and leaves as much of a power limit to the chip.
CostProfile with_memory_energy(CostProfile cost, double factor) {
  PowerParameters& power = cost.power;
  for (double* pj : {&power.hbm_pj_per_byte, &power.gddr_pj_per_byte,
                     &power.gddr_active_idle_pj_per_byte, &power.hbm_active_idle_pj_per_byte,
                     &cost.tensor_gemm.hbm_pj_per_byte, &cost.tensor_gemm.gddr_pj_per_byte})
    *pj /= factor;
  return cost;
}

/// A finer process takes as much less energy per operation.
GpuSpec with_compute(GpuSpec gpu, double factor) {
  for (PeakRate& peak : gpu.peaks) peak.rate = peak.rate * factor;
  gpu.process_nm /= factor;
  return gpu;
}

/// What a card itself can do is its spec's.
template <OfKind Counts>
GpuSpec with_ports(GpuSpec gpu, double factor) {
  if (Counts(LinkKind::Pcie)) gpu.pcie_bandwidth = gpu.pcie_bandwidth * factor;
  if (Counts(LinkKind::Nvlink)) gpu.nvlink_bandwidth = gpu.nvlink_bandwidth * factor;
  return gpu;
}

template <OfKind Counts>
LinkSpec with_bandwidth(LinkSpec link, double factor) {
  if (Counts(link.kind)) link.bandwidth = link.bandwidth * factor;
  return link;
}

LinkSpec with_latency(LinkSpec link, double factor) {
  link.latency = link.latency * factor;
  return link;
}

constexpr std::array<HardwareFactor, 7> kFactors{{
    {"gpu.memory_bandwidth", with_memory, nullptr, with_memory_energy},
    {"gpu.compute", with_compute, nullptr},
    {"link.bandwidth", with_ports<any_link>, with_bandwidth<any_link>},
    {"nvlink.bandwidth", with_ports<is_nvlink>, with_bandwidth<is_nvlink>},
    {"pcie.bandwidth", with_ports<is_pcie>, with_bandwidth<is_pcie>},
    {"network.bandwidth", with_ports<is_network>, with_bandwidth<is_network>},
    {"link.latency", nullptr, with_latency},
}};

const HardwareFactor& find_factor(const std::string& path) {
  const auto* known = std::find_if(kFactors.begin(), kFactors.end(),
                                   [&](const HardwareFactor& f) { return f.path == path; });
  if (known != kFactors.end()) return *known;
  std::vector<std::string> paths;
  for (const HardwareFactor& factor : kFactors) paths.emplace_back(factor.path);
  throw InputError("--set", '"' + path + '"', describe_choices(path, paths));
}

}  // namespace

double parse_factor(std::string_view path, std::string_view value) {
  const bool is_factor = value.ends_with('x');
  const double factor =
      parse_double(value.substr(0, value.size() - (is_factor ? 1 : 0))).value_or(0);
  if (is_factor && factor >= kLeastFactor && factor <= kMostFactor) return factor;
  throw InputError("--set " + std::string(path), '"' + std::string(value) + '"',
                   "a factor from 0.001x to 1000x, such as 2x");
}

bool is_hardware_factor(std::string_view path) {
  const std::string_view box = path.substr(0, path.find('.'));
  return std::any_of(kFactors.begin(), kFactors.end(), [&](const HardwareFactor& factor) {
    return factor.path.substr(0, factor.path.find('.')) == box;
  });
}

CostProfile with_hardware_factor(CostProfile cost, const std::string& path,
                                 const std::string& value) {
  const auto of_cost = find_factor(path).of_cost;
  return of_cost != nullptr ? of_cost(std::move(cost), parse_factor(path, value)) : cost;
}

SpecLibrary with_hardware_factor(const SpecLibrary& specs, const std::string& path,
                                 const std::string& value) {
  const HardwareFactor& known = find_factor(path);
  const double factor = parse_factor(path, value);
  SpecLibrary changed = specs;
  if (const auto of_gpu = known.of_gpu) {
    changed =
        changed.with_changed<GpuSpec>([=](GpuSpec gpu) { return of_gpu(std::move(gpu), factor); });
  }
  if (const auto of_link = known.of_link) {
    changed = changed.with_changed<LinkSpec>(
        [=](LinkSpec link) { return of_link(std::move(link), factor); });
  }
  return changed;
}

}  // namespace tracecast
