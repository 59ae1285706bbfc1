// FluidLinks::settle: rates for the flows that a change touches. Why it is right and what it costs:
// notes/0002-fluid-network.md.
#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/engine/fluid_links.hpp"

namespace tracecast::engine {
namespace {

/// Rates that differ by less than this share are the same: rounding must not spread a change.
constexpr double kSame = 1e-12;
/// So often the region may grow step by step; then it takes in all that hangs together.
constexpr int kMostSteps = 10;

}  // namespace

void FluidLinks::settle() {
  if (region_.empty() || settle_sole_limits()) return;
  int steps = 0;
  do {
    if (steps == kMostSteps) collect_component();
    collect_routes();
    fill();
  } while (steps++ < kMostSteps && extend_region());
  take_over();
}

/// The common case, without the work of the general one: each link of the region is the bottleneck of
/// all its senders or of none of them. A flow that has its links for itself, a server that limits all
/// who send to it. False, and nothing changed, when it is not so or does not stay so.
bool FluidLinks::settle_sole_limits() {
  for (const std::uint32_t index : region_) {
    Link& link = links_[index];
    link.joining = 0;
    link.weight = 0;
    for (const Sender& sender : link.senders) link.weight += sender.load;
    link.level = link.capacity / link.weight;
  }
  for (const std::uint32_t index : fresh_) find_bottleneck(routes_[index]);
  checked_.clear();
  const bool holds = std::all_of(region_.begin(), region_.end(),
                                 [&](std::uint32_t index) { return limits_all_or_none(index); });
  for (const std::uint32_t index : checked_) links_[index].is_checked = false;
  if (holds) take_over_sole_limits();
  return holds;
}

/// Where a route that begins to send would get least.
void FluidLinks::find_bottleneck(Route& route) {
  route.new_rate = route.cap;
  route.new_bottleneck = kOwn;
  for (const Use& use : uses(route)) {
    const Link& link = links_[use.link];
    if (link.level >= route.new_rate) continue;
    route.new_rate = link.level;
    route.new_bottleneck = use.link;
  }
  if (route.new_bottleneck != kOwn) ++links_[route.new_bottleneck].joining;
}

bool FluidLinks::limits_all_or_none(std::uint32_t index) {
  const Link& link = links_[index];
  const std::size_t limited = link.members.size() + link.joining;
  if (limited == 0) return carries(index);
  if (limited != link.senders.size()) return false;
  const bool rises = link.joining > 0 || link.level > link.clock.rate;
  for (const Sender& sender : link.senders) {
    const Route& route = routes_[sender.route];
    if (route.cap < link.level) return false;
    for (const Use& use : uses(route)) {
      if (use.link == index) continue;
      const Link& other = links_[use.link];
      if (!other.members.empty() || (other.in_region && other.joining > 0)) return false;
      if (rises && !carries(use.link)) return false;
    }
  }
  return true;
}

void FluidLinks::take_over_sole_limits() {
  for (const std::uint32_t index : region_) advance(links_[index].clock);
  for (const std::uint32_t index : fresh_) set_bottleneck(index, routes_[index].new_bottleneck);
  start_clocks();
}

void FluidLinks::add_to_region(std::uint32_t index) {
  if (links_[index].in_region) return;
  links_[index].in_region = true;
  region_.push_back(index);
}

void FluidLinks::collect_routes() {
  for (; num_collected_ < region_.size(); ++num_collected_) {
    for (const Sender& sender : links_[region_[num_collected_]].senders) {
      Route& route = routes_[sender.route];
      if (route.in_region) continue;
      route.in_region = true;
      region_routes_.push_back(sender.route);
    }
  }
}

void FluidLinks::collect_component() {
  for (std::size_t done = 0; done < region_routes_.size();) {
    for (; done < region_routes_.size(); ++done) {
      for (const Use& use : uses(routes_[region_routes_[done]])) add_to_region(use.link);
    }
    collect_routes();
  }
}

/// What keeps a route from getting more than this, whatever the region does: its cap, or the level
/// of its bottleneck when that lies outside.
double FluidLinks::limit_outside(const Route& route) const {
  if (route.bottleneck >= links_.size() || links_[route.bottleneck].in_region) return route.cap;
  return std::min(route.cap, links_[route.bottleneck].clock.rate);
}

/// Progressive filling: all rates rise together; the link, or limit of a route, that stops first
/// fixes those concerned.
void FluidLinks::fill() {
  const auto stops_later = [](const Share& a, const Share& b) {
    return a.rate > b.rate || (a.rate == b.rate && a.index > b.index);
  };
  shares_.clear();
  for (const std::uint32_t index : region_) {
    Link& link = links_[index];
    link.left = link.capacity;
    link.open = static_cast<std::uint32_t>(link.senders.size());
    link.weight = 0;
    for (const Sender& sender : link.senders) link.weight += sender.load;
    if (link.open > 0) shares_.push_back({link.left / link.weight, index});
  }
  for (const std::uint32_t index : region_routes_) {
    Route& route = routes_[index];
    route.is_fixed = false;
    ++num_open_;
    const double limit = limit_outside(route);
    if (std::isfinite(limit)) shares_.push_back({limit, kOwnEvent + index});
  }
  std::make_heap(shares_.begin(), shares_.end(), stops_later);
  for (double level = 0; num_open_ > 0;) {
    std::pop_heap(shares_.begin(), shares_.end(), stops_later);
    const Share share = shares_.back();
    shares_.pop_back();
    if (share.index >= kOwnEvent) {
      const std::uint32_t index = share.index - kOwnEvent;
      const Route& route = routes_[index];
      if (route.is_fixed) continue;
      level = std::max(level, share.rate);
      fix(index, share.rate == route.cap ? kOwn : route.bottleneck, share.rate);
      continue;
    }
    Link& link = links_[share.index];
    if (link.open == 0) continue;
    const double rate = std::max(level, link.left / link.weight);
    if (rate > share.rate) {  // some of its flows have been fixed since, below its share
      shares_.push_back({rate, share.index});
      std::push_heap(shares_.begin(), shares_.end(), stops_later);
      continue;
    }
    link.level = level = rate;
    for (const Sender& sender : link.senders) {
      if (!routes_[sender.route].is_fixed) fix(sender.route, share.index, rate);
    }
  }
}

void FluidLinks::fix(std::uint32_t index, std::uint32_t bottleneck, double rate) {
  Route& route = routes_[index];
  route.is_fixed = true;
  --num_open_;
  route.new_rate = rate;
  route.new_bottleneck = bottleneck;
  for (const Use& use : uses(route)) {
    Link& link = links_[use.link];
    if (!link.in_region) continue;
    const double load = link.senders[use.place].load;
    link.left = std::max(0.0, link.left - load * rate);
    link.weight -= load;
    --link.open;
  }
}

/// Takes in the links outside on which the new rates change what others get: full ones, where any
/// change matters, and those that the rises would overload. False when there are none.
bool FluidLinks::extend_region() {
  const std::size_t before = region_.size();
  checked_.clear();
  for (const std::uint32_t index : region_routes_) {
    const Route& route = routes_[index];
    const double change = route.new_rate - rate_now(route);
    if (std::fabs(change) <= kSame * route.new_rate) continue;
    for (const Use& use : uses(route)) {
      const Link& link = links_[use.link];
      if (link.in_region) continue;
      if (!link.members.empty() || (change > 0 && !carries(use.link))) add_to_region(use.link);
    }
  }
  for (const std::uint32_t index : checked_) links_[index].is_checked = false;
  return region_.size() > before;
}

/// Whether a link has room for what the new rates put on it. Looks at it once.
bool FluidLinks::carries(std::uint32_t index) {
  Link& link = links_[index];
  if (link.is_checked) return link.is_carrying;
  link.is_checked = true;
  checked_.push_back(index);
  double load = 0;
  for (const Sender& sender : link.senders) load += sender.load * new_rate(routes_[sender.route]);
  return link.is_carrying = load <= link.capacity * (1 + kSame);
}

/// Of a route in the region, or whose bottleneck is there.
double FluidLinks::new_rate(const Route& route) const {
  if (route.in_region || route.bottleneck == kNone) return route.new_rate;
  if (route.bottleneck == kOwn) return route.cap;
  const Link& link = links_[route.bottleneck];
  return link.in_region ? link.level : link.clock.rate;
}

/// The new rates hold from now on.
void FluidLinks::take_over() {
  for (const std::uint32_t index : region_) advance(links_[index].clock);
  for (const std::uint32_t index : region_routes_) {
    const Route& route = routes_[index];
    if (route.new_bottleneck != route.bottleneck) set_bottleneck(index, route.new_bottleneck);
  }
  start_clocks();
}

/// Every link of the region serves its members at its level from now on.
void FluidLinks::start_clocks() {
  for (const std::uint32_t index : region_) {
    Link& link = links_[index];
    if (link.members.empty()) continue;
    link.clock.rate = link.level;
    schedule(link.clock, link.members.front().key, index);
  }
  for (const std::uint32_t index : region_) links_[index].in_region = false;
  for (const std::uint32_t index : region_routes_) routes_[index].in_region = false;
  region_.clear();
  region_routes_.clear();
  fresh_.clear();
  num_collected_ = 0;
}

}  // namespace tracecast::engine
