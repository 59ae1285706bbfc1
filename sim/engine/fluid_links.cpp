#include "sim/engine/fluid_links.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tracecast::engine {
namespace {

constexpr double kPicosecondsPerSecond = static_cast<double>(Picoseconds::kPerSecond);

double per_picosecond(BytesPerSecond rate) { return rate.in_si() / kPicosecondsPerSecond; }

}  // namespace

LinkId FluidLinks::add_link(BytesPerSecond capacity) {
  TRACECAST_CHECK(capacity.in_si() > 0 && is_finite(capacity), "a link carries something");
  TRACECAST_CHECK(links_.size() < kOwnEvent, "link ids have 31 bits");
  links_.emplace_back().capacity = per_picosecond(capacity);
  return LinkId{static_cast<std::uint32_t>(links_.size() - 1)};
}

RouteId FluidLinks::add_route(std::span<const LinkUse> uses,
                              std::optional<BytesPerSecond> rate_cap) {
  TRACECAST_CHECK(!uses.empty() || rate_cap, "a flow's rate is bounded by something");
  TRACECAST_CHECK(!rate_cap || (rate_cap->in_si() > 0 && is_finite(*rate_cap)),
                  "a rate cap lets something through");
  TRACECAST_CHECK(routes_.size() < kOwnEvent, "route ids have 31 bits");
  Route& route = routes_.emplace_back();
  route.cap = rate_cap ? per_picosecond(*rate_cap) : std::numeric_limits<double>::infinity();
  route.first_use = static_cast<std::uint32_t>(uses_.size());
  for (const LinkUse& use : uses) {
    TRACECAST_CHECK(use.link.index < links_.size(), "a flow's links exist");
    TRACECAST_CHECK(use.weight > 0 && std::isfinite(use.weight), "a weight is positive");
    std::uint32_t& named_by = links_[use.link.index].named_by;
    if (named_by != kNone && named_by >= route.first_use) {
      uses_[named_by].weight += use.weight;
      continue;
    }
    named_by = static_cast<std::uint32_t>(uses_.size());
    uses_.push_back({use.link.index, 0, use.weight});
  }
  route.num_uses = static_cast<std::uint32_t>(uses_.size()) - route.first_use;
  return RouteId{static_cast<std::uint32_t>(routes_.size() - 1)};
}

void FluidLinks::advance(Clock& clock) const {
  const Picoseconds now = queue_.now();
  clock.work += clock.rate * static_cast<double>((now - clock.since).count());
  clock.since = now;
}

double FluidLinks::work_now(const Route& route) const {
  if (route.bottleneck == kNone) return route.own.work;
  const Clock& clock = route.bottleneck == kOwn ? route.own : links_[route.bottleneck].clock;
  return clock.work + clock.rate * static_cast<double>((queue_.now() - clock.since).count()) +
         route.offset;
}

/// Nearest picosecond, and at least one.
Picoseconds FluidLinks::time_to(const Clock& clock, double target) {
  const double steps = (target - clock.work) / clock.rate;
  if (!(steps < 0x1p62))
    fail_too_long(Seconds(steps / kPicosecondsPerSecond), Picoseconds::most().in_seconds());
  return Picoseconds(std::max<std::int64_t>(1, std::llround(steps)));
}

bool FluidLinks::has_reached(const Clock& clock, double target, Picoseconds now) {
  return time_to(clock, target) <= now - clock.since;
}

void FluidLinks::mark_dirty(const Route& route) {
  for (const Use& use : uses(route)) {
    Link& link = links_[use.link];
    if (link.dirty) continue;
    link.dirty = true;
    dirty_.push_back(use.link);
  }
}

void FluidLinks::join_links(std::uint32_t index) {
  const Route& route = routes_[index];
  for (std::uint32_t i = route.first_use; i < route.first_use + route.num_uses; ++i) {
    std::vector<Sender>& senders = links_[uses_[i].link].senders;
    uses_[i].place = static_cast<std::uint32_t>(senders.size());
    senders.push_back({index, i});
  }
}

void FluidLinks::leave_links(std::uint32_t index) {
  for (const Use& use : uses(routes_[index])) {
    std::vector<Sender>& senders = links_[use.link].senders;
    senders[use.place] = senders.back();
    uses_[senders.back().use].place = use.place;
    senders.pop_back();
  }
}

