#include "models/onnx/import.hpp"

#include <filesystem>
#include <iterator>
#include <utility>

#include "models/onnx/folded_norms.hpp"
#include "models/onnx/framework_ops.hpp"
#include "models/onnx/input_sizes.hpp"
#include "models/onnx/interpreter.hpp"
#include "models/onnx/program.hpp"
#include "models/onnx/reader.hpp"
#include "models/onnx/scale_layers.hpp"

namespace tracecast {
namespace {

using namespace onnx;

std::string network_name(std::string_view where, const ModelProto& model) {
  std::string_view file = where;
  if (file.ends_with(".gz")) file.remove_suffix(3);
  std::string stem = std::filesystem::path(file).stem().string();
  return stem.empty() ? model.graph().name() : stem;
}

}  // namespace

std::string read_onnx_file(const std::filesystem::path& path, std::uint64_t most_bytes) {
  return read_structure(path, most_bytes);
}

std::int64_t onnx_batch(std::string_view bytes, std::string_view where) {
  const ModelProto model = read_model(bytes, where);
  return resolve_input_sizes(build_program(model, where), {}, where).own.batch;
}

OnnxNetwork import_onnx(std::string_view bytes, std::string_view where,
                        const OnnxOptions& options) {
  const ModelProto model = read_model(bytes, where);
  Program program = build_program(model, where);
  std::vector<Rewrite> rewrites;
  if (!options.as_written) restore_framework_ops(program, rewrites);
  InputSizes sizes = resolve_input_sizes(program, options, where);
  const std::string name = network_name(where, model);

  Reference reference;
  const bool is_resized =
      sizes.own.batch != sizes.asked.batch || sizes.own.inputs != sizes.asked.inputs;
  if (is_resized) {
    Interpreter own(program, where, name, sizes.own, nullptr, options.training, options.attention);
    own.run();
    reference = {.batch = sizes.own.batch, .values = std::move(own).take_values()};
  }
  Interpreter asked(program, where, name, sizes.asked, is_resized ? &reference : nullptr,
                    options.training, options.attention);
  asked.run();

  OnnxNetwork network{.graph = {}, .warnings = asked.warnings()};
  network.warnings.insert(network.warnings.end(),
                          std::make_move_iterator(sizes.assumptions.begin()),
                          std::make_move_iterator(sizes.assumptions.end()));
  if (program.num_dead_nodes > 0) {
    network.warnings.push_back(std::to_string(program.num_dead_nodes) +
                               " nodes reach no output and are left out");
  }
  network.graph = std::move(asked).take_graph();
  find_scale_layers(network.graph);
  if (!options.as_written) {
    unfold_batch_norms(network.graph, rewrites, network.warnings);
    network.graph = canonicalize(
        network.graph, {.attention = options.attention, .channels_last = options.channels_last},
        rewrites);
  }
  network.rewrites = std::move(rewrites);
  return network;
}

}  // namespace tracecast
