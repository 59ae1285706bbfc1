#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/graph.hpp"
#include "models/zoo/zoo.hpp"

namespace tracecast {

/// What all ops of one kind have and do in one sample's forward pass.
struct KindSummary {
  OpKind kind{};
  int ops = 0;
  std::int64_t parameters = 0;  ///< weights that an op of this kind reads first
  double macs = 0;
  double activation_bytes = 0;  ///< written by ops of this kind and kept when training
};

struct NetworkInput {
  std::string name;
  Shape shape;
};

/// A network at batch 1.
struct NetworkSummary {
  std::string name;
  std::vector<NetworkInput> inputs{};
  std::int64_t parameters = 0;
  double macs = 0;
  /// What a training step keeps of the forward pass of one sample (see kept_activations), FP32.
  double activation_bytes = 0;
  /// Most multiply-adds first, then most parameters, then most ops.
  std::vector<KindSummary> kinds{};
};

struct SummaryOptions {
  std::optional<std::int64_t> image_size{}, seq_len{};
};

/// `network`: a zoo name or the path of an ONNX file. Throws InputError.
[[nodiscard]] NetworkSummary summarize_network(const std::string& network,
                                               const SummaryOptions& options);

/// Refuses a size that the network does not have: of images where it reads sequences, of sequences
/// where it reads images. Throws InputError naming the flag.
void check_sizes_apply(const ZooEntry& entry, std::optional<std::int64_t> image_size,
                       std::optional<std::int64_t> seq_len);

}  // namespace tracecast
