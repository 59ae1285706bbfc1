#pragma once
#include <vector>

#include "hwspecs/software/framework_profile.hpp"
#include "models/graph.hpp"
#include "models/lowering/formats.hpp"
#include "models/lowering/gpu_traits.hpp"

namespace tracecast::lowering {

/// In which formats each op computes and each tensor is kept. Modes of one format have narrow ops
/// only; the others:
///
///   amp    GEMMs and convolutions narrow; the framework's list (`mixed_wide_ops`) wide; every
///          other op in the widest of its inputs (autocast's promotion). What enters the network,
///          and what an op makes of weights alone (embeddings), is wide.
///   fp8    GEMMs with a weight in fp8, as Transformer Engine's linear layers; all else, and
///          everything in memory, in bf16
///   int8   convolutions and GEMMs with a weight narrow, except the first convolutions after the
///          input and the last GEMM before the output (`wide_ends`); relu, additions, pools, copies
///          narrow when any input is; all else wide: fp16 where that has tensor cores, else fp32.
///          What TensorRT does by default but for the two ends, which calibration recipes keep wide
///          (Krishnamoorthi, arXiv 1806.08342; NVIDIA, arXiv 2004.09602).
///
///   fp16, bf16  all narrow but for what the network's code casts to 32 bits (Tensor::is_wide): ops
///   that give such tensors
///          are wide, weights stay narrow
///   tf32   all narrow, or convolutions and recurrent layers alone (`FrameworkProfile::tf32_gemms`
///   off)
///
/// Backward ops compute as their forward op does.
struct PrecisionPlan {
  Formats low_precision, wide;
  bool casts_are_ops = false;   ///< of the graph: none besides
  bool scales_loss = false;     ///< fp16 gradients beside wide weights would underflow
  std::vector<bool> is_wide;    ///< by op
  std::vector<Precision> kept;  ///< by tensor: its format in memory (integers keep their own)
  [[nodiscard]] const Formats& formats(OpId op) const {
    return is_wide[op.index] ? wide : low_precision;
  }
};

[[nodiscard]] PrecisionPlan plan_precision(const NetworkGraph& graph,
                                           const FrameworkProfile& framework, const GpuTraits& gpu,
                                           PrecisionMode mode, bool wide_ends = true);

}  // namespace tracecast::lowering
