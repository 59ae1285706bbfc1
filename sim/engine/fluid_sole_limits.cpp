// FluidLinks::settle where links limit all their senders or none: what rings and servers do
// millions of times. Why it is right: notes/0001.
#include <algorithm>
#include <limits>

#include "sim/engine/fluid_links.hpp"

namespace tracecast::engine {

/// The common case, without the work of the general one: each link of the region is the bottleneck
/// of all its senders or of none of them. A flow that has its links for itself, a server that
/// limits all who send to it. False, and nothing changed, when it is not so or does not stay so.
bool FluidLinks::settle_sole_limits() {
  for (const std::uint32_t index : region_) {
    const Link& link = links_[index];
    if (!link.members.empty() && link.members.size() + fresh_.size() < link.senders.size()) {
      return false;
    }
  }
  for (const std::uint32_t index : region_) {
    Link& link = links_[index];
    link.joining = 0;
    link.level = link.capacity / added_loads(link);
  }
  for (Fresh& fresh : fresh_) find_bottleneck(fresh);
  checked_.clear();
  limiting_.clear();
  forgotten_.clear();
  // Those that limit none come first: they bound the levels of the others.
  bool holds = true;
  for (std::size_t i = 0; holds && i < region_.size(); ++i) {
    if (links_[region_[i]].members.size() + links_[region_[i]].joining > 0) {
      limiting_.push_back(region_[i]);
    } else {
      holds = carries_safely(region_[i]);
    }
  }
  holds = holds && std::all_of(limiting_.begin(), limiting_.end(),
                               [&](std::uint32_t index) { return limits_all(index); });
  for (const std::uint32_t index : checked_) links_[index].is_checked = false;
  if (holds) take_over_sole_limits();
  return holds;
}

/// Where a route that begins to send would get least.
void FluidLinks::find_bottleneck(Fresh& fresh) {
  const Route& route = routes_[fresh.route];
  fresh.rate = route.cap;
  fresh.bottleneck = kOwn;
  for (const Use& use : uses(route)) {
    const Link& link = links_[use.link];
    if (link.level >= fresh.rate) continue;
    fresh.rate = link.level;
    fresh.bottleneck = use.link;
  }
  if (fresh.bottleneck == kOwn) return;
  Link& link = links_[fresh.bottleneck];
  // Where all senders are new, nothing is known that bounds them but their caps.
  if (link.joining++ == 0 && link.members.empty()) {
    link.safe_level = std::numeric_limits<double>::infinity();
  }
  link.safe_level = std::min(link.safe_level, route.cap);
}

/// Of a link that limits none of its senders: whether it carries them, and up to which level of
/// their bottlenecks.
bool FluidLinks::carries_safely(std::uint32_t index) {
  const Link& link = links_[index];
  if (link.senders.size() != 1) {
    if (!carries(index)) return false;
  } else if (const Sender& only = link.senders.front();
             only.load * new_rate(only.route) > link.capacity * (1 + kSame)) {
    return false;
  }
  for (const Sender& sender : link.senders) {
    const std::uint32_t bottleneck = next_bottleneck(sender.route);
    if (bottleneck == kOwn) continue;
    double& safe = links_[bottleneck].safe_level;
    safe = std::min(safe, safe_level(index, bottleneck));
  }
  return true;
}

/// Up to which level of `bottleneck` this other link of its members carries them; zero where that
/// depends on more.
double FluidLinks::safe_level(std::uint32_t index, std::uint32_t bottleneck) const {
  constexpr std::size_t kMostLookedAt = 4;
  const Link& link = links_[index];
  if (link.senders.size() > kMostLookedAt) return 0;
  double load = 0;
  for (const Sender& sender : link.senders) {
    if (next_bottleneck(sender.route) != bottleneck) return 0;
    load += sender.load;
  }
  return load == 1 ? link.capacity : link.capacity / load;
}

/// Of a link that limits some of its senders: whether it limits all, and their other links none and
/// carry them.
bool FluidLinks::limits_all(std::uint32_t index) {
  Link& link = links_[index];
  if (link.members.size() + link.joining != link.senders.size()) return false;
  if (link.level <= link.safe_level) return true;
  const bool rises = link.joining > 0 || link.level > link.clock.rate;
  double safe = std::numeric_limits<double>::infinity();
  for (const Sender& sender : link.senders) {
    const Route& route = routes_[sender.route];
    if (route.cap < link.level) return false;
    safe = std::min(safe, route.cap);
    for (const Use& use : uses(route)) {
      if (use.link == index) continue;
      Link& other = links_[use.link];
      Rest& rest = rests_[use.link];
      if (rest.is_known) forgotten_.push_back(use.link);
      if (!other.members.empty() || (rest.in_region && other.joining > 0)) return false;
      if (rises && !carries(use.link)) return false;
      if (safe > 0) safe = std::min(safe, safe_level(use.link, index));
    }
  }
  link.safe_level = safe;
  return true;
}

void FluidLinks::take_over_sole_limits() {
  for (const std::uint32_t index : region_) {
    Link& link = links_[index];
    rests_[index].is_known = link.has_shares = false;
    advance(link.clock);
  }
  for (const std::uint32_t index : forgotten_) rests_[index].is_known = false;
  for (const Fresh& fresh : fresh_) set_bottleneck(fresh.route, fresh.bottleneck);
  for (const std::uint32_t index : region_) {
    Link& link = links_[index];
    if (!link.members.empty()) link.clock.rate = link.level;
  }
  queue_ends();
}

/// Whether a link has room for what the new rates put on it. Looks at it once.
bool FluidLinks::carries(std::uint32_t index) {
  Link& link = links_[index];
  if (link.is_checked) return link.is_carrying;
  link.is_checked = true;
  checked_.push_back(index);
  double load = 0;
  for (const Sender& sender : link.senders) load += sender.load * new_rate(sender.route);
  return link.is_carrying = load <= link.capacity * (1 + kSame);
}

}  // namespace tracecast::engine
