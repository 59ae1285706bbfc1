#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "models/graph.hpp"
#include "models/zoo/zoo.hpp"

namespace tracecast {

/// A network of a config.json that reads its input at once: encoders of texts, images and sounds,
/// encoder-decoders, denoisers of images.
struct EncoderNetwork {
  NetworkGraph graph;
  std::vector<std::string> warnings{};  ///< sizes of the file that no reader knows
};

/// The family that a file of that kind states, by its model_type or by the class that diffusers
/// names; empty: it is of another kind, or no JSON.
[[nodiscard]] std::string encoder_family(std::string_view bytes);

/// The forward pass as Hugging Face's transformers and diffusers run it. Length of texts and side
/// of images are those of `options`, else the file's. The head is that of the class in
/// `architectures`; without one the states are the result. Throws InputError naming `where` and the
/// key: a size that is missing, of another type, out of range or contradicts another; images for a
/// network of texts and the other way round.
[[nodiscard]] EncoderNetwork read_encoder_config(std::string_view bytes, std::string_view where,
                                                 const BuildOptions& options);

/// The folder of the denoiser of a pipeline that a model_index.json describes ("unet",
/// "transformer"); empty: the bytes describe none.
[[nodiscard]] std::string denoiser_of_pipeline(std::string_view bytes);

/// Every family that can be read, sorted.
[[nodiscard]] std::vector<std::string> encoder_families();

}  // namespace tracecast
