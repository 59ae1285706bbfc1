// Simulator speed of sim/engine's FluidNetwork: every flow by itself, nothing folded.
//   ring: all-reduce of 100 MB on N hosts, a full-duplex port of 12.5 GB/s each on a non-blocking
//     switch, 1 us of latency. 2(N-1) steps; in each, host i sends a chunk to host i+1 when it has
//     sent and received those of the step before. _jittered: host i begins at a random whole
//     microsecond from 0 to 999.
//   parameter_server: worker w begins at w * 0.1 ms and sends 100 MB / servers to every server; a
//     server that has received all pushes sends as much back to each worker.
//   resnet50: one data-parallel step; in backward the 54 layers become ready one after the other,
//     and each is all-reduced in a ring of its own, in chunks, at the same time as the others.
//   resnet50_at_once: the same, all layers ready at time zero: 54 flows on every link.
//   leaf_spine: 1024 hosts on 32 leaves and 8 spines, oversubscribed 4:1; 1000 flows at any time
//   from
//     random hosts to random hosts, through spines drawn by lot.
//   core: 1024 hosts, each sending one flow after the other through one link that is full; each
//     begins at a random whole microsecond from 0 to 999.
// Each states its flows and, beside the times, its peak memory.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/engine/fluid_network.hpp"
#include "tests/bench/bench.hpp"

namespace tracecast::engine {
namespace {

using namespace tracecast::literals;
using bench::check;

constexpr BytesPerSecond kPort = 12.5_GBps;
constexpr Picoseconds kLatency(1'000'000);

/// Hosts on a non-blocking switch, and a route from each to the next.
struct RingNetwork {
  explicit RingNetwork(std::uint32_t hosts) {
    std::vector<LinkId> up, down;
    for (std::uint32_t i = 0; i < hosts; ++i) {
      up.push_back(network.add_link(kPort));
      down.push_back(network.add_link(kPort));
    }
    for (std::uint32_t i = 0; i < hosts; ++i) {
      const LinkUse uses[] = {{up[i]}, {down[(i + 1) % hosts]}};
      routes.push_back(network.add_route(uses));
    }
  }
  FluidNetwork network;
  std::vector<RouteId> routes;
};

/// One all-reduce under way: what each host has sent, received and begun to send.
class Ring {
 public:
  Ring(std::uint32_t hosts, Bytes chunk) : chunk_(chunk), hosts_(hosts) {}
  /// `host` may begin; its flows have the tags first_tag + host.
  void begin(RingNetwork& ring, std::uint32_t host, std::uint32_t first_tag) {
    hosts_[host].may_begin = true;
    go_on(ring, host, first_tag);
  }
  void end(RingNetwork& ring, std::uint32_t host, std::uint32_t first_tag) {
    const std::uint32_t next = host + 1 == hosts_.size() ? 0 : host + 1;
    ++hosts_[host].sent;
    ++hosts_[next].received;
    go_on(ring, host, first_tag);
    go_on(ring, next, first_tag);
  }

 private:
  struct Host {
    std::uint32_t begun = 0, sent = 0, received = 0;
    bool may_begin = false;
  };
  void go_on(RingNetwork& ring, std::uint32_t index, std::uint32_t first_tag) {
    Host& host = hosts_[index];
    if (!host.may_begin || host.begun == 2 * (hosts_.size() - 1)) return;
    if (host.sent < host.begun || host.received < host.begun) return;
    ++host.begun;
    ring.network.start(ring.routes[index], chunk_, kLatency, first_tag + index);
  }

  Bytes chunk_;
  std::vector<Host> hosts_;
};

/// floor(bytes / parts + 0.5), as in the tables of maxmin_scale.csv.
Bytes chunk_of(double bytes, std::uint32_t parts) { return Bytes(std::floor(bytes / parts + 0.5)); }

/// Peak resident memory since the last reset, in MiB.
double peak_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  }
  return 0;
}
void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

