#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/software/attention_kernels.hpp"
#include "models/canonical/canonical.hpp"
#include "models/graph.hpp"

namespace tracecast {

struct AtenOptions {
  std::optional<std::int64_t> batch{};       ///< first dimension of the inputs; nothing: as traced
  std::optional<std::int64_t> image_size{};  ///< height and width of rank 4 inputs
  std::optional<std::int64_t> seq_len{};     ///< second dimension of inputs of rank 2 and 3
  bool training = false;                     ///< dropout works
  /// How the framework runs scaled_dot_product_attention.
  AttentionKernels attention = AttentionKernels::Fused;
  bool as_written = false;  ///< attention that the module writes out stays so
};

/// A network graph and what had to be assumed to get it.
struct AtenNetwork {
  NetworkGraph graph;
  std::vector<std::string> warnings{};
  std::vector<Rewrite> rewrites{};  ///< what was put in the place of ops of the trace
};

/// Whether a path names a forward pass of PyTorch: a graph file (`.graph`) or an exported program
/// (`.pt2`).
[[nodiscard]] bool is_aten_path(std::string_view path);

/// What the functions below read of a file: its bytes, at most `most_bytes`; of an exported program
/// the part that says what is computed, without weights.
/// Throws InputError: absent, no archive, too large.
[[nodiscard]] std::string read_aten_file(const std::filesystem::path& path,
                                         std::uint64_t most_bytes);

/// The batch that the pass was traced at. Throws InputError as import_aten does.
[[nodiscard]] std::int64_t aten_batch(std::string_view bytes, std::string_view where);

/// The network graph of a traced forward pass: a table of ATen ops to ops of the network graph
/// (README.md). Shapes are those of the trace; at other sizes than it was traced at they follow the
/// inputs, and sizes that the module's code wrote into views follow the tensors that they are views
/// of. Views are ops of the host, copies are copies where PyTorch makes them. An operator that
/// nobody knows is kept with kind Unknown and named in the warnings. A pass that a PyTorch without
/// a function for attention traced has attention step by step, also where the module's code calls
/// the function that later versions have: it is one op where the framework has a kernel for it.
/// `where` names the file in errors.
/// Throws InputError: not such a file, truncated, inconsistent, sizes that do not fit the network.
[[nodiscard]] AtenNetwork import_aten(std::string_view bytes, std::string_view where,
                                      const AtenOptions& options);

}  // namespace tracecast
