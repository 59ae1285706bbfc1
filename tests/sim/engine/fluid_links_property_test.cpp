// Properties of max-min fair flows over random networks with many ties, and the same networks by a
// reference: progressive filling from scratch at every moment.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/engine/fluid_links.hpp"
#include "sim/engine/task_graph.hpp"

namespace tracecast::engine {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct PlannedRoute {
  std::vector<LinkUse> uses;
  double cap = kNever;  ///< bytes per second
};
struct PlannedFlow {
  std::uint32_t route = 0;
  double bytes = 0;
  std::int64_t wait_ps = 0;            ///< from time zero or the end of `after`
  std::optional<std::uint32_t> after;  ///< a flow of lower index
};
struct Plan {
  std::vector<double> capacity;  ///< bytes per second
  std::vector<PlannedRoute> routes;
  std::vector<PlannedFlow> flows;
};

Plan random_plan(Random& random) {
  const double capacities[] = {1e9, 1e9, 2e9, 5e9, 12.5e9}, weights[] = {1, 1, 1, 2, 0.3, 7};
  const auto pick = [&](const auto& values) { return values[random.below(std::size(values))]; };
  const bool plain = random.below(2) == 0;  // no weights, no caps
  Plan plan;
  for (std::uint64_t i = 1 + random.below(10); i > 0; --i) {
    plan.capacity.push_back(random.below(2) == 0 ? pick(capacities)
                                                 : 1e10 * (0.01 + random.uniform()));
  }
  for (std::uint64_t i = 1 + random.below(20); i > 0; --i) {
    PlannedRoute route;
    std::vector<std::uint32_t> links(plan.capacity.size());
    std::iota(links.begin(), links.end(), 0u);
    for (std::uint64_t hops = 1 + random.below(4); hops > 0 && !links.empty(); --hops) {
      const std::size_t at = random.below(links.size());
      route.uses.push_back({LinkId{links[at]}, plain ? 1.0 : pick(weights)});
      links.erase(links.begin() + static_cast<long>(at));
    }
    if (!plain && random.below(4) == 0) route.cap = pick(capacities) / 4;
    plan.routes.push_back(route);
  }
  for (std::uint32_t i = 0, count = static_cast<std::uint32_t>(1 + random.below(60)); i < count;
       ++i) {
    PlannedFlow flow;
    flow.route = static_cast<std::uint32_t>(random.below(plan.routes.size()));
    flow.bytes = random.below(2) == 0 ? 1e6 : 1e7 * (1e-3 + random.uniform());
    flow.wait_ps = static_cast<std::int64_t>(500'000'000 * random.below(8));
    if (i > 0 && random.below(2) == 0) flow.after = static_cast<std::uint32_t>(random.below(i));
    plan.flows.push_back(flow);
  }
  return plan;
}

/// Flows over neighbouring links, each a bit wider than the one before: what changes at one end of
/// the chain is felt at the other.
Plan random_chain(Random& random) {
  Plan plan;
  const auto num_links = static_cast<std::uint32_t>(20 + random.below(20));
  for (std::uint32_t i = 0; i < num_links; ++i) {
    plan.capacity.push_back(1e9 * (1 + 0.2 * i + 0.1 * random.uniform()));
    PlannedRoute route{{{LinkId{i}}}, kNever};
    if (i + 1 < num_links) route.uses.push_back({LinkId{i + 1}});
    plan.routes.push_back(route);
    plan.flows.push_back({i, 1e6 * (1 + 0.3 * random.uniform()), 0, std::nullopt});
  }
  for (int i = 0; i < 5; ++i) {
    plan.flows.push_back({static_cast<std::uint32_t>(random.below(num_links)), 1e5,
                          static_cast<std::int64_t>(200'000'000 * random.below(6)), std::nullopt});
  }
  return plan;
}

/// Hosts on leaves and spines, ports and uplinks alike: flows meet on several full links at once,
/// with ties. Every other fabric has flows of other weights and loads that are not whole.
Plan random_fabric(Random& random) {
  constexpr std::uint32_t kLeaves = 4, kPerLeaf = 4, kSpines = 2, kHosts = kLeaves * kPerLeaf;
  const double port = 1e9, uplink = port * static_cast<double>(1 + random.below(3));
  Plan plan;
  const auto add_links = [&](std::uint32_t count, double capacity) {
    const auto first = static_cast<std::uint32_t>(plan.capacity.size());
    plan.capacity.insert(plan.capacity.end(), count, capacity);
    return first;
  };
  const std::uint32_t up = add_links(kHosts, port), down = add_links(kHosts, port);
  const std::uint32_t to_spine = add_links(kLeaves * kSpines, uplink);
  const std::uint32_t from_spine = add_links(kLeaves * kSpines, uplink);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random.below(n)); };
  const bool plain = below(2) == 0;
  for (std::uint32_t i = 0; i < 80; ++i) {
    const std::uint32_t from = below(kHosts), to = below(kHosts), spine = below(kSpines);
    PlannedRoute route{{{LinkId{up + from}}, {LinkId{down + to}}}, kNever};
    if (from / kPerLeaf != to / kPerLeaf) {
      route.uses.push_back({LinkId{to_spine + from / kPerLeaf * kSpines + spine}});
      route.uses.push_back({LinkId{from_spine + to / kPerLeaf * kSpines + spine}});
    }
    if (below(8) == 0) route.cap = port / 3;
    if (!plain && below(3) == 0) {
      for (LinkUse& use : route.uses) use.weight = below(2) == 0 ? 2 : 0.3 + random.uniform();
    }
    plan.routes.push_back(route);
    PlannedFlow flow{i, 1e6 * (0.1 + random.uniform()), 0, std::nullopt};
    if (i >= 40) flow.after = i - 40;
    plan.flows.push_back(flow);
  }
  return plan;
}

