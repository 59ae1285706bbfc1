#pragma once
#include <string>

#include "sim/base/units.hpp"
#include "sim/cost/tensor_gemm.hpp"

namespace tracecast {

/// Tells the GEMM what a loop over it finds in L2: the same activations and results each time, the
/// same weights after `weight_copies` GEMMs.
void repeat_gemm(cost::TensorGemm& gemm, double weight_copies);

/// Cell of a GEMM's time: what a fit weighs alike.
[[nodiscard]] std::string gemm_size_class(Seconds time);

}  // namespace tracecast