void FluidLinks::start(RouteId id, Bytes bytes, std::uint32_t tag) {
  TRACECAST_CHECK(id.index < routes_.size(), "a flow's route exists");
  TRACECAST_CHECK(bytes.in_bytes() > 0 && is_finite(bytes), "a flow sends something");
  Route& route = routes_[id.index];
  if (route.flows.empty()) {
    route.own.work = 0;
    join_links(id.index);
  }
  route.flows.push_back({work_now(route) + bytes.in_bytes(), tag});
  std::push_heap(route.flows.begin(), route.flows.end(),
                 [](const Flow& a, const Flow& b) { return a.target > b.target; });
  mark_dirty(route);
  if (route.bottleneck != kNone) {
    update_key(id.index);
  }
  if (route.num_uses == 0) {
    if (route.bottleneck == kNone) set_bottleneck(id.index, kOwn);
    route.own.rate = route.cap;
    schedule(route.own, route.flows.front().target, kOwnEvent + id.index);
  }
}

void FluidLinks::settle() {
  if (dirty_.empty()) return;
  collect();
  fill();
  for (const std::uint32_t index : dirty_) {
    Link& link = links_[index];
    link.dirty = false;
    if (!link.members.empty()) schedule(link.clock, link.members.front().key, index);
  }
  for (const std::uint32_t index : collected_) {
    Route& route = routes_[index];
    route.collected = route.fixed = false;
    if (route.bottleneck == kOwn)
      schedule(route.own, route.flows.front().target, kOwnEvent + index);
  }
  dirty_.clear();
  collected_.clear();
}

/// Everything that hangs together with a dirty link.
void FluidLinks::collect() {
  for (std::size_t i = 0; i < dirty_.size(); ++i) {
    Link& link = links_[dirty_[i]];
    advance(link.clock);
    for (const Sender& sender : link.senders) {
      Route& route = routes_[sender.route];
      if (route.collected) continue;
      route.collected = true;
      collected_.push_back(sender.route);
      mark_dirty(route);
    }
  }
}

/// Progressive filling: the link (or cap) that allows least fixes the rate of its flows.
void FluidLinks::fill() {
  const auto later = [](const Share& a, const Share& b) {
    return a.rate > b.rate || (a.rate == b.rate && a.index > b.index);
  };
  for (const std::uint32_t index : dirty_) {
    Link& link = links_[index];
    link.left = link.capacity;
    link.open = static_cast<std::uint32_t>(link.senders.size());
    link.weight = 0;
  }
  shares_.clear();
  for (const std::uint32_t index : collected_) {
    const Route& route = routes_[index];
    for (const Use& use : uses(route)) {
      links_[use.link].weight += use.weight * static_cast<double>(route.flows.size());
    }
    if (std::isfinite(route.cap)) shares_.push_back({route.cap, kOwnEvent + index});
  }
  for (const std::uint32_t index : dirty_) {
    const Link& link = links_[index];
    if (link.open > 0) shares_.push_back({link.left / link.weight, index});
  }
  std::make_heap(shares_.begin(), shares_.end(), later);
  double level = 0;
  while (!shares_.empty()) {
    std::pop_heap(shares_.begin(), shares_.end(), later);
    Share share = shares_.back();
    shares_.pop_back();
    if (share.index >= kOwnEvent) {
      const std::uint32_t index = share.index - kOwnEvent;
      if (!routes_[index].fixed) fix(index, kOwn, level = std::max(level, share.rate));
      continue;
    }
    Link& link = links_[share.index];
    if (link.open == 0) continue;
    const double rate = std::max(level, link.left / link.weight);
    if (rate > share.rate) {  // some of its flows were fixed meanwhile
      shares_.push_back({rate, share.index});
      std::push_heap(shares_.begin(), shares_.end(), later);
      continue;
    }
    level = rate;
    for (const Sender& sender : link.senders) {
      if (!routes_[sender.route].fixed) fix(sender.route, share.index, rate);
    }
  }
}

void FluidLinks::fix(std::uint32_t index, std::uint32_t bottleneck, double rate) {
  Route& route = routes_[index];
  route.fixed = true;
  for (const Use& use : uses(route)) {
    Link& link = links_[use.link];
    const double weight = use.weight * static_cast<double>(route.flows.size());
    link.left = std::max(0.0, link.left - weight * rate);
    link.weight -= weight;
    --link.open;
  }
  if (route.bottleneck != bottleneck) set_bottleneck(index, bottleneck);
  if (bottleneck == kOwn) {
    advance(route.own);
    route.own.rate = rate;
  } else {
    links_[bottleneck].clock.rate = rate;
  }
}

