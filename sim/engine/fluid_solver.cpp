// FluidLinks::settle: rates for the flows that a change touches. Why it is right and what it costs:
// notes/0001.
#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/engine/fluid_links.hpp"

namespace tracecast::engine {
namespace {

/// Solves per link of the region before all that hangs together begins anew.
constexpr std::size_t kMostSolves = 32;
/// Solves of a link before its rest is added up anew: what its changes have rounded adds up.
constexpr int kMostKept = 64;

/// Waiting links that are a list.
constexpr std::size_t kMostListed = 32;

constexpr auto kIsHigher = [](const auto& a, const auto& b) { return a.rate > b.rate; };

}  // namespace

void FluidLinks::settle() {
  if (region_.empty() || (!is_solved_best() && settle_sole_limits())) return;
  for (const std::uint32_t index : region_) {
    links_[index].safe_level = 0;
    const Rest& rest = rests_[index];
    if (!rest.is_known) know(index);
    // Where routes begin to send, move() lets it wait if need be.
    if (rest.num_new == 0 && (rest.weight > 0 || rest.left < 0)) enqueue(index);
  }
  for (const Fresh& fresh : fresh_) enqueue(lowest_link(routes_[fresh.route]));
  if (!solve_waiting(kMostSolves)) {
    forget_rates();
    TRACECAST_CHECK(solve_waiting(kMostSolves * kMostSolves), "rates are found");
  }
  queue_ends();
}

/// Where a route that begins to send gets least if others stay as they are.
std::uint32_t FluidLinks::lowest_link(const Route& route) {
  Rate lowest{std::numeric_limits<double>::infinity(), kNone};
  for (const Use& use : uses(route)) {
    const Rest& rest = rests_[use.link];
    if (const double rate = rest.left / rest.weight; rate < lowest.rate) lowest = {rate, use.link};
  }
  return lowest.index;
}

/// Whether the links have been solved before and have few members: looking at them costs as much as
/// solving them.
bool FluidLinks::is_solved_best() const {
  constexpr std::size_t kFew = 8;
  return std::all_of(region_.begin(), region_.end(), [&](std::uint32_t index) {
    return rests_[index].is_known && links_[index].num_sharers <= kFew;
  });
}

/// Adds up what its senders take.
void FluidLinks::know(std::uint32_t index) {
  Link& link = links_[index];
  link.safe_level = 0;
  link.lowest_cap = std::numeric_limits<double>::infinity();
  link.num_sharers = 0;
  Rest& rest = rests_[index];
  rest.is_known = true;
  rest.left = link.capacity;
  rest.weight = rest.fastest = 0;
  rest.num_new = 0;
  rest.num_solved = 0;
  for (const Sender& sender : link.senders) {
    const Route& route = routes_[sender.route];
    if (route.bottleneck < links_.size()) links_[route.bottleneck].safe_level = 0;
    if (route.bottleneck == index || route.bottleneck == kNone) {
      rest.weight += sender.load;
      link.lowest_cap = std::min(link.lowest_cap, route.cap);
      ++link.num_sharers;
      if (route.bottleneck == kNone) ++rest.num_new;
      continue;
    }
    const double rate = rate_now(route);
    rest.left -= sender.load * rate;
    rest.fastest = std::max(rest.fastest, rate);
  }
}

/// Those that could give the least are solved first: what they give lasts. Few are a list, looked
/// through without branches; many are a heap.
void FluidLinks::enqueue(std::uint32_t index) {
  Rest& rest = rests_[index];
  if (rest.is_waiting) return;
  rest.is_waiting = true;
  waiting_.push_back({rest.weight > 0 ? rest.left / rest.weight : 0, index});
  if (is_heap_) {
    std::push_heap(waiting_.begin(), waiting_.end(), kIsHigher);
  } else if (waiting_.size() > kMostListed) {
    is_heap_ = true;
    std::make_heap(waiting_.begin(), waiting_.end(), kIsHigher);
  }
}

inline std::uint32_t FluidLinks::take_waiting() {
  if (is_heap_) {
    std::pop_heap(waiting_.begin(), waiting_.end(), kIsHigher);
    is_heap_ = waiting_.size() > kMostListed / 2;
  } else {
    std::size_t lowest = 0;
    double rate = waiting_[0].rate;
    for (std::size_t i = 1; i < waiting_.size(); ++i) {
      lowest += (i - lowest) * (waiting_[i].rate < rate);
      rate = std::min(rate, waiting_[i].rate);
    }
    std::swap(waiting_[lowest], waiting_.back());
  }
  const std::uint32_t index = waiting_.back().index;
  waiting_.pop_back();
  rests_[index].is_waiting = false;
  return index;
}

/// Those limited elsewhere, now at `rate`, take more.
inline void FluidLinks::take_from(std::uint32_t index, double load, double change, double rate) {
  Rest& rest = rests_[index];
  rest.left -= load * change;
  rest.fastest = std::max(rest.fastest, rate);
  // One branch, as it is seldom taken and hard to foresee.
  const bool matters = (rest.weight > 0) | (rest.left < 0);
  if (matters & !rest.is_waiting) enqueue(index);
}

/// The level of a link with those that join it: routes without a rate, and those who get more
/// elsewhere, the fastest first.
double FluidLinks::gather(std::uint32_t index) {
  const Link& link = links_[index];
  Rest& rest = rests_[index];
  double left = link.capacity, weight = rest.weight;
  // Who is a member and who is faster is hard to foresee: no branches, all are written down and
  // some kept.
  if (faster_.size() < link.senders.size()) faster_.resize(link.senders.size());
  std::size_t num_others = 0;
  for (const Sender& sender : link.senders) {
    const Route& route = routes_[sender.route];
    if (route.bottleneck == kNone) {
      joining_.push_back(sender.route);
      continue;
    }
    const bool is_other = route.bottleneck != index;
    const double rate = rate_now(route);
    left -= sender.load * rate * is_other;
    faster_[num_others] = {rate, static_cast<std::uint32_t>(&sender - link.senders.data())};
    num_others += is_other;
  }
  rest.left = left;
  rest.num_solved = 0;
  rest.fastest = 0;
  if (weight == 0 && left >= -kSame * link.capacity) return 0;
  double level = left / weight, fastest = 0;
  std::size_t num_faster = 0;
  const double least = level * (1 + kSame);  // those that join only raise it
  for (std::size_t i = 0; i < num_others; ++i) {
    const Rate one = faster_[i];
    const bool is_faster = one.rate > least;
    faster_[num_faster] = one;
    num_faster += is_faster;
    fastest = std::max(fastest, one.rate * !is_faster);
  }
  rest.fastest = fastest;
  if (num_faster > 1) {
    std::sort(faster_.begin(), faster_.begin() + static_cast<long>(num_faster), kIsHigher);
  }
  for (std::size_t i = 0; i < num_faster; ++i) {
    const Rate one = faster_[i];
    if (one.rate <= level * (1 + kSame)) {
      rest.fastest = one.rate;
      break;
    }
    const Sender& sender = link.senders[one.index];
    left += sender.load * one.rate;
    weight += sender.load;
    level = left / weight;
    joining_.push_back(sender.route);
  }
  return level;
}

/// A route gets another bottleneck and its rate.
void FluidLinks::move(std::uint32_t index, std::uint32_t bottleneck, double rate) {
  const Route& route = routes_[index];
  const double before = rate_now(route);
  const bool is_new = route.bottleneck == kNone;
  for (const Use& use : uses(route)) {
    Rest& rest = rests_[use.link];
    if (!rest.is_known) know(use.link);
    if (is_new) --rest.num_new;
    const bool shared = is_new || use.link == route.bottleneck, shares = use.link == bottleneck;
    if (shared && shares) continue;
    const double load = use.weight * route.num_flows;
    if (shared) rest.weight = --links_[use.link].num_sharers > 0 ? rest.weight - load : 0;
    if (shares) {
      rest.left += load * before;
      rest.weight += load;
      Link& link = links_[use.link];
      ++link.num_sharers;
      link.lowest_cap = std::min(link.lowest_cap, route.cap);
    } else {
      take_from(use.link, load, shared ? rate : rate - before, rate);
    }
  }
  set_bottleneck(index, bottleneck);
}

/// Those that share a link's rest leave it for their caps where these are below its level.
void FluidLinks::release_capped(std::uint32_t index, double level) {
  Link& link = links_[index];
  leaving_.clear();
  link.lowest_cap = std::numeric_limits<double>::infinity();
  for (const Sender& sender : link.senders) {
    const Route& route = routes_[sender.route];
    if (route.bottleneck != index && route.bottleneck != kNone) continue;
    if (route.cap < level) {
      leaving_.push_back(sender.route);
    } else {
      link.lowest_cap = std::min(link.lowest_cap, route.cap);
    }
  }
  for (const std::uint32_t route : leaving_) move(route, kOwn, routes_[route].cap);
}

/// Its members get another rate.
inline void FluidLinks::set_level(std::uint32_t index, double level) {
  Link& link = links_[index];
  add_to_region(index);
  advance(link.clock);
  const double change = level - link.clock.rate;
  if (!link.has_shares) {
    link.has_shares = true;
    link.shares.clear();
    for (const Member& member : link.members) add_shares(member.route, index);
  }
  for (const Share& share : link.shares) {
    if (!rests_[share.link].is_known) know(share.link);
    take_from(share.link, share.load, change, level);
  }
  link.clock.rate = level;
}

/// Gives a link the level at which it is full: its members share what the others leave, and those
/// that get more elsewhere become members. What others get on their links changes by that.
inline void FluidLinks::solve(std::uint32_t index) {
  const Link& link = links_[index];
  Rest& rest = rests_[index];
  if (++rest.num_solved > kMostKept || link.num_broken > 0) know(index);
  double level = 0;
  for (;;) {
    if (rest.weight == 0 && rest.left >= -kSame * link.capacity) return;
    joining_.clear();
    level = rest.left / rest.weight;
    const double fastest = rest.fastest;
    if (rest.num_new > 0 || rest.weight == 0 || fastest > level * (1 + kSame)) {
      level = gather(index);
      if (rest.weight == 0 && joining_.empty()) return;  // no overload but for rounding
    }
    if (link.lowest_cap >= level) break;
    rest.fastest = fastest;
    release_capped(index, level);
  }
  const double before = link.clock.rate;
  if (joining_.empty() && std::fabs(level - before) <= kSame * before) return;
  set_level(index, level);
  for (const std::uint32_t route : joining_) move(route, index, level);
}

/// False when that takes more than `most` for each link.
bool FluidLinks::solve_waiting(std::size_t most) {
  for (std::size_t solved = 0; !waiting_.empty(); ++solved) {
    if (solved >= most * (region_.size() + 1)) return false;
    solve(take_waiting());
  }
  return true;
}

/// No route of what hangs together with the region has a rate any more: solving is filling from
/// nothing.
void FluidLinks::forget_rates() {
  while (!waiting_.empty()) (void)take_waiting();
  for (std::size_t done = 0; done < region_.size(); ++done) {
    for (const Sender& sender : links_[region_[done]].senders) {
      for (const Use& use : uses(routes_[sender.route])) add_to_region(use.link);
      if (routes_[sender.route].bottleneck != kNone) set_bottleneck(sender.route, kNone);
    }
  }
  for (const std::uint32_t index : region_) {
    know(index);
    if (rests_[index].weight > 0) enqueue(index);
  }
}

/// The queue gets the ends that follow, and the region is empty again.
void FluidLinks::queue_ends() {
  for (const std::uint32_t index : region_) {
    Link& link = links_[index];
    rests_[index].in_region = false;
    if (link.members.empty()) continue;
    advance(link.clock);
    schedule(link.clock, link.members.front().key, index);
  }
  region_.clear();
  fresh_.clear();
}

}  // namespace tracecast::engine
