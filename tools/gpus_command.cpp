#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <string>

#include "hwspecs/gpu_loader.hpp"
#include "tools/output.hpp"
#include "tools/subcommand.hpp"

namespace tracecast {
namespace {

std::string list_gpus(const GpuCatalog& catalog) {
  std::string text =
      fmt::format("{:<18} {:<28} {:>8} {:>8} {:>8}\n", "id", "name", "TFLOP/s", "GB/s", "GiB");
  for (const GpuSpec& gpu : catalog.all()) {
    text += fmt::format("{} {} {:>8} {:>8} {:>8}\n", fit(gpu.id, 18), fit(gpu.name, 28),
                        three_digits(gpu.peak_fp32().in_tflop_per_s()),
                        three_digits(gpu.dram_bandwidth.in_gb_per_s()),
                        three_digits(gpu.memory.in_gib()));
  }
  return text + "\nTFLOP/s: FP32 at boost clock. Short forms such as \"v100\" are understood.\n";
}

std::string show_gpu(const GpuSpec& gpu) {
  std::string text = fmt::format("{}: {}\n", gpu.id, gpu.name);
  if (!gpu.aliases.empty())
    text += "also called " + wrap(fmt::format("{}", fmt::join(gpu.aliases, ", ")), 68, 12) + '\n';
  std::size_t width = 0;
  for (const SpecValue& value : gpu.values) width = std::max(width, value.field.size());
  width = std::min<std::size_t>(width, 36);
  text += '\n';
  for (const SpecValue& value : gpu.values) {
    text += fmt::format("{}  {}  {}\n", fit(value.field, width), fit(value.value, 20),
                        fit(value.source, 80 - 24 - width));
  }
  text += "\nSources\n";
  for (const SpecSource& source : gpu.sources) {
    text += "  " + wrap(fmt::format("{}: {}, {}", source.key, source.title, source.where), 76, 4) +
            '\n';
  }
  return text;
}

}  // namespace

void add_gpus_command(CLI::App& app, int& exit_code) {
  auto id = std::make_shared<std::string>();
  auto folder = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("gpus", "List the GPUs, or show one with its sources");
  verb->add_option("id", *id, "GPU to show")->type_name("ID");
  verb->add_option("--hwspecs", *folder, "Folder with further GPU specs")->type_name("DIR");
  verb->callback([id, folder, &exit_code] {
    GpuCatalog catalog = GpuCatalog::embedded();
    if (!folder->empty()) catalog.add_folder(*folder);
    write_answer(id->empty() ? list_gpus(catalog) : show_gpu(catalog.find(*id)));
    exit_code = kExitDone;
  });
}

}  // namespace tracecast
