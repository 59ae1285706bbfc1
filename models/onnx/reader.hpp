#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "models/onnx/onnx.pb.h"

namespace tracecast::onnx {

/// Elements of a tensor up to which its integers are kept: shapes, axes, ids. Larger tensors are
/// weights.
inline constexpr std::int64_t kMostValues = 4096;
/// Nodes of a file, and again after its functions are expanded.
inline constexpr std::size_t kMostNodes = 500'000;

/// The messages of an ONNX file, packed by gzip or not, without what an importer of shapes has no
/// use for: contents of weights, documentation, metadata. `bytes` is read once and weights are
/// never copied, so the memory needed beyond it is that of the graph alone. Throws InputError
/// naming `where` and the byte: not an ONNX file, truncated, messages nested more than 64 deep,
/// more than 64 MiB or 4 million fields besides weights, IR version below 3, standard operators
/// older than opset 7.
[[nodiscard]] ModelProto read_model(std::string_view bytes, std::string_view where);

/// The same messages as a file holds them, for `read_model`: contents of weights are skipped, not
/// read. What gzip packed, and files too small to hold weights, come as they are.
/// Throws InputError as read_file and read_model do.
[[nodiscard]] std::string read_structure(const std::filesystem::path& path,
                                         std::uint64_t most_bytes);

}  // namespace tracecast::onnx