void report(const std::string& name, bench::Stopwatch& watch, double flows) {
  watch.print(name, "flows", flows);
  std::printf("{\"bench\":\"%s\",\"peak_mib\":%.1f}\n", name.c_str(), peak_mib());
  std::fflush(stdout);
  check(peak_mib() < 400, "a run stays under 400 MiB");
}

void ring(std::uint32_t hosts, std::uint32_t most_jitter_us, int repeats) {
  const Bytes chunk = chunk_of(100e6, hosts);
  std::uint64_t flows = 0;
  bench::Stopwatch watch;
  reset_peak();
  for (int repeat = 0; repeat < repeats; ++repeat) {
    Random random(42);
    watch.start();
    RingNetwork net(hosts);
    Ring all_reduce(hosts, chunk);
    Picoseconds last_start{};
    for (std::uint32_t i = 0; i < hosts; ++i) {
      const Picoseconds jitter(
          static_cast<std::int64_t>(random.below(most_jitter_us + 1) * 1'000'000));
      last_start = std::max(last_start, jitter);
      net.network.wake(jitter, hosts + i);
    }
    flows = 0;
    while (const auto tag = net.network.next()) {
      if (*tag >= hosts) {
        all_reduce.begin(net, *tag - hosts, 0);
      } else {
        ++flows;
        all_reduce.end(net, *tag, 0);
      }
    }
    watch.stop();
    // A late host holds up its neighbour by a step, so that the last one holds up all.
    const double step_s = kLatency.in_seconds().in_s() + chunk / kPort / Seconds(1);
    const double expected_s = last_start.in_seconds().in_s() + 2.0 * (hosts - 1) * step_s;
    check(std::fabs(net.network.now().in_seconds().in_s() / expected_s - 1) < 1e-9,
          "a ring takes what its closed form says");
    check(flows == 2ull * (hosts - 1) * hosts, "every flow ends");
  }
  report("ring_" + std::to_string(hosts) + (most_jitter_us > 0 ? "_jittered" : ""), watch,
         static_cast<double>(flows));
}

void parameter_server(std::uint32_t workers, std::uint32_t servers, double expected_s,
                      int repeats) {
  const Bytes chunk = chunk_of(100e6, servers);
  const std::uint32_t pushes = workers * servers;
  bench::Stopwatch watch;
  reset_peak();
  for (int repeat = 0; repeat < repeats; ++repeat) {
    watch.start();
    FluidNetwork network;
    std::vector<LinkId> up, down;
    for (std::uint32_t i = 0; i < workers + servers; ++i) {
      up.push_back(network.add_link(kPort));
      down.push_back(network.add_link(kPort));
    }
    std::vector<RouteId> push, pull;  // by worker, then server
    for (std::uint32_t i = 0; i < pushes; ++i) {
      const std::uint32_t worker = i / servers, server = workers + i % servers;
      const LinkUse there[] = {{up[worker]}, {down[server]}},
                    back[] = {{up[server]}, {down[worker]}};
      push.push_back(network.add_route(there));
      pull.push_back(network.add_route(back));
    }
    for (std::uint32_t i = 0; i < workers; ++i) {
      network.wake(Picoseconds(100'000'000ll * i), 2 * pushes + i);
    }
    std::vector<std::uint32_t> received(servers, 0);
    std::uint32_t pulled = 0;
    while (const auto tag = network.next()) {
      if (*tag >= 2 * pushes) {
        const std::uint32_t first = (*tag - 2 * pushes) * servers;
        for (std::uint32_t i = first; i < first + servers; ++i) {
          network.start(push[i], chunk, kLatency, i);
        }
      } else if (*tag >= pushes) {
        ++pulled;
      } else if (const std::uint32_t server = *tag % servers; ++received[server] == workers) {
        for (std::uint32_t i = server; i < pushes; i += servers) {
          network.start(pull[i], chunk, kLatency, pushes + i);
        }
      }
    }
    watch.stop();
    check(pulled == pushes, "every worker gets what it pulls");
    check(std::fabs(network.now().in_seconds().in_s() - expected_s) < 1e-9,
          "the last pull ends when maxmin_scale.csv says");
  }
  report("parameter_server_" + std::to_string(workers) + "x" + std::to_string(servers), watch,
         2.0 * pushes);
}

