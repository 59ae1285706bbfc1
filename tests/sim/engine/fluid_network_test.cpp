// Flows of a FluidNetwork, by hand. Links of 1 GB/s: 1000 bytes take 1 us, 1e6 ps.
#include "sim/engine/fluid_network.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"

namespace tracecast::engine {
namespace {

using namespace tracecast::literals;
using Uses = std::vector<LinkUse>;
using Ends = std::vector<std::pair<std::uint32_t, std::int64_t>>;  ///< tag, microseconds

constexpr Picoseconds us(std::int64_t count) { return Picoseconds(1'000'000 * count); }

Ends run(FluidNetwork& network) {
  Ends ends;
  while (const auto tag = network.next()) {
    ends.emplace_back(*tag, network.now().count() / us(1).count());
  }
  return ends;
}

TEST_SUITE_BEGIN("sim/engine/fluid_network");

TEST_CASE("a network in which nothing is under way has no next end") {
  FluidNetwork network;
  network.add_link(1.0_GBps);
  CHECK(!network.next().has_value());
  CHECK(network.now() == us(0));
}

TEST_CASE("flows of one route share it equally, whatever their sizes") {
  // 1000, 2000, 3000 bytes at a third each: 3 us; the others at half, 1000 to go: 5 us; then 6 us.
  FluidNetwork network;
  const RouteId route = network.add_route(Uses{{network.add_link(1.0_GBps)}});
  network.start(route, 3000.0_B, us(0), 3);
  network.start(route, 1000.0_B, us(0), 1);
  network.start(route, 2000.0_B, us(0), 2);
  CHECK(run(network) == Ends{{1, 3}, {2, 5}, {3, 6}});
}

TEST_CASE("a flow that is held up elsewhere leaves its share to the others") {
  // "Narrow" is 0.25 GB/s: flow 0 gets that, flow 1 the other 0.75. 3000 bytes: 4 us; flow 0 goes
  // on at 0.25: 2000 bytes in 8 us.
  FluidNetwork network;
  const LinkId wide = network.add_link(1.0_GBps), low_precision = network.add_link(0.25_GBps);
  network.start(network.add_route(Uses{{wide}, {low_precision}}), 2000.0_B, us(0), 0);
  network.start(network.add_route(Uses{{wide}}), 3000.0_B, us(0), 1);
  CHECK(run(network) == Ends{{1, 4}, {0, 8}});
}

TEST_CASE("a cap holds per flow, and a route needs no link to have one") {
  // Two at 0.25 GB/s each leave 0.5 to the third: 1000 bytes in 2 us and in 4 us.
  FluidNetwork network;
  const LinkId link = network.add_link(1.0_GBps);
  const RouteId capped = network.add_route(Uses{{link}}, 0.25_GBps);
  network.start(capped, 1000.0_B, us(0), 0);
  network.start(capped, 1000.0_B, us(1), 1);
  network.start(network.add_route(Uses{{link}}), 1500.0_B, us(0), 2);  // 750 in 1 us, then 0.5 GB/s
  const RouteId no_link = network.add_route({}, 0.5_GBps);
  network.start(no_link, 3000.0_B, us(0), 3);
  network.start(no_link, 5000.0_B, us(0), 4);  // the same route does not share
  CHECK(run(network) == Ends{{2, 2}, {0, 4}, {1, 5}, {3, 6}, {4, 10}});
}

TEST_CASE("weights say what of a link a flow's rate costs; those of a link named twice add up") {
  // One at weight 3 = 2 + 1 and one at weight 1 run at 0.25 GB/s each: 1000 bytes in 4 us.
  FluidNetwork network;
  const LinkId link = network.add_link(1.0_GBps);
  network.start(network.add_route(Uses{{link, 2}, {link, 1}}), 1000.0_B, us(0), 0);
  network.start(network.add_route(Uses{{link}}), 1000.0_B, us(0), 1);
  CHECK(run(network) == Ends{{0, 4}, {1, 4}});
}

TEST_CASE("what starts as others end shares from that moment on") {
  // Tag 0 ends at 1 us and starts tags 1 and 2: 1000 bytes each at half, both at 3 us.
  FluidNetwork network;
  const RouteId route = network.add_route(Uses{{network.add_link(1.0_GBps)}});
  network.start(route, 1000.0_B, us(0), 0);
  CHECK(network.next() == 0);
  network.start(route, 1000.0_B, us(0), 1);
  network.start(route, 1000.0_B, us(0), 2);
  CHECK(run(network) == Ends{{1, 3}, {2, 3}});
}

TEST_CASE("wakes and flows without bytes come back after their delay") {
  FluidNetwork network;
  const RouteId route = network.add_route(Uses{{network.add_link(1.0_GBps)}});
  network.wake(us(2), 7);
  network.start(route, 0.0_B, us(1), 8);
  network.wake(us(0), 9);
  CHECK(run(network) == Ends{{9, 0}, {8, 1}, {7, 2}});
}

TEST_CASE("a flow takes a picosecond at least") {
  FluidNetwork network;
  network.start(network.add_route(Uses{{network.add_link(1.0_GBps)}}), Bytes(1e-9), us(0), 0);
  CHECK(network.next() == 0);
  CHECK(network.now() == Picoseconds(1));
}

TEST_CASE("what no network can do is refused") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  FluidNetwork network;
  CHECK_THROWS_AS((void)network.add_link(BytesPerSecond(0)), InternalError);
  CHECK_THROWS_AS((void)network.add_link(BytesPerSecond(nan)), InternalError);
  const LinkId link = network.add_link(1.0_GBps);
  CHECK_THROWS_AS((void)network.add_route({}), InternalError);
  CHECK_THROWS_AS((void)network.add_route(Uses{{LinkId{1}}}), InternalError);
  CHECK_THROWS_AS((void)network.add_route(Uses{{link, 0}}), InternalError);
  CHECK_THROWS_AS((void)network.add_route(Uses{{link, nan}}), InternalError);
  CHECK_THROWS_AS((void)network.add_route(Uses{{link}}, BytesPerSecond(-1)), InternalError);
  const RouteId route = network.add_route(Uses{{link}});
  CHECK_THROWS_AS(network.start(route, Bytes(nan), us(0), 0), InternalError);
  CHECK_THROWS_AS(network.start(route, Bytes(-1), us(0), 0), InternalError);
  CHECK_THROWS_AS(network.start(route, Bytes(1), us(-1), 0), InternalError);
  CHECK_THROWS_AS(network.start(RouteId{5}, Bytes(1), us(0), 0), InternalError);
  CHECK_THROWS_AS(network.wake(us(-1), 0), InternalError);
  network.start(route, Bytes(1e30), us(0), 0);
  CHECK_THROWS_AS((void)network.next(), InputError);  // 1e21 s
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::engine
