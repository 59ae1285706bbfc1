#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/base/ids.hpp"
#include "sim/base/units.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/engine/time.hpp"

namespace tracecast::engine {

using LinkId = Id<struct LinkTag>;
using RouteId = Id<struct RouteTag>;

/// A flow at rate r takes `weight * r` of the link's capacity. Weights above one: a ring that
/// crosses a link several times, or many like transfers written as one. Positive and finite.
struct LinkUse {
  LinkId link;
  double weight = 1;
  friend constexpr auto operator<=>(const LinkUse&, const LinkUse&) = default;
};

/// Links whose capacity flows share max-min fairly, on the clock of an event queue.
///
/// Every flow has one rate at a time; the rates are such that none can rise without lowering one
/// that is not higher (progressive filling): each flow either runs at its cap, or crosses a link
/// that is full and on which no flow is faster, its bottleneck. Source: Bertsekas and Gallager,
/// "Data Networks", 2nd ed., 6.5.2, with weights as coefficients of the capacity constraints.
///
/// The part under `FluidNetwork` and `TaskGraph`, who own the queue: they start flows now, call
/// settle() when all starts and ends of this moment are known, and hand events of `event_kind` back
/// to take_ended(). Flows are kept by route; a route costs memory for good, a flow only while it
/// sends. Times of ends are rounded to the nearest picosecond; progress is not rounded.
/// How it is solved: notes/0001.
class FluidLinks {
 public:
  /// Refuses ends after `last` with InputError. The queue outlives this.
  FluidLinks(EventQueue<Picoseconds>& queue, std::uint16_t event_kind,
             Picoseconds last = Picoseconds::most())
      : queue_(queue), event_kind_(event_kind), last_(last) {}

  /// Capacity positive and finite.
  LinkId add_link(BytesPerSecond capacity);
  /// The links a flow takes, and the most it can do: one of the two is needed. The weights of a
  /// link named twice add up.
  RouteId add_route(std::span<const LinkUse> uses,
                    std::optional<BytesPerSecond> rate_cap = std::nullopt);

  /// Sends `bytes` > 0 from now on; the number comes back when they are through.
  void start(RouteId route, Bytes bytes, std::uint32_t tag);
  /// Gives every flow its rate, and the queue the ends that follow, all later than now.
  void settle();
  /// Appends the tags of the flows that end with this event; none if it no longer holds.
  void take_ended(const Event<Picoseconds>& event, std::vector<std::uint32_t>& ended);

  /// What each flow on this route gets since the last settle(); zero without flows.
  [[nodiscard]] BytesPerSecond rate(RouteId route) const;
  [[nodiscard]] std::size_t num_flows(RouteId route) const {
    return routes_[route.index].num_flows;
  }
  [[nodiscard]] std::size_t num_links() const { return links_.size(); }

 private:
  /// Rates that differ by less than this share are the same: rounding must not spread a change.
  static constexpr double kSame = 1e-12;
  static constexpr std::uint32_t kNone = UINT32_MAX;
  static constexpr std::uint32_t kOwn = UINT32_MAX - 1;  ///< runs at its cap
  static constexpr std::uint32_t kOwnEvent = 1u << 31;   ///< event ids of routes at their cap

  /// Bytes that a flow present all the time has sent: flows of equal rate need one of these, not a
  /// rate each.
  struct Clock {
    double rate = 0;  ///< bytes per picosecond
    double work = 0;  ///< bytes, at `since`
    Picoseconds since{};
    Picoseconds queued = Picoseconds::most();  ///< the event that holds; none: most
  };
  struct Flow {
    double target = 0;  ///< ends when its route's work is this
    std::uint32_t tag = 0;
  };
  struct Member {
    double key = 0;  ///< its next end in the work of the link
    std::uint32_t route = 0;
  };
  struct Sender {
    std::uint32_t route = 0, use = 0;
    double load = 0;  ///< weight times its flows: what they take of the link per unit of rate
  };
  /// What a member of a link takes of another one, per unit of rate.
  struct Share {
    std::uint32_t link = 0, use = 0;
    double load = 0;
  };
  /// What the senders of a link leave of it: all that a change of a rate looks at on the links it
  /// is passed on to, two of them in a line of the cache.
  struct alignas(32) Rest {
    double left = 0;     ///< capacity less what senders limited elsewhere take
    double weight = 0;   ///< loads of those that share it: members, and routes without a rate
    double fastest = 0;  ///< where some share, no other sender gets more
    std::uint32_t num_new = 0;    ///< those without a rate
    std::uint8_t num_solved = 0;  ///< times, since it was added up
    /// Whether this, `lowest_cap` and the number of sharers are kept; then `safe_level` of the link
    /// and of all bottlenecks of its senders is zero.
    bool is_known = false;
    bool is_waiting = false;  ///< to be solved, in `waiting_`
    bool in_region = false;   ///< in `region_`
  };
  /// Line by line of the cache: what ends of flows look at, what their starts do, and what solving
  /// does besides the first.
  struct alignas(64) Link {
    Clock clock;                                   ///< of its members, whose rate is its level
    std::vector<Member> members;                   ///< heap of the routes whose bottleneck it is
    std::uint32_t num_broken = 0;                  ///< loads that are not whole
    bool has_shares = false;                       ///< whether `shares` is kept
    bool is_checked = false, is_carrying = false;  ///< whether it has room for the new rates