/// Flows that come and go through one link that is full most of the time, each over a port of its
/// own or shared by two; some ports and caps are so narrow that they become the limit while the
/// rest is away.
Plan random_core(Random& random) {
  Plan plan{{5e9}, {}, {}};
  for (std::uint32_t port = 1; port <= 20; ++port) {
    plan.capacity.push_back(random.below(4) == 0 ? 3e8 * (0.5 + random.uniform()) : 2e9);
    for (std::uint64_t sharing = 1 + random.below(2); sharing > 0; --sharing) {
      PlannedRoute route{{{LinkId{port}}, {LinkId{0}}}, kNever};
      if (random.below(6) == 0) route.cap = 2e8 * (0.5 + 2 * random.uniform());
      if (random.below(6) == 0) route.uses.back().weight = random.below(2) == 0 ? 2 : 0.7;
      plan.routes.push_back(route);
    }
  }
  for (std::uint32_t i = 0; i < 90; ++i) {
    PlannedFlow flow{static_cast<std::uint32_t>(random.below(plan.routes.size())),
                     1e6 * (0.1 + random.uniform()),
                     static_cast<std::int64_t>(100'000'000 * random.below(60)), std::nullopt};
    plan.flows.push_back(flow);
  }
  return plan;
}

/// Rings over one switch, each in steps: host i sends when it has sent and its neighbour before it
/// has. Rings share ports, begin at different times, and jump over hosts; a port is narrow.
Plan random_ring(Random& random) {
  const auto hosts = static_cast<std::uint32_t>(3 + random.below(8));
  Plan plan;
  for (std::uint32_t i = 0; i < 2 * hosts; ++i) plan.capacity.push_back(2e9);
  if (random.below(2) == 0) plan.capacity[random.below(hosts)] = 7e8;
  for (std::uint32_t ring = 0, rings = static_cast<std::uint32_t>(1 + random.below(3));
       ring < rings; ++ring) {
    const auto first_route = static_cast<std::uint32_t>(plan.routes.size());
    const auto jump = static_cast<std::uint32_t>(1 + random.below(hosts - 1));
    for (std::uint32_t i = 0; i < hosts; ++i) {
      plan.routes.push_back({{{LinkId{i}}, {LinkId{hosts + (i + jump) % hosts}}}, kNever});
    }
    const double bytes = random.below(2) == 0 ? 1e6 : 1e6 * (0.1 + random.uniform());
    for (std::uint32_t step = 0; step < 6; ++step) {
      for (std::uint32_t i = 0; i < hosts; ++i) {
        PlannedFlow flow{first_route + i, bytes, 1'000'000, std::nullopt};
        const auto index = static_cast<std::uint32_t>(plan.flows.size());
        if (step == 0) flow.wait_ps += static_cast<std::int64_t>(100'000'000 * random.below(9));
        if (step > 0) flow.after = index - (random.below(2) == 0 || i == 0 ? hosts : hosts + 1);
        plan.flows.push_back(flow);
      }
    }
  }
  return plan;
}

/// One of each kind in turn.
Plan any_plan(Random& random, int i) {
  switch (i % 8) {
    case 0:
      return random_chain(random);
    case 1:
    case 2:
      return random_fabric(random);
    case 3:
      return random_core(random);
    case 4:
      return random_ring(random);
    default:
      return random_plan(random);
  }
}

