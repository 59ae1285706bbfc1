#include "tools/predict/transformer_options.hpp"

#include <CLI/CLI.hpp>

#include "hwspecs/library.hpp"
#include "tools/command/whole_number.hpp"

namespace tracecast {

void add_transformer_options(CLI::App& subcommand, TransformerOptions& options) {
  PlanOptions& plan = options.plan;
  const auto asked = [&options](CLI::Option* option) {
    option->each([&options](const std::string&) { options.was_asked = true; });
  };
  const auto count = [&](const char* flag, auto& value, const char* what) {
    asked(subcommand.add_option(flag, value, what)
              ->check(whole_number(1, 1'000'000))
              ->type_name("N"));
  };
  count("--tp", plan.tensor, "Transformers: ranks that share each layer");
  count("--pp", plan.pipeline, "Stages of layers");
  count("--dp", plan.data, "Ranks with other samples; follows from the rest");
  count("--cp", plan.context, "Ranks that share each sequence");
  count("--ep", plan.expert, "Ranks of a stage that share the experts");
  count("--micro-batch", plan.micro_batch, "Sequences per pass and rank");
  count("--global-batch", plan.global_batch, "Sequences per step, all GPUs");
  asked(subcommand
            .add_option("--schedule", plan.schedule, "Of the stages: gpipe, 1f1b or interleaved:V")
            ->type_name("S"));
  asked(subcommand
            .add_option(
                "--zero", plan.zero,
                "Shared among data-parallel ranks: 1 optimizer, 2 gradients, 3 weights (FSDP)")
            ->check(whole_number(0, 3))
            ->type_name("0..3"));
  count("--zero-ranks", plan.zero_ranks, "That share; others hold copies");
  asked(subcommand.add_flag("--sequence-parallel", plan.sequence_parallel,
                            "Norms and residuals are divided among the --tp ranks too"));
  std::string known;
  for (const std::string& id : SpecLibrary::embedded().training_software_ids())
    known += (known.empty() ? "" : ", ") + id;
  asked(subcommand.add_option("--software", options.software, "Of the sharded training: " + known)
            ->type_name("ID"));
}

}  // namespace tracecast
