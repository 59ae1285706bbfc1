#include "models/ops.hpp"

#include <utility>

#include "models/shape_checks.hpp"

namespace tracecast {

using namespace shape_checks;

TensorId GraphBuilder::activation(std::string name, TensorId x, std::string_view function,
                                  bool in_place, std::span<const TensorId> extra_inputs) {
  Op op{.name = std::move(name),
        .kind = OpKind::Activation,
        .attributes = ElementwiseAttributes{.name = std::string(function), .in_place = in_place},
        .inputs = {x}};
  op.inputs.insert(op.inputs.end(), extra_inputs.begin(), extra_inputs.end());
  Shape out = shape(x);
  return append(std::move(op), std::move(out));
}

TensorId GraphBuilder::binary(std::string name, std::string_view function,
                              std::span<const TensorId> inputs, bool in_place) {
  if (inputs.empty()) throw InputError(name, "no input", "at least one input");
  Shape out = shape(inputs.front());
  for (const TensorId input : inputs.subspan(1)) out = broadcast_shape(name, out, shape(input));
  // What grows by broadcasting cannot be written over its first input.
  const bool fits_in_place = in_place && out == shape(inputs.front());
  return append({.name = std::move(name),
                 .kind = OpKind::Binary,
                 .attributes = ElementwiseAttributes{.name = std::string(function),
                                                     .in_place = fits_in_place},
                 .inputs = {inputs.begin(), inputs.end()}},
                std::move(out));
}

TensorId GraphBuilder::add(std::string name, TensorId a, TensorId b, bool in_place) {
  const TensorId inputs[] = {a, b};
  return binary(std::move(name), "add", inputs, in_place);
}

TensorId GraphBuilder::mul(std::string name, TensorId a, TensorId b) {
  const TensorId inputs[] = {a, b};
  return binary(std::move(name), "mul", inputs);
}

TensorId GraphBuilder::dropout(std::string name, TensorId x, bool in_place) {
  const TensorId mask =
      tensor({.name = name + ".mask", .shape = shape(x), .is_integer = true, .integer_bytes = 1});
  Shape out = shape(x);
  return append({.name = std::move(name),
                 .kind = OpKind::Dropout,
                 .attributes = ElementwiseAttributes{.name = "dropout", .in_place = in_place},
                 .inputs = {x},
                 .outputs = {mask}},
                std::move(out));
}

namespace {

TensorId append_cast(NetworkGraph& graph, std::string name, TensorId x, TensorId output) {
  graph.add_op({.name = std::move(name),
                .kind = OpKind::Cast,
                .attributes = ElementwiseAttributes{.name = "cast"},
                .inputs = {x},
                .outputs = {output}});
  return output;
}

}  // namespace

TensorId GraphBuilder::cast(std::string name, TensorId x, bool to_integer, int integer_bytes) {
  const TensorId output = tensor(
      {.name = name, .shape = shape(x), .is_integer = to_integer, .integer_bytes = integer_bytes});
  return append_cast(graph_, std::move(name), x, output);
}

TensorId GraphBuilder::to_width(std::string name, TensorId x, bool is_wide) {
  const TensorId output = tensor({.name = name, .shape = shape(x), .is_wide = is_wide});
  return append_cast(graph_, std::move(name), x, output);
}

TensorId GraphBuilder::upcast(std::string name, TensorId x) {
  return to_width(std::move(name), x, true);
}

TensorId GraphBuilder::low_precision(std::string name, TensorId x) {
  return to_width(std::move(name), x, false);
}

}  // namespace tracecast