/// Rates in bytes per second of flows on the given routes: raise all together; when a link is full
/// or a cap reached, those concerned stay.
std::vector<double> fill(const Plan& plan, const std::vector<std::uint32_t>& flow_routes) {
  std::vector<double> rate(flow_routes.size(), 0), left = plan.capacity;
  std::vector<bool> fixed(flow_routes.size(), false);
  for (double level = 0; std::find(fixed.begin(), fixed.end(), false) != fixed.end();) {
    std::vector<double> weight(left.size(), 0);
    double rise = kNever;
    for (std::size_t i = 0; i < rate.size(); ++i) {
      if (fixed[i]) continue;
      const PlannedRoute& route = plan.routes[flow_routes[i]];
      for (const LinkUse& use : route.uses) weight[use.link.index] += use.weight;
      rise = std::min(rise, route.cap - level);
    }
    for (std::size_t l = 0; l < left.size(); ++l) {
      if (weight[l] > 0) rise = std::min(rise, left[l] / weight[l]);
    }
    level += rise;
    for (std::size_t l = 0; l < left.size(); ++l) left[l] -= rise * weight[l];
    for (std::size_t i = 0; i < rate.size(); ++i) {
      if (fixed[i]) continue;
      const PlannedRoute& route = plan.routes[flow_routes[i]];
      rate[i] = level;
      fixed[i] = level >= route.cap * (1 - 1e-12) ||
                 std::any_of(route.uses.begin(), route.uses.end(), [&](const LinkUse& use) {
                   return left[use.link.index] <= 1e-12 * plan.capacity[use.link.index];
                 });
    }
  }
  return rate;
}

/// The end of every flow, in seconds.
std::vector<double> end_by_reference(const Plan& plan) {
  const std::size_t count = plan.flows.size();
  std::vector<double> begin(count, kNever), left(count), end(count, kNever);
  for (std::size_t i = 0; i < count; ++i) {
    left[i] = plan.flows[i].bytes;
    if (!plan.flows[i].after) begin[i] = 1e-12 * static_cast<double>(plan.flows[i].wait_ps);
  }
  for (double now = 0;;) {
    std::vector<std::size_t> sending;
    std::vector<std::uint32_t> routes;
    double next = kNever;
    for (std::size_t i = 0; i < count; ++i) {
      if (begin[i] > now) {
        next = std::min(next, begin[i]);
      } else if (end[i] == kNever) {
        sending.push_back(i);
        routes.push_back(plan.flows[i].route);
      }
    }
    const std::vector<double> rate = fill(plan, routes);
    for (std::size_t i = 0; i < sending.size(); ++i) {
      next = std::min(next, now + left[sending[i]] / rate[i]);
    }
    if (next == kNever) return end;
    for (std::size_t i = 0; i < sending.size(); ++i) {
      const std::size_t flow = sending[i];
      left[flow] -= rate[i] * (next - now);
      if (left[flow] > 1e-12 * rate[i]) continue;
      end[flow] = next;
      for (std::size_t j = 0; j < count; ++j) {
        if (plan.flows[j].after != flow) continue;
        begin[j] = next + 1e-12 * static_cast<double>(plan.flows[j].wait_ps);
      }
    }
    now = next;
  }
}

/// Runs the plan on a queue of its own. `look(links, sending)` is called when all rates of a moment
/// are set: `sending` lists the flows under way.
template <class Look>
std::vector<double> run(const Plan& plan, Look look) {
  enum Kind : std::uint16_t { kBegins, kEnds };
  EventQueue<Picoseconds> queue;
  FluidLinks links(queue, kEnds);
  for (const double capacity : plan.capacity) links.add_link(BytesPerSecond(capacity));
  for (const PlannedRoute& route : plan.routes) {
    links.add_route(route.uses,
                    route.cap == kNever ? std::nullopt : std::optional(BytesPerSecond(route.cap)));
  }
  const auto follow = [&](std::optional<std::uint32_t> ended) {
    for (std::uint32_t i = 0; i < plan.flows.size(); ++i) {
      const PlannedFlow& flow = plan.flows[i];
      if (flow.after == ended) queue.push(queue.now() + Picoseconds(flow.wait_ps), i, kBegins);
    }
  };
  follow(std::nullopt);
  std::vector<std::uint32_t> sending, ended;
  std::vector<double> end(plan.flows.size(), kNever);
  while (!queue.empty()) {
    const Event<Picoseconds> event = queue.pop();
    if (event.kind == kBegins) {
      const PlannedFlow& flow = plan.flows[event.id];
      links.start(RouteId{flow.route}, Bytes(flow.bytes), event.id);
      sending.push_back(event.id);
    } else {
      links.take_ended(event, ended);
    }
    for (const std::uint32_t flow : ended) {
      std::erase(sending, flow);
      end[flow] = queue.now().in_seconds().in_s();
      follow(flow);
    }
    ended.clear();
    if (queue.has_event_now()) continue;
    links.settle();
    look(links, sending, queue.now());
  }
  CHECK(sending.empty());
  return end;
}

