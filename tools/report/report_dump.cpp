#include <fmt/format.h>

#include <iterator>

#include "tools/command/output.hpp"
#include "tools/report/report.hpp"

namespace tracecast {

std::string dump_kernels(const ResolvedJob& job, const Prediction& prediction) {
  std::string text = fmt::format(
      "{}, {}, batch {}, on {}: every op, its candidates (* = chosen) and their kernels\n",
      printable(job.forward->name), to_string(job.phase), job.options.batch, job.gpu.id);
  auto out = std::back_inserter(text);
  for (std::size_t i = 0; i < prediction.priced.choices.size(); ++i) {
    const LoweredOp& lowered = prediction.priced.lowered->ops[i];
    const cost::PricedCandidate& choice = prediction.priced.choices[i];
    const Op& op = job.step->op(lowered.op);
    fmt::format_to(out, "{} {} {}{}\n", printable(op.name), to_string(op.kind), to_string(op.pass),
                   lowered.policy == ChoicePolicy::Heuristic ? " (heuristic choice)" : "");
    for (const Candidate& candidate : lowered.candidates) {
      const bool chosen = &candidate == choice.candidate;
      fmt::format_to(out, "  {} {} workspace {} MiB\n", chosen ? '*' : ' ',
                     to_string(candidate.algorithm), three_digits(candidate.workspace.in_mib()));
      for (std::size_t k = 0; k < candidate.kernels.size(); ++k) {
        const Kernel& kernel = candidate.kernels[k];
        fmt::format_to(
            out, "      {} {} {} {} GFLOP {} MB read {} MB written{}\n",
            to_string(kernel.kernel_class), printable(kernel.name), to_string(kernel.math),
            three_digits(kernel.flops.in_gflop()), three_digits(kernel.read.in_mb()),
            three_digits(kernel.written.in_mb()),
            chosen ? fmt::format(" {} us", three_digits(choice.estimates[k].duration.in_us()))
                   : "");
      }
    }
  }
  return text;
}

std::string dump_program(const ResolvedJob& job, const Prediction& prediction) {
  const StepProgram& program = prediction.program;
  std::string text = fmt::format(
      "{}, {}, batch {}, on {}: one step as the host issues it.\n"
      "Times in us; kernels: start and end in the steady step.\n"
      "step_overhead {}  launch {} each  input_copy {}  {}\n",
      printable(job.forward->name), to_string(job.phase), job.options.batch, job.gpu.id,
      three_digits(program.step_overhead.in_us()), three_digits(program.launch.in_us()),
      three_digits(program.input_copy.in_us()),
      program.synchronizes ? "waits for the GPU after each step" : "runs ahead of the GPU");
  auto out = std::back_inserter(text);
  for (const ProgramOp& issued : program.ops) {
    const ProgramKernel& first = program.kernels[issued.first_kernel];
    const Op& op = job.step->op(prediction.priced.lowered->ops[first.op].op);
    fmt::format_to(out, "dispatch {} {} {}\n", three_digits(issued.dispatch.in_us()),
                   printable(op.name), to_string(op.pass));
    for (std::uint32_t k = issued.first_kernel; k < issued.first_kernel + issued.num_kernels; ++k) {
      const ProgramKernel& launched = program.kernels[k];
      const Kernel& kernel =
          prediction.priced.choices[launched.op].candidate->kernels[launched.kernel];
      const KernelSpan& span = prediction.timeline.kernels[k];
      fmt::format_to(out, "  kernel {:.2f} {:.2f} {} {} {}\n", span.start.in_us(), span.end.in_us(),
                     to_string(kernel.kernel_class), to_string(kernel.algorithm),
                     printable(kernel.name));
    }
  }
  return text;
}

}  // namespace tracecast
