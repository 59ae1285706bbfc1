#pragma once
#include "models/recorded_work.hpp"
#include "traces/kernel_names/kernel_names.hpp"
#include "traces/trace.hpp"

namespace tracecast::traces {

/// What the kernels of a recording compute, by what the recording says of it.
///   convolutions  the operator's inputs (convolution_shapes.hpp), one record for all kernels of an
///   operator GEMMs      mm, addmm, bmm, baddbmm: the inputs' sizes, given to the operator's GEMM
///   kernel normalisation, softmax, sums, pooling, elementwise, optimizer, copies by kernels: rows
///   and bytes of the inputs the others    launch geometry, and the tile that a name tells
/// Number formats come from the types of the inputs, arithmetic and unit from the kernel's name.
[[nodiscard]] RecordedWork recorded_work(const Trace& trace, const KernelNames& names);

}  // namespace tracecast::traces
