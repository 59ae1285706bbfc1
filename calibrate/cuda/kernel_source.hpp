#pragma once
#include <string_view>

namespace tracecast::calibrate::cuda {

/// Our own small kernels in CUDA C++, compiled on the target by its NVRTC. Written in the language
/// of 1998 with no header, so that every NVRTC since CUDA 9 takes them. `_f32`, `_f16`, `_bf16` at
/// the end of a name is the format in memory; arithmetic is in FP32.
///   NAME_T(out, a[, b], n)       4 elements per thread; relu, gelu, tanh, add, mul
///   reduce_T(out, x, cols)       one block of 256 per row; out is float
///   softmax_T(y, x, cols), layer_norm_T(y, x, scale, bias, cols)   one block of 256 per row
///   gather_T(out, table, ids, width)   one block of 128 per token
///   momentum(w, g, v, n), adam(w, g, m, v, n)   FP32, 4 elements per thread
///   empty(), spin(cycles)        nothing; nothing for at least so many SM cycles
[[nodiscard]] std::string_view kernel_source();

}  // namespace tracecast::calibrate::cuda
