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
        "{}  of {}: it fits, {} to spare",
        row(job.cpu ? "the process holds" : "nvidia-smi shows", gibibytes(memory.device_used)),
        capacity, gibibytes(memory.headroom()));
  }
  return fmt::format("{}  of {}: DOES NOT FIT, {} too much",
                     row("needed", gibibytes(memory.needed)), capacity,
                     gibibytes(memory.needed - memory.capacity));
}

std::string largest(const ResolvedJob& job, std::int64_t batch) {
  std::string line = row("largest batch that fits", batch == 0 ? "none" : std::to_string(batch));
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

std::string memory_headline(Bytes needed, Bytes capacity, bool fits, std::string_view what,
                            const std::optional<std::int64_t>& largest) {
  if (fits && !largest) return {};
  std::string text = fits ? "fits"
                          : fmt::format("DOES NOT FIT: {} GiB needed, {} there", gibibytes(needed),
                                        gibibytes(capacity));
  if (largest) {
    text += fmt::format("; largest {} that fits: {}", what,
                        *largest == 0 ? "none" : std::to_string(*largest));
  }
  return text;
}

std::string memory_headline(const MemoryPlan& memory, const MemoryAdvice& advice) {
  return memory_headline(memory.needed, memory.capacity, memory.fits, "batch",
                         advice.largest_batch);
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
  if (advice.largest_batch) lines.push_back(largest(job, *advice.largest_batch));
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