/// Moves a route with its work to another clock.
void FluidLinks::set_bottleneck(std::uint32_t index, std::uint32_t bottleneck) {
  Route& route = routes_[index];
  const double work = work_now(route);
  if (route.bottleneck < links_.size()) remove_member(links_[route.bottleneck], route.place);
  route.bottleneck = bottleneck;
  if (bottleneck == kOwn || bottleneck == kNone) {
    route.own.work = work;
    route.own.since = queue_.now();
    route.own.rate = 0;
    route.offset = 0;
    return;
  }
  Link& link = links_[bottleneck];
  advance(link.clock);
  if (link.members.empty()) link.clock.work = 0;
  route.offset = work - link.clock.work;
  insert_member(link, {route.flows.front().target - route.offset, index});
}

void FluidLinks::schedule(Clock& clock, double target, std::uint32_t event_id) {
  const Picoseconds wait = time_to(clock, target);
  if (wait > last_ - clock.since) {
    fail_too_long((clock.since.in_seconds() + wait.in_seconds()), last_.in_seconds());
  }
  const Picoseconds end = clock.since + wait;
  if (end >= clock.queued) return;  // the event queued comes first and will look again
  clock.queued = end;
  queue_.push(end, event_id, event_kind_);
}

void FluidLinks::take_ended(const Event<Picoseconds>& event, std::vector<std::uint32_t>& ended) {
  const bool own = event.id >= kOwnEvent;
  const std::uint32_t index = own ? event.id - kOwnEvent : event.id;
  Clock& clock = own ? routes_[index].own : links_[index].clock;
  if (event.time != clock.queued) return;
  clock.queued = Picoseconds::most();
  if (own) {
    Route& route = routes_[index];
    while (route.bottleneck == kOwn && has_reached(clock, route.flows.front().target, event.time)) {
      end_first_flow(index, ended);
    }
    if (route.bottleneck == kOwn) schedule(clock, route.flows.front().target, event.id);
    return;
  }
  std::vector<Member>& members = links_[index].members;
  while (!members.empty() && has_reached(clock, members.front().key, event.time)) {
    end_first_flow(members.front().route, ended);
  }
  if (!members.empty()) schedule(clock, members.front().key, event.id);
}

void FluidLinks::end_first_flow(std::uint32_t index, std::vector<std::uint32_t>& ended) {
  Route& route = routes_[index];
  ended.push_back(route.flows.front().tag);
  std::pop_heap(route.flows.begin(), route.flows.end(),
                [](const Flow& a, const Flow& b) { return a.target > b.target; });
  route.flows.pop_back();
  mark_dirty(route);
  if (!route.flows.empty()) return update_key(index);
  set_bottleneck(index, kNone);
  leave_links(index);
}

BytesPerSecond FluidLinks::rate(RouteId id) const {
  const Route& route = routes_[id.index];
  if (route.bottleneck == kNone) return {};
  const Clock& clock = route.bottleneck == kOwn ? route.own : links_[route.bottleneck].clock;
  return BytesPerSecond(clock.rate * kPicosecondsPerSecond);
}

void FluidLinks::update_key(std::uint32_t index) {
  const Route& route = routes_[index];
  if (route.bottleneck >= links_.size()) return;
  Link& link = links_[route.bottleneck];
  link.members[route.place].key = route.flows.front().target - route.offset;
  sift(link, route.place);
}

void FluidLinks::insert_member(Link& link, Member member) {
  link.members.push_back(member);
  sift(link, link.members.size() - 1);
}

void FluidLinks::remove_member(Link& link, std::size_t place) {
  link.members[place] = link.members.back();
  link.members.pop_back();
  if (place < link.members.size()) sift(link, place);
}

/// Moves the member at `place` up or down the heap to where it belongs.
void FluidLinks::sift(Link& link, std::size_t place) {
  std::vector<Member>& members = link.members;
  const Member member = members[place];
  const auto put = [&](std::size_t at, Member what) {
    members[at] = what;
    routes_[what.route].place = static_cast<std::uint32_t>(at);
  };
  for (; place > 0 && member.key < members[(place - 1) / 2].key; place = (place - 1) / 2) {
    put(place, members[(place - 1) / 2]);
  }
  for (std::size_t child; (child = 2 * place + 1) < members.size(); place = child) {
    if (child + 1 < members.size() && members[child + 1].key < members[child].key) ++child;
    if (!(members[child].key < member.key)) break;
    put(place, members[child]);
  }
  put(place, member);
}

}  // namespace tracecast::engine
