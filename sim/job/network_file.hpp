#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/canonical/canonical.hpp"
#include "models/graph.hpp"
#include "models/language/network.hpp"
#include "models/zoo/zoo.hpp"

namespace tracecast {

/// Whether a network's path names a config.json (models/language/config.hpp) rather than an ONNX
/// file.
[[nodiscard]] bool is_config_path(std::string_view path);

/// A name for people: the file's, or its folder's where the file is just called config.json.
[[nodiscard]] std::string name_of_config(std::string_view path);

/// What a config.json's graph has no ops for, in words.
[[nodiscard]] std::vector<std::string> left_out_of_graph(const LanguageNetwork& network);

/// What read_network_file reads of a file: its bytes, of an exported program (.pt2) the part that
/// says what is computed.
/// Throws InputError: absent, too large, no archive.
[[nodiscard]] std::string read_network_bytes(const std::string& path);

/// The batch of a job that states none: what an ONNX file fixes, or what a pass of PyTorch was
/// traced at; else 1.
/// Throws InputError: a file that cannot be read.
[[nodiscard]] std::int64_t usual_batch(const std::string& network);

struct NetworkFile {
  NetworkGraph graph;
  std::vector<std::string> warnings{};
  std::vector<Rewrite> rewrites{};  ///< what was put together again of what an exporter wrote
};
/// The forward graph of a file's bytes: ONNX, or by its path's end a config.json or a traced pass
/// of PyTorch (models/aten/import.hpp).
/// Throws InputError naming the path: what the readers refuse, images for a network of tokens.
[[nodiscard]] NetworkFile read_network_file(const std::string& bytes, const std::string& path,
                                            const BuildOptions& options);

}  // namespace tracecast
