#include "sim/parallel/transformer/plan.hpp"

#include <algorithm>
#include <charconv>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

constexpr std::int64_t kMostDegree = 1'000'000;

std::int64_t degree(const char* flag, const std::optional<std::int64_t>& value) {
  const std::int64_t n = value.value_or(1);
  if (n < 1 || n > kMostDegree) throw InputError(flag, std::to_string(n), "1 to 1000000");
  return n;
}

void read_schedule(const std::string& text, ParallelPlan& plan) {
  constexpr std::string_view kInterleaved = "interleaved:";
  constexpr std::int64_t kMostChunks = 1000;
  if (text == "gpipe") {
    plan.schedule = PipelineSchedule::GPipe;
  } else if (text == "1f1b") {
    plan.schedule = PipelineSchedule::OneForwardOneBackward;
  } else if (text.starts_with(kInterleaved)) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + kInterleaved.size(), end, plan.chunks);
    if (error != std::errc() || stop != end || plan.chunks < 1 || plan.chunks > kMostChunks) {
      throw InputError("--schedule", text, "interleaved:V, V chunks of layers per rank");
    }
    plan.schedule =
        plan.chunks > 1 ? PipelineSchedule::Interleaved : PipelineSchedule::OneForwardOneBackward;
  } else {
    throw InputError("--schedule", text, "gpipe, 1f1b or interleaved:V");
  }
}

void check_pipeline(const ParallelPlan& plan, const TransformerLayout& layout) {
  const std::int64_t parts = plan.pipeline * plan.chunks;
  if (parts > layout.layers) {
    throw InputError(
        "--pp", std::to_string(parts) + " parts of " + std::to_string(layout.layers) + " layers",
        "a layer in each part");
  }
  if (plan.chunks > 1 && plan.pipeline == 1) {
    throw InputError("--schedule", "interleaved on one stage", "--pp of 2 or more");
  }
  if (plan.chunks > 1 && plan.micro_batches() % plan.pipeline != 0) {
    throw InputError("--schedule",
                     "interleaved with " + std::to_string(plan.micro_batches()) + " micro-batches",
                     "a multiple of the " + std::to_string(plan.pipeline) + " stages");
  }
  if (plan.zero >= 2 && plan.pipeline > 1) {
    throw InputError("--zero",
                     std::to_string(plan.zero) + " with --pp " + std::to_string(plan.pipeline),
                     "0 or 1: stages keep their gradients over micro-batches");
  }
}

void check_sharing(const ParallelPlan& plan, const TransformerLayout& layout) {
  if (plan.zero < 0 || plan.zero > 3) {
    throw InputError("--zero", std::to_string(plan.zero), "0, 1, 2 or 3");
  }
  if (plan.zero_ranks < 0 ||
      (plan.zero_ranks > 0 && (plan.data * plan.context) % plan.zero_ranks != 0)) {
    throw InputError("--zero-ranks", std::to_string(plan.zero_ranks),
                     "a divisor of the data-parallel ranks");
  }
  if (plan.sequence_parallel && plan.tensor == 1) {
    throw InputError("--sequence-parallel", "--tp 1", "--tp of 2 or more");
  }
  if (plan.expert > 1 && !layout.experts) {
    throw InputError("--ep", std::to_string(plan.expert), "1: the network has no experts");
  }
  if (plan.ranks_with_tokens() % plan.expert != 0) {
    throw InputError("--ep", std::to_string(plan.expert),
                     "a divisor of a stage's ranks that have tokens of their own");
  }
}

}  // namespace

std::string_view to_string(PipelineSchedule schedule) {
  switch (schedule) {
    case PipelineSchedule::GPipe:
      return "gpipe";
    case PipelineSchedule::OneForwardOneBackward:
      return "1f1b";
    case PipelineSchedule::Interleaved:
      return "interleaved";
  }
  return "?";
}