/// Parameters of ResNet-50's layers in the order of backward: the classifier, then every
/// convolution with its batch normalisation, a block's shortcut behind its three. Source: He et
/// al., "Deep residual learning for image recognition", CVPR 2016, table 1.
std::vector<double> resnet50_parameters() {
  std::vector<double> forward;
  const auto convolution = [&](int kernel, int in, int out) {
    forward.push_back(1.0 * kernel * kernel * in * out + 2.0 * out);
  };
  convolution(7, 3, 64);
  int in = 64;
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    const int width = 64 << stage;
    for (int block = 0; block < blocks[stage]; ++block) {
      convolution(1, in, width);
      convolution(3, width, width);
      convolution(1, width, 4 * width);
      if (block == 0) convolution(1, in, 4 * width);
      in = 4 * width;
    }
  }
  forward.push_back(2048.0 * 1000 + 1000);
  std::reverse(forward.begin(), forward.end());
  return forward;
}

void resnet50(std::uint32_t hosts, bool at_once, int repeats) {
  const std::vector<double> parameters = resnet50_parameters();
  const auto layers = static_cast<std::uint32_t>(parameters.size());
  double total = 0;
  for (const double count : parameters) total += count;
  check(layers == 54 && total == 25'557'032, "ResNet-50 has 54 layers and 25.6 million parameters");
  const Picoseconds between(at_once ? 0 : 1'000'000'000);  // 54 ms of backward
  std::uint64_t flows = 0;
  bench::Stopwatch watch;
  reset_peak();
  for (int repeat = 0; repeat < repeats; ++repeat) {
    watch.start();
    RingNetwork net(hosts);
    std::vector<Ring> rings;
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      rings.emplace_back(hosts, Bytes(4 * parameters[layer] / hosts));
      net.network.wake(Picoseconds(between.count() * (layer + 1)), layers * hosts + layer);
    }
    flows = 0;
    while (const auto tag = net.network.next()) {
      const std::uint32_t layer = *tag / hosts, first_tag = layer * hosts;
      if (layer < layers) {
        ++flows;
        rings[layer].end(net, *tag - first_tag, first_tag);
        continue;
      }
      const std::uint32_t ready = *tag - first_tag + (layer - layers) * hosts;
      for (std::uint32_t i = 0; i < hosts; ++i) rings[ready].begin(net, i, ready * hosts);
    }
    watch.stop();
    check(flows == 2ull * layers * (hosts - 1) * hosts, "every flow ends");
    const double on_link_s = 2.0 * (hosts - 1) / hosts * 4 * total / kPort.in_si();
    check(net.network.now().in_seconds().in_s() >= on_link_s, "no link carries more than it can");
  }
  report("resnet50_" + std::string(at_once ? "at_once_" : "") + std::to_string(hosts), watch,
         static_cast<double>(flows));
}

