#include "models/ops.hpp"

#include <algorithm>
#include <utility>

#include "models/shape_checks.hpp"

namespace tracecast {

using namespace shape_checks;

bool shares_memory_with_input(const Op& op) {
  if (op.kind == OpKind::Reshape) return true;
  // Gradients of the gates take the place of the gates.
  if (op.kind == OpKind::Recurrent) return op.pass == Pass::BackwardData;
  const auto* elementwise = std::get_if<ElementwiseAttributes>(&op.attributes);
  return elementwise != nullptr && elementwise->in_place;
}

GraphBuilder::GraphBuilder(std::string name, std::int64_t batch) {
  require_range("network " + name, "batch", batch, 1, kMostExtent);
  graph_.name = std::move(name);
  graph_.batch = batch;
}

TensorId GraphBuilder::tensor(Tensor tensor) {
  if (!checked_element_count(tensor.shape)) {
    throw InputError("tensor '" + tensor.name + "'", "shape " + to_string(tensor.shape),
                     "dimensions of at least 0 with fewer than 2^62 elements");
  }
  return graph_.add_tensor(std::move(tensor));
}

TensorId GraphBuilder::input(std::string name, Shape shape, bool is_integer) {
  return tensor({.name = std::move(name),
                 .shape = std::move(shape),
                 .role = TensorRole::Input,
                 .is_integer = is_integer});
}

TensorId GraphBuilder::weight(std::string name, Shape shape) {
  return tensor({.name = std::move(name), .shape = std::move(shape), .role = TensorRole::Weight});
}

TensorId GraphBuilder::buffer(std::string name, Shape shape) {
  return tensor({.name = std::move(name), .shape = std::move(shape), .role = TensorRole::Buffer});
}

TensorId GraphBuilder::append(Op op, Shape output_shape) {
  const bool is_wide = std::any_of(op.inputs.begin(), op.inputs.end(),
                                   [&](TensorId input) { return graph_.tensor(input).is_wide; });
  const TensorId output =
      tensor({.name = op.name, .shape = std::move(output_shape), .is_wide = is_wide});
  op.outputs.insert(op.outputs.begin(), output);
  graph_.add_op(std::move(op));
  return output;
}

std::vector<TensorId> GraphBuilder::unknown(std::string name, std::string_view operator_name,
                                            std::span<const TensorId> inputs,
                                            std::span<const Shape> outputs) {
  Op op{.name = std::move(name),
        .kind = OpKind::Unknown,
        .inputs = {inputs.begin(), inputs.end()},
        .note = std::string(operator_name)};
  op.outputs.reserve(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    op.outputs.push_back(tensor(
        {.name = i == 0 ? op.name : op.name + ":" + std::to_string(i), .shape = outputs[i]}));
  }
  std::vector<TensorId> ids = op.outputs;
  graph_.add_op(std::move(op));
  return ids;
}

}  // namespace tracecast
