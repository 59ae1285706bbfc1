#include <fmt/format.h>

#include <array>
#include <utility>

#include "tools/command/cell.hpp"
#include "tools/command/output.hpp"
#include "tools/report/memory_headline.hpp"
#include "tools/report/report.hpp"

namespace tracecast {
namespace {

constexpr std::size_t kName = 30;

std::string gibibytes(Bytes bytes) { return three_digits(bytes.in_gib()); }

std::string row(std::string_view name, std::string_view value) {
  return fmt::format("  {}{:>8}", fit(name, kName - 2, 2), value);
}

/// What is used or needed, against what there is.
std::string verdict(const ResolvedJob& job, const MemoryPlan& memory) {
  const std::string capacity = gibibytes(memory.capacity);
  if (memory.fits) {
    return fmt::format(
        "{}  of {}: {}, {} to spare",
        row(job.cpu ? "the process holds" : "nvidia-smi shows", gibibytes(memory.device_used)),
        capacity,
        memory.fit().probability < kSurelyFits ? fit_words(memory.fit().probability) : "it fits",
        gibibytes(memory.headroom()));
  }
  return fmt::format("{}  of {}: DOES NOT FIT, {} too much",
                     row("needed", gibibytes(memory.needed)), capacity,
                     gibibytes(memory.needed - memory.capacity));
}

std::string largest(const ResolvedJob& job, std::int64_t batch, std::optional<std::int64_t> sure) {
  std::string line = row("largest batch that fits", batch == 0 ? "none" : std::to_string(batch));
  if (sure && *sure < batch) line += fmt::format("  with 50 %; {} with 95 %", *sure);
  if (batch == job.options.batch) line += "  this one";
  if (batch == kMostBatch) line += "  or more";
  return line;
}

/// What it would need, whether that fits, and how much longer a step would take.
std::string with_recomputation(const Prediction& prediction, const Prediction& recomputed) {
  const MemoryPlan& memory = recomputed.memory;
  const double longer = recomputed.step_time_s.value / prediction.step_time_s.value;
  return fmt::format(
      "{}  of {}: {}", row("with --recompute full", gibibytes(memory.needed)),
      gibibytes(memory.capacity),
      memory.fits ? fmt::format("fits, {:.2f} times as long", longer) : "does not fit either");
}

}  // namespace

std::string memory_headline(const MemoryFit& fit, Bytes capacity, std::string_view what,
                            const LargestBatches& largest) {
  const Interval& needed = fit.needed;
  const std::string verdict = fit_words(fit.probability);
  std::string text = fmt::format("{}: {} of {} GiB needed (90 % interval: {} to {})",
                                 fit.probability < kHardlyFits ? "DOES NOT FIT" : verdict,
                                 gibibytes(Bytes(needed.value)), gibibytes(capacity),
                                 gibibytes(Bytes(needed.low)), gibibytes(Bytes(needed.high)));
  if (!largest.likely) return text;
  if (*largest.likely == 0) return text + fmt::format("; largest {} that fits: none", what);
  text += fmt::format("; largest {} that fits: {}", what, *largest.likely);
  if (largest.sure) {
    text += *largest.sure == *largest.likely ? std::string(" (with 95 %)")
                                             : fmt::format(" ({} with 95 %)", *largest.sure);
  }
  return text;
}

std::string memory_headline(const MemoryPlan& memory, const MemoryAdvice& advice) {
  return memory_headline(memory.fit(), memory.room, "batch",
                         {advice.largest_batch, advice.sure_batch});
}

std::vector<std::string> memory_lines(const ResolvedJob& job, const Prediction& prediction,
                                      const MemoryPlan& memory, const MemoryAdvice& advice) {
  const MemoryByClass& c = memory.by_class;
  const std::array<std::pair<const char*, Bytes>, 7> parts{{
      {"activations", c.activations},
      {"weights", c.weights},
      {"gradients", c.gradients},
      {"optimizer", c.optimizer},
      {"workspace", c.workspace},
      {"held by the allocator", c.pool},
      {"context, libraries", c.context},
  }};
  std::vector<std::string> lines{
      fmt::format("{}{:>8}  {:>5}", fit("Memory", kName), "GiB", "share")};
  for (const auto& [name, bytes] : parts) {
    if (!(bytes > Bytes(0))) continue;
    const double share = bytes / memory.device_used;
    lines.push_back(
        fmt::format("{}  {:>5}  {}", row(name, gibibytes(bytes)), percent(share), bar(share, 32)));
  }
  lines.push_back(verdict(job, memory));
  if (advice.largest_batch) lines.push_back(largest(job, *advice.largest_batch, advice.sure_batch));
  if (advice.is_hopeless) {
    lines.push_back(
        "  weights, optimizer and context alone exceed it: no batch and no recomputation helps");
  }
  if (advice.recomputed) lines.push_back(with_recomputation(prediction, *advice.recomputed));
  if (advice.accumulated) {
    lines.push_back(fmt::format("  {}--batch {} --accumulate {}",
                                fit("or, for the same update:", kName), advice.accumulated->batch,
                                advice.accumulated->count));
  }
  return lines;
}

}  // namespace tracecast
