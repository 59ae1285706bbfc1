#include "sim/engine/fluid_links.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tracecast::engine {
namespace {

constexpr double kPicosecondsPerSecond = static_cast<double>(Picoseconds::kPerSecond);

double per_picosecond(BytesPerSecond rate) { return rate.in_si() / kPicosecondsPerSecond; }

double add_up(const auto& senders) {
  double sum = 0;
  for (const auto& sender : senders) sum += sender.load;
  return sum;
}

/// For heaps with the next end in front.
constexpr auto ends_later = [](const auto& a, const auto& b) { return a.target > b.target; };

}  // namespace

LinkId FluidLinks::add_link(BytesPerSecond capacity) {
  TRACECAST_CHECK(capacity.in_si() > 0 && is_finite(capacity), "a link carries something");
  TRACECAST_CHECK(links_.size() < kOwnEvent, "link ids have 31 bits");
  links_.emplace_back().capacity = per_picosecond(capacity);
  rests_.emplace_back();
  named_by_.push_back(kNone);
  return LinkId{static_cast<std::uint32_t>(links_.size() - 1)};
}

RouteId FluidLinks::add_route(std::span<const LinkUse> uses,
                              std::optional<BytesPerSecond> rate_cap) {
  TRACECAST_CHECK(!uses.empty() || rate_cap, "a flow's rate is bounded by something");
  TRACECAST_CHECK(!rate_cap || (rate_cap->in_si() > 0 && is_finite(*rate_cap)),
                  "a rate cap lets something through");
  TRACECAST_CHECK(routes_.size() < kOwnEvent, "route ids have 31 bits");
  const auto index = static_cast<std::uint32_t>(routes_.size());
  Route& route = routes_.emplace_back();
  flows_.emplace_back();
  if (rate_cap) (void)more(index);
  route.cap = rate_cap ? per_picosecond(*rate_cap) : std::numeric_limits<double>::infinity();
  route.first_use = static_cast<std::uint32_t>(uses_.size());
  for (const LinkUse& use : uses) {
    TRACECAST_CHECK(use.link.index < links_.size(), "a flow's links exist");
    TRACECAST_CHECK(use.weight > 0 && std::isfinite(use.weight), "a weight is positive");
    std::uint32_t& named_by = named_by_[use.link.index];
    if (named_by != kNone && named_by >= route.first_use) {
      uses_[named_by].weight += use.weight;
      continue;
    }
    named_by = static_cast<std::uint32_t>(uses_.size());
    uses_.push_back({use.link.index, 0, use.weight});
    share_places_.push_back(0);
  }
  route.num_uses = static_cast<std::uint32_t>(uses_.size()) - route.first_use;
  return RouteId{index};
}

FluidLinks::More& FluidLinks::more(std::uint32_t index) {
  Flows& flows = flows_[index];
  if (flows.more == kNone) {
    flows.more = static_cast<std::uint32_t>(more_.size());
    more_.emplace_back();
  }
  return more_[flows.more];
}

double FluidLinks::work_now(std::uint32_t index) const {
  const std::uint32_t bottleneck = routes_[index].bottleneck;
  const Flows& flows = flows_[index];
  if (bottleneck == kNone) return flows.offset;
  const Clock& clock = bottleneck == kOwn ? more_[flows.more].own : links_[bottleneck].clock;
  return clock.work + clock.rate * static_cast<double>((queue_.now() - clock.since).count()) +
         flows.offset;
}

/// Nearest picosecond, and at least one.
Picoseconds FluidLinks::time_to(const Clock& clock, double target) {
  const double steps = (target - clock.work) / clock.rate;
  if (!(steps < 0x1p62)) [[unlikely]] {
    fail_too_long(Seconds(steps / kPicosecondsPerSecond), Picoseconds::most().in_seconds());
  }
  return Picoseconds(std::max<std::int64_t>(1, static_cast<std::int64_t>(steps + 0.5)));
}

bool FluidLinks::has_reached(const Clock& clock, double target, Picoseconds now) {
  return time_to(clock, target) <= now - clock.since;
}

/// Its first flow begins.
void FluidLinks::join_links(std::uint32_t index) {
  Route& route = routes_[index];
  route.num_flows = 1;
  for (std::uint32_t i = route.first_use; i < route.first_use + route.num_uses; ++i) {
    Use& use = uses_[i];
    Link& link = links_[use.link];
    use.place = static_cast<std::uint32_t>(link.senders.size());
    link.senders.push_back({index, i, use.weight});
    link.sum_of_loads += use.weight;
    if (!use.is_whole()) ++link.num_broken;
    if (Rest& rest = rests_[use.link]; rest.is_known) {
      rest.weight += use.weight;
      ++rest.num_new;
      ++link.num_sharers;
      link.lowest_cap = std::min(link.lowest_cap, route.cap);
    }
    add_to_region(use.link);
  }
}

