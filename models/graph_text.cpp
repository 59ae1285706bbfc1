#include "models/graph_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "models/ops.hpp"
#include "sim/base/foreign_text.hpp"

namespace tracecast {
namespace {

void append_tensors(std::string& text, const NetworkGraph& graph, std::span<const TensorId> ids) {
  for (const TensorId id : ids) {
    const Tensor& tensor = graph.tensor(id);
    fmt::format_to(std::back_inserter(text), " {}[{}{}]", printable(tensor.name),
                   to_string(tensor.shape), tensor.is_wide ? " wide" : "");
  }
}

}  // namespace

std::string graph_text(const NetworkGraph& graph) {
  std::string text =
      fmt::format("{}, batch {}: {} ops, {} tensors, {} parameters, {:.6g} forward GMAC\n",
                  printable(graph.name), graph.batch, graph.ops().size(), graph.tensors().size(),
                  graph.parameter_count(), graph.forward_macs() * 1e-9);
  // Beyond this width one long name would push every line off the screen.
  constexpr std::size_t kWidestName = 40;
  std::size_t width = 0;
  for (const Op& op : graph.ops()) width = std::max(width, std::min(op.name.size(), kWidestName));
  for (const Op& op : graph.ops()) {
    const std::string kind = op.kind == OpKind::Unknown && !op.note.empty()
                                 ? printable(op.note)
                                 : std::string(to_string(op.kind));
    const double work = macs(op);
    fmt::format_to(std::back_inserter(text), "{:<{}}  {:<13}  {:<16}  {:>14} ", printable(op.name),
                   width, kind, to_string(op.pass),
                   work > 0 ? fmt::format("{:.6g} MMAC", work * 1e-6) : "-");
    append_tensors(text, graph, op.inputs);
    text += " ->";
    append_tensors(text, graph, op.outputs);
    if (shares_memory_with_input(op) || op.kind == OpKind::Optimizer) text += " (in place)";
    text += '\n';
  }
  return text;
}

}  // namespace tracecast
