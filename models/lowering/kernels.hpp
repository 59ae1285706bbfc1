#pragma once
#include <string_view>
#include <vector>

#include "models/kernel.hpp"
#include "models/lowering/formats.hpp"

namespace tracecast::lowering {

/// A kernel that streams through memory once, in fp32 arithmetic on CUDA cores.
inline Kernel stream_kernel(std::string_view name, KernelClass kernel_class, Pass pass,
                            Precision data, Bytes read, Bytes written, double elements,
                            double operations_per_element = 1) {
  Kernel kernel;
  kernel.name = name;
  kernel.kernel_class = kernel_class;
  kernel.pass = pass;
  kernel.data = data;
  kernel.flops = Flops(elements * operations_per_element);
  kernel.read = read;
  kernel.written = written;
  kernel.work = StreamWork{.elements = elements, .operations_per_element = operations_per_element};
  return kernel;
}

/// `rows` reductions over `cols` elements. One arithmetic operation per element and pass.
inline Kernel reduction_kernel(std::string_view name, KernelClass kernel_class, Pass pass,
                               Precision data, Bytes read, Bytes written,
                               const ReductionWork& work) {
  Kernel kernel;
  kernel.name = name;
  kernel.kernel_class = kernel_class;
  kernel.pass = pass;
  kernel.data = data;
  kernel.flops =
      Flops(static_cast<double>(work.rows) * static_cast<double>(work.cols) * work.passes);
  kernel.read = read;
  kernel.written = written;
  kernel.work = work;
  return kernel;
}

/// An op made of elementary ones (ComposedKernels): so many passes over its tensor, each of which
/// reads one and a half tensors on average and writes one.
inline std::vector<Kernel> composed_passes(KernelClass kernel_class, Pass pass, Precision data,
                                           double elements, int passes) {
  constexpr double kReads = 1.5;
  const Bytes once = element_size(data) * elements;
  return std::vector<Kernel>(
      static_cast<std::size_t>(passes),
      stream_kernel("composed", kernel_class, pass, data, once * kReads, once, elements));
}

/// A GEMM on the unit that `formats` chose: reads `formats.operands`, writes `formats.storage`;
/// compulsory bytes are A, B, C.
inline Kernel matrix_kernel(std::string_view name, KernelClass kernel_class, Pass pass,
                            const Formats& formats, const MatrixWork& work) {
  const double b = static_cast<double>(work.batch), m = static_cast<double>(work.m);
  const double n = static_cast<double>(work.n), k = static_cast<double>(work.k);
  Kernel kernel;
  kernel.name = name;
  kernel.kernel_class = kernel_class;
  kernel.pass = pass;
  kernel.data = formats.operands;
  kernel.math = formats.math;
  kernel.unit = formats.unit;
  kernel.flops = Flops(2 * b * m * n * k);
  kernel.read = element_size(formats.operands) * (b * (m * k + k * n));
  kernel.written = element_size(formats.storage) * (b * m * n);
  kernel.work = work;
  return kernel;
}

}  // namespace tracecast::lowering
