#pragma once
#include <cstdint>
#include <string_view>

#include "models/language/config_object.hpp"

namespace tracecast::encoder {

/// Parameters of the encoder of images that a file of images and text describes beside its text,
/// and of what leads from it to tokens `text_width` wide. -1: it describes one that is not known
/// here; 0: it describes none. `family`: the file's model_type. Throws InputError as the readers
/// do.
[[nodiscard]] double image_part_parameters(const language::ConfigObject& config,
                                           std::string_view family, std::int64_t text_width);

}  // namespace tracecast::encoder
