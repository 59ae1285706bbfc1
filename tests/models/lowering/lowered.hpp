#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/kernel.hpp"
#include "models/ops.hpp"
#include "models/training.hpp"

/// What tests of lowering look at: a network with a little of everything, and its kernels by op.
namespace tracecast::test {

/// A little of everything, with weights on both sides of every branch.
inline NetworkGraph varied_network() {
  GraphBuilder b("varied", 4);
  TensorId x = b.input("images", {4, 8, 16, 16});
  x = b.conv_layer("conv", x, 16, Window::square(3, 1, 1), true);
  x = b.batch_norm_layer("bn", x);
  x = b.activation("relu", x, "relu", true);
  const TensorId branch = b.conv_layer("depthwise", x, 16, Window::square(3, 1, 1), false, 16);
  x = b.add("residual", x, branch);
  x = b.max_pool("max_pool", x, Window::square(3, 2, 1));
  x = b.lrn("lrn", x, 5);
  const TensorId joined[] = {x, x};
  x = b.concat("concat", joined, 1);
  x = b.global_avg_pool("avg_pool", x);
  x = b.flatten("flatten", x);
  x = b.linear_layer("hidden", x, 64, true);
  x = b.activation("gelu", x, "gelu");
  x = b.dropout("dropout", x);
  x = b.layer_norm_layer("layer_norm", x);
  const Shape shapes[] = {{4, 64}};
  const TensorId in[] = {x};
  x = b.unknown("mystery", "Mystery", in, shapes).front();
  x = b.linear_layer("logits", x, 10, true);
  x = b.softmax("softmax", x);
  b.graph().outputs = {x};
  return std::move(b).take();
}

inline NetworkGraph training(NetworkGraph graph,
                             OptimizerKind optimizer = OptimizerKind::Momentum) {
  return make_training_graph(std::move(graph), {.optimizer = optimizer});
}

/// Kernels of the first candidate of every op, by the op's name.
inline std::map<std::string, std::vector<Kernel>> kernels_by_op(const NetworkGraph& graph,
                                                                const LoweredStep& step) {
  std::map<std::string, std::vector<Kernel>> found;
  for (const LoweredOp& op : step.ops) found[graph.op(op.op).name] = op.candidates.front().kernels;
  return found;
}

inline std::vector<std::string> names(const std::vector<Kernel>& kernels) {
  std::vector<std::string> list;
  for (const Kernel& kernel : kernels) list.push_back(kernel.name);
  return list;
}
using Names = std::vector<std::string>;

inline double bytes(const std::vector<Kernel>& kernels) {
  double sum = 0;
  for (const Kernel& kernel : kernels) sum += kernel.bytes().in_bytes();
  return sum;
}

}  // namespace tracecast::test
