#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/zoo/parts/network_word.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "sim/job/job.hpp"
#include "tools/command/amounts.hpp"
#include "tools/command/cell.hpp"
#include "tools/command/csv.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/command/standard_input.hpp"
#include "tools/command/subcommand.hpp"
#include "tools/command/version.hpp"
#include "tools/show/network_summary.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMib = 1 << 20;

struct NetworksOptions {
  std::string name;
  SummaryOptions sizes;
  std::string format = "text";
};

struct ListedNetwork {
  const ZooEntry* entry;
  NetworkSummary summary;
  std::int64_t image_size, seq_len;  ///< built for; 0 = reads none
};

struct NetworkList {
  std::vector<ListedNetwork> networks;
  std::vector<std::string> not_at_this_size;  ///< names of what cannot be built as asked
};

/// A size asked for takes out the networks that do not read such inputs.
bool is_listed(const ZooEntry& entry, const SummaryOptions& sizes) {
  return (!sizes.image_size || entry.image_size > 0) && (!sizes.seq_len || entry.seq_len > 0);
}

NetworkList summarize_zoo(const SummaryOptions& sizes) {
  NetworkList list;
  for (const ZooEntry& entry : zoo()) {
    if (!is_listed(entry, sizes)) continue;
    const std::string name(entry.name);
    try {
      list.networks.push_back(
          {&entry, summarize_network(name, sizes),
           entry.image_size > 0 ? sizes.image_size.value_or(entry.image_size) : 0,
           entry.seq_len > 0 ? sizes.seq_len.value_or(entry.seq_len) : 0});
    } catch (const InputError&) {
      list.not_at_this_size.push_back(name);
    }
  }
  return list;
}

std::string list_text(const NetworkList& list) {
  std::string text = fmt::format("{:<20} {:>7} {:>7} {:>8} {:>5}  {}\n", "name", "weights", "MACs",
                                 "kept", "size", "what it is");
  for (const ListedNetwork& n : list.networks) {
    const std::int64_t size = n.seq_len > 0 ? n.seq_len : n.image_size;
    text += fmt::format("{} {:>7} {:>7} {:>8} {:>5}  {}\n", fit(n.entry->name, 20),
                        short_count(static_cast<double>(n.summary.parameters)),
                        short_count(n.summary.macs), size_text(Bytes(n.summary.activation_bytes)),
                        size > 0 ? std::to_string(size) : "-", last_cell(n.entry->title, 53));
  }
  if (!list.not_at_this_size.empty()) {
    text +=
        '\n' +
        wrap(fmt::format("Not at this size: {}", fmt::join(list.not_at_this_size, ", ")), 78, 2) +
        '\n';
  }
  return text +
         "\nMACs: multiply-adds of one sample's forward pass. Kept: activations that a\n"
         "training step keeps of it, FP32. Size: side of the image in pixels, or tokens\n"
         "per sample; --image-size and --seq-len change it. `tracecast networks NAME`\n"
         "shows one in detail, also an .onnx file or a config.json.\n";
}

/// "35,641,826".
std::string grouped(std::int64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

std::string published_text(const std::optional<Published>& figure) {
  if (!figure) return "none known for sure";
  if (figure->unit == 1) {
    return fmt::format("{}, {}", grouped(static_cast<std::int64_t>(figure->value)), figure->source);
  }
  const double scale = figure->value < 1e9 ? 1e6 : 1e9;
  const int decimals = figure->unit >= scale         ? 0
                       : figure->unit * 10 >= scale  ? 1
                       : figure->unit * 100 >= scale ? 2
                                                     : 3;
  return fmt::format("{:.{}f} {}, {}", figure->value / scale, decimals, scale == 1e6 ? 'M' : 'G',
                     figure->source);
}

std::string kinds_text(const NetworkSummary& summary) {
  std::string text = fmt::format("\n{:<18} {:>6} {:>14} {:>10} {:>10}\n", "layers by kind", "ops",
                                 "parameters", "G MACs", "kept MiB");
  for (const KindSummary& kind : summary.kinds) {
    const auto or_dash = [](double value) { return value > 0 ? low_precision(value, 10) : "-"; };
    text += fmt::format("{:<18} {:>6} {:>14} {:>10} {:>10}\n", to_string(kind.kind), kind.ops,
                        kind.parameters > 0 ? grouped(kind.parameters) : "-",
                        or_dash(kind.macs * 1e-9), or_dash(kind.activation_bytes / kMib));
  }
  return text +
         "\nOps, parameters, MACs: inference. Kept: by training; its further ops show as 0.\n";
}

std::string show_text(const NetworkSummary& summary, const ZooEntry* entry) {
  std::string text = entry != nullptr ? fmt::format("{}: {}\n\n", entry->name, entry->title)
                                      : fmt::format("{}\n\n", printable(summary.name));
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{:<15}{}\n", name, wrap(value, 65, 15));
  };
  std::vector<std::string> inputs;
  for (const NetworkInput& input : summary.inputs) {
    inputs.push_back(input.name + " " + to_string(input.shape));
  }
  line("reads", fmt::format("{}", fmt::join(inputs, ", ")));
  line("parameters", grouped(summary.parameters));
  if (entry != nullptr) line("  published", published_text(entry->parameters));
  line("multiply-adds", short_count(summary.macs) + ", forward pass of one sample");
  if (entry != nullptr) line("  published", published_text(entry->macs));
  line("activations",
       size_text(Bytes(summary.activation_bytes)) + " per sample kept by a training step, FP32");
  if (entry != nullptr) {
    if (!entry->aliases.empty()) {
      line("also called", fmt::format("{}", fmt::join(entry->aliases, ", ")));
    }
    line("definition", std::string(entry->source));
  }
  return text + kinds_text(summary);
}

