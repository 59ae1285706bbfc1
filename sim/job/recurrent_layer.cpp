#include "sim/job/recurrent_layer.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "hwspecs/software/framework_profile.hpp"
#include "models/lowering/lower.hpp"
#include "models/training.hpp"
#include "models/unroll.hpp"
#include "sim/cost/price.hpp"

namespace tracecast {
namespace {

/// What cuDNN alone does: no framework round it.
FrameworkProfile library_alone(const RecurrentCall& call, const Hardware& hardware) {
  FrameworkProfile library = hardware.framework("ideal");
  library.recurrence.persistent = false;  // DeepBench asks for the standard algorithm
  library.convolutions.cudnn_version =
      call.cudnn_version.value_or(library.convolutions.cudnn_version);
  return library;
}

/// The ops of the call's pass, lowered. Weights stand for the input, whose gradient is a pass of
/// its own.
LoweredStep lower_pass(const RecurrentLayer& layer, const RecurrentCall& call,
                       const FrameworkProfile& library, const GpuSpec& gpu) {
  GraphBuilder builder("row", layer.batch);
  const TensorId x = builder.weight("x", {layer.steps, layer.batch, layer.input});
  builder.graph().outputs = {builder.recurrent_layer("layer", x, layer.layers).y};
  NetworkGraph graph = std::move(builder).take();
  if (call.keeps_activations) {
    graph = make_training_graph(std::move(graph), {.with_loss = false, .with_optimizer = false});
  }
  LoweredStep step = lower(graph, library, gpu, {.precision = call.precision});
  std::erase_if(step.ops, [&](const LoweredOp& op) {
    return graph.op(op.op).pass != call.pass || graph.op(op.op).kind != OpKind::Recurrent;
  });
  return step;
}

NetworkGraph step_graph(const RecurrentLayer& layer, bool trains, bool unrolls) {
  GraphBuilder builder("row", layer.batch);
  const TensorId x = builder.input("x", {layer.steps, layer.batch, layer.input});
  TensorId y = builder.recurrent_layer("layer", x, layer.layers).last_h;
  if (trains) {
    const TensorId pair[] = {y, builder.input("target", builder.shape(y))};
    y = builder.activation("squared", builder.binary("difference", "sub", pair), "square");
    y = builder.reduce("loss", y, {}, false, "mean");
  }
  builder.graph().outputs = {y};
  NetworkGraph graph = std::move(builder).take();
  if (unrolls) graph = unroll_recurrent(graph);
  if (!trains) return graph;
  return make_training_graph(std::move(graph),
                             {.optimizer = OptimizerKind::Sgd, .with_loss = false});
}

}  // namespace

Seconds recurrent_call_launch(const Hardware& hardware) {
  return hardware.framework("pytorch").host.launch_per_kernel;
}

std::optional<RecurrentTime> predict_recurrent_call(const RecurrentLayer& layer,
                                                    const RecurrentCall& call, const GpuSpec& gpu,
                                                    const Hardware& hardware) {
  const FrameworkProfile library = library_alone(call, hardware);
  const LoweredStep step = lower_pass(layer, call, library, gpu);
  Seconds kernels{}, longest{-1.0};
  double launches = 0;
  std::vector<ErrorShare> errors;
  RecurrentTime result;
  for (const LoweredOp& op : step.ops) {
    const cost::PricedCandidate choice = cost::choose(op, gpu, hardware.cost());
    kernels += choice.duration;
    for (std::size_t k = 0; k < choice.estimates.size(); ++k) {
      const cost::KernelEstimate& estimate = choice.estimates[k];
      launches += 1 + choice.candidate->kernels[k].more_launches;
      errors.push_back({.kernel_class = choice.candidate->kernels[k].kernel_class,
                        .time = estimate.duration,
                        .log_sd = estimate.log_sd,
                        .shared_log_sd = estimate.shared_log_sd});
      if (estimate.duration > longest) {
        longest = estimate.duration;
        result.basis = cost::to_string(estimate.basis);
      }
    }
  }
  if (launches == 0) return std::nullopt;
  const Seconds host = max(recurrent_call_launch(hardware) * launches - kernels, Seconds(0));
  const Seconds total = kernels + host;
  result.time_s =
      interval90(total.in_s(), step_log_sd(errors, total, host, library.host.log_sd, 0.0));
  return result;
}

RecurrentTime predict_recurrent_step(const RecurrentLayer& layer, const RecurrentStep& step,
                                     const GpuSpec& gpu, const Hardware& hardware) {
  FrameworkProfile framework = hardware.framework(step.framework);
  framework.convolutions.cudnn_version =
      step.cudnn_version.value_or(framework.convolutions.cudnn_version);
  if (step.is_unrolled) framework.recurrence.kind = Recurrence::Unrolled;
  const NetworkGraph graph = step_graph(layer, step.phase == Phase::Train,
                                        framework.recurrence.kind == Recurrence::Unrolled);
  const Prediction prediction = predict_step({.graph = graph,
                                              .gpu = gpu,
                                              .cost = hardware.cost(),
                                              .framework = framework,
                                              .precision = step.precision});
  return {prediction.step_time_s,
          prediction.by_basis.empty() ? "unknown" : prediction.by_basis.front().name};
}

}  // namespace tracecast
