// The reference cases of data/network: max-min fair flows, computed by SimGrid and by an exact
// solver in rational arithmetic. Bounds: those of the folder's README, 1e-9 of the time for the
// scenarios (or 2 ps: times are whole picoseconds, there and here) and the printed 1e-9 s for the
// large runs.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/table/csv_reader.hpp"
#include "sim/base/text.hpp"
#include "sim/engine/fluid_network.hpp"
#include "sim/engine/task_graph.hpp"
#include "tests/support/data.hpp"

namespace tracecast::engine {
namespace {

std::string_view text(const CsvReader& reader, std::string_view column) {
  return reader.field(reader.find_column(column).value());
}

double number(const CsvReader& reader, std::string_view column) {
  return parse_double(text(reader, column)).value();
}

std::optional<double> number_or_none(const CsvReader& reader, std::string_view column) {
  return parse_double(text(reader, column));
}

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const std::size_t bar = std::min(list.find('|'), list.size());
    parts.emplace_back(list.substr(0, bar));
    list.remove_prefix(std::min(bar + 1, list.size()));
  }
  return parts;
}

struct Scenario {
  TaskGraph graph;
  std::map<std::string, LinkId> links;
  std::map<std::string, double> latency_s;
  std::map<std::string, TaskId> flows;
  std::vector<std::pair<std::string, double>> expected_s;  ///< flow, completion
};

std::map<std::string, Scenario> read_scenarios(const std::filesystem::path& links,
                                               const std::filesystem::path& flows) {
  std::map<std::string, Scenario> scenarios;
  for (CsvReader reader(links); reader.next();) {
    Scenario& scenario = scenarios[std::string(text(reader, "scenario"))];
    const std::string name(text(reader, "link"));
    scenario.links[name] = scenario.graph.add_link(BytesPerSecond(number(reader, "bandwidth_Bps")));
    scenario.latency_s[name] = number(reader, "latency_s");
  }
  for (CsvReader reader(flows); reader.next();) {
    Scenario& scenario = scenarios.at(std::string(text(reader, "scenario")));
    std::vector<LinkUse> uses;
    double latency_s = 0;
    for (const std::string& link : split(text(reader, "path"))) {
      uses.push_back({scenario.links.at(link)});
      latency_s += scenario.latency_s.at(link);
    }
    std::optional<BytesPerSecond> cap;
    if (const auto rate = number_or_none(reader, "rate_cap_Bps")) cap = BytesPerSecond(*rate);
    TaskGraph& graph = scenario.graph;
    const TaskId flow = graph.add_transfer(std::nullopt, uses, Bytes(number(reader, "bytes")),
                                           Seconds(latency_s), cap);
    graph.add_dependency(graph.add_task(to_ticks<Picoseconds>(Seconds(number(reader, "start_s")))),
                         flow);
    for (const std::string& before : split(text(reader, "after"))) {
      graph.add_dependency(scenario.flows.at(before), flow);
    }
    const std::string name(text(reader, "flow"));
    scenario.flows[name] = flow;
    scenario.expected_s.emplace_back(name, number(reader, "completion_s"));
    scenario.expected_s.emplace_back(name, number(reader, "completion_exact_s"));
  }
  return scenarios;
}

/// One row of maxmin_scale.csv.
struct Run {
  std::uint32_t workers = 0, servers = 0;
  Picoseconds stagger, latency;
  Bytes bytes;
  BytesPerSecond port;
  std::optional<BytesPerSecond> core;
};

struct Ports {
  std::vector<LinkId> up, down;
  std::optional<LinkId> core;

  Ports(FluidNetwork& network, const Run& run) {
    for (std::uint32_t i = 0; i < run.workers + run.servers; ++i) {
      up.push_back(network.add_link(run.port));
      down.push_back(network.add_link(run.port));
    }
    if (run.core) core = network.add_link(*run.core);
  }
  [[nodiscard]] RouteId route(FluidNetwork& network, std::uint32_t from, std::uint32_t to) const {
    std::vector<LinkUse> uses = {{up[from]}, {down[to]}};
    if (core) uses.push_back({*core});
    return network.add_route(uses);
  }
};

Bytes part_of(Bytes bytes, std::uint32_t parts) {
  return Bytes(std::floor(bytes.in_bytes() / parts + 0.5));
}

/// Seconds to the end of the last of 2(N-1) steps of N flows each.
double run_ring(const Run& run) {
  FluidNetwork network;
  const Ports ports(network, run);
  std::vector<RouteId> routes;
  for (std::uint32_t i = 0; i < run.workers; ++i) {
    routes.push_back(ports.route(network, i, (i + 1) % run.workers));
  }
  for (std::uint32_t step = 0; step < 2 * (run.workers - 1); ++step) {
    for (const RouteId route : routes) {
      network.start(route, part_of(run.bytes, run.workers), run.latency, 0);
    }
    while (network.next()) continue;
  }
  return network.now().in_seconds().in_s();
}

