#include "sim/step/captured_step.hpp"

namespace tracecast {

FrameworkProfile with_captured_step(FrameworkProfile framework) {
  framework.host.dispatch_per_op = {};
  framework.host.dispatch_per_backward_op = {};
  framework.host.dispatch_per_optimizer_op = {};
  framework.host.dispatch_per_library_call = {};
  framework.host.autograd_per_library_call = {};
  framework.host.view = framework.host.backward_view = {};
  framework.host.update_per_parameter = {};
  framework.host.launch_per_kernel = Seconds(1e-6);
  framework.host.graph_ops_per_synchronization = 0;
  framework.host.updates_per_synchronization = 0;
  return framework;
}

}  // namespace tracecast