void leaf_spine(std::uint32_t flows, std::uint32_t at_a_time, int repeats) {
  constexpr std::uint32_t kHosts = 1024, kPerLeaf = 32, kSpines = 8;
  const BytesPerSecond uplink = kPort * kPerLeaf / kSpines / 4.0;
  bench::Stopwatch watch;
  reset_peak();
  for (int repeat = 0; repeat < repeats; ++repeat) {
    Random random(42);
    watch.start();
    FluidNetwork network;
    std::vector<LinkId> up, down, to_spine, from_spine;
    for (std::uint32_t i = 0; i < kHosts; ++i) {
      up.push_back(network.add_link(kPort));
      down.push_back(network.add_link(kPort));
    }
    for (std::uint32_t i = 0; i < kHosts / kPerLeaf * kSpines; ++i) {
      to_spine.push_back(network.add_link(uplink));
      from_spine.push_back(network.add_link(uplink));
    }
    double sent = 0;
    const auto start_one = [&] {
      const auto from = static_cast<std::uint32_t>(random.below(kHosts));
      const auto to = static_cast<std::uint32_t>(random.below(kHosts));
      const auto spine = static_cast<std::uint32_t>(random.below(kSpines));
      std::vector<LinkUse> uses = {{up[from]}, {down[to]}};
      if (from / kPerLeaf != to / kPerLeaf) {
        uses.push_back({to_spine[from / kPerLeaf * kSpines + spine]});
        uses.push_back({from_spine[to / kPerLeaf * kSpines + spine]});
      }
      const double bytes = 1e5 + 2e6 * random.uniform();
      sent += bytes;
      network.start(network.add_route(uses), Bytes(bytes), kLatency, 0);
    };
    std::uint32_t begun = 0, ended = 0;
    for (; begun < at_a_time; ++begun) start_one();
    while (network.next()) {
      ++ended;
      if (begun == flows) continue;
      ++begun;
      start_one();
    }
    watch.stop();
    check(ended == flows, "every flow ends");
    check(network.now().in_seconds().in_s() * kHosts * kPort.in_si() >= sent,
          "no more is sent than the hosts' ports carry");
  }
  report("leaf_spine", watch, flows);
}

void core(std::uint32_t flows_per_host, int repeats) {
  constexpr std::uint32_t kHosts = 1024;
  constexpr BytesPerSecond kCore = 100.0_GBps;
  bench::Stopwatch watch;
  reset_peak();
  for (int repeat = 0; repeat < repeats; ++repeat) {
    Random random(42);
    watch.start();
    FluidNetwork network;
    const LinkId full = network.add_link(kCore);
    std::vector<RouteId> routes;
    for (std::uint32_t i = 0; i < kHosts; ++i) {
      const LinkUse uses[] = {{network.add_link(kPort)}, {full}};
      routes.push_back(network.add_route(uses));
      network.wake(Picoseconds(static_cast<std::int64_t>(random.below(1000) * 1'000'000)), i);
    }
    std::vector<std::uint32_t> left(kHosts, flows_per_host);
    while (const auto tag = network.next()) {
      if (left[*tag] == 0) continue;
      --left[*tag];
      network.start(routes[*tag], 100'000.0_B, kLatency, *tag);
    }
    watch.stop();
    const double busy_s = kHosts * flows_per_host * 1e5 / kCore.in_si();
    const double end_s = network.now().in_seconds().in_s();
    check(end_s >= busy_s && end_s <= busy_s + 2e-3, "the core is full but for begin and end");
  }
  report("core", watch, kHosts * flows_per_host);
}

}  // namespace
}  // namespace tracecast::engine

int main(int argc, char** argv) {
  using namespace tracecast::engine;
  const bool smoke = tracecast::bench::is_smoke(argc, argv);
  const int repeats = smoke ? 1 : 5;
  ring(smoke ? 64 : 1024, 0, repeats);
  if (!smoke) ring(2048, 0, repeats);
  ring(smoke ? 64 : 1024, 999, repeats);
  // completion_s of the rows "ps_push_pull,64,8,0.0001" and "...,512,32,0.0001".
  if (smoke) parameter_server(64, 8, 0.128397939, 1);
  if (!smoke) parameter_server(512, 32, 0.257660812, repeats);
  resnet50(smoke ? 16 : 64, false, repeats);
  leaf_spine(smoke ? 1500 : 20'000, smoke ? 100 : 1000, repeats);
  core(smoke ? 2 : 50, repeats);
  if (smoke) return 0;
  resnet50(256, false, repeats);
  resnet50(512, false, repeats);
  resnet50(64, true, repeats);
  resnet50(256, true, repeats);
}
