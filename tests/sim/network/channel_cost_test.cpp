#include "sim/network/channel_cost.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "sim/base/error.hpp"
#include "sim/network/payload.hpp"
#include "tests/support/specs.hpp"

using namespace tracecast;

namespace {

/// 1 us per message at the sender, 2 us at the receiver, 10 us on the way; per byte 1, 2 and 4 ns
/// at the sender, on the wire (0.5 GB/s) and at the receiver; chunks of 1000 bytes; above 5000
/// bytes a handshake of 100 us.
ChannelPath path() {
  ChannelProfile c;
  c.transport = Transport::Rdma;
  c.send_message = 1.0_us;
  c.receive_message = 2.0_us;
  c.buffer = 0.5_us;
  c.eager_most = 5000.0_B;
  c.handshake = 100.0_us;
  c.control_messages = 4;
  c.send_per_byte = 1.0_ns;
  c.receive_per_byte = 4.0_ns;
  c.tensor_per_byte = 3.0_ns;
  c.serialize_per_byte = 5.0_ns;
  c.chunk = 1000.0_B;
  LinkSpec link;
  link.kind = LinkKind::Infiniband;
  link.bandwidth = 0.5_GBps;
  link.latency = 10.0_us;
  return make_channel_path(c, link);
}

LinkSpec link_of(LinkKind kind) {
  LinkSpec link;
  link.kind = kind;
  link.bandwidth = 1.0_GBps;
  link.latency = 7.0_us;
  return link;
}

}  // namespace

TEST_SUITE("sim/network/channel_cost") {
  TEST_CASE(
      "latency is fixed parts, the first chunk through all stages, the rest through the slowest") {
    struct Row {
      const char* what;
      double bytes, microseconds;
    };
    const Row rows[] = {
        {"nothing but the fixed parts: 1 + 10 + 2", 0, 13},
        {"half a chunk: 13 + 500 * 7 ns", 500, 16.5},
        {"a chunk: 13 + 7", 1000, 20},
        {"three chunks: 13 + 7 + 2000 * 4 ns", 3000, 28},
        {"with a handshake: 13 + 100 + 7 + 5000 * 4 ns", 6000, 140},
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      CHECK(point_to_point_latency(path(), {.bytes = Bytes(row.bytes)}).in_us() ==
            doctest::Approx(row.microseconds));
    }
  }

  TEST_CASE("without chunks one stage follows the other") {
    ChannelPath p = path();
    p.channel.chunk = Bytes(0);
    CHECK(point_to_point_latency(p, {.bytes = 3000.0_B}).in_us() == doctest::Approx(13 + 21));
  }

  TEST_CASE("buffers, strings and tensors each cost their own") {
    // sender 1 + 2 * 0.5 + 100 * (1 + 5) ns; receiver 2 + 2 * 0.5 + 100 * (4 + 5 + 3) ns
    const MessageCost cost =
        cost_of(path(), {.bytes = 100.0_B, .buffers = 3, .serialized = true, .into_tensor = true});
    CHECK(cost.send.in_us() == doctest::Approx(2.6));
    CHECK(cost.wire.in_us() == doctest::Approx(0.2));
    CHECK(cost.receive.in_us() == doctest::Approx(4.2));
  }

  TEST_CASE("control messages cost both ends half of a message's both ends") {
    const MessageCost plain = cost_of(path(), {.bytes = 100.0_B});
    const MessageCost all = cost_with_control(path(), {.bytes = 100.0_B});
    CHECK((all.send - plain.send).in_us() == doctest::Approx(4 * 1.5));
    CHECK((all.receive - plain.receive).in_us() == doctest::Approx(4 * 1.5));
  }

  TEST_CASE("bandwidth is that of the slowest stage") {
    // 10000 bytes: sender 11 us, wire 20 us, receiver 42 us
    CHECK(point_to_point_bandwidth(path(), {.bytes = 10000.0_B}).in_si() ==
          doctest::Approx(10000 / 42e-6));
    ChannelPath blocking = path();
    blocking.channel.receive_blocks = true;
    CHECK(point_to_point_bandwidth(blocking, {.bytes = 10000.0_B}).in_si() ==
          doctest::Approx(10000 / 62e-6));
  }

  TEST_CASE("one server is shared by its workers, and as many servers as workers share nothing") {
    // A message of 10000 bytes holds the server for 42 us. A round alone: 13 + 100 + 7 + 36 +
    // answer 13 = 169 us.
    CHECK(server_throughput(path(), {.bytes = 10000.0_B}, 1, 8).in_si() ==
          doctest::Approx(1 / 42e-6));
    CHECK(server_throughput(path(), {.bytes = 10000.0_B}, 1, 1).in_si() ==
          doctest::Approx(1 / 169e-6));
    CHECK(server_throughput(path(), {.bytes = 10000.0_B}, 2, 16).in_si() ==
          doctest::Approx(2 / 42e-6));
  }

  TEST_CASE("fully connected processes receive one message after the other") {
    // First after 156 us, then one every 42 us: 156, 198, 240 with four processes.
    const FullyConnected four = fully_connected(path(), {.bytes = 10000.0_B}, 4);
    CHECK(four.latency.in_us() == doctest::Approx(198));
    CHECK(four.throughput.in_si() == doctest::Approx(30000 / 240e-6));
    ChannelPath p = path();
    p.channel.one_thread = true;  // 11 us to send and 42 us to receive
    CHECK(fully_connected(p, {.bytes = 10000.0_B}, 4).latency.in_us() == doctest::Approx(156 + 53));
  }

  TEST_CASE("a faster CPU shortens what is done per message and no copy") {
    const LinkSpec link = link_of(LinkKind::Infiniband);
    const ChannelPath fast = make_channel_path(path().channel, link, 2);
    CHECK(fast.channel.send_message.in_us() == doctest::Approx(0.5));
    CHECK(fast.channel.receive_per_byte.in_s() == doctest::Approx(4e-9).scale(0));
  }

  TEST_CASE("a link has its own latency for its own transport only") {
    ChannelProfile c = path().channel;
    c.adapted_latency = 3.0_us;
    struct Row {
      Transport transport;
      LinkKind kind;
      double latency_us;
    };
    const Row rows[] = {
        {Transport::Tcp, LinkKind::Ethernet, 7},   {Transport::Tcp, LinkKind::Ipoib, 7},
        {Transport::Tcp, LinkKind::Infiniband, 3}, {Transport::Rdma, LinkKind::Infiniband, 7},
        {Transport::Rdma, LinkKind::Ethernet, 3},
    };
    for (const Row& row : rows) {
      c.transport = row.transport;
      CHECK(make_channel_path(c, link_of(row.kind)).latency.in_us() ==
            doctest::Approx(row.latency_us));
    }
  }

  TEST_CASE("TCP on InfiniBand goes over IPoIB of the same rate, RDMA over the link itself") {
    const auto links = LinkCatalog::embedded();
    const auto machines = MachineCatalog::embedded();
    const MachineSpec& a = machines.find("osu_ri2");
    CHECK(find_channel_link(a, Transport::Rdma, links).kind == LinkKind::Infiniband);
    const LinkSpec& tcp = find_channel_link(a, Transport::Tcp, links);
    CHECK(tcp.kind == LinkKind::Ipoib);
    CHECK(tcp.bandwidth == find_channel_link(a, Transport::Rdma, links).bandwidth);
    CHECK_THROWS_AS(
        (void)find_channel_link(machines.find("x99_workstation"), Transport::Tcp, links),
        InputError);
  }

  TEST_CASE("no channel in the binary gets slower with fewer bytes or a faster link") {
    const auto links = LinkCatalog::embedded();
    for (const std::string& id : channel_ids()) {
      CAPTURE(id);
      const ChannelProfile& channel = find_channel(id);
      const ChannelPath slow = make_channel_path(channel, links.find("ethernet_10g"));
      const ChannelPath fast = make_channel_path(channel, links.find("ethernet_100g"));
      Seconds before{};
      for (double bytes = 1; bytes < 1e9; bytes *= 1.7) {
        const ChannelMessage message{.bytes = Bytes(bytes)};
        const Seconds now = point_to_point_latency(slow, message);
        CHECK(now > before);
        before = now;
        CHECK(point_to_point_latency(fast, message) <= now);
        CHECK(point_to_point_bandwidth(fast, message) >= point_to_point_bandwidth(slow, message));
        CHECK(point_to_point_bandwidth(fast, message) <= fast.wire);
      }
    }
  }
}

