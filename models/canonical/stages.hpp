#pragma once
#include <vector>

#include "models/canonical/canonical.hpp"
#include "models/canonical/draft.hpp"

/// The stages of canonicalize, in the order in which they run. Each leaves a settled draft.
namespace tracecast::canonical {

/// Slices that take a tensor into parts are one Split; parts in another order, a Roll, one copy.
void restore_parts(Draft& draft, std::vector<Rewrite>& rewrites);
/// Norms and softmax written out in elementary ops, by formulas.
void restore_norms(Draft& draft, std::vector<Rewrite>& rewrites);
/// softmax(q k^T scale + masks) v becomes one Attention op where the framework has a kernel for it.
/// `has_views`: the graph's turns are views already, and the copies that its GEMMs needed go.
void restore_attention(Draft& draft, bool has_views, std::vector<Rewrite>& rewrites);
/// Tensors repeated for an op that broadcasts by itself are not.
void restore_broadcasts(Draft& draft, std::vector<Rewrite>& rewrites);
/// Moves become what PyTorch makes of them (strides.cpp).
void moves_as_views(Draft& draft, bool channels_last, std::vector<Rewrite>& rewrites);

}  // namespace tracecast::canonical
