// One element in, one element out.
#include <algorithm>
#include <string>
#include <utility>

#include "models/onnx/call.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast::onnx {
namespace {

std::string function_name(const Call& call) { return to_lower(call.node.op_type()); }

bool unary(const Call& call) {
  call.set(0, call.build().activation(call.name(), call.tensor(0), function_name(call)));
  return true;
}

bool unary_test(const Call& call) {
  call.set(0, call.build().activation(call.name(), call.tensor(0), function_name(call)), kBool);
  return true;
}

bool prelu(const Call& call) {
  const TensorId slope[] = {call.parameter(1)};
  call.set(0, call.build().activation(call.name(), call.tensor(0), "prelu", false, slope));
  return true;
}

/// Dimension `from_end` of a shape, 1 where it has none.
std::int64_t dim_from_end(const Shape& shape, std::size_t from_end) {
  return from_end < shape.size() ? shape[shape.size() - 1 - from_end] : 1;
}

/// The operand repeated so that it fits, when its size was baked into the file for other sizes: at
/// the file's own sizes the dimensions agreed, and only the others have changed since.
TensorId follow_operands(const Call& call, std::size_t i, std::size_t rank) {
  const TensorId id = call.tensor(i);
  const Value* own = call.reference_input(i);
  constexpr std::size_t kMostOperands = 16;
  if (!own || own->shape != call.shape(i) || call.node.inputs.size() > kMostOperands) return id;
  Shape wanted = call.shape(i);
  for (std::size_t d = 0; d < wanted.size() && d < rank; ++d) {
    std::int64_t& dim = wanted[wanted.size() - 1 - d];
    if (dim == 1) continue;
    for (std::size_t k = 0; k < call.node.inputs.size(); ++k) {
      const Value* other = call.reference_input(k);
      if (k == i || !other) continue;
      const std::int64_t now = dim_from_end(call.shape(k), d);
      if (dim_from_end(other->shape, d) == dim && now != dim && now != 1) dim = now;
    }
  }
  if (wanted == call.shape(i)) return id;
  call.assume("operand of shape " + to_string(call.shape(i)) + " is taken as " + to_string(wanted) +
              " at these sizes");
  check_shape(wanted, "operand");
  return call.build().append({.name = call.name() + ".operand" + std::to_string(i),
                              .kind = OpKind::Gather,
                              .attributes = ElementwiseAttributes{.name = "expand"},
                              .inputs = {id}},
                             std::move(wanted));
}

/// True for a constant of one element that is no weight: part of the function rather than an
/// operand.
bool is_plain_number(const Call& call, std::size_t i) {
  const Value& value = call.input(i);
  return value.is_constant() && element_count(value.shape) == 1;
}

bool combine(const Call& call, ElementType type) {
  if (call.run.is_merged(call.index)) {
    call.pass_through(call.input(0).is_constant() ? 1 : 0);
    return true;
  }
  const std::size_t count = call.node.inputs.size();
  if (count == 2) {
    for (const std::size_t number : {std::size_t{1}, std::size_t{0}}) {
      const std::size_t other = 1 - number;
      if (is_plain_number(call, number) && !call.input(other).is_constant() &&
          call.shape(number).size() <= call.shape(other).size()) {
        call.set(0, call.build().activation(call.name(), call.tensor(other), function_name(call)),
                 type);
        return true;
      }
    }
  }
  std::size_t rank = 0;
  for (std::size_t i = 0; i < count; ++i) rank = std::max(rank, call.shape(i).size());
  std::vector<TensorId> operands;
  operands.reserve(count);
  for (std::size_t i = 0; i < count; ++i) operands.push_back(follow_operands(call, i, rank));
  call.set(0, call.build().binary(call.name(), function_name(call), operands), type);
  return true;
}

bool arithmetic(const Call& call) {
  // The data's type, not that of a constant that happens to stand first.
  for (std::size_t i = 0; i < call.node.inputs.size(); ++i) {
    if (!call.input(i).is_constant()) return combine(call, call.input(i).type);
  }
  return combine(call, call.input(0).type);
}

bool comparison(const Call& call) { return combine(call, kBool); }

bool where(const Call& call) { return combine(call, call.input(1).type); }

/// Between integers and reals. From one real format to another no op is left: the precision mode of
/// the run, not the file, says how reals are stored.
bool cast_to(const Call& call, ElementType to) {
  const Value& from = call.input(0);
  if (from.is_constant() || (!to.is_integer && !from.type.is_integer)) {
    Value value = from;
    value.type = to;
    if (to.is_integer != from.type.is_integer) value.contents = {};
    call.set_value(0, std::move(value));
    return true;
  }
  call.set(0, call.build().cast(call.name(), call.tensor(0), to.is_integer, to.integer_bytes), to);
  return true;
}

bool cast(const Call& call) {
  return cast_to(call, element_type(static_cast<std::int32_t>(call.node.integer("to", 1))));
}
bool cast_like(const Call& call) { return cast_to(call, call.input(1).type); }

constexpr NamedHandler kElementwiseHandlers[] = {
    {"Relu", unary},
    {"LeakyRelu", unary},
    {"ThresholdedRelu", unary},
    {"PRelu", prelu},
    {"Elu", unary},
    {"Selu", unary},
    {"Celu", unary},
    {"Gelu", unary},
    {"Mish", unary},
    {"Swish", unary},
    {"HardSwish", unary},
    {"HardSigmoid", unary},
    {"Sigmoid", unary},
    {"Softplus", unary},
    {"Softsign", unary},
    {"Shrink", unary},
    {"Tanh", unary},
    {"Clip", unary},
    {"Erf", unary},
    {"Exp", unary},
    {"Log", unary},
    {"Sqrt", unary},
    {"Reciprocal", unary},
    {"Neg", unary},
    {"Abs", unary},
    {"Sign", unary},
    {"Floor", unary},
    {"Ceil", unary},
    {"Round", unary},
    {"Sin", unary},
    {"Cos", unary},
    {"Tan", unary},
    {"Asin", unary},
    {"Acos", unary},
    {"Atan", unary},
    {"Sinh", unary},
    {"Cosh", unary},
    {"Asinh", unary},
    {"Acosh", unary},
    {"Atanh", unary},
    {"Trilu", unary},
    {"BitwiseNot", unary},
    {"Not", unary_test},
    {"IsNaN", unary_test},
    {"IsInf", unary_test},
    {"Add", arithmetic},
    {"Sub", arithmetic},
    {"Mul", arithmetic},
    {"Div", arithmetic},
    {"Pow", arithmetic},
    {"Mod", arithmetic},
    {"Addcmul", arithmetic},  // framework_ops
    {"Sum", arithmetic},
    {"Mean", arithmetic},
    {"Max", arithmetic},
    {"Min", arithmetic},
    {"BitShift", arithmetic},
    {"BitwiseAnd", arithmetic},
    {"BitwiseOr", arithmetic},
    {"BitwiseXor", arithmetic},
    {"Equal", comparison},
    {"Less", comparison},
    {"LessOrEqual", comparison},
    {"Greater", comparison},
    {"GreaterOrEqual", comparison},
    {"And", comparison},
    {"Or", comparison},
    {"Xor", comparison},
    {"Where", where},
    {"Cast", cast},
    {"CastLike", cast_like},
};

}  // namespace

std::span<const NamedHandler> elementwise_handlers() { return kElementwiseHandlers; }

}  // namespace tracecast::onnx
