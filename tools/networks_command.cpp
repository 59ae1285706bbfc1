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
      fmt::format("{:<16} {:>12} {:>6}  {}\n", "name", "parameters", "image", "what it is");
  for (const ZooEntry& entry : zoo()) {
    text += fmt::format("{} {:>10.3f} M {:>6}  {}\n", fit(entry.name, 16),
                        static_cast<double>(entry.parameters) * 1e-6, entry.image_size,
                        fit(entry.title, 42));
  }
  return text + "\nAny .onnx file is a network too: give its path.\n";
}

std::string show_network(const std::string& name) {
  const NetworkGraph graph = build_network(name, {});
  const ZooEntry& entry = *find_network(name);
  std::string text = fmt::format("{}: {}\n\n", entry.name, entry.title);
  text += fmt::format("parameters        {:.3f} M\n",
                      static_cast<double>(graph.parameter_count()) * 1e-6);
  text += fmt::format("multiply-adds     {:.3f} G per sample at {} x {}\n",
                      graph.forward_macs() * 1e-9, entry.image_size, entry.image_size);
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