    std::vector<Sender> senders;  ///< all routes that send over it now
    /// Of `senders`. Whole numbers add up exactly in any order; while there are others, loads are
    /// added when asked for.
    double sum_of_loads = 0;
    double capacity = 0;  ///< bytes per picosecond
    double level = 0;     ///< new rate of those it is the bottleneck of
    /// All senders are members, no other link of theirs has members, and up to this level none of
    /// those is overloaded and no cap reached; zero where that is not known.
    double safe_level = 0;
    std::uint32_t num_sharers = 0;  ///< members and routes without a rate
    std::uint32_t joining = 0;      ///< routes that begin to send, with this as their bottleneck

    std::vector<Share> shares;  ///< of its members in other links
    double lowest_cap = 0;      ///< no cap of a sharer is lower
  };
  struct Use {
    std::uint32_t link = 0;
    std::uint32_t place = 0;  ///< in the link's `senders`
    double weight = 1;
    [[nodiscard]] bool is_whole() const {
      return weight < 0x1p31 && weight == static_cast<double>(static_cast<std::int32_t>(weight));
    }
  };
  /// What solving looks at; more is in `Flows`.
  struct Route {
    double cap = 0;               ///< bytes per picosecond; infinite: none
    std::uint32_t num_flows = 0;  ///< that send now
    std::uint32_t first_use = 0, num_uses = 0;
    std::uint32_t bottleneck = kNone;  ///< a link, kOwn, or kNone while it has no rate
  };
  /// The flows of a route: the next to end, and what most routes do without.
  struct Flows {
    Flow first;         ///< the next to end
    double offset = 0;  ///< its work minus that of its clock; its work, while it has no rate
    /// In the bottleneck's `members`; where it begins to send, in `fresh_`.
    std::uint32_t place = 0;
    std::uint32_t more = kNone;  ///< in `more_`
  };
  /// Of a route with a cap, or that has had several flows at a time.
  struct More {
    Clock own;                 ///< while it runs at its cap
    std::vector<Flow> others;  ///< heap, next end first
  };
  /// A route that begins to send, and where it would get least.
  struct Fresh {
    std::uint32_t route = 0, bottleneck = kNone;
    double rate = 0;
  };
  /// A rate, and the link that could give it or the place of the sender that gets it.
  struct Rate {
    double rate = 0;
    std::uint32_t index = 0;
  };

