#include "models/onnx/folded_norms.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "models/canonical/draft.hpp"

namespace tracecast::onnx {
namespace {

/// A name that PyTorch's exporter gave a constant that it computed itself.
bool is_computed(const Tensor& tensor) {
  constexpr std::string_view kPrefixes[] = {"onnx::Conv_", "onnx::ConvTranspose_"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes), [&](std::string_view prefix) {
    const std::string_view name = tensor.name;
    return name.starts_with(prefix) && name.size() > prefix.size() &&
           name.find_first_not_of("0123456789", prefix.size()) == name.npos;
  });
}

bool is_folded(const canonical::Draft& draft, const Op& op) {
  return (op.kind == OpKind::Conv || op.kind == OpKind::ConvTranspose) && op.inputs.size() == 3 &&
         is_computed(draft.tensor(op.inputs[1])) && is_computed(draft.tensor(op.inputs[2]));
}

}  // namespace

void unfold_batch_norms(NetworkGraph& graph, std::vector<Rewrite>& rewrites,
                        std::vector<std::string>& warnings) {
  canonical::Draft draft(graph);
  int count = 0;
  for (canonical::Draft::OpIndex i = 0; i < draft.num_ops(); ++i) {
    if (!is_folded(draft, draft.op(i))) continue;
    Op conv = draft.op(i);
    const TensorId y = conv.outputs.front(), bias = conv.inputs[2];
    const Shape image = draft.shape(y);
    const std::int64_t channels = image[1];
    const std::string name = conv.name + ".norm";
    const auto vector = [&](const char* what, TensorRole role) {
      return draft.add_tensor({.name = name + what, .shape = {channels}, .role = role});
    };
    Op norm{.name = name,
            .kind = OpKind::BatchNorm,
            .attributes = NormAttributes{.rows = channels, .cols = element_count(image) / channels},
            .outputs = {y}};
    const TensorId x = draft.add_tensor({.name = conv.name + ".image", .shape = image});
    norm.inputs = {x, vector(".weight", TensorRole::Weight), bias,
                   vector(".running_mean", TensorRole::Buffer),
                   vector(".running_var", TensorRole::Buffer)};
    conv.inputs.pop_back();
    conv.outputs = {x};
    std::get<ConvAttributes>(conv.attributes).has_bias = false;
    const canonical::Draft::OpIndex gone[] = {i};
    draft.replace(gone, {std::move(conv), std::move(norm)});
    count_rewrite(rewrites, "batch_norm", 1);
    ++count;
  }
  if (count == 0) return;
  graph = std::move(draft).take();
  warnings.push_back(std::to_string(count) +
                     " convolutions have a batch norm folded into them, as PyTorch's exporter "
                     "does: it counts again, since the module runs it (--as-written: it does not)");
}

}  // namespace tracecast::onnx
