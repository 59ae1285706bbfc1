#include "models/canonical/canonical.hpp"

#include <algorithm>
#include <utility>

#include "models/canonical/stages.hpp"

namespace tracecast {

void count_rewrite(std::vector<Rewrite>& lines, std::string_view rule, int ops) {
  const auto known = std::find_if(lines.begin(), lines.end(),
                                  [&](const Rewrite& line) { return line.rule == rule; });
  Rewrite& line =
      known == lines.end() ? lines.emplace_back(Rewrite{.rule = std::string(rule)}) : *known;
  ++line.count;
  line.ops += ops;
}

NetworkGraph canonicalize(const NetworkGraph& graph, const CanonicalOptions& options,
                          std::vector<Rewrite>& rewrites) {
  canonical::Draft draft(graph);
  if (!options.is_traced) {
    canonical::restore_parts(draft, rewrites);
    canonical::restore_norms(draft, rewrites);
    canonical::restore_broadcasts(draft, rewrites);
  }
  const bool has_kernel =
      options.attention == AttentionKernels::Fused || options.attention == AttentionKernels::Sparse;
  if (has_kernel) canonical::restore_attention(draft, options.is_traced, rewrites);
  if (!options.is_traced) canonical::moves_as_views(draft, options.channels_last, rewrites);
  return std::move(draft).take();
}

}  // namespace tracecast
