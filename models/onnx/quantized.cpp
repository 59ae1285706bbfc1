// Networks that were quantised to 8-bit integers, by torch.onnx, ONNX Runtime or TensorRT's tools.
// Their integers stand for reals: the precision mode of the run says how numbers are stored, so
// that one file is priced in int8 and in fp32 alike. Steps between the two formats are part of the
// neighbours' kernels (TensorRT Developer Guide, "Explicit quantization") and leave no ops; scales
// and zero points are no operands.
#include <string>
#include <utility>
#include <vector>

#include "models/onnx/call.hpp"
#include "models/onnx/layers.hpp"
#include "sim/base/error.hpp"

namespace tracecast::onnx {
namespace {

/// QuantizeLinear, DequantizeLinear: the same numbers. Integers of the file become the weights they
/// stand for.
bool requantize(const Call& call) {
  Value value = call.input(0);
  if (value.tensor && value.type.is_integer) {
    call.set(0, call.build().cast(call.name(), *value.tensor, false), kReal);
    return true;
  }
  if (value.is_constant() && value.type.is_integer) {
    value.root = call.run.add_root(call.name_of_output(0), true);
    value.contents = {};
  }
  value.type = kReal;
  call.set_value(0, std::move(value));
  return true;
}

/// y, scale, zero point: one pass that finds the range, one that quantises.
bool quantize_dynamically(const Call& call) {
  GraphBuilder& build = call.build();
  const TensorId x = call.tensor(0);
  const TensorId range = build.reduce(call.name() + ".range", x, {}, false, "max");
  call.set(0, build.activation(call.name(), x, "quantize"), kReal);
  call.set(1, range, kReal);
  call.set(2, range, kReal);
  return true;
}

bool conv_integer(const Call& call) { return conv_from(call, {.x = 0, .weight = 1}); }
bool qlinear_conv(const Call& call) { return conv_from(call, {.x = 0, .weight = 3, .bias = 8}); }
bool matmul_integer(const Call& call) { return matmul_from(call, {.x = 0, .weight = 1}); }
bool qlinear_matmul(const Call& call) { return matmul_from(call, {.x = 0, .weight = 3}); }
bool qgemm(const Call& call) { return gemm_from(call, {.x = 0, .weight = 3, .bias = 6}); }

/// A GEMM, then the bias that the same operator adds.
bool add_bias(const Call& call, std::size_t at) {
  if (!call.has_input(at)) return true;
  const TensorId y = *call.run.value(call.node.outputs[0]).tensor;
  call.set(0, call.build().add(call.name() + ".bias", y, call.parameter(at)), kReal);
  return true;
}
bool dynamic_quantize_matmul(const Call& call) {
  return matmul_from(call, {.x = 0, .weight = 1}) && add_bias(call, 4);
}
bool matmul_integer_to_float(const Call& call) {
  return matmul_from(call, {.x = 0, .weight = 1}) && add_bias(call, 6);
}

/// QLinearAdd and QLinearMul: operands 0 and 3.
bool qlinear_binary(const Call& call) {
  const bool is_add = call.node.op_type() == "QLinearAdd";
  const TensorId operands[] = {call.tensor(0), call.tensor(3)};
  call.set(0, call.build().binary(call.name(), is_add ? "add" : "mul", operands), kReal);
  return true;
}

bool qlinear_sigmoid(const Call& call) {
  call.set(0, call.build().activation(call.name(), call.tensor(0), "sigmoid"), kReal);
  return true;
}
bool qlinear_leaky_relu(const Call& call) {
  call.set(0, call.build().activation(call.name(), call.tensor(0), "leakyrelu"), kReal);
  return true;
}
bool qlinear_global_average_pool(const Call& call) {
  if (call.node.integer("channels_last", 0) != 0) return false;
  call.set(0, call.build().global_avg_pool(call.name(), call.tensor(0)), kReal);
  return true;
}

/// Scale and zero point of the result, then value, scale and zero point of each part.
bool qlinear_concat(const Call& call) {
  std::vector<TensorId> parts;
  for (std::size_t i = 2; i < call.node.inputs.size(); i += 3) parts.push_back(call.tensor(i));
  if (parts.empty()) throw InputError("inputs", "no part", "a value, scale and zero point each");
  call.set(0, call.build().concat(call.name(), parts, call.node.integer("axis", 0)), kReal);
  return true;
}

constexpr NamedHandler kQuantizedHandlers[] = {
    {"QuantizeLinear", requantize},
    {"DequantizeLinear", requantize},
    {"DynamicQuantizeLinear", quantize_dynamically},
    {"ConvInteger", conv_integer},
    {"QLinearConv", qlinear_conv},
    {"MatMulInteger", matmul_integer},
    {"QLinearMatMul", qlinear_matmul},
    {"com.microsoft.QuantizeLinear", requantize},
    {"com.microsoft.DequantizeLinear", requantize},
    {"com.microsoft.QGemm", qgemm},
    {"com.microsoft.DynamicQuantizeMatMul", dynamic_quantize_matmul},
    {"com.microsoft.MatMulIntegerToFloat", matmul_integer_to_float},
    {"com.microsoft.QLinearAdd", qlinear_binary},
    {"com.microsoft.QLinearMul", qlinear_binary},
    {"com.microsoft.QLinearSigmoid", qlinear_sigmoid},
    {"com.microsoft.QLinearLeakyRelu", qlinear_leaky_relu},
    {"com.microsoft.QLinearGlobalAveragePool", qlinear_global_average_pool},
    {"com.microsoft.QLinearConcat", qlinear_concat},
};

}  // namespace

std::span<const NamedHandler> quantized_handlers() { return kQuantizedHandlers; }

}  // namespace tracecast::onnx
