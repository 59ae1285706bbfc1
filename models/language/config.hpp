#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "models/language/network.hpp"

namespace tracecast {

/// The largest config.json that is read: they have some kilobytes.
inline constexpr std::size_t kMostConfigBytes = std::size_t{16} << 20;

/// The network of a config.json as Hugging Face's transformers writes it: sizes alone. Keys are
/// those of the family's public configuration class; a model of images and text gives its text
/// (`text_config`). Keys that change no size are passed over. Throws InputError naming `where` and
/// the key: no JSON, unknown model_type (with the nearest one), a size that is missing, of another
/// type, out of range, or contradicts another.
[[nodiscard]] LanguageNetwork read_config_json(std::string_view bytes, std::string_view where);

/// How a config.json says that its weights are stored, as `serve --precision` has it ("fp8_block",
/// "int4_wo"), or in the words of its quantization_config where that knows no such; empty: as
/// torch_dtype says, in 16 bits or more. Throws InputError as above.
[[nodiscard]] std::string stored_precision(std::string_view bytes, std::string_view where);

/// Every model_type that can be read, sorted.
[[nodiscard]] std::vector<std::string> language_families();

}  // namespace tracecast
