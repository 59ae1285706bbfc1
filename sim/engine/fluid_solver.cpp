// FluidLinks::settle: rates for the flows that a change touches. Why it is right and what it costs:
// notes/0002-fluid-network.md.
#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/engine/fluid_links.hpp"

namespace tracecast::engine {
namespace {

/// So often the region may grow step by step; then it takes in all that hangs together.
constexpr int kMostSteps = 10;

constexpr auto kStopsLater = [](const auto& a, const auto& b) {
  return a.rate > b.rate || (a.rate == b.rate && a.index > b.index);
};

}  // namespace

void FluidLinks::settle() {
  if (region_.empty() || settle_sole_limits()) return;
  int steps = 0;
  do {
    if (steps == kMostSteps) collect_component();
    fill();
  } while (steps++ < kMostSteps && add_overloaded());
  take_over();
}

/// Takes in all that hangs together.
void FluidLinks::collect_component() {
  for (std::size_t done = 0; done < region_.size(); ++done) {
    for (const Sender& sender : links_[region_[done]].senders) {
      for (const Use& use : uses(routes_[sender.route])) add_to_region(use.link);
    }
  }
}

/// What keeps a route from getting more than this, whatever the region does: its cap, or the level
/// of its bottleneck when that lies outside.
double FluidLinks::limit_outside(const Route& route) const {
  if (route.bottleneck >= links_.size() || links_[route.bottleneck].in_region) return route.cap;
  return std::min(route.cap, links_[route.bottleneck].clock.rate);
}

void FluidLinks::push_share(Share share) {
  shares_.push_back(share);
  std::push_heap(shares_.begin(), shares_.end(), kStopsLater);
}

/// Progressive filling: all rates rise together; the link, or limit of a route, that stops first fixes those concerned.
/// Routes whose bottleneck lies outside count as they are until a link of the region gives less. The region grows while it
/// is filled, by links whose levels, old and new, are not below the level reached.
void FluidLinks::fill() {
  shares_.clear();
  num_open_ = 0;
  filled_ = 0;
  for (const std::uint32_t index : region_routes_) routes_[index].in_region = false;
  for (const std::uint32_t index : region_) links_[index].is_entered = false;
  region_routes_.clear();
  for (const std::uint32_t index : fresh_) open(index);
  for (std::size_t i = 0, count = region_.size(); i < count; ++i) enter(region_[i]);
  while (num_open_ > 0) {
    std::pop_heap(shares_.begin(), shares_.end(), kStopsLater);
    const Share share = shares_.back();
    shares_.pop_back();
    if (share.index >= kOwnEvent) {
      stop_route(share.index - kOwnEvent, share.rate);
    } else if (Link& link = links_[share.index]; share.rate == link.key && link.open > 0) {
      stop_link(share.index);
    }
  }
}

/// A route gets a rate anew.
void FluidLinks::open(std::uint32_t index) {
  Route& route = routes_[index];
  route.in_region = true;
  route.is_fixed = false;
  region_routes_.push_back(index);
  ++num_open_;
  const double limit = limit_outside(route);
  if (limit < std::numeric_limits<double>::infinity()) push_share({limit, kOwnEvent + index});
  const double rate = rate_now(route);
  for (const Use& use : uses(route)) {
    Link& link = links_[use.link];
    if (!link.is_entered) continue;
    const double load = link.senders[use.place].load;
    link.left += load * rate;
    link.weight += load;
    ++link.open;
    if (share_of(link) < link.key || link.open == 1) push_link(use.link);
  }
}

/// What it could give those that have no new rate yet, at least; or, when that is more than its members had, this.
double FluidLinks::share_of(const Link& link) {
  const double share = link.left / link.weight;
  return link.is_risen ? share : std::min(share, link.clock.rate * (1 + kSame));
}

void FluidLinks::push_link(std::uint32_t index) {
  Link& link = links_[index];
  link.key = share_of(link);
  push_share({link.key, index});
}

/// A link of the region, whose members get rates anew, begins to be filled at the level reached.
void FluidLinks::enter(std::uint32_t index) {
  Link& link = links_[index];
  link.left = link.capacity;
  link.open = 0;
  link.weight = 0;
  link.level = link.clock.rate;
  link.safe_level = 0;
  link.is_risen = link.members.empty();
  for (const Sender& sender : link.senders) {
    const Route& route = routes_[sender.route];
    if (!route.in_region && route.bottleneck != index) {
      if (route.bottleneck != kOwn) links_[route.bottleneck].safe_level = 0;
      link.left -= sender.load * rate_now(route);
      continue;
    }
    if (!route.in_region) open(sender.route);
    if (route.is_fixed) {
      link.left -= sender.load * route.new_rate;
    } else {
      ++link.open;
      link.weight += sender.load;
    }
  }
  link.is_entered = true;
  if (link.open > 0) return push_link(index);
  if (link.left >= -kSame * link.capacity) return;
  for (std::size_t i = 0; i < link.senders.size(); ++i) {  // more flows at their caps than before
    if (!routes_[link.senders[i].route].in_region) open(link.senders[i].route);
  }
}

/// The links outside that are full: what changes on them changes what others get.
void FluidLinks::take_in_full_links(const Route& route) {
  for (const Use& use : uses(route)) {
    const Link& link = links_[use.link];
    if (link.in_region || link.members.empty()) continue;
    add_to_region(use.link);
    enter(use.link);
  }
}

void FluidLinks::stop_route(std::uint32_t index, double rate) {
  const Route& route = routes_[index];
  if (route.is_fixed) return;
  if (const double limit = limit_outside(route);
      rate != limit) {  // its bottleneck has joined the region
    if (std::isfinite(limit)) push_share({limit, kOwnEvent + index});
    return;
  }
  filled_ = std::max(filled_, rate);
  fix(index, rate == route.cap ? kOwn : route.bottleneck, rate);
}

void FluidLinks::stop_link(std::uint32_t index) {
  Link& link = links_[index];
  if (share_of(link) > link.key)
    return push_link(index);  // some of its flows were fixed below its share
  const double share = link.left / link.weight;
  if (!link.is_risen && share > link.key) {
    link.is_risen = true;
    for (std::size_t i = 0; i < link.members.size(); ++i) {
      const Route& route = routes_[link.members[i].route];
      if (!route.is_fixed) take_in_full_links(route);
    }
    return push_link(index);
  }
  const double bound = std::max(filled_, share) * (1 + kSame);
  bool is_above = false;  // whether some that are limited elsewhere get less here
  for (std::size_t i = 0; i < link.senders.size(); ++i) {
    const std::uint32_t route = link.senders[i].route;
    if (routes_[route].in_region || rate_now(routes_[route]) <= bound) continue;
    open(route);
    is_above = true;
  }
  if (is_above) return push_link(index);
  link.level = filled_ = std::max(filled_, share);
  for (std::size_t i = 0; i < link.senders.size(); ++i) {
    const std::uint32_t route = link.senders[i].route;
    if (routes_[route].in_region && !routes_[route].is_fixed) fix(route, index, link.level);
  }
}

void FluidLinks::fix(std::uint32_t index, std::uint32_t bottleneck, double rate) {
  Route& route = routes_[index];
  route.is_fixed = true;
  --num_open_;
  route.new_rate = rate;
  route.new_bottleneck = bottleneck;
  bool is_all_inside = true;
  for (const Use& use : uses(route)) {
    Link& link = links_[use.link];
    is_all_inside = is_all_inside && link.in_region;
    if (!link.is_entered) continue;
    const double load = link.senders[use.place].load;
    link.left -= load * rate;
    link.weight -= load;
    --link.open;
  }
  // Where it rises, they have been taken in before.
  if (!is_all_inside && rate < rate_now(route) * (1 - kSame)) take_in_full_links(route);
}

/// Takes in the links outside that the rises would overload. False when there are none.
bool FluidLinks::add_overloaded() {
  const std::size_t before = region_.size();
  checked_.clear();
  for (const std::uint32_t index : region_routes_) {
    const Route& route = routes_[index];
    if (route.new_rate - rate_now(route) <= kSame * route.new_rate) continue;
    for (const Use& use : uses(route)) {
      const Link& link = links_[use.link];
      if (link.in_region) continue;
      if (link.senders.size() == 1) {
        if (link.senders[0].load * route.new_rate > link.capacity * (1 + kSame))
          add_to_region(use.link);
      } else if (!carries(use.link)) {
        add_to_region(use.link);
      }
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

/// The new rates hold from now on.
void FluidLinks::take_over() {
  for (const std::uint32_t index : region_) advance(links_[index].clock);
  for (const std::uint32_t index : region_routes_) {
    const Route& route = routes_[index];
    if (route.bottleneck < links_.size()) links_[route.bottleneck].safe_level = 0;
    if (route.new_bottleneck != route.bottleneck) set_bottleneck(index, route.new_bottleneck);
    if (route.bottleneck < links_.size()) links_[route.bottleneck].safe_level = 0;
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
  for (const std::uint32_t index : region_)
    links_[index].in_region = links_[index].is_entered = false;
  for (const std::uint32_t index : region_routes_) routes_[index].in_region = false;
  region_.clear();
  region_routes_.clear();
  fresh_.clear();
}

}  // namespace tracecast::engine
