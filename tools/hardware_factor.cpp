#include "tools/hardware_factor.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

constexpr double kLeastFactor = 1e-3, kMostFactor = 1e3;

using OfKind = bool (*)(LinkKind);

constexpr bool any_link(LinkKind) { return true; }
constexpr bool is_nvlink(LinkKind kind) { return kind == LinkKind::Nvlink; }
constexpr bool is_pcie(LinkKind kind) { return kind == LinkKind::Pcie || kind == LinkKind::Socket; }
constexpr bool is_network(LinkKind kind) {
  return kind == LinkKind::Ethernet || kind == LinkKind::Infiniband || kind == LinkKind::Ipoib;
}

void scale_links(Sources& sources, OfKind counts, double factor) {
  sources.links.change_all([=](LinkSpec& link) {
    if (counts(link.kind)) link.bandwidth = link.bandwidth * factor;
  });
  // What a card itself can do is its spec's.
  sources.gpus.change_all([=](GpuSpec& gpu) {
    if (counts(LinkKind::Pcie)) gpu.pcie_bandwidth = gpu.pcie_bandwidth * factor;
    if (counts(LinkKind::Nvlink)) gpu.nvlink_bandwidth = gpu.nvlink_bandwidth * factor;
  });
}

void scale_latency(Sources& sources, double factor) {
  sources.links.change_all([=](LinkSpec& link) { link.latency = link.latency * factor; });
}

void scale_memory(Sources& sources, double factor) {
  sources.gpus.change_all([=](GpuSpec& gpu) { gpu.dram_bandwidth = gpu.dram_bandwidth * factor; });
}

/// A finer process takes as much less energy per operation.
void scale_compute(Sources& sources, double factor) {
  sources.gpus.change_all([=](GpuSpec& gpu) {
    for (PeakRate& peak : gpu.peaks) peak.rate = peak.rate * factor;
    gpu.process_nm /= factor;
  });
}

struct HardwareFactor {
  std::string_view path;
  void (*apply)(Sources& sources, double factor);
};

constexpr std::array<HardwareFactor, 7> kFactors{{
    {"gpu.memory_bandwidth", scale_memory},
    {"gpu.compute", scale_compute},
    {"link.bandwidth", [](Sources& s, double f) { scale_links(s, any_link, f); }},
    {"nvlink.bandwidth", [](Sources& s, double f) { scale_links(s, is_nvlink, f); }},
    {"pcie.bandwidth", [](Sources& s, double f) { scale_links(s, is_pcie, f); }},
    {"network.bandwidth", [](Sources& s, double f) { scale_links(s, is_network, f); }},
    {"link.latency", scale_latency},
}};

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

void apply_hardware_factor(Sources& sources, const std::string& path, const std::string& value) {
  const auto* known = std::find_if(kFactors.begin(), kFactors.end(),
                                   [&](const HardwareFactor& f) { return f.path == path; });
  if (known == kFactors.end()) {
    std::vector<std::string> paths;
    for (const HardwareFactor& factor : kFactors) paths.emplace_back(factor.path);
    throw InputError("--set", '"' + path + '"', describe_choices(path, paths));
  }
  known->apply(sources, parse_factor(path, value));
  sources.factors.push_back(path + " " + value + " of what the specs say");
}

}  // namespace tracecast
