#include "sim/job/network_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <utility>

#include "hwspecs/loaders/known_names.hpp"
#include "models/aten/import.hpp"
#include "models/encoder/config.hpp"
#include "models/language/config.hpp"
#include "models/language/graph.hpp"
#include "models/onnx/import.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/job/job.hpp"

namespace tracecast {
namespace {

AttentionKernels attention_of(const BuildOptions& options, const std::string& family) {
  return NetworkCode{.attention = options.attention, .stepwise = options.stepwise}.attention_of(
      family);
}

/// Encoders, pairs of encoder and decoder, denoisers.
NetworkFile from_encoder_config(const std::string& bytes, const std::string& path,
                                const std::string& family, BuildOptions options) {
  options.attention = attention_of(options, family);
  EncoderNetwork network = read_encoder_config(bytes, path, options);
  network.graph.name = name_of_config(path);
  return {.graph = std::move(network.graph), .warnings = std::move(network.warnings)};
}

NetworkFile from_config(const std::string& bytes, const std::string& path,
                        const BuildOptions& options);

/// The denoiser of a pipeline, which lies in a folder beside its model_index.json.
NetworkFile from_pipeline(const std::string& folder, const std::string& path,
                          const BuildOptions& options) {
  const std::string part =
      (std::filesystem::path(path).parent_path() / folder / "config.json").string();
  NetworkFile file = from_config(read_file(part, kMostNetworkBytes), part, options);
  file.warnings.insert(file.warnings.begin(),
                       "one step of the pipeline's denoiser, " + part +
                           ": encoders of texts and the autoencoder are files of their own");
  return file;
}

NetworkFile from_config(const std::string& bytes, const std::string& path,
                        const BuildOptions& options) {
  if (const std::string folder = denoiser_of_pipeline(bytes); !folder.empty()) {
    return from_pipeline(folder, path, options);
  }
  if (const std::string family = encoder_family(bytes); !family.empty()) {
    return from_encoder_config(bytes, path, family, options);
  }
  const LanguageNetwork network = read_config_json(bytes, path);
  if (options.image_size) {
    throw InputError("--image-size", std::to_string(*options.image_size),
                     "no such flag: " + path + " is a network of tokens");
  }
  NetworkFile file{
      .graph = language_graph(network, {.batch = options.batch,
                                        .tokens = options.seq_len.value_or(usual_tokens(network)),
                                        .attention = attention_of(options, network.family),
                                        .grouped_attention = options.grouped_attention,
                                        .casts_as_written = options.casts_as_written,
                                        .is_compiled = options.is_compiled,
                                        .training = options.training}),
      .warnings = left_out_of_graph(network)};
  file.graph.name = name_of_config(path);
  return file;
}

}  // namespace

bool is_config_path(std::string_view path) { return path.ends_with(".json"); }

std::string name_of_config(std::string_view path) {
  const std::filesystem::path file(path);
  const std::string folder = file.parent_path().filename().string();
  return file.stem() == "config" && !folder.empty() ? folder : file.stem().string();
}

std::vector<std::string> left_out_of_graph(const LanguageNetwork& network) {
  std::vector<std::string> result;
  if (network.encoder_parameters > 0) {
    result.push_back(fmt::format("the encoder of images, {:.3g} G parameters, is left out",
                                 network.encoder_parameters * 1e-9));
  }
  if (network.prediction_layers > 0) {
    result.push_back(fmt::format(
        "layers that predict further tokens, {} of them with {:.3g} G parameters, are left out",
        network.prediction_layers, prediction_parameters(network).total() * 1e-9));
  }
  if (!network.unread.empty()) {
    result.push_back(
        fmt::format("sizes that the configuration states and that are not known here: {}",
                    fmt::join(network.unread, ", ")));
  }
  return result;
}

std::string read_network_bytes(const std::string& path) {
  if (is_aten_path(path)) return read_aten_file(path, kMostNetworkBytes);
  return is_config_path(path) ? read_file(path, kMostNetworkBytes)
                              : read_onnx_file(path, kMostNetworkBytes);
}

std::int64_t usual_batch(const std::string& network) {
  if (!is_network_path(network) || is_config_path(network)) return 1;
  refuse_other_file(network);
  const std::string bytes = read_network_bytes(network);
  return is_aten_path(network) ? aten_batch(bytes, network) : onnx_batch(bytes, network);
}

NetworkFile read_network_file(const std::string& bytes, const std::string& path,
                              const BuildOptions& options) {
  if (is_config_path(path)) return from_config(bytes, path, options);
  if (is_aten_path(path)) {
    AtenNetwork network = import_aten(bytes, path,
                                      {.batch = options.batch,
                                       .image_size = options.image_size,
                                       .seq_len = options.seq_len,
                                       .training = options.training,
                                       .attention = options.attention,
                                       .as_written = options.as_written});
    return {.graph = std::move(network.graph),
            .warnings = std::move(network.warnings),
            .rewrites = std::move(network.rewrites)};
  }
  OnnxNetwork network = import_onnx(bytes, path,
                                    {.batch = options.batch,
                                     .image_size = options.image_size,
                                     .seq_len = options.seq_len,
                                     .training = options.training,
                                     .attention = options.attention,
                                     .as_written = options.as_written,
                                     .channels_last = options.channels_last});
  return {.graph = std::move(network.graph),
          .warnings = std::move(network.warnings),
          .rewrites = std::move(network.rewrites)};
}

}  // namespace tracecast
