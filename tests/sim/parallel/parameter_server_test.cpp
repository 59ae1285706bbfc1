#include "sim/parallel/parameter_server.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include "sim/base/error.hpp"
#include "tests/support/specs.hpp"

using namespace tracecast;

namespace {

Fabric cluster_of(int nodes) {
  return build_fabric(uniform_cluster("osu_ri2", 1, nodes, "k80"), SpecLibrary::embedded());
}

/// Per message 1 ms at the sender and 3 ms at the receiver, 2 ms on the way, 8 GB/s on the wire;
/// bytes cost no thread.
ChannelPath path() {
  ChannelPath p;
  p.channel.send_message = 1.0_ms;
  p.channel.receive_message = 3.0_ms;
  p.channel.eager_most = Bytes(1e12);
  p.wire = 8.0_GBps;
  p.latency = 2.0_ms;
  return p;
}

/// One variable of 8 MB, needed at once; its gradient is there after the second segment.
ServerWorker one_variable() {
  return {.segments = {10.0_ms, 20.0_ms, 5.0_ms}, .variables = {{8.0_MB, 0, 1}}};
}

ParameterServerRequest request_for(const Fabric& fabric, const ChannelPath& channel,
                                   const ServerWorker& worker) {
  const std::uint32_t workers = fabric.num_nodes() - 1;
  return {.fabric = fabric,
          .servers = 1,
          .channel = channel,
          .kinds = {worker},
          .kind_of = std::vector<std::uint32_t>(workers),
          .placement = VariablePlacement::ByBytes,
          .asynchronous = false,
          .update_accesses = 3,
          .update_rate = 24.0_GBps,
          .device_copy = 8.0_GBps};
}

double step_ms(const ParameterServerRequest& request) {
  return simulate_parameter_server(request).step_time.in_ms();
}

/// Being told and saying so: twice a message without bytes, 1 + 2 + 3 ms.
constexpr double kBarrierMs = 12;

}  // namespace