std::vector<double> run(const Plan& plan) {
  return run(plan, [](const FluidLinks&, const std::vector<std::uint32_t>&, Picoseconds) {});
}

/// Ends are rounded by up to 0.5 ps; what a fast flow has too much or too little of it, a slow one
/// behind it takes longer for, by the ratio of their rates: allowed are 200.
bool agree(double a_s, double b_s) { return std::fabs(a_s - b_s) <= std::max(1e-9 * b_s, 1e-10); }

TEST_SUITE_BEGIN("sim/engine/fluid_links");

TEST_CASE("every flow ends when progressive filling from scratch says") {
  Random random(1);
  for (int i = 0; i < 800; ++i) {
    CAPTURE(i);
    const Plan plan = any_plan(random, i);
    const std::vector<double> expected = end_by_reference(plan), got = run(plan);
    for (std::size_t flow = 0; flow < expected.size(); ++flow) {
      CAPTURE(flow);
      CAPTURE(expected[flow]);
      CAPTURE(got[flow] - expected[flow]);
      CHECK(agree(got[flow], expected[flow]));
    }
  }
}

TEST_CASE("transfers of a task graph end when the flows of the same network do") {
  Random random(6);
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    const Plan plan = random_plan(random);
    TaskGraph graph;
    for (const double capacity : plan.capacity) graph.add_link(BytesPerSecond(capacity));
    std::vector<TaskId> tasks;
    for (const PlannedFlow& flow : plan.flows) {  // the wait as a lag, a latency or both
      const PlannedRoute& route = plan.routes[flow.route];
      const auto lag = static_cast<std::int64_t>(
          flow.after ? random.below(static_cast<std::uint64_t>(flow.wait_ps) + 1) : 0);
      tasks.push_back(graph.add_transfer(
          std::nullopt, route.uses, Bytes(flow.bytes), Picoseconds(flow.wait_ps - lag).in_seconds(),
          route.cap == kNever ? std::nullopt : std::optional(BytesPerSecond(route.cap))));
      if (flow.after) graph.add_dependency(tasks[*flow.after], tasks.back(), Picoseconds(lag));
    }
    const Schedule schedule = graph.run();
    const std::vector<double> expected = run(plan);
    for (std::size_t flow = 0; flow < expected.size(); ++flow) {
      CHECK(agree(schedule.end[flow].in_seconds().in_s(), expected[flow]));
    }
    const std::vector<TaskId> path = schedule.critical_path();
    Picoseconds on_path{}, before = schedule.makespan;
    for (const TaskId task : path) {  // each begins when the next has ended, or its lag later
      CHECK(schedule.end[task.index] <= before);
      on_path += schedule.end[task.index] - schedule.start[task.index];
      on_path += before - schedule.end[task.index];
      before = schedule.start[task.index];
    }
    CHECK(on_path == schedule.makespan);
  }
}

TEST_CASE("no link carries more than it can, and every flow has its cap or a bottleneck") {
  Random random(2);
  for (int i = 0; i < 400; ++i) {
    CAPTURE(i);
    const Plan plan = any_plan(random, i);
    run(plan, [&](const FluidLinks& links, const std::vector<std::uint32_t>& sending, Picoseconds) {
      std::vector<double> load(plan.capacity.size(), 0), fastest(plan.capacity.size(), 0);
      const auto rate = [&](std::uint32_t flow) {
        return links.rate(RouteId{plan.flows[flow].route}).in_si();
      };
      for (const std::uint32_t flow : sending) {
        for (const LinkUse& use : plan.routes[plan.flows[flow].route].uses) {
          load[use.link.index] += use.weight * rate(flow);
          fastest[use.link.index] = std::max(fastest[use.link.index], rate(flow));
        }
      }
      bool feasible = true, fair = true;
      for (std::size_t l = 0; l < load.size(); ++l) {
        feasible = feasible && load[l] <= plan.capacity[l] * (1 + 1e-9);
      }
      for (const std::uint32_t flow : sending) {
        const PlannedRoute& route = plan.routes[plan.flows[flow].route];
        fair = fair && (rate(flow) >= route.cap * (1 - 1e-9) ||
                        std::any_of(route.uses.begin(), route.uses.end(), [&](const LinkUse& use) {
                          const std::size_t l = use.link.index;
                          return load[l] >= plan.capacity[l] * (1 - 1e-9) &&
                                 rate(flow) >= fastest[l] * (1 - 1e-9);
                        }));
        feasible = feasible && rate(flow) <= route.cap * (1 + 1e-9);
      }
      CHECK(feasible);
      CHECK(fair);
    });
  }
}

