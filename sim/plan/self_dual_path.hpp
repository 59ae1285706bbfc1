#pragma once
#include <optional>

#include "sim/plan/fair_program.hpp"

namespace tracecast::plan {

/// FairGoal::LargestRate as a linear program by a primal-dual method on its homogeneous self-dual
/// embedding, with Mehrotra's predictor and corrector: minimize -z subject to G (x, z) + s = h, s
/// >= 0. Of many best shares it ends at those where an interior-point solver of this kind ends,
/// which need not be the middle. Steps, starts, scaling of rows and columns and tolerances are
/// those of ECOS (Domahidi, Chu, Boyd, "ECOS: an SOCP solver for embedded systems", ECC 2013),
/// which Gavel's results were made with. Jobs that are alike stay alike on the way, so one row
/// stands for all its copies; a step is linear in the number of rows. With `fixed_level` some
/// shares that reach at least that level: what such a solver gives where nothing is asked but that.
/// The level must be feasible.
[[nodiscard]] FairShares follow_self_dual_path(const FairProgram& program,
                                               std::optional<double> fixed_level = std::nullopt);

}  // namespace tracecast::plan
