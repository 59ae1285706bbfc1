#include "tools/validate/published_row.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "hwspecs/software/input_pipeline.hpp"
#include "models/training.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// The number that follows `before` in the text.
std::optional<double> number_after(std::string_view text, std::string_view before) {
  const std::size_t at = text.find(before);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + before.size());
  return parse_double(text.substr(0, text.find_first_not_of("0123456789.")));
}

std::string precision_of(std::string_view text) {
  if (contains(text, "mixed") || contains(text, "amp")) return "amp";
  return text.empty() || text == "not stated" ? "fp32" : std::string(text);
}

/// "TensorFlow (tensorpack)" is tensorflow.
std::string framework_of(std::string_view text) {
  return to_lower(text.substr(0, text.find_first_of(" (")));
}

std::string optimizer_of(std::string_view notes) {
  constexpr std::string_view kBefore = "optimiser ";
  const std::size_t at = notes.find(kBefore);
  if (at == std::string_view::npos) return "momentum";
  notes.remove_prefix(at + kBefore.size());
  const std::string name(notes.substr(0, notes.find_first_not_of("abcdefghijklmnopqrstuvwxyz")));
  return find_optimizer(name) ? name : "adam";
}

/// "column: Mixed precision Inference Latency + XLA", "batch size = 224 & with xla"; not "without
/// xla", "boxlab".
bool says_xla(std::string_view notes) {
  const std::string words = to_lower(notes);
  return contains(words, "+ xla") || contains(words, "& with xla") || contains(words, "& withxla");
}