/// The same as a task graph, all hosts or, folded, one of them: they do the same at the same time.
double run_ring_as_tasks(const Run& run, bool folded) {
  TaskGraph graph;
  const std::uint32_t hosts = folded ? 1 : run.workers;
  std::vector<LinkId> up, down;
  for (std::uint32_t i = 0; i < hosts; ++i) {
    up.push_back(graph.add_link(run.port));
    down.push_back(graph.add_link(run.port));
  }
  std::vector<TaskId> before;
  for (std::uint32_t step = 0; step < 2 * (run.workers - 1); ++step) {
    std::vector<TaskId> tasks;
    for (std::uint32_t i = 0; i < hosts; ++i) {
      const LinkUse uses[] = {{up[i]}, {down[(i + 1) % hosts]}};
      tasks.push_back(graph.add_transfer(std::nullopt, uses, part_of(run.bytes, run.workers),
                                         run.latency.in_seconds()));
      if (step == 0) continue;
      graph.add_dependency(before[i], tasks.back());
      graph.add_dependency(before[(i + hosts - 1) % hosts], tasks.back());
    }
    before = tasks;
  }
  return graph.run().makespan.in_seconds().in_s();
}

struct PushPull {
  double last_push_s = 0, last_pull_s = 0;
};

PushPull run_parameter_server(const Run& run) {
  FluidNetwork network;
  const Ports ports(network, run);
  const Bytes chunk = part_of(run.bytes, run.servers);
  const std::uint32_t pushes = run.workers * run.servers;
  for (std::uint32_t i = 0; i < run.workers; ++i) {
    network.wake(Picoseconds(i * run.stagger.count()), 2 * pushes + i);
  }
  std::vector<std::uint32_t> received(run.servers, 0);
  PushPull ends;
  while (const auto tag = network.next()) {
    if (*tag >= 2 * pushes) {
      const std::uint32_t worker = *tag - 2 * pushes;
      for (std::uint32_t i = 0; i < run.servers; ++i) {
        network.start(ports.route(network, worker, run.workers + i), chunk, run.latency,
                      worker * run.servers + i);
      }
    } else if (*tag >= pushes) {
      ends.last_pull_s = network.now().in_seconds().in_s();
    } else if (const std::uint32_t server = *tag % run.servers;
               ends.last_push_s = network.now().in_seconds().in_s(),
               ++received[server] == run.workers) {
      for (std::uint32_t i = 0; i < run.workers; ++i) {
        network.start(ports.route(network, run.workers + server, i), chunk, run.latency,
                      pushes + i);
      }
    }
  }
  return ends;
}

TEST_SUITE_BEGIN("validation/max_min");

TEST_CASE("the 18 scenarios end when SimGrid and the exact solver say") {
  const auto links = test::find_data("network/maxmin_links.csv");
  const auto flows = test::find_data("network/maxmin_scenarios.csv");
  if (!links || !flows) return;
  const auto scenarios = read_scenarios(*links, *flows);
  CHECK(scenarios.size() == 18);
  double worst = 0;
  std::size_t num_rows = 0;
  for (const auto& [name, scenario] : scenarios) {
    CAPTURE(name);
    const Schedule schedule = scenario.graph.run();
    for (const auto& [flow, expected_s] : scenario.expected_s) {
      CAPTURE(flow);
      const double end_s = schedule.end[scenario.flows.at(flow).index].in_seconds().in_s();
      CHECK(std::fabs(end_s - expected_s) <= std::max(1e-9 * expected_s, 2e-12));
      worst = std::max(worst, std::fabs(end_s / expected_s - 1));
      ++num_rows;
    }
  }
  CHECK(num_rows == 2 * 226);
  MESSAGE("worst relative difference " << worst);
}

TEST_CASE("rings and parameter servers of up to 2048 hosts end when SimGrid says") {
  const auto table = test::find_data("network/maxmin_scale.csv");
  if (!table) return;
  int num_rows = 0;
  for (CsvReader reader(*table); reader.next(); ++num_rows) {
    Run run;
    run.workers = static_cast<std::uint32_t>(number(reader, "workers"));
    run.stagger = to_ticks<Picoseconds>(Seconds(number(reader, "stagger_s")));
    run.latency = to_ticks<Picoseconds>(Seconds(number(reader, "path_latency_s")));
    run.bytes = Bytes(number(reader, "bytes"));
    run.port = BytesPerSecond(number(reader, "port_bandwidth_Bps"));
    if (const auto core = number_or_none(reader, "core_bandwidth_Bps")) {
      run.core = BytesPerSecond(*core);
    }
    CAPTURE(run.workers);
    const double completion_s = number(reader, "completion_s");
    if (text(reader, "workload") == "ring_allreduce") {
      const double end_s = run_ring(run);
      const double closed_form_s =
          2.0 * (run.workers - 1) *
          (run.latency.in_seconds() + part_of(run.bytes, run.workers) / run.port).in_s();
      CHECK(std::fabs(end_s / closed_form_s - 1) <= 1e-9);
      CHECK(std::fabs(run_ring_as_tasks(run, true) / closed_form_s - 1) <= 1e-9);
      if (run.workers <= 512) CHECK(run_ring_as_tasks(run, false) == run_ring_as_tasks(run, true));
      CHECK(std::fabs(end_s - completion_s) <= 1e-9);
    } else {
      run.servers = static_cast<std::uint32_t>(number(reader, "servers"));
      CAPTURE(run.servers);
      const PushPull ends = run_parameter_server(run);
      CHECK(std::fabs(ends.last_push_s - number(reader, "last_push_end_s")) <= 1e-9);
      CHECK(std::fabs(ends.last_pull_s - completion_s) <= 1e-9);
    }
  }
  CHECK(num_rows == 16);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::engine