  [[nodiscard]] std::span<Use> uses(const Route& route) {
    return {uses_.data() + route.first_use, route.num_uses};
  }
  // Progress: fluid_links.cpp.
  void advance(Clock& clock) const {
    const Picoseconds now = queue_.now();
    if (clock.since == now) return;
    clock.work += clock.rate * static_cast<double>((now - clock.since).count());
    clock.since = now;
  }
  [[nodiscard]] double work_now(std::uint32_t route) const;
  [[nodiscard]] double rate_now(const Route& route) const {
    if (route.bottleneck == kNone) return 0;
    return route.bottleneck == kOwn ? route.cap : links_[route.bottleneck].clock.rate;
  }
  [[nodiscard]] static Picoseconds time_to(const Clock& clock, double target);
  [[nodiscard]] static bool has_reached(const Clock& clock, double target, Picoseconds now);
  void schedule(Clock& clock, double target, std::uint32_t event_id);
  [[nodiscard]] Clock& own_clock(std::uint32_t route) { return more_[flows_[route].more].own; }
  [[nodiscard]] More& more(std::uint32_t route);
  void end_first_flow(std::uint32_t route, std::vector<std::uint32_t>& ended);
  void join_links(std::uint32_t route);
  void leave_links(std::uint32_t route, std::uint32_t bottleneck, double rate);
  void change_loads(std::uint32_t route, std::uint32_t num_flows);
  [[nodiscard]] static double added_loads(const Link& link);
  void set_bottleneck(std::uint32_t route, std::uint32_t bottleneck);
  void sift(Link& link, std::size_t place);
  void insert_member(Link& link, Member member);
  void remove_member(Link& link, std::size_t place);
  void update_key(std::uint32_t route);
  void add_shares(std::uint32_t route, std::uint32_t bottleneck);
  void remove_shares(std::uint32_t route, std::uint32_t bottleneck);
  // Solving where links limit all or none: fluid_sole_limits.cpp.
  [[nodiscard]] bool settle_sole_limits();
  void find_bottleneck(Fresh& fresh);
  [[nodiscard]] bool carries(std::uint32_t link);
  [[nodiscard]] bool carries_safely(std::uint32_t link);
  [[nodiscard]] bool limits_all(std::uint32_t link);
  [[nodiscard]] double safe_level(std::uint32_t link, std::uint32_t bottleneck) const;
  [[nodiscard]] std::uint32_t next_bottleneck(std::uint32_t route) const {
    const std::uint32_t bottleneck = routes_[route].bottleneck;
    return bottleneck == kNone ? fresh_[flows_[route].place].bottleneck : bottleneck;
  }
  void take_over_sole_limits();
  // Solving in general: fluid_solver.cpp.
  /// Of a route that gets a rate anew, or whose bottleneck does.
  [[nodiscard]] double new_rate(std::uint32_t index) const {
    const Route& route = routes_[index];
    if (route.bottleneck == kNone) return fresh_[flows_[index].place].rate;
    if (route.bottleneck == kOwn) return route.cap;
    const Link& link = links_[route.bottleneck];
    return rests_[route.bottleneck].in_region ? link.level : link.clock.rate;
  }
  void add_to_region(std::uint32_t link) {
    if (rests_[link].in_region) return;
    rests_[link].in_region = true;
    region_.push_back(link);
  }
  [[nodiscard]] bool is_solved_best() const;
  [[nodiscard]] std::uint32_t lowest_link(const Route& route);
  void know(std::uint32_t link);
  void enqueue(std::uint32_t link);
  [[nodiscard]] std::uint32_t take_waiting();
  void take_from(std::uint32_t link, double load, double change, double rate);
  [[nodiscard]] bool solve_waiting(std::size_t most);
  void solve(std::uint32_t link);
  [[nodiscard]] double gather(std::uint32_t link);
  void release_capped(std::uint32_t link, double level);
  void set_level(std::uint32_t link, double level);
  void move(std::uint32_t route, std::uint32_t bottleneck, double rate);
  void forget_rates();
  void queue_ends();

  EventQueue<Picoseconds>& queue_;
  std::uint16_t event_kind_;
  Picoseconds last_;
  std::vector<Link> links_;
  std::vector<Rest> rests_;  ///< by link
  std::vector<Route> routes_;
  std::vector<Flows> flows_;  ///< by route
  std::vector<More> more_;
  std::vector<Use> uses_;
  std::vector<std::uint32_t>
      share_places_;  ///< by use: in the bottleneck's `shares`, where it keeps them
  std::vector<std::uint32_t> named_by_;  ///< by link: the last use that names it
  std::vector<Fresh> fresh_;             ///< routes that began to send since settle()
  /// Links whose flows changed since settle(); while solving, also those whose level does.
  std::vector<std::uint32_t> region_;
  std::vector<std::uint32_t> limiting_;  ///< links of region_ that are bottlenecks
  std::vector<std::uint32_t> checked_;   ///< links that are
  std::vector<std::uint32_t>
      forgotten_;              ///< known links whose senders' rates change without a look at them
  std::vector<Rate> waiting_;  ///< links to be solved
  bool is_heap_ = false;       ///< how they are kept
  std::vector<Rate> faster_;   ///< senders that get more than the link being solved gives
  std::vector<std::uint32_t> joining_;  ///< routes that it becomes the bottleneck of
  std::vector<std::uint32_t> leaving_;  ///< routes that reach their cap there
};

}  // namespace tracecast::engine