/// Of the notes' "dataset NAME", when the catalog has such a data set: what its samples cost to
/// load is known.
std::optional<std::string> data_set_of(std::string_view notes, const SpecLibrary& specs) {
  constexpr std::string_view kBefore = "dataset ";
  const std::size_t at = notes.find(kBefore);
  if (at == std::string_view::npos) return std::nullopt;
  notes.remove_prefix(at + kBefore.size());
  try {
    return specs.find_data_set(notes.substr(0, notes.find_first_of(" ;,("))).id;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

/// A table that says "V100" and, in its notes, that the board is a PCIe one.
std::optional<GpuSpec> find_gpu(std::string_view gpu, std::string_view notes,
                                const GpuCatalog& gpus) {
  std::string name(gpu);
  for (const char c : {'(', ')'}) std::erase(name, c);
  if (contains(notes, "PCIe board")) {
    for (const char* form : {"_pcie_16gb", "_pcie"}) {
      try {
        return gpus.find(name + form);
      } catch (const InputError&) {
      }
    }
  }
  try {
    return gpus.find(name);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace

bool is_board_power(std::string_view metric, std::string_view unit) {
  return unit == "W" && contains(metric, "power") && contains(metric, "GPU");
}

bool is_gpu_utilization(std::string_view metric, std::string_view unit) {
  return unit == "%" && contains(metric, "GPU") && contains(metric, "utili");
}

std::string find_published_network(std::string_view text) {
  constexpr std::string_view kWhile = "while training ";
  if (const std::size_t at = text.find(kWhile); at != std::string_view::npos) {
    text.remove_prefix(at + kWhile.size());
  }
  for (const std::string_view end : {" training", "_FP16", "_FP32", "_AMP", "_TF32"}) {
    if (text.ends_with(end)) text.remove_suffix(end.size());
  }
  std::string joined(text);  // "NeuMF / NCF (ML-1M)"
  std::erase(joined, '/');
  for (const std::string_view wanted :
       {text, std::string_view(joined), text.substr(0, text.find('('))}) {
    if (const ZooEntry* entry = find_network(wanted)) return std::string(entry->name);
  }
  return {};
}

std::string read_conditions(const RowFields& row, const SpecLibrary& specs, PlacedJob& job) {
  const auto refused = [&row](std::string_view column, std::string_view expected) {
    return fmt::format("{} \"{}\" is not predicted: {}", column, row.text(column), expected);
  };
  if (const std::string_view size = row.text_or_empty("image_size"); !size.empty()) {
    const std::size_t by = size.find_first_of("xX");
    const auto side = parse_integer(size.substr(0, by));
    const bool is_square =
        by == std::string_view::npos || parse_integer(size.substr(by + 1)) == side;
    if (!side || *side < 1 || !is_square)
      return refused("image_size", "the side of square images is expected");
    job.image_size = *side;
  }
  if (const std::string_view tokens = row.text_or_empty("seq_len"); !tokens.empty()) {
    job.seq_len = whole(row, "seq_len");
    if (!job.seq_len) return refused("seq_len", "a whole number of tokens is expected");
  }
  const auto is_no = [](std::string_view word) { return word.empty() || word == "no"; };
  const FrameworkProfile& framework = specs.find_framework(job.software.framework);
  if (const std::string layout = to_lower(row.text_or_empty("channels_last")); layout == "yes") {
    job.software.channels_last = true;
  } else if (!is_no(layout)) {
    return refused("channels_last", "yes or no is expected");
  } else if (layout == "no" && framework.convolutions.image_layout == ImageLayout::Nhwc) {
    job.software.channels_last = false;  // else it is what the framework does by itself
  }
  if (const std::string compiler = to_lower(row.text_or_empty("compiled")); !is_no(compiler)) {
    std::vector<std::string> known;
    for (const FrameworkProfile& profile : specs.frameworks()) {
      if (!profile.compiler || profile.compiler->framework != framework.id) continue;
      known.push_back(profile.compiler->name);
      if (known.back() == compiler) job.software.framework = profile.id;
    }
    if (std::find(known.begin(), known.end(), compiler) == known.end())
      return refused("compiled", fmt::format("no, or a compiler of {}: {}", framework.id,
                                             fmt::join(known, ", ")));
  }
  return {};
}

void add_cudnn_of(std::string& version, std::initializer_list<std::string_view> texts) {
  for (const std::string_view text : texts) {
    if (find_cudnn_version(version)) return;
    if (find_cudnn_version(text)) version += "; " + std::string(text);
  }
}

FrameworkProfile uncompiled(Software software, const Hardware& hardware) {
  software.xla = false;
  return hardware.framework(software);
}

std::string meant_network(std::string network, const FrameworkProfile& framework) {
  const std::string called = network;
  for (const NetworkMeaning& meaning : framework.network_meanings) {
    if (meaning.name == called) network = meaning.zoo;  // an era's own come last
  }
  return network;
}

PublishedJob read_published_job(const RowFields& row, const SpecLibrary& specs,
                                const PublishedProgram& program) {
  PublishedJob job;
  PlacedJob& o = job.options;
  const std::string_view notes = row.text_or_empty("notes");
  const auto unknown = [&](std::string reason) {
    job.unknown = std::move(reason);
    return job;
  };

  if (const auto memory = number_after(notes, "max memory "); memory && *memory < 300) {
    return unknown("the GPU that was watched ran nothing: it held " +
                   std::to_string(static_cast<int>(*memory)) + " MiB");
  }
  if (!program.unpredicted.empty()) return unknown(program.unpredicted);
  o.network = program.network.empty() ? find_published_network(row.text("model")) : program.network;
  if (o.network.empty())
    return unknown("network not in the zoo: " + std::string(row.text("model")));
  const auto gpu = find_gpu(row.text("gpu"), notes, specs.gpus());
  if (!gpu) return unknown("GPU without a spec: " + std::string(row.text("gpu")));
  o.gpu = gpu->id;
  o.software.framework = framework_of(row.text("framework"));
  const auto frameworks = specs.framework_ids();
  if (std::find(frameworks.begin(), frameworks.end(), o.software.framework) == frameworks.end()) {
    return unknown("framework " + o.software.framework + " has no profile");
  }
  o.software.version = row.text_or_empty("framework_version");
  if (o.software.version.empty()) o.software.version = program.version;
  add_cudnn_of(o.software.version, {notes, row.text("framework")});
  o.software.xla = says_xla(notes);
  o.software.cudnn_benchmark = program.cudnn_benchmark;
  o.software.channels_last = program.channels_last;
  o.software.attention = program.attention;
  o.precision = program.precision.empty() ? precision_of(row.text("precision")) : program.precision;
  if (!find_precision(o.precision)) return unknown("precision " + o.precision + " is not known");
  o.phase = row.text("phase");
  if (!find_phase(o.phase)) return unknown("phase " + o.phase + " is not known");
  o.optimizer = program.optimizer.empty() ? optimizer_of(notes) : program.optimizer;
  o.data = data_set_of(notes, specs).value_or(o.data);
  o.batch = parse_integer(row.text("batch_per_gpu")).value_or(0);

  if (const auto tokens = number_after(notes, "Sequence length=")) {
    o.seq_len = static_cast<std::int64_t>(*tokens);
  }

  if (contains(notes, "clock offsets")) return unknown("clock offsets from a base not stated");
  o.board.power_limit_w = number_after(notes, "power limit ");
  o.board.clock_mhz = number_after(notes, "core ");
  o.board.memory_clock_mhz = number_after(notes, "memory ");
  if (!contains(notes, "absolute clocks"))
    o.board.clock_mhz = o.board.memory_clock_mhz = std::nullopt;
  return job;
}

}  // namespace tracecast