TransformerShard ParallelPlan::shard() const {
  return {.micro_batch = micro_batch,
          .tokens = tokens,
          .tensor = tensor,
          .sequence_parallel = sequence_parallel,
          .context = context,
          .expert = expert,
          .flash_attention = flash_attention};
}

ParallelPlan resolve_plan(const PlanOptions& options, const TransformerLayout& layout,
                          std::int64_t gpus) {
  ParallelPlan plan;
  plan.tensor = degree("--tp", options.tensor);
  plan.context = degree("--cp", options.context);
  plan.pipeline = degree("--pp", options.pipeline);
  plan.expert = degree("--ep", options.expert);
  plan.tokens = degree("--seq-len", options.tokens);
  if (plan.tensor > gpus || plan.context > gpus || plan.pipeline > gpus) {
    throw InputError(plan.tensor > gpus     ? "--tp"
                     : plan.pipeline > gpus ? "--pp"
                                            : "--cp",
                     std::to_string(std::max({plan.tensor, plan.context, plan.pipeline})),
                     "at most the " + std::to_string(gpus) + " GPUs");
  }
  const std::int64_t others = plan.tensor * plan.context * plan.pipeline;
  if (!options.data && gpus % others != 0) {
    throw InputError("--gpus", std::to_string(gpus),
                     "a multiple of tp x cp x pp = " + std::to_string(others));
  }
  plan.data = options.data ? degree("--dp", options.data) : gpus / others;
  if (plan.data * others != gpus) {
    throw InputError("--dp",
                     std::to_string(plan.data) + " x " + std::to_string(others) +
                         " (tp x cp x pp) = " + std::to_string(plan.data * others) + " GPUs",
                     std::to_string(gpus) + " GPUs");
  }
  plan.micro_batch = degree("--micro-batch", options.micro_batch);
  if (options.global_batch && options.micro_batches) {
    throw InputError("--accumulate",
                     std::to_string(*options.micro_batches) + " beside --global-batch " +
                         std::to_string(*options.global_batch),
                     "one of the two: either says how many micro-batches a step has");
  }
  plan.global_batch = options.global_batch ? degree("--global-batch", options.global_batch)
                                           : plan.data * plan.micro_batch *
                                                 degree("--accumulate", options.micro_batches);
  if (plan.global_batch % (plan.data * plan.micro_batch) != 0) {
    throw InputError(
        "--global-batch", std::to_string(plan.global_batch),
        "a multiple of dp x micro-batch = " + std::to_string(plan.data * plan.micro_batch));
  }
  plan.zero = options.zero;
  plan.zero_ranks = options.zero_ranks;
  plan.sequence_parallel = options.sequence_parallel;
  plan.keeps_gathered = options.keeps_gathered;
  const auto recompute = find_recompute(options.recompute);
  if (!recompute) throw InputError("--recompute", options.recompute, "none, selective or full");
  plan.recompute = *recompute;
  if (options.attention != "flash" && options.attention != "unfused") {
    throw InputError("--attention", options.attention, "flash or unfused");
  }
  plan.flash_attention = options.attention == "flash";
  read_schedule(options.schedule, plan);
  check_pipeline(plan, layout);
  check_sharing(plan, layout);
  return plan;
}

std::vector<int> balance_layers(int layers, std::int64_t stages, std::int64_t chunks) {
  const std::int64_t parts = stages * chunks;
  std::vector<int> result(static_cast<std::size_t>(parts), layers / static_cast<int>(parts));
  std::int64_t left = layers % parts;
  // Parts in the order data passes them: chunk by chunk, in each stage by stage.
  std::vector<std::int64_t> order;
  for (std::int64_t part = 1; part + 1 < parts; ++part) order.push_back(part);
  order.push_back(0);
  if (parts > 1) order.push_back(parts - 1);
  for (const std::int64_t part : order) {
    if (left-- <= 0) break;
    ++result[static_cast<std::size_t>((part % stages) * chunks + part / stages)];
  }
  return result;
}

}  // namespace tracecast
