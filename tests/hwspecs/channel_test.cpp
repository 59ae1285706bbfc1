#include "hwspecs/channel.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/error.hpp"
#include "tests/support/specs.hpp"

using namespace tracecast;

namespace {

/// A valid profile, field by field, of which a test changes one line.
std::string profile(const std::string& from = "", const std::string& to = "") {
  std::string text = R"(
id: "x" name: "X" alias: "y z"
source { key: "s" title: "T" where: "W" }
transport { value: "tcp" source: "s" }
wire_efficiency { value: 0.9 source: "s" }
reference_cpu { value: "e5_2680_v3" source: "s" }
adapted_latency_us { value: 15 source: "s" }
send_message_us { value: 1 source: "s" }
receive_message_us { value: 2 source: "s" }
buffer_us { value: 3 source: "s" }
eager_most_bytes { value: 4096 source: "s" }
handshake_us { value: 5 source: "s" }
control_messages { value: 6 source: "s" }
send_ns_per_byte { value: 0.25 source: "s" }
receive_ns_per_byte { value: 0.5 source: "s" }
tensor_ns_per_byte { value: 0.125 source: "s" }
serialize_ns_per_byte { value: 0.75 source: "s" }
chunk_bytes { value: 1024 source: "s" }
send_threads { value: 1 source: "s" }
receive_threads { value: 7 source: "s" }
one_thread { value: true source: "s" }
receive_blocks { value: false source: "s" }
scan_ns { value: 8 source: "s" }
)";
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  return text;
}

}  // namespace

TEST_SUITE("hwspecs/channel") {
  TEST_CASE("every value of a channel's file arrives in its unit") {
    const ChannelProfile c = parse_channel(profile(), "f");
    CHECK(c.id == "x");
    CHECK(c.transport == Transport::Tcp);
    CHECK(c.receive_message.in_us() == doctest::Approx(2));
    CHECK(c.send_per_byte.in_s() == doctest::Approx(0.25e-9).scale(0));
    CHECK(c.chunk.in_bytes() == 1024);
    CHECK(c.control_messages == 6);
    CHECK(c.receive_threads == 7);
    CHECK(c.one_thread);
    CHECK_FALSE(c.receive_blocks);
    CHECK(c.scan.in_s() == doctest::Approx(8e-9).scale(0));
    CHECK(c.values.size() == 20);
  }

  TEST_CASE("a channel's file that is wrong is refused") {
    struct Row {
      const char* what;
      const char *from, *to;
    };
    const Row rows[] = {
        {"a value is missing", "scan_ns { value: 8 source: \"s\" }", ""},
        {"a value without a known source", "buffer_us { value: 3 source: \"s\"",
         "buffer_us { value: 3 source: \"t\""},
        {"an unknown transport", "\"tcp\"", "\"udp\""},
        {"a negative time", "handshake_us { value: 5", "handshake_us { value: -5"},
        {"no thread that sends", "send_threads { value: 1", "send_threads { value: 0"},
        {"half a control message", "control_messages { value: 6", "control_messages { value: 0.5"},
        {"a wire that carries nothing", "wire_efficiency { value: 0.9",
         "wire_efficiency { value: 0"},
        {"an unknown field", "scan_ns", "scam_ns"},
        {"no id", "id: \"x\"", ""},
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      CHECK_THROWS_AS((void)parse_channel(profile(row.from, row.to), "f"), InputError);
    }
  }

  TEST_CASE("channels are found by id and alias, whatever joins the words") {
    CHECK(find_channel("gRPC+Verbs").id == "verbs");
    CHECK(find_channel("AR-gRPC").id == "rdma_grpc");
    CHECK(find_channel("rdma").id == "rdma_grpc");
    for (const std::string& id : channel_ids()) CHECK(find_channel(id).id == id);
    CHECK_THROWS_AS((void)find_channel("carrier_pigeon"), InputError);
  }
}
