#include "models/compiler/image_layout.hpp"

#include <variant>
#include <vector>

namespace tracecast {
namespace {

enum class FilterKind { Grouped, Small, Narrowing, Other };

FilterKind kind_of(const ConvAttributes& a, const ImageLayoutRule& rule) {
  const std::int64_t c = a.c / a.groups;
  if (a.groups > 1 && c > 1) return FilterKind::Grouped;
  if (a.k <= rule.small_channels && c <= rule.small_channels) return FilterKind::Small;
  return 2 * a.k <= c && a.r > 1 ? FilterKind::Narrowing : FilterKind::Other;
}

double slowdown_of(FilterKind kind, const ImageLayoutRule& rule) {
  switch (kind) {
    case FilterKind::Grouped:
      return rule.grouped;
    case FilterKind::Small:
      return rule.small;
    case FilterKind::Narrowing:
      return rule.narrowing;
    case FilterKind::Other:
      break;
  }
  return rule.other;
}

}  // namespace

bool lays_channels_last(const NetworkGraph& forward, const ImageLayoutRule& rule, bool trains) {
  std::vector<const ConvAttributes*> convolutions;
  for (const Op& op : forward.ops()) {
    if (op.kind != OpKind::Conv && op.kind != OpKind::ConvTranspose) continue;
    convolutions.push_back(&std::get<ConvAttributes>(op.attributes));
  }
  if (convolutions.empty()) return false;
  auto nodes = static_cast<double>(forward.ops().size());
  for (std::uint32_t i = 0; i < forward.tensors().size(); ++i) {
    nodes += forward.producer(TensorId{i}) ? 0 : 1;
  }
  if (nodes >= rule.most_ops_per_convolution * static_cast<double>(convolutions.size())) {
    return false;
  }
  bool any_hurts = false, all_small = true;
  double macs = 0, slowed = 0;
  for (const ConvAttributes* a : convolutions) {
    const FilterKind kind = kind_of(*a, rule);
    any_hurts = any_hurts || kind == FilterKind::Grouped || kind == FilterKind::Narrowing;
    all_small = all_small && kind == FilterKind::Small;
    macs += a->macs();
    slowed += a->macs() * slowdown_of(kind, rule);
  }
  return trains ? !any_hurts && !all_small : slowed <= macs;
}

}  // namespace tracecast