/// Its last flow has ended, which had this rate.
void FluidLinks::leave_links(std::uint32_t index, std::uint32_t bottleneck, double rate) {
  for (const Use& use : uses(routes_[index])) {
    Link& link = links_[use.link];
    std::vector<Sender>& senders = link.senders;
    const double load = senders[use.place].load;
    link.sum_of_loads -= load;
    const bool was_last_broken = !use.is_whole() && --link.num_broken == 0;
    senders[use.place] = senders.back();
    uses_[senders.back().use].place = use.place;
    senders.pop_back();
    if (was_last_broken) link.sum_of_loads = add_up(senders);
    if (Rest& rest = rests_[use.link]; rest.is_known) {
      if (use.link != bottleneck) {
        rest.left += load * rate;
      } else {
        rest.weight = --link.num_sharers > 0 ? rest.weight - load : 0;
      }
    }
    add_to_region(use.link);
  }
}

/// The number of its flows is another.
void FluidLinks::change_loads(std::uint32_t index, std::uint32_t num_flows) {
  Route& route = routes_[index];
  route.num_flows = num_flows;
  const double rate = rate_now(route);
  for (const Use& use : uses(route)) {
    Link& link = links_[use.link];
    double& load = link.senders[use.place].load;
    const double before = load;
    load = use.weight * num_flows;
    link.sum_of_loads += load - before;
    if (Rest& rest = rests_[use.link]; rest.is_known) {
      if (route.bottleneck == use.link || route.bottleneck == kNone) {
        rest.weight += load - before;
      } else {
        rest.left -= (load - before) * rate;
      }
    }
    add_to_region(use.link);
  }
  if (route.bottleneck >= links_.size() || !links_[route.bottleneck].has_shares) return;
  for (std::uint32_t i = route.first_use; i < route.first_use + route.num_uses; ++i) {
    if (uses_[i].link == route.bottleneck) continue;
    links_[route.bottleneck].shares[share_places_[i]].load = uses_[i].weight * num_flows;
  }
}

double FluidLinks::added_loads(const Link& link) {
  return link.num_broken == 0 ? link.sum_of_loads : add_up(link.senders);
}

void FluidLinks::start(RouteId id, Bytes bytes, std::uint32_t tag) {
  TRACECAST_CHECK(id.index < routes_.size(), "a flow's route exists");
  TRACECAST_CHECK(bytes.in_bytes() > 0 && is_finite(bytes), "a flow sends something");
  const Route& route = routes_[id.index];
  Flows& flows = flows_[id.index];
  if (route.num_flows == 0) {
    flows.offset = 0;
    flows.first = {bytes.in_bytes(), tag};
    join_links(id.index);
    if (route.num_uses == 0) return set_bottleneck(id.index, kOwn);
    flows.place = static_cast<std::uint32_t>(fresh_.size());
    fresh_.push_back({id.index});
    return;
  }
  Flow later{work_now(id.index) + bytes.in_bytes(), tag};
  if (ends_later(flows.first, later)) std::swap(flows.first, later);
  std::vector<Flow>& others = more(id.index).others;
  others.push_back(later);
  std::push_heap(others.begin(), others.end(), ends_later);
  change_loads(id.index, route.num_flows + 1);
  update_key(id.index);
}

/// Moves a route with its work to another clock.
void FluidLinks::set_bottleneck(std::uint32_t index, std::uint32_t bottleneck) {
  Route& route = routes_[index];
  Flows& flows = flows_[index];
  const double work = work_now(index);
  if (route.bottleneck < links_.size()) {
    Link& link = links_[route.bottleneck];
    remove_member(link, flows.place);
    if (link.has_shares) remove_shares(index, route.bottleneck);
  }
  route.bottleneck = bottleneck;
  if (bottleneck == kNone) {
    flows.offset = work;
    return;
  }
  if (bottleneck == kOwn) {
    Clock& own = own_clock(index);
    own.work = work;
    own.rate = route.cap;
    own.since = queue_.now();
    flows.offset = 0;
    return update_key(index);
  }
  Link& link = links_[bottleneck];
  advance(link.clock);
  if (link.members.empty()) link.clock.work = 0;
  flows.offset = work - link.clock.work;
  insert_member(link, {flows.first.target - flows.offset, index});
  if (link.has_shares) add_shares(index, bottleneck);
}

