#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hwspecs/library.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "tools/command/output.hpp"
#include "tools/command/spec_listing.hpp"
#include "tools/command/subcommand.hpp"

namespace tracecast {
namespace {

struct HardwareOptions {
  std::string kind, id, folder;
  std::string format = "text";
};

std::string figure(double value) { return fmt::format("{:.6g}", value); }

SpecList describe(std::span<const GpuSpec> gpus) {
  SpecList list{.kind = "gpus",
                .columns = {{"TFLOP/s", "peak_fp32_tflop_per_s", 8},
                            {"GB/s", "dram_gb_per_s", 6},
                            {"GiB", "memory_gib", 5},
                            {"W", "tdp_w", 5}},
                .rows = {},
                .legend =
                    "TFLOP/s: FP32 at boost clock. Short forms such as \"v100\" are "
                    "understood."};
  for (const GpuSpec& g : gpus) {
    list.rows.push_back(
        {&g,
         {figure(g.peak_fp32().in_tflop_per_s()), figure(g.dram_bandwidth.in_gb_per_s()),
          figure(g.memory.in_gib()), figure(g.tdp.in_w())}});
  }
  return list;
}

SpecList describe(std::span<const CpuSpec> cpus) {
  SpecList list{.kind = "cpus",
                .columns = {{"cores", "cores", 5},
                            {"GHz", "base_clock_ghz", 4},
                            {"turbo", "turbo_clock_ghz", 5},
                            {"ISA", "vector_isa", 6},
                            {"GFLOP/s", "peak_fp32_gflop_per_s", 7},
                            {"GB/s", "memory_gb_per_s", 5}},
                .rows = {},
                .legend =
                    "One package each. GHz, turbo: base clock and highest of one core. "
                    "GFLOP/s: FP32, all cores in their widest vectors."};
  for (const CpuSpec& c : cpus) {
    list.rows.push_back(
        {&c,
         {std::to_string(c.cores), figure(c.base_clock.in_mhz() * 1e-3),
          figure(c.turbo_clock.in_mhz() * 1e-3), std::string(to_string(c.vector_isa)),
          figure(c.peak_fp32().in_tflop_per_s() * 1e3), figure(c.memory_bandwidth.in_gb_per_s())}});
  }
  return list;
}

SpecList describe(std::span<const DiskSpec> disks) {
  SpecList list{.kind = "disks",
                .columns = {{"kind", "kind", 8},
                            {"read", "sequential_read_mb_per_s", 6},
                            {"write", "sequential_write_mb_per_s", 6},
                            {"reads/s", "random_read_iops", 8}},
                .rows = {},
                .legend = "read, write: sequential, MB/s (10^6). reads/s: of 4 KiB at random."};
  for (const DiskSpec& d : disks) {
    list.rows.push_back(
        {&d,
         {std::string(to_string(d.kind)), figure(d.sequential_read.in_si() * 1e-6),
          figure(d.sequential_write.in_si() * 1e-6), figure(d.random_read_rate.in_si())}});
  }
  return list;
}

SpecList describe(std::span<const LinkSpec> links) {
  SpecList list{.kind = "links",
                .columns = {{"kind", "kind", 10}, {"GB/s", "gb_per_s", 7}, {"us", "latency_us", 6}},
                .rows = {},
                .legend = "GB/s: each direction, after line coding. us: one small message."};
  for (const LinkSpec& l : links) {
    list.rows.push_back({&l,
                         {std::string(to_string(l.kind)), figure(l.bandwidth.in_gb_per_s()),
                          figure(l.latency.in_us())}});
  }
  return list;
}

SpecList describe(std::span<const MachineSpec> machines) {
  SpecList list{.kind = "machines",
                .columns = {{"hosts", "hosts", 5},
                            {"sockets", "sockets", 7},
                            {"threads", "hardware_threads", 7},
                            {"GiB", "memory_gib", 5},
                            {"GPUs", "gpu_slots", 4}},
                .rows = {},
                .legend =
                    "hosts: operating systems, compute trays of a rack. threads: hardware threads "
                    "that programs see. `tracecast hardware "
                    "machines ID` shows CPU, GPUs, disks and wiring."};
  for (const MachineSpec& m : machines) {
    list.rows.push_back(
        {&m,
         {std::to_string(m.hosts), std::to_string(m.sockets), std::to_string(m.hardware_threads),
          figure(m.memory.in_gib()), std::to_string(m.nodes_of(NodeKind::Gpu).size())}});
  }
  return list;
}

template <class Spec>
std::string report(const HardwareOptions& options,
                   const Catalog<Spec>& (SpecLibrary::*catalog_of)() const) {
  SpecLibrary specs = SpecLibrary::embedded();
  if (!options.folder.empty()) specs = specs.with_folder(options.folder);
  const Catalog<Spec>& catalog = (specs.*catalog_of)();
  if (options.id.empty()) return write_list(describe(catalog.all()), options.format);
  return write_spec(catalog.find(options.id), options.kind, options.format);
}

struct Kind {
  const char* name;
  std::function<std::string(const HardwareOptions&)> report;
};
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      {"gpus", [](const auto& o) { return report(o, &SpecLibrary::gpus); }},
      {"cpus", [](const auto& o) { return report(o, &SpecLibrary::cpus); }},
      {"disks", [](const auto& o) { return report(o, &SpecLibrary::disks); }},
      {"links", [](const auto& o) { return report(o, &SpecLibrary::links); }},
      {"machines", [](const auto& o) { return report(o, &SpecLibrary::machines); }},
  };
  return all;
}

int hardware_command(const HardwareOptions& options) {
  std::vector<std::string> names;
  for (const Kind& kind : kinds()) {
    if (kind.name == options.kind) {
      write_report(kind.report(options));
      return kExitDone;
    }
    names.emplace_back(kind.name);
  }
  throw InputError("hardware", "\"" + options.kind + "\"", describe_choices(options.kind, names));
}

void add_common_options(CLI::App& subcommand, HardwareOptions& options) {
  subcommand
      .add_option(
          "--hwspecs", options.folder,
          "Folder with further specs: GPUs in it, others in cpu/, disk/, link/, machine/ ...")
      ->type_name("DIR");
  add_format_option(subcommand, options.format);
}

}  // namespace

void add_gpus_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<HardwareOptions>();
  options->kind = "gpus";
  CLI::App* subcommand = app.add_subcommand("gpus", "List the GPUs, or show one with its sources");
  subcommand->add_option("id", options->id, "GPU to show")->type_name("ID");
  add_common_options(*subcommand, *options);
  subcommand->callback([options, &exit_code] { exit_code = hardware_command(*options); });
}

void add_hardware_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<HardwareOptions>();
  CLI::App* subcommand = app.add_subcommand(
      "hardware", "List CPUs, disks, links and machines, or show one with its sources");
  subcommand->add_option("kind", options->kind, "cpus, disks, links, machines or gpus")
      ->required()
      ->type_name("KIND");
  subcommand->add_option("id", options->id, "One to show, such as dgx1")->type_name("ID");
  add_common_options(*subcommand, *options);
  subcommand->callback([options, &exit_code] { exit_code = hardware_command(*options); });
}

}  // namespace tracecast
