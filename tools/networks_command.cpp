#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <string>

#include "models/zoo/zoo.hpp"
#include "tools/output.hpp"
#include "tools/subcommand.hpp"

namespace tracecast {
namespace {

std::string list_networks() {
  std::string text =
      fmt::format("{:<20} {:>12} {:>6}  {}\n", "name", "parameters", "size", "what it is");
  for (const ZooEntry& entry : zoo()) {
    const std::int64_t size = entry.seq_len > 0 ? entry.seq_len : entry.image_size;
    text += fmt::format("{} {:>10.3f} M {:>6}  {}\n", fit(entry.name, 20),
                        static_cast<double>(build_network(entry.name, {}).parameter_count()) * 1e-6,
                        size > 0 ? std::to_string(size) : "-", fit(entry.title, 38));
  }
  return text +
         "\nSize: side of the image in pixels, or tokens per sample.\nAny .onnx file is a network "
         "too: give its path.\n";
}

std::string show_network(const std::string& name) {
  const NetworkGraph graph = build_network(name, {});
  const ZooEntry& entry = *find_network(name);
  std::string text = fmt::format("{}: {}\n\n", entry.name, entry.title);
  text += fmt::format("parameters        {:.3f} M\n",
                      static_cast<double>(graph.parameter_count()) * 1e-6);
  const std::string size =
      entry.seq_len > 0      ? fmt::format(" with {} tokens",
                                           graph.tensor(graph.op(OpId{0}).inputs.front()).shape.back())
      : entry.image_size > 0 ? fmt::format(" at {} x {}", entry.image_size, entry.image_size)
                             : std::string();
  text +=
      fmt::format("multiply-adds     {:.3f} G per sample{}\n", graph.forward_macs() * 1e-9, size);
  text += fmt::format("ops               {}\n", graph.ops().size());
  if (!entry.aliases.empty()) {
    text += "also called       " + wrap(fmt::format("{}", fmt::join(entry.aliases, ", ")), 62, 18) +
            '\n';
  }
  return text + "definition        " + wrap(entry.source, 62, 18) + '\n';
}

}  // namespace

void add_networks_command(CLI::App& app, int& exit_code) {
  auto name = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("networks", "List the networks of the zoo, or show one");
  verb->add_option("name", *name, "Network to show")->type_name("NAME");
  verb->callback([name, &exit_code] {
    write_answer(name->empty() ? list_networks() : show_network(*name));
    exit_code = kExitDone;
  });
}

}  // namespace tracecast
