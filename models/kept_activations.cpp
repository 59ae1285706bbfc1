#include "models/kept_activations.hpp"

#include <cstdint>

#include "models/ops.hpp"

namespace tracecast {

std::vector<TensorId> kept_activations(const NetworkGraph& step) {
  std::vector<TensorId> memory(step.tensors().size());  // whose memory each tensor lives in
  for (std::uint32_t i = 0; i < memory.size(); ++i) memory[i] = TensorId{i};
  std::vector<bool> is_forward(memory.size()), is_kept(memory.size());
  for (const Op& op : step.ops()) {
    const bool runs_again = op.pass == Pass::Forward && op.forward.has_value();
    if (op.pass != Pass::Forward || runs_again) {
      for (const TensorId input : op.inputs) is_kept[memory[input.index].index] = true;
      continue;
    }
    for (const TensorId output : op.outputs) is_forward[output.index] = true;
    if (shares_memory_with_input(op)) {
      memory[op.outputs.front().index] = memory[op.inputs.front().index];
    }
  }
  std::vector<TensorId> kept;
  for (std::uint32_t i = 0; i < memory.size(); ++i) {
    if (is_kept[i] && is_forward[i]) kept.push_back(TensorId{i});
  }
  return kept;
}

double tensor_bytes(const Tensor& tensor, int float_bytes) {
  return static_cast<double>(element_count(tensor.shape)) *
         (tensor.is_integer ? tensor.integer_bytes : float_bytes);
}

}  // namespace tracecast
