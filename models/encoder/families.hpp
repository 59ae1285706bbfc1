#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "models/encoder/stack.hpp"
#include "models/language/config_object.hpp"
#include "models/zoo/zoo.hpp"

/// Families of networks that read their input at once, one row each. Private to models/encoder.
namespace tracecast::encoder {

using language::ConfigObject;

/// What a family's file says is built into a graph.
struct Question {
  const ConfigObject& config;
  const BuildOptions& options;
  std::string_view family;
  bool is_part = false;  ///< of a file of images and text: no head
};
using Build = NetworkGraph (*)(const Question& question);

struct EncoderFamily {
  std::string_view model_type;
  Build build = nullptr;
  bool reads_images = false;
  /// What the family's class sets where a file leaves it out, as an object of keys: files of
  /// several parts rely on it.
  std::string_view defaults = "{}";
};
[[nodiscard]] std::span<const EncoderFamily> encoder_rows();

// By kind of network.
[[nodiscard]] NetworkGraph text_encoder(const Question& question);
[[nodiscard]] NetworkGraph encoder_decoder(const Question& question);
[[nodiscard]] NetworkGraph sound_encoder(const Question& question);
[[nodiscard]] NetworkGraph image_encoder(const Question& question);
[[nodiscard]] NetworkGraph two_towers(const Question& question);
[[nodiscard]] NetworkGraph staged_image_encoder(const Question& question);
[[nodiscard]] NetworkGraph denoiser(const Question& question);

// What they share.
/// The class in `architectures` ends like this ("ForImageClassification").
[[nodiscard]] bool is_for(const Question& question, std::string_view task);
/// Classes: entries of id2label, else num_labels, else 2.
[[nodiscard]] std::int64_t labels_of(const ConfigObject& config);
/// Tokens of a text: as asked, else all positions up to 512.
[[nodiscard]] std::int64_t tokens_of(const Question& question, std::int64_t positions);
/// A number of layers, at most 4096.
[[nodiscard]] std::int64_t layers_of(const ConfigObject& config, std::string_view key,
                                     std::int64_t usual = 0);
/// The side of an image, as asked or as the file says, which `patch` divides.
[[nodiscard]] std::int64_t side_of(const Question& question, std::int64_t usual,
                                   std::int64_t patch);
[[nodiscard]] Run run_of(GraphBuilder& b, const Question& question);
/// The first token through a linear layer and tanh.
[[nodiscard]] TensorId pooled(GraphBuilder& b, const std::string& name, TensorId x,
                              bool tanh = true);
[[nodiscard]] TensorId first_token(GraphBuilder& b, const std::string& name, TensorId x);
/// Images as rows of patches: batch x patches x width.
[[nodiscard]] TensorId patches(GraphBuilder& b, const std::string& name, TensorId images,
                               std::int64_t width, std::int64_t patch, bool bias);
/// A tower of images of a row of image_encoder, up to its last norm, and of its head where it has
/// one of its own.
[[nodiscard]] TensorId image_tower(const Run& run, const Question& question,
                                   const std::string& name);

}  // namespace tracecast::encoder
