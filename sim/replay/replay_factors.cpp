#include "sim/replay/replay_factors.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tracecast {
namespace {

double factor_of(KernelClass kernel_class, const ReplayFactors& factors) {
  switch (kernel_class) {
    case KernelClass::Convolution:
    case KernelClass::Gemm:
    case KernelClass::BatchedGemm:
    case KernelClass::GroupedGemm:
    case KernelClass::Attention:
    case KernelClass::Recurrent:
      return factors.compute;
    case KernelClass::Collective:
      return 1;
    case KernelClass::Pooling:
    case KernelClass::Normalization:
    case KernelClass::Elementwise:
    case KernelClass::Softmax:
    case KernelClass::Reduction:
    case KernelClass::Transpose:
    case KernelClass::Embedding:
    case KernelClass::Optimizer:
    case KernelClass::Copy:
    case KernelClass::Memset:
    case KernelClass::Other:
      break;
  }
  return factors.memory_bandwidth;
}

std::int64_t quickest_kernel(const ReplayProgram& program) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const ReplayTask& task : program.tasks) {
    if (task.work == ReplayWork::Kernel) least = std::min(least, task.duration_ns);
  }
  return least;
}

void change(ReplayTask& task, std::int64_t least_ns, double factor, FactorChange& sum) {
  const std::int64_t before = task.duration_ns;
  const std::int64_t rest = std::max<std::int64_t>(before - least_ns, 0);
  task.duration_ns = before - rest + std::llround(static_cast<double>(rest) / factor);
  ++sum.count;
  sum.recorded += Seconds(static_cast<double>(before) * 1e-9);
  sum.moved += Seconds(static_cast<double>(task.duration_ns) * 1e-9);
}

}  // namespace

FactorChanges apply_factors(ReplayProgram& program, const ReplayFactors& factors) {
  FactorChanges changes{};
  const std::int64_t least = quickest_kernel(program);
  for (ReplayTask& task : program.tasks) {
    if (task.work == ReplayWork::Kernel) {
      const double factor = factor_of(task.kernel_class, factors);
      if (factor != 1)
        change(task, least, factor, changes.kernels[static_cast<std::size_t>(task.kernel_class)]);
    } else if (factors.host != 1 &&
               (task.work == ReplayWork::HostWork || task.work == ReplayWork::Call) &&
               !program.tracks[task.track].is_stream) {
      change(task, 0, factors.host, changes.host);
    }
  }
  return changes;
}

}  // namespace tracecast
