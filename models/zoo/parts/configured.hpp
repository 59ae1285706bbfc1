#pragma once
#include <string_view>
#include <vector>

#include "models/zoo/zoo.hpp"

namespace tracecast::zoo_builders {

/// The networks of models/zoo/config: each file is the network's config.json as Hugging Face's
/// transformers and diffusers read it, with an object `tracecast` beside it that says its title,
/// its repository (`hub`), further names (`called`), the usual size of what it reads (`image_size`,
/// `seq_len`) and its published count (`parameters`).
[[nodiscard]] std::vector<ZooEntry> configured_networks();

/// Their names, without reading any file.
[[nodiscard]] std::vector<std::string_view> configured_names();

/// The one of that name, of its file alone; read once. `name`: one of configured_names().
[[nodiscard]] const ZooEntry& configured_network(std::string_view name);

}  // namespace tracecast::zoo_builders