TEST_CASE("the rates of a flow over its time add up to its bytes") {
  Random random(3);
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    const Plan plan = random_plan(random);
    std::vector<double> sent(plan.flows.size(), 0), rate(plan.flows.size(), 0);
    std::vector<double> fastest(plan.flows.size(), 0);
    Picoseconds last{};
    run(plan,
        [&](const FluidLinks& links, const std::vector<std::uint32_t>& sending, Picoseconds now) {
          for (std::size_t flow = 0; flow < sent.size(); ++flow) {
            sent[flow] += rate[flow] * (now - last).in_seconds().in_s();
            rate[flow] = 0;
          }
          for (const std::uint32_t flow : sending) {
            rate[flow] = links.rate(RouteId{plan.flows[flow].route}).in_si();
            fastest[flow] = std::max(fastest[flow], rate[flow]);
          }
          last = now;
        });
    for (std::size_t flow = 0; flow < sent.size(); ++flow) {
      // The end is rounded to the picosecond: a byte more or less in 1e3 s / rate.
      CHECK(std::fabs(sent[flow] - plan.flows[flow].bytes) <=
            1e-9 * plan.flows[flow].bytes + 2e-12 * fastest[flow]);
    }
  }
}

TEST_CASE("the order in which links, routes and flows are named changes nothing") {
  Random random(4);
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    const Plan plan = random_plan(random);
    Plan turned = plan;  // links and routes backwards
    const auto last_link = static_cast<std::uint32_t>(plan.capacity.size() - 1);
    const auto last_route = static_cast<std::uint32_t>(plan.routes.size() - 1);
    std::reverse(turned.capacity.begin(), turned.capacity.end());
    std::reverse(turned.routes.begin(), turned.routes.end());
    for (PlannedRoute& route : turned.routes) {
      std::reverse(route.uses.begin(), route.uses.end());
      for (LinkUse& use : route.uses) use.link.index = last_link - use.link.index;
    }
    for (PlannedFlow& flow : turned.flows) flow.route = last_route - flow.route;
    const std::vector<double> expected = run(plan), got = run(turned);
    for (std::size_t flow = 0; flow < expected.size(); ++flow) {
      CHECK(agree(got[flow], expected[flow]));
    }
  }
}

TEST_CASE("n like flows end when one with n times the weights does, to the picosecond") {
  Random random(5);
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    Plan plan = random_plan(random), folded, im2col;
    for (PlannedRoute& route : plan.routes) {  // whole weights: sums of them are exact
      for (LinkUse& use : route.uses) use.weight = std::ceil(use.weight);
    }
    folded.capacity = im2col.capacity = plan.capacity;
    std::vector<std::uint32_t> first;
    for (const PlannedFlow& flow : plan.flows) {
      const auto copies = static_cast<std::uint32_t>(1 + random.below(5));
      PlannedRoute route = plan.routes[flow.route];
      PlannedFlow one = flow;
      one.route = static_cast<std::uint32_t>(folded.routes.size());
      first.push_back(static_cast<std::uint32_t>(im2col.flows.size()));
      PlannedFlow like = one;
      if (flow.after) like.after = first[*flow.after];
      im2col.routes.push_back(route);
      im2col.flows.insert(im2col.flows.end(), copies, like);
      for (LinkUse& use : route.uses) use.weight *= copies;
      folded.routes.push_back(route);
      folded.flows.push_back(one);
    }
    const std::vector<double> one = run(folded), all = run(im2col);
    for (std::size_t flow = 0; flow < one.size(); ++flow) {
      const std::size_t end = flow + 1 < one.size() ? first[flow + 1] : all.size();
      for (std::size_t like = first[flow]; like < end; ++like) CHECK(agree(all[like], one[flow]));
    }
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::engine
