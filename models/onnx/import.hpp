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

struct OnnxOptions {
  std::int64_t batch = 1;  ///< first dimension of the inputs, or the one named after the batch
  std::optional<std::int64_t>
      image_size{};  ///< height and width of rank 4 inputs; else as in the file
  /// Tokens per sample, of a network that takes keys of earlier tokens those; else as in the file.
  std::optional<std::int64_t> seq_len{};
  bool training = false;  ///< dropout works, a softmax that ends the network belongs to the loss
  /// How the framework runs what the file holds as one operator Attention.
  AttentionKernels attention = AttentionKernels::Fused;
  bool as_written = false;     ///< operator by operator: nothing is put back together
  bool channels_last = false;  ///< the job lays images so
};

/// A network graph and what had to be assumed to get it.
struct OnnxNetwork {
  NetworkGraph graph;
  std::vector<Rewrite> rewrites{};  ///< what was put together again, unless as written
  std::vector<std::string>
      warnings;  ///< unknown operators with counts, sizes that the file leaves open
};

/// What the functions below read of a file of at most `most_bytes`: its bytes without contents of
/// weights, which are not read.
/// Throws InputError: absent, no regular file, too large, no ONNX file.
[[nodiscard]] std::string read_onnx_file(const std::filesystem::path& path,
                                         std::uint64_t most_bytes);

/// The batch that a file fixes: the first dimension of its inputs; 1 where it leaves it open.
/// Throws InputError as import_onnx does.
[[nodiscard]] std::int64_t onnx_batch(std::string_view bytes, std::string_view where);

/// The forward pass of an ONNX file at any batch, image size or sequence length.
///
/// Weights are shapes: their contents are not kept and external data is never opened. Every shape
/// is inferred anew. A size that the file has baked into a constant (Reshape to [1, 2048]) follows
/// the sizes asked for: the file is walked at its own sizes as well, and a constant that fits there
/// and has not changed is scaled with the data. Arithmetic on shapes is folded and leaves no ops;
/// ConstantOfShape of a constant shape is a weight. Operators into which exporters take a
/// framework's op apart (SiLU, GELU ...) are that op again. Functions are expanded. If takes the
/// branch that constants and shapes decide, else the longer one; Loop and Scan are unrolled, as
/// often as constants and shapes say, once where the data decide. Quantised networks are read as
/// the real ones they stand for. An operator nobody knows is kept with kind Unknown, its outputs
/// bounded by what the file declares or by its largest input, and named in the warnings.
///
/// `where` names the file in errors; its stem names the network.
/// Leaves out: operators older than opset 7, IR versions below 3, maps and optional types,
/// sequences as inputs or outputs. Throws InputError: not an ONNX file, truncated, inconsistent, or
/// sizes that do not fit the network.
[[nodiscard]] OnnxNetwork import_onnx(std::string_view bytes, std::string_view where,
                                      const OnnxOptions& options);

}  // namespace tracecast