Json published_json(const std::optional<Published>& figure) {
  if (!figure) return {};
  return {{"value", figure->value}, {"last_digit", figure->unit}, {"source", figure->source}};
}

Json summary_json(const NetworkSummary& summary, const ZooEntry* entry) {
  Json doc{{"network", summary.name}};
  if (entry != nullptr) {
    doc["title"] = entry->title;
    doc["aliases"] = entry->aliases;
    doc["source"] = entry->source;
  }
  doc["parameters"] = summary.parameters;
  doc["forward_macs_per_sample"] = summary.macs;
  doc["activation_bytes_per_sample"] = summary.activation_bytes;
  if (entry != nullptr) {
    doc["published_parameters"] = published_json(entry->parameters);
    doc["published_forward_macs_per_sample"] = published_json(entry->macs);
  }
  doc["inputs"] = Json::array();
  for (const NetworkInput& input : summary.inputs) {
    doc["inputs"].push_back({{"name", input.name}, {"shape", input.shape}});
  }
  doc["kinds"] = Json::array();
  for (const KindSummary& kind : summary.kinds) {
    doc["kinds"].push_back({{"kind", to_string(kind.kind)},
                            {"ops", kind.ops},
                            {"parameters", kind.parameters},
                            {"forward_macs", kind.macs},
                            {"activation_bytes", kind.activation_bytes}});
  }
  return doc;
}

std::string to_json(const std::vector<ListedNetwork>& networks,
                    const std::vector<std::string>& not_at_this_size) {
  Json doc{{"schema", "tracecast.networks/" + std::to_string(kSchema)},
           {"version", kVersion},
           {"activation_precision", "fp32"}};
  doc["networks"] = Json::array();
  for (const ListedNetwork& n : networks)
    doc["networks"].push_back(summary_json(n.summary, n.entry));
  doc["not_at_this_size"] = not_at_this_size;
  return json_text(doc) + '\n';
}

std::string to_csv(const std::vector<ListedNetwork>& networks) {
  std::string text =
      "network,parameters,forward_macs_per_sample,activation_bytes_per_sample,image_size_px,"
      "seq_len_tokens,published_parameters,published_forward_macs_per_sample,title\n";
  const auto published = [](const std::optional<Published>& figure) {
    return figure ? fmt::format("{}", figure->value) : std::string();
  };
  const auto size = [](std::int64_t value) {
    return value > 0 ? std::to_string(value) : std::string();
  };
  for (const ListedNetwork& n : networks) {
    text += csv_line(n.summary.name, n.summary.parameters, n.summary.macs,
                     n.summary.activation_bytes, size(n.image_size), size(n.seq_len),
                     n.entry != nullptr ? published(n.entry->parameters) : "",
                     n.entry != nullptr ? published(n.entry->macs) : "",
                     n.entry != nullptr ? n.entry->title : "");
  }
  return text;
}

std::string report(const NetworksOptions& options) {
  if (options.name.empty()) {
    const NetworkList list = summarize_zoo(options.sizes);
    if (options.format == "json") return to_json(list.networks, list.not_at_this_size);
    return options.format == "csv" ? to_csv(list.networks) : list_text(list);
  }
  const auto word = read_network_word(options.name);
  const ZooEntry* entry = word ? word->entry : nullptr;
  if (entry != nullptr) check_sizes_apply(*entry, options.sizes.image_size, options.sizes.seq_len);
  const NetworkSummary summary = summarize_network(options.name, options.sizes);
  if (options.format == "text") return show_text(summary, entry);
  const std::vector<ListedNetwork> one = {
      {entry, summary,
       word ? options.sizes.image_size.value_or(word->image_size.value_or(entry->image_size)) : 0,
       word ? options.sizes.seq_len.value_or(word->seq_len.value_or(entry->seq_len)) : 0}};
  return options.format == "json" ? to_json(one, {}) : to_csv(one);
}

}  // namespace

void add_networks_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<NetworksOptions>();
  CLI::App* subcommand = app.add_subcommand(
      "networks", "List the networks of the zoo with their sizes, or show one in detail");
  subcommand
      ->add_option("name", options->name, "Network to show, or an .onnx file or a config.json")
      ->type_name("NAME");
  subcommand->add_option("--image-size", options->sizes.image_size, "Side of the images in pixels")
      ->type_name("S");
  subcommand->add_option("--seq-len", options->sizes.seq_len, "Tokens per sample")->type_name("L");
  add_format_option(*subcommand, options->format);
  subcommand->callback([options, &exit_code] {
    StandardInput input;
    input.resolve(options->name, kMostNetworkBytes, kOnnxOpening);
    write_report(report(*options));
    exit_code = kExitDone;
  });
}

}  // namespace tracecast
