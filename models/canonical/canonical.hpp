#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hwspecs/software/attention_kernels.hpp"
#include "models/graph.hpp"

namespace tracecast {

/// One line of provenance: what a rule put in the place of how many ops.
struct Rewrite {
  std::string rule;  ///< "layer_norm"
  int count = 0;     ///< how often
  int ops = 0;       ///< of the file, in all, that it replaced
};
/// Adds to the line of the same rule, or a new one.
void count_rewrite(std::vector<Rewrite>& lines, std::string_view rule, int ops);

/// Note of a Slice that takes what lies from `start` on in one dimension, for the rule that puts
/// the parts of a tensor together again.
[[nodiscard]] std::string part_note(std::size_t axis, std::int64_t start);

struct CanonicalOptions {
  AttentionKernels attention = AttentionKernels::Steps;  ///< how the framework runs attention
  /// The job lays images channels last, whatever the network's code does.
  bool channels_last = false;
  /// The graph is of ops as a framework dispatched them, views and copies among them: attention
  /// alone is restored.
  bool is_traced = false;
};

/// The forward graph of a file in the ops that a framework has: what exporters take apart is put
/// together again (norms, softmax, attention where the framework has a kernel for it, broadcasts),
/// and moves become views and copies. Multiply-adds and parameters stay, but for constants of the
/// exporter's own. Each rule adds a line to `rewrites`. Rules: norms.cpp, attention.cpp,
/// moves.cpp; notes/0001 says where each comes from.
[[nodiscard]] NetworkGraph canonicalize(const NetworkGraph& graph, const CanonicalOptions& options,
                                        std::vector<Rewrite>& rewrites);

}  // namespace tracecast
