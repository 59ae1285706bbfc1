#pragma once
#include "models/lowering/layers.hpp"

namespace tracecast::lowering {

/// Takes out of a lowered step what layers written for GEMMs in 8 bits spare the casts of:
///   - an activation between two GEMMs runs in the epilogue of the first, which writes its result
///   narrow beside its input; the
///     second's operand is turned before the weight's gradient, a byte each way
///   - the gradient of such an activation is written narrow, straight and turned, by its own kernel
///   - attention reads and writes 8 bits: what follows it turns them, its gradient's bias is summed
///   by the kernel that turns
/// Else a GEMM's input is cast and turned by a kernel of its own, as lower_gemm() has it. Source:
/// NVIDIA's BERT in mlcommons/training_results_v3.1, te_layers.py (_MHA, _LayerNormMLP):
/// fp8_gemm(gelu=True, D_dtype), fp8_transpose, fp8_cast_transpose_bgrad_dgelu_fused,
/// fp8_transpose_bgrad_fused, fused_attn_fwd_qkvpacked.
void join_operand_casts(const Context& context, LoweredStep& step);

}  // namespace tracecast::lowering