TEST_SUITE("sim/parallel/parameter_server") {
  TEST_CASE("one worker's step is the sum of everything on its way") {
    // Pull: send 1, latency 2, 8 MB at 8 GB/s 1, receive 3, copy to the GPU 1 = 8. Compute 10 + 20
    // = 30. Push: copy 1, send 1, latency 2, wire 1, receive 3 = 8. Sum: 3 * 8 MB at 24 GB/s 1.
    // Update: the same 1.
    const Fabric two = cluster_of(2);
    const ChannelPath channel = path();
    const ParameterServerRequest request = request_for(two, channel, one_variable());
    const ParameterServerStep step = simulate_parameter_server(request);
    CHECK(step.step_time.in_ms() == doctest::Approx(8 + 30 + 8 + 2 + kBarrierMs));
    CHECK(step.compute.in_ms() == doctest::Approx(35));
    CHECK(step.pulled.in_mb() == doctest::Approx(8));
    CHECK(step.workers == 1);
    CHECK(step.staleness == 0);
    const Seconds parts = std::accumulate(step.critical.begin(), step.critical.end(), Seconds());
    CHECK(parts.in_ms() == doctest::Approx(step.step_time.in_ms()));
    const auto part = [&](ServerPart p) {
      return step.critical[static_cast<std::size_t>(p)].in_ms();
    };
    CHECK(part(ServerPart::Compute) == doctest::Approx(30));
    CHECK(part(ServerPart::ServerReceive) == doctest::Approx(3));
    CHECK(part(ServerPart::Wire) == doctest::Approx(1 + 1 + 2 + 2 + kBarrierMs));
    CHECK(part(ServerPart::Update) == doctest::Approx(2));
  }

  TEST_CASE("all workers wait for the server's one thread") {
    // Pulls leave the server 1 ms apart, and the wire takes 1 ms for each: none shares it. The
    // first push arrives at 8 + 30 + 1 + 1 + 2 + 1 = 43, the others 1 ms apart. The receiver takes
    // 3 ms for each, so the last of four is done 12 ms after the first arrived, added (1) and
    // updated (1) after that.
    const Fabric five = cluster_of(5);
    const ChannelPath channel = path();
    CHECK(step_ms(request_for(five, channel, one_variable())) ==
          doctest::Approx(43 + 12 + 2 + kBarrierMs));
    // A pool of threads takes each as it comes: the last arrives 3 ms after the first.
    ChannelPath pool = channel;
    pool.channel.receive_threads = 4;
    CHECK(step_ms(request_for(five, pool, one_variable())) ==
          doctest::Approx(43 + 3 + 3 + 2 + kBarrierMs));
  }

  TEST_CASE("a receiver that blocks is held while the wire moves") {
    // The first push is sent at 40 ms and holds the thread from there for latency 2 and wire 1. The
    // second, sent at 41, begins its way at 43 (the thread serves who was ready first, and its
    // transfer was before the first's handling) and is in at 46; then 3 + 3 for both, 1 to add the
    // last, 1 to update.
    const Fabric three = cluster_of(3);
    ChannelPath channel = path();
    channel.channel.receive_blocks = true;
    CHECK(step_ms(request_for(three, channel, one_variable())) ==
          doctest::Approx(46 + 6 + 2 + kBarrierMs));
  }

  TEST_CASE("what waits costs a scanning thread half of the messages each") {
    // Server: 2 workers * 1 variable = 2 messages, half a neighbour each: 0.5 * 10 ms more, for
    // every pull and push.
    const Fabric three = cluster_of(3);
    ChannelPath channel = path();
    const double without = step_ms(request_for(three, channel, one_variable()));
    channel.channel.scan = 10.0_ms;
    // Pulls leave 6 ms apart instead of 1, the first 5 ms later; pushes arrive 6 ms apart and take
    // 8 each instead of 3: last one done at first + 8 + 8 instead of first + 3 + 3.
    CHECK(step_ms(request_for(three, channel, one_variable())) ==
          doctest::Approx(without + 5 + 10));
  }

  TEST_CASE("variables on a server's GPU are copied out for every pull and in for every push") {
    // 8 MB at 4 GB/s: 2 ms before the pull is sent, and 2 ms before the gradient is added.
    const Fabric two = cluster_of(2);
    const ChannelPath channel = path();
    ParameterServerRequest request = request_for(two, channel, one_variable());
    request.server_copy = 4.0_GBps;
    CHECK(step_ms(request) == doctest::Approx(8 + 30 + 8 + 2 + kBarrierMs + 2 + 2));
  }

  TEST_CASE("a run of more than a million messages is refused") {
    const Fabric many = cluster_of(101);
    const ChannelPath channel = path();
    ServerWorker worker;
    worker.segments = {1.0_ms};
    worker.variables.assign(5001, {Bytes(1.0), 0, 0});
    CHECK_THROWS_AS((void)simulate_parameter_server(request_for(many, channel, worker)),
                    InputError);
  }

  TEST_CASE("chunks overlap sender, wire and receiver") {
    // 8 MiB in 8 pieces of 1 MiB at 8 GB/s with 8 ms of the sender's and of the receiver's thread
    // for all of it: a piece takes 1 ms at the sender, 0.131072 on the wire, 1 at the receiver. The
    // pull then needs 8 + latency 2 + 0.131072 + 1 instead of 8 + 2 + 8 * 0.131072 + 8, and the
    // push as much less.
    const Fabric two = cluster_of(2);
    ChannelPath channel = path();
    channel.channel.send_message = channel.channel.receive_message = Seconds();
    channel.channel.send_per_byte = channel.channel.receive_per_byte =
        Seconds(8e-3 / (8 * 1048576.0));
    ServerWorker worker = one_variable();
    worker.variables[0].bytes = 8.0_MiB;
    const double whole = step_ms(request_for(two, channel, worker));
    channel.channel.chunk = 1024.0_B;
    const double chunked = step_ms(request_for(two, channel, worker));
    CHECK(whole - chunked == doctest::Approx(2 * (7 + 7 * 0.131072)));
  }

  TEST_CASE("variables go round robin, or to the server with the fewest bytes") {
    const std::vector<ServedVariable> variables{{8.0_MB}, {1.0_MB}, {2.0_MB}, {4.0_MB}, {9.0_MB}};
    using Servers = std::vector<std::uint32_t>;
    CHECK(place_variables(variables, 2, VariablePlacement::RoundRobin) == Servers{0, 1, 0, 1, 0});
    // 8 | 1 | 1 + 2 | 3 + 4 = 7 | 7 + 9
    CHECK(place_variables(variables, 2, VariablePlacement::ByBytes) == Servers{0, 1, 1, 1, 1});
  }

  TEST_CASE("asynchronous workers do not wait for each other, and read what others changed since") {
    const ChannelPath channel = path();
    const auto asynchronous = [&](int nodes) {
      const Fabric fabric = cluster_of(nodes);
      ParameterServerRequest request = request_for(fabric, channel, one_variable());
      request.asynchronous = true;
      return simulate_parameter_server(request);
    };
    const ParameterServerStep alone = asynchronous(2);
    CHECK(alone.staleness == 0);
    // As a synchronous step with one update but without a sum and a barrier: 8 + 30 + 8 + 1.
    CHECK(alone.step_time.in_ms() == doctest::Approx(47));
    for (const int workers : {2, 4, 8}) {
      CAPTURE(workers);
      const ParameterServerStep step = asynchronous(workers + 1);
      // Between two updates of a worker each of the others has one; the time between reading and
      // writing is a little less than that.
      CHECK(step.staleness <= workers - 1 + 1e-9);
      CHECK(step.staleness >= 0.5 * (workers - 1));
      CHECK(step.steps_per_s <= workers * alone.steps_per_s * (1 + 1e-9));
      CHECK(step.steps_per_s >= alone.steps_per_s);
      // The receiving thread takes 3 ms for every push.
      CHECK(step.steps_per_s <= 1 / 3e-3 * (1 + 1e-9));
    }
  }

  TEST_CASE("the same request gives the same step, another seed another order") {
    const Fabric four = cluster_of(4);
    const ChannelPath channel = path();
    ServerWorker worker;
    for (std::uint32_t i = 0; i < 20; ++i) {
      worker.segments.push_back(1.0_ms * (1.0 + i));
      worker.variables.push_back({Bytes(1e5 * (1 + i)), i, 19 - i});
    }
    ParameterServerRequest request = request_for(four, channel, worker);
    const double first = step_ms(request);
    CHECK(step_ms(request) == first);
    request.seed = 99;
    CHECK(step_ms(request) == doctest::Approx(first).epsilon(0.2));
  }

  TEST_CASE("no step is shorter than its compute or than its server's threads and wire are busy") {
    const Fabric six = cluster_of(6);
    for (const std::string& id : channel_ids()) {
      CAPTURE(id);
      const auto links = LinkCatalog::embedded();
      const ChannelProfile& profile = find_channel(id);
      const auto machines = MachineCatalog::embedded();
      const ChannelPath channel = make_channel_path(
          profile, find_channel_link(machines.find("osu_ri2"), profile.transport, links));
      ServerWorker worker;
      for (std::uint32_t i = 0; i < 10; ++i) {
        worker.segments.push_back(3.0_ms);
        worker.variables.push_back({Bytes(2e6 * (1 + i)), i / 2, 9 - i / 2});
      }
      const ParameterServerStep step = simulate_parameter_server(request_for(six, channel, worker));
      CHECK(step.step_time >= step.compute);
      for (const double busy :
           {step.send_busy, step.receive_busy, step.wire_in, step.wire_out, step.update_busy}) {
        CHECK(busy > 0);
        CHECK(busy <= 1 + 1e-9);
      }
    }
  }
}
