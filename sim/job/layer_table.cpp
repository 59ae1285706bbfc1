#include "sim/job/layer_table.hpp"

#include "sim/cost/price.hpp"

namespace tracecast {

std::vector<LayerRow> layer_table(const ResolvedJob& job, const Prediction& prediction) {
  std::vector<LayerRow> rows;
  for (std::size_t i = 0; i < prediction.priced.choices.size(); ++i) {
    const cost::PricedCandidate& choice = prediction.priced.choices[i];
    if (choice.estimates.empty()) continue;
    const Op& op = job.step->op(prediction.priced.lowered->ops[i].op);
    LayerRow row;
    row.name = op.name;
    row.kind = op.kind == OpKind::Unknown && !op.note.empty() ? std::string_view(op.note)
                                                              : to_string(op.kind);
    row.pass = to_string(op.pass);
    if (!op.outputs.empty()) {
      row.shape = to_string(job.step->tensor(op.outputs[0]).shape);
    } else if (!op.inputs.empty()) {
      row.shape = to_string(job.step->tensor(op.inputs[0]).shape);
    }
    row.algorithm = choice.candidate->algorithm == Algorithm::None
                        ? "-"
                        : std::string(to_string(choice.candidate->algorithm));
    row.num_kernels = choice.estimates.size();
    row.time = choice.duration;
    Seconds longest{-1.0};
    for (std::size_t k = 0; k < choice.estimates.size(); ++k) {
      const Kernel& kernel = choice.candidate->kernels[k];
      row.flops += kernel.flops;
      row.bytes += kernel.bytes();
      if (choice.estimates[k].duration > longest) {
        longest = choice.estimates[k].duration;
        row.bound = to_string(choice.estimates[k].bound);
        row.basis = to_string(choice.estimates[k].basis);
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace tracecast
