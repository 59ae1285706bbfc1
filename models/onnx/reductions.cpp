// Sums, means and extremes over axes.
#include <string>

#include "models/onnx/call.hpp"
#include "sim/base/error.hpp"

namespace tracecast::onnx {
namespace {

bool reduce(const Call& call) {
  bool is_unknown = false;
  std::optional<Integers> axes = call.integers("axes", 1, is_unknown);
  if (is_unknown) return false;
  if ((!axes || axes->empty()) && call.node.integer("noop_with_empty_axes", 0) != 0) {
    call.pass_through();
    return true;
  }
  std::string_view function = call.node.op_type();
  function.remove_prefix(std::string_view("Reduce").size());
  std::string lower(function);
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  call.set(0, call.build().reduce(call.name(), call.tensor(0), axes.value_or(Integers{}),
                                  call.node.integer("keepdims", 1) != 0, lower));
  return true;
}

bool arg_extreme(const Call& call) {
  const std::int64_t axes[] = {call.node.integer("axis", 0)};
  call.set(
      0,
      call.build().reduce(call.name(), call.tensor(0), axes, call.node.integer("keepdims", 1) != 0,
                          call.node.op_type() == "ArgMax" ? "argmax" : "argmin"),
      kInt64);
  return true;
}

constexpr NamedHandler kReductionHandlers[] = {
    {"ReduceMean", reduce},      {"ReduceSum", reduce},       {"ReduceMax", reduce},
    {"ReduceMin", reduce},       {"ReduceProd", reduce},      {"ReduceL1", reduce},
    {"ReduceL2", reduce},        {"ReduceSumSquare", reduce}, {"ReduceLogSum", reduce},
    {"ReduceLogSumExp", reduce}, {"ArgMax", arg_extreme},     {"ArgMin", arg_extreme},
};

}  // namespace

std::span<const NamedHandler> reduction_handlers() { return kReductionHandlers; }

}  // namespace tracecast::onnx
