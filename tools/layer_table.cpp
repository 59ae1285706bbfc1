#include "tools/layer_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/cost/price.hpp"
#include "tools/output.hpp"
#include "tools/report.hpp"

namespace tracecast {
namespace {

std::string_view short_pass(std::string_view pass) {
  if (pass == to_string(Pass::Forward)) return "fwd";
  if (pass == to_string(Pass::BackwardData)) return "b-d";
  if (pass == to_string(Pass::BackwardWeights)) return "b-w";
  if (pass == to_string(Pass::Update)) return "upd";
  return "bwd";
}

/// In eight columns.
std::string_view short_algorithm(std::string_view algorithm) {
  constexpr std::pair<Algorithm, std::string_view> kShort[] = {
      {Algorithm::ImplicitGemm, "implicit"},  {Algorithm::ImplicitPrecomputedGemm, "precomp"},
      {Algorithm::ExplicitGemm, "explicit"},  {Algorithm::FftTiling, "fft-tile"},
      {Algorithm::WinogradFused, "winograd"}, {Algorithm::WinogradNonfused, "wino-nf"},
  };
  for (const auto& [known, text] : kShort) {
    if (algorithm == to_string(known)) return text;
  }
  return algorithm;
}

}  // namespace

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

std::string explain_text(const ResolvedJob& job, const Prediction& prediction) {
  std::string text = fmt::format(
      "{} on {}, {}, batch {}\n"
      "Step {} ms, kernels {} ms. k: number of kernels. F/B: FLOP per byte.\n"
      "bnd: what bounds the longest kernel: com(pute), mem(ory), lat(ency).\n\n",
      fit_within(job.forward->name, 12), job.gpu.id, to_string(job.phase), job.options.batch,
      three_digits(prediction.step_time_s.value * 1e3),
      three_digits(prediction.timeline.kernel_busy.in_ms()));
  const auto line = [&](std::string_view name, std::string_view pass, std::string_view shape,
                        std::string_view gflop, std::string_view mb, std::string_view intensity,
                        std::string_view algorithm, std::string_view kernels,
                        std::string_view bound, std::string_view time, std::string_view basis) {
    text += fmt::format("{} {} {} {:>5} {:>5} {:>4} {} {:>2} {} {:>6} {}\n", fit(name, 15), pass,
                        fit(shape, 14), gflop, mb, intensity, fit(algorithm, 8), kernels,
                        fit(bound, 3), time, basis);
  };
  line("layer", "   ", "shape", "GFLOP", "MB", "F/B", "algo", "k", "bnd", "us", "basis");
  for (const LayerRow& row : layer_table(job, prediction)) {
    line(row.name, short_pass(row.pass), row.shape, narrow(row.flops.in_gflop(), 5),
         narrow(row.bytes.in_mb(), 5), narrow(row.intensity(), 4), short_algorithm(row.algorithm),
         fmt::format("{}", row.num_kernels), row.bound, narrow(row.time.in_us(), 6),
         row.basis.substr(0, 5));
  }
  return text;
}

std::string explain_csv(const ResolvedJob& job, const Prediction& prediction) {
  std::string text =
      "layer,kind,pass,shape,flops,bytes,arithmetic_intensity_flop_per_byte,algorithm,kernels,"
      "bound,time_s,basis\n";
  for (const LayerRow& row : layer_table(job, prediction)) {
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{}\n", csv_field(row.name),
                        csv_field(row.kind), row.pass, row.shape, row.flops.in_flop(),
                        row.bytes.in_bytes(), row.intensity(), row.algorithm, row.num_kernels,
                        row.bound, row.time.in_s(), row.basis);
  }
  return text;
}

}  // namespace tracecast
