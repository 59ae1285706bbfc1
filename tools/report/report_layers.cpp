#include <fmt/format.h>

#include "sim/job/layer_table.hpp"
#include "tools/command/cell.hpp"
#include "tools/command/csv.hpp"
#include "tools/command/output.hpp"
#include "tools/report/report.hpp"

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

/// What was put together again, rule by rule; empty: nothing.
std::string rewrites_text(const ResolvedJob& job) {
  if (job.rewrites.empty()) return "";
  std::string text = "rewritten (--as-written: not)  times  ops of the file\n";
  for (const Rewrite& line : job.rewrites)
    text += fmt::format("  {:<27}  {:>5}  {:>15}\n", line.rule, line.count, line.ops);
  return text + '\n';
}

}  // namespace

std::string explain_text(const ResolvedJob& job, const Prediction& prediction) {
  std::string text = wrap(fmt::format("{} on {}, {}, batch {}", job.forward->name, job.gpu.id,
                                      to_string(job.phase), job.options.batch),
                          80, 0);
  text += fmt::format(
      "\nStep {} ms, kernels {} ms. k: number of kernels. F/B: FLOP per byte.\n"
      "bnd: what bounds the longest kernel: com(pute), mem(ory), lat(ency).\n\n",
      three_digits(prediction.step_time_s.value * 1e3),
      three_digits(prediction.timeline.kernel_busy.in_ms()));
  text += rewrites_text(job);
  const auto line = [&](std::string_view name, std::string_view pass, std::string_view shape,
                        std::string_view gflop, std::string_view mb, std::string_view intensity,
                        std::string_view algorithm, std::string_view kernels,
                        std::string_view bound, std::string_view time, std::string_view basis) {
    text += fmt::format("{} {} {} {:>5} {:>5} {:>4} {} {:>2} {} {:>6} {}\n", fit(name, 15), pass,
                        fit(shape, 14, 20), gflop, mb, intensity, fit(algorithm, 8, 52), kernels,
                        bound.substr(0, 3), time, basis);
  };
  line("layer", "   ", "shape", "GFLOP", "MB", "F/B", "algo", "k", "bnd", "us", "basis");
  for (const LayerRow& row : layer_table(job, prediction)) {
    line(row.name, short_pass(row.pass), row.shape, low_precision(row.flops.in_gflop(), 5),
         low_precision(row.bytes.in_mb(), 5), low_precision(row.intensity(), 4),
         short_algorithm(row.algorithm), fmt::format("{}", row.num_kernels), row.bound,
         low_precision(row.time.in_us(), 6), row.basis.substr(0, 5));
  }
  return text;
}

std::string explain_csv(const ResolvedJob& job, const Prediction& prediction) {
  std::string text =
      "layer,kind,pass,shape,flops,bytes,arithmetic_intensity_flop_per_byte,algorithm,kernels,"
      "bound,time_s,basis\n";
  for (const LayerRow& row : layer_table(job, prediction)) {
    text += csv_line(row.name, row.kind, row.pass, row.shape, row.flops.in_flop(),
                     row.bytes.in_bytes(), row.intensity(), row.algorithm, row.num_kernels,
                     row.bound, row.time.in_s(), row.basis);
  }
  return text;
}

}  // namespace tracecast