TEST_SUITE("sim/network/payload") {
  TEST_CASE("shares of the payload kinds in whole buffers") {
    struct Row {
      PayloadKind kind;
      int buffers, small, medium, large;
    };
    const Row rows[] = {
        {PayloadKind::Uniform, 9, 3, 3, 3},  {PayloadKind::Uniform, 10, 3, 3, 4},
        {PayloadKind::Uniform, 11, 3, 4, 4}, {PayloadKind::Uniform, 1, 0, 0, 1},
        {PayloadKind::Skew, 10, 1, 3, 6},    {PayloadKind::Skew, 1, 0, 0, 1},
    };
    for (const Row& row : rows) {
      const auto sizes = draw_payload({.kind = row.kind, .buffers = row.buffers}, 1);
      CHECK(std::count(sizes.begin(), sizes.end(), Bytes(10)) == row.small);
      CHECK(std::count(sizes.begin(), sizes.end(), Bytes(10240)) == row.medium);
      CHECK(std::count(sizes.begin(), sizes.end(), Bytes(1048576)) == row.large);
    }
  }

  TEST_CASE("a random payload follows from its seed, and takes all sizes alike often") {
    const PayloadMix mix{.kind = PayloadKind::Random, .buffers = 30000};
    const auto sizes = draw_payload(mix, 7);
    CHECK(sizes == draw_payload(mix, 7));
    CHECK(sizes != draw_payload(mix, 8));
    for (const Bytes size : {mix.small, mix.medium, mix.large}) {
      // standard deviation 82
      CHECK(std::abs(std::count(sizes.begin(), sizes.end(), size) - 10000) < 500);
    }
  }
}
