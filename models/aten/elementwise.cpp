// Element by element, reductions, casts, losses.
#include <algorithm>
#include <array>
#include <utility>

#include "models/aten/walk.hpp"
#include "models/zoo/parts/attention.hpp"
#include "sim/base/error.hpp"

namespace tracecast::aten {
namespace {

/// Functions whose derivative follows from their result, so that a change in place loses nothing.
/// Of the others PyTorch keeps a copy of what they overwrite. Source: pytorch,
/// tools/autograd/derivatives.yaml: what `result` stands in.
bool derives_from_result(std::string_view function) {
  constexpr std::array<std::string_view, 13> kFunctions{
      "relu", "relu6", "leakyrelu", "elu",   "celu",       "selu",           "sigmoid",
      "tanh", "exp",   "sqrt",      "rsqrt", "reciprocal", "thresholdedrelu"};
  return std::find(kFunctions.begin(), kFunctions.end(), function) != kFunctions.end();
}

/// One op on an input as it lies; what is broadcast stays so.
bool unary(Call& call) {
  const TensorIndex x = call.x();
  const Value value = call.run.value(x);
  std::string_view function = call.row.function;
  if (function == "clip" && call.real("min_val", -1) == 0 && call.real("max_val", 1) == 6)
    function = "relu6";
  const bool in_place =
      call.in_place && (!call.run.options().training || derives_from_result(function));
  const TensorId y = call.build().activation(call.name, call.plain(x), function, in_place);
  const bool is_expanded = value.is_expanded && call.build().shape(y) != value.shape;
  if (!is_expanded) {
    call.set(0, y);
    return true;
  }
  call.set_value(0, {.id = y, .shape = value.shape, .is_expanded = true});
  return true;
}

/// Of tensors that broadcasting fits to each other; a number is part of the function: one that is
/// added passes gradients on, one that is multiplied with is read like a tensor of one element.
bool combined(Call& call, std::string_view function,
              const std::vector<std::string_view>& parameters) {
  std::vector<TensorId> operands;
  Shape shape;
  bool has_tensor = false;
  for (const std::string_view parameter : parameters) {
    const TensorIndex index = call.find_tensor(parameter);
    if (index != kNoTensor) {
      operands.push_back(call.plain(index));
      shape = has_tensor ? broadcast_shape(call.node.target, shape, call.shape(index))
                         : call.shape(index);
      has_tensor = true;
    } else if (call.find(parameter) && function != "add") {
      operands.push_back(
          zoo_builders::scalar(call.build(), call.name + '.' + std::string(parameter)));
    }
  }
  if (!has_tensor) return false;
  // A change in place is one of the tensor that stands first.
  const bool in_place = call.in_place && call.find_tensor(parameters.front()) == call.x();
  const TensorId y = call.build().binary(call.name, function, operands, in_place);
  if (call.build().shape(y) == shape) {
    call.set(0, y);
  } else {
    call.set_value(0, {.id = y, .shape = std::move(shape), .is_expanded = true});
  }
  return true;
}

bool binary(Call& call) {
  std::string_view function = call.row.function;
  if (call.find_tensor("other") == kNoTensor) {
    if (function == "sub") function = "add";  // passes gradients on
    if (function == "div") function = "mul";  // by the number's reciprocal
  }
  return combined(call, function, {"self", "other"});
}
bool reversed(Call& call) { return combined(call, call.row.function, {"other", "self"}); }
bool where(Call& call) {
  if (call.find_tensor("condition") == kNoTensor || !call.find("self")) return false;
  return combined(call, "where", {"condition", "self", "other"});
}
/// PyTorch copies the tensor, then fills the copy (ATen/native/TensorAdvancedIndexing.cpp).
bool masked_fill(Call& call) {
  if (call.find_tensor("mask") == kNoTensor) return false;
  const TensorIndex x = call.x();
  TensorId filled = call.whole(x);
  if (!call.in_place)
    filled = call.build().slice(call.name + ".clone", filled, call.build().shape(filled));
  const TensorId operands[] = {call.plain(call.tensor("mask")), filled};
  call.set(0, call.build().binary(call.name, "where", operands));
  return true;
}
bool three(Call& call) {
  return call.find("tensor1") ? combined(call, call.row.function, {"self", "tensor1", "tensor2"})
                              : combined(call, call.row.function, {"self", "end", "weight"});
}
/// x^n is one op, another formula where the power is a tensor.
bool power(Call& call) {
  if (call.find_tensor("self") == kNoTensor || call.find_tensor("exponent") != kNoTensor)
    return combined(call, "pow", {"self", "exponent"});
  return unary(call);
}
bool prelu(Call& call) {
  const TensorId slope[] = {call.whole(call.tensor("weight"))};
  call.set(0, call.build().activation(call.name, call.whole(call.x()), "prelu", false, slope));
  return true;
}
/// Two halves of a dimension, one through a sigmoid (SiLU's by name): a kernel of its own.
bool gated_half(Call& call) {
  call.append(0, OpKind::Binary, "mul", {call.whole(call.x())});
  return true;
}

/// Between integers and reals; between reals where the network runs in 16 bits and its code says
/// so.
bool cast(Call& call) {
  const TensorIndex x = call.x();
  if (!call.has_result(0)) return false;
  const ElementType from = call.own(x).type, to = call.own(call.node.results[0]).type;
  if (from == to) {  // a copy of another kind: to where it lies row by row, to another device
    const bool is_moved =
        !call.own(x).is_contiguous() && call.own(call.node.results[0]).is_contiguous();
    if (!is_moved && !call.flag("copy", false)) {
      call.pass_through();
      return true;
    }
    const TensorId id = call.whole(x);
    call.set(0, call.build().slice(call.name, id, call.build().shape(id)));
    return true;
  }
  if (from.is_integer || to.is_integer) {
    call.set(0, call.build().cast(call.name, call.whole(x), to.is_integer, to.bytes));
    return true;
  }
  const bool low = call.run.is_low_precision();
  if (low && from.bytes <= 2 && to.bytes > 2) {
    call.set(0, call.build().upcast(call.name, call.whole(x)));
  } else if (low && from.bytes > 2 && to.bytes <= 2 &&
             call.build().graph().tensor(call.whole(x)).is_wide) {
    call.set(0, call.build().low_precision(call.name, call.whole(x)));
  } else {
    call.pass_through();
  }
  return true;
}

bool reduce_to(Call& call, std::size_t i, std::string_view function) {
  const TensorIndex x = call.x();
  Integers axes = call.integers("dim");
  if (axes.empty()) axes = call.integers("axis");
  const std::string name = i == 0 ? call.name : call.name + ":" + std::to_string(i);
  if (call.shape(x).empty()) {
    call.set_value(i, call.run.value(x));
    return true;
  }
  call.set(i,
           call.build().reduce(name, call.whole(x), axes, call.flag("keepdim", false), function));
  return true;
}
bool reduce(Call& call) { return reduce_to(call, 0, call.row.function); }
/// Of one tensor over a dimension, with places; of two tensors element by element.
bool extreme(Call& call) {
  if (call.find_tensor("other") != kNoTensor)
    return combined(call, call.row.function, {"self", "other"});
  if (!reduce_to(call, 0, call.row.function)) return false;
  return !call.has_result(1) || reduce_to(call, 1, "argmax");
}
/// Deviation and mean.
bool two_moments(Call& call) {
  return reduce_to(call, 0, "var") && (!call.has_result(1) || reduce_to(call, 1, "mean"));
}

/// A mean or a sum of what each sample adds to a loss. Where the pass gives it back it is the loss
/// of the training step, on the logits.
bool cross_entropy(Call& call) {
  if (call.own_result(0).empty()) {
    call.run.set_loss(call.node.results[0], call.x());
  } else {
    call.append(0, OpKind::Gather, "gather",
                {call.whole(call.x()), call.whole(call.tensor("target"))});
  }
  return true;
}
bool nll(Call& call) {
  const TensorIndex x = call.x();
  GraphBuilder& b = call.build();
  if (call.own_result(0).empty()) {
    call.set(0, b.reduce(call.name, call.whole(x), {}, false, "mean"));
    return true;
  }
  call.append(0, OpKind::Gather, "gather", {call.whole(x), call.whole(call.tensor("target"))});
  return true;
}
/// Of two tensors of a shape: differences, then their mean.
bool distance(Call& call) {
  GraphBuilder& b = call.build();
  const TensorId operands[] = {call.whole(call.x()), call.whole(call.tensor("target"))};
  const TensorId difference = b.binary(call.name + ".each", call.row.function, operands);
  if (call.own_result(0).empty()) {
    call.set(0, b.reduce(call.name, difference, {}, false, "mean"));
  } else {
    call.set(0, difference);
  }
  return true;
}

constexpr Row kElementwiseRows[] = {
    {"aten.relu", unary, "relu"},
    {"aten.relu6", unary, "relu6"},
    {"aten.hardtanh", unary, "clip"},
    {"aten.clamp", unary, "clip"},
    {"aten.clamp_min", unary, "clip"},
    {"aten.clamp_max", unary, "clip"},
    {"aten.clip", unary, "clip"},
    {"aten.gelu", unary, "gelu"},
    {"aten.silu", unary, "silu"},
    {"aten.mish", unary, "mish"},
    {"aten.hardswish", unary, "hardswish"},
    {"aten.hardsigmoid", unary, "hardsigmoid"},
    {"aten.leaky_relu", unary, "leakyrelu"},
    {"aten.rrelu_with_noise", unary, "leakyrelu"},
    {"aten.elu", unary, "elu"},
    {"aten.selu", unary, "selu"},
    {"aten.celu", unary, "celu"},
    {"aten.softplus", unary, "softplus"},
    {"aten.softsign", unary, "softsign"},
    {"aten.log_sigmoid", unary, "logsigmoid"},
    {"aten.log_sigmoid_forward", unary, "logsigmoid"},
    {"aten.threshold", unary, "thresholdedrelu"},
    {"aten.sigmoid", unary, "sigmoid"},
    {"aten.tanh", unary, "tanh"},
    {"aten.exp", unary, "exp"},
    {"aten.exp2", unary, "exp"},
    {"aten.expm1", unary, "exp"},
    {"aten.log", unary, "log"},
    {"aten.log2", unary, "log"},
    {"aten.log1p", unary, "log"},
    {"aten.sqrt", unary, "sqrt"},
    {"aten.rsqrt", unary, "rsqrt"},
    {"aten.reciprocal", unary, "reciprocal"},
    {"aten.square", unary, "pow"},
    {"aten.neg", unary, "neg"},
    {"aten.abs", unary, "abs"},
    {"aten.sign", unary, "sign"},
    {"aten.floor", unary, "floor"},
    {"aten.ceil", unary, "ceil"},
    {"aten.round", unary, "round"},
    {"aten.trunc", unary, "floor"},
    {"aten.erf", unary, "erf"},
    {"aten.erfc", unary, "erf"},
    {"aten.sin", unary, "sin"},
    {"aten.cos", unary, "cos"},
    {"aten.tan", unary, "tan"},
    {"aten.asin", unary, "asin"},
    {"aten.acos", unary, "acos"},
    {"aten.atan", unary, "atan"},
    {"aten.sinh", unary, "sinh"},
    {"aten.cosh", unary, "cosh"},
    {"aten.tril", unary, "trilu"},
    {"aten.triu", unary, "trilu"},
    {"aten.cumsum", unary, "cumsum"},
    {"aten.cumprod", unary, "cumprod"},
    {"aten.logical_not", unary, "not"},
    {"aten.bitwise_not", unary, "bitwisenot"},
    {"aten.isnan", unary, "isnan"},
    {"aten.isinf", unary, "isinf"},
    {"aten.isfinite", unary, "isinf"},
    {"aten.nan_to_num", unary, "clip"},
    {"aten.fill", unary, "fill"},
    {"aten.zero", unary, "fill"},
    {"aten.bernoulli", unary, "bernoulli"},
    {"aten.uniform", unary, "random"},
    {"aten.normal", unary, "random"},
    {"aten.normal_functional", unary, "random"},
    {"aten.add", binary, "add"},
    {"aten.sub", binary, "sub"},
    {"aten.rsub", reversed, "sub"},
    {"aten.mul", binary, "mul"},
    {"aten.div", binary, "div"},
    {"aten.true_divide", binary, "div"},
    {"aten.floor_divide", binary, "div"},
    {"aten.remainder", binary, "mod"},
    {"aten.fmod", binary, "mod"},
    {"aten.maximum", binary, "max"},
    {"aten.minimum", binary, "min"},
    {"aten.atan2", binary, "atan2"},
    {"aten.pow", power, "pow"},
    {"aten.eq", binary, "equal"},
    {"aten.ne", binary, "equal"},
    {"aten.lt", binary, "less"},
    {"aten.le", binary, "lessorequal"},
    {"aten.gt", binary, "greater"},
    {"aten.ge", binary, "greaterorequal"},
    {"aten.logical_and", binary, "and"},
    {"aten.logical_or", binary, "or"},
    {"aten.logical_xor", binary, "xor"},
    {"aten.bitwise_and", binary, "bitwiseand"},
    {"aten.bitwise_or", binary, "bitwiseor"},
    {"aten.bitwise_xor", binary, "bitwisexor"},
    {"aten.__and__", binary, "bitwiseand"},
    {"aten.__or__", binary, "bitwiseor"},
    {"aten.__lshift__", binary, "bitshift"},
    {"aten.__rshift__", binary, "bitshift"},
    {"aten.where", where, "where"},
    {"aten.masked_fill", masked_fill, "where"},
    {"aten.addcmul", three, "mul"},
    {"aten.addcdiv", three, "div"},
    {"aten.lerp", three, "mul"},
    {"aten.prelu", prelu},
    {"aten._prelu_kernel", prelu},
    {"aten.glu", gated_half},
    {"aten._to_copy", cast},
    {"aten.to", cast},
    {"aten.type_as", cast},
    {"aten.float", cast},
    {"aten.half", cast},
    {"aten.mean", reduce, "mean"},
    {"aten.sum", reduce, "sum"},
    {"aten.prod", reduce, "prod"},
    {"aten.amax", reduce, "max"},
    {"aten.amin", reduce, "min"},
    {"aten.any", reduce, "any"},
    {"aten.all", reduce, "all"},
    {"aten.argmax", reduce, "argmax"},
    {"aten.argmin", reduce, "argmin"},
    {"aten.std", reduce, "std"},
    {"aten.var", reduce, "var"},
    {"aten.norm", reduce, "l2"},
    {"aten.linalg_vector_norm", reduce, "l2"},
    {"aten.logsumexp", reduce, "logsumexp"},
    {"aten.max", extreme, "max"},
    {"aten.min", extreme, "min"},
    {"aten.var_mean", two_moments},
    {"aten.cross_entropy_loss", cross_entropy},
    {"aten.nll_loss_forward", nll},
    {"aten.nll_loss2d_forward", nll},
    {"aten.nll_loss", nll},
    {"aten.mse_loss", distance, "sub"},
    {"aten.l1_loss", distance, "sub"},
    {"aten.smooth_l1_loss", distance, "sub"},
    {"aten.huber_loss", distance, "sub"},
    {"aten.binary_cross_entropy", distance, "sub"},
    {"aten.binary_cross_entropy_with_logits", distance, "sub"},
};

}  // namespace

std::span<const Row> elementwise_rows() { return kElementwiseRows; }

}  // namespace tracecast::aten
