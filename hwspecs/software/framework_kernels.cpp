#include "hwspecs/software/framework_kernels.hpp"

namespace tracecast {

namespace {

/// All but the host's time per argument, and words.
GraphCompiler kernels_of(GraphCompiler compiler) {
  compiler.framework.clear();
  compiler.name.clear();
  compiler.argument = Seconds();
  return compiler;
}

/// All but the host's time per step.
FrameworkRecurrence kernels_of(FrameworkRecurrence recurrence) {
  recurrence.step = Seconds();
  return recurrence;
}

}  // namespace

bool differ_in_host_alone(const FrameworkProfile& a, const FrameworkProfile& b) {
  if (a.compiler.has_value() != b.compiler.has_value()) return false;
  if (a.compiler && kernels_of(*a.compiler) != kernels_of(*b.compiler)) return false;
  return a.trains == b.trains && a.host.pooling.has_value() == b.host.pooling.has_value() &&
         a.convolutions == b.convolutions && a.fusion == b.fusion && a.batch_norm == b.batch_norm &&
         a.kernels == b.kernels && kernels_of(a.recurrence) == kernels_of(b.recurrence) &&
         a.backward == b.backward && a.optimizer == b.optimizer && a.precision == b.precision &&
         a.memory == b.memory;
}

}  // namespace tracecast