void FluidLinks::schedule(Clock& clock, double target, std::uint32_t event_id) {
  // Mostly the event queued comes first, and will look again: seen without a parallel layout.
  const auto until = static_cast<double>((clock.queued - clock.since).count());
  if (clock.queued != Picoseconds::most() && target - clock.work > clock.rate * (until + 1)) return;
  const Picoseconds wait = time_to(clock, target);
  if (wait > last_ - clock.since) {
    fail_too_long((clock.since.in_seconds() + wait.in_seconds()), last_.in_seconds());
  }
  const Picoseconds end = clock.since + wait;
  if (end >= clock.queued) return;
  clock.queued = end;
  queue_.push(end, event_id, event_kind_);
}

void FluidLinks::take_ended(const Event<Picoseconds>& event, std::vector<std::uint32_t>& ended) {
  const bool own = event.id >= kOwnEvent;
  const std::uint32_t index = own ? event.id - kOwnEvent : event.id;
  Clock& clock = own ? own_clock(index) : links_[index].clock;
  if (event.time != clock.queued) return;  // an earlier one has taken its place
  clock.queued = Picoseconds::most();
  if (own) {
    const Flow& first = flows_[index].first;
    while (routes_[index].bottleneck == kOwn && has_reached(clock, first.target, event.time)) {
      end_first_flow(index, ended);
    }
    if (routes_[index].bottleneck == kOwn) schedule(clock, first.target, event.id);
  } else {
    const std::vector<Member>& members = links_[index].members;
    const std::size_t before = ended.size();
    while (!members.empty() && has_reached(clock, members.front().key, event.time)) {
      end_first_flow(members.front().route, ended);
    }
    // Where some have ended, settle() does it.
    if (!members.empty() && ended.size() == before) schedule(clock, members.front().key, event.id);
  }
}

void FluidLinks::end_first_flow(std::uint32_t index, std::vector<std::uint32_t>& ended) {
  Flows& flows = flows_[index];
  ended.push_back(flows.first.tag);
  if (const std::uint32_t left = routes_[index].num_flows - 1; left > 0) {
    std::vector<Flow>& others = more_[flows.more].others;
    flows.first = others.front();
    std::pop_heap(others.begin(), others.end(), ends_later);
    others.pop_back();
    change_loads(index, left);
    update_key(index);
  } else {
    const std::uint32_t bottleneck = routes_[index].bottleneck;
    const double rate = rate_now(routes_[index]);
    set_bottleneck(index, kNone);
    leave_links(index, bottleneck, rate);
    routes_[index].num_flows = 0;
  }
}

BytesPerSecond FluidLinks::rate(RouteId id) const {
  return BytesPerSecond(rate_now(routes_[id.index]) * kPicosecondsPerSecond);
}

/// Its next end is another one.
void FluidLinks::update_key(std::uint32_t index) {
  const std::uint32_t bottleneck = routes_[index].bottleneck;
  if (bottleneck == kNone) return;
  Flows& flows = flows_[index];
  if (bottleneck == kOwn) {
    return schedule(own_clock(index), flows.first.target, kOwnEvent + index);
  }
  Link& link = links_[bottleneck];
  link.members[flows.place].key = flows.first.target - flows.offset;
  sift(link, flows.place);
}

/// What a member of the bottleneck takes of other links.
void FluidLinks::add_shares(std::uint32_t index, std::uint32_t bottleneck) {
  const Route& route = routes_[index];
  std::vector<Share>& shares = links_[bottleneck].shares;
  auto place = static_cast<std::uint32_t>(shares.size());
  shares.resize(place + route.num_uses - 1);
  for (std::uint32_t i = route.first_use; i < route.first_use + route.num_uses; ++i) {
    if (uses_[i].link == bottleneck) continue;
    share_places_[i] = place;
    shares[place++] = {uses_[i].link, i, uses_[i].weight * route.num_flows};
  }
}

void FluidLinks::remove_shares(std::uint32_t index, std::uint32_t bottleneck) {
  std::vector<Share>& shares = links_[bottleneck].shares;
  const Route& route = routes_[index];
  for (std::uint32_t i = route.first_use; i < route.first_use + route.num_uses; ++i) {
    if (uses_[i].link == bottleneck) continue;
    shares[share_places_[i]] = shares.back();
    share_places_[shares.back().use] = share_places_[i];
    shares.pop_back();
  }
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
    flows_[what.route].place = static_cast<std::uint32_t>(at);
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
