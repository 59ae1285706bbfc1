#include "sim/serve/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "sim/base/error.hpp"

namespace tracecast::serve {
namespace {

double num(std::int64_t value) { return static_cast<double>(value); }

/// Of a board's memory as nvidia-smi totals it, what CUDA programs do not see. Source: PyTorch's
/// messages on RTX 4090, "total capacity of 23.64 GiB", where nvidia-smi shows 24564 MiB; specs of
/// other boards say 70 to 700 MiB.
constexpr double kReservedMib = 357;

/// Values per row of the widest feed-forward's input and result of its activation, on a rank.
double widest(const ServedNetwork& served) {
  const ModelSharing& s = served.sharing;
  double most = 0;
  for (const LanguageLayer& layer : served.network.kinds) {
    if (const auto* f = std::get_if<DenseFeedForward>(&layer.feed_forward))
      most = std::max(most, num(f->width) * (f->gated ? 3 : 2) / num(s.tensor));
    if (const auto* f = std::get_if<ExpertFeedForward>(&layer.feed_forward)) {
      // Each token's row once for each of its experts on this rank.
      const double rows = num(f->per_token) / num(s.experts) * num(s.data);
      most = std::max(most, rows * (num(f->width) * (f->gated ? 3 : 2) / num(s.expert_tensor()) +
                                    2 * num(served.network.width)));
    }
  }
  return most;
}

/// More ranks, or 4-bit weights, in words.
std::string wider(const ServedNetwork& served,
                  const std::function<bool(const ServedNetwork&)>& fits) {
  for (std::int64_t more = 2; more <= 64; more *= 2) {
    ServedNetwork wider = served;
    wider.sharing.tensor = served.sharing.tensor * more;
    try {
      check_sharing(wider);
    } catch (const InputError&) {
      break;
    }
    if (fits(wider)) return fmt::format("--tp {}", wider.sharing.tensor);
    ServedNetwork low_precision = wider;
    low_precision.formats = {GemmFormat::Fp8, ExpertFormat::Fp8, false};
    if (served.formats.gemms == GemmFormat::Half && fits(low_precision))
      return fmt::format("--tp {} --precision fp8", wider.sharing.tensor);
  }
  for (std::int64_t stages = 2; stages <= served.network.layers() && stages <= 64; stages *= 2) {
    ServedNetwork longer = served;
    longer.sharing.pipeline = served.sharing.pipeline * stages;
    if (longer.sharing.pipeline > served.network.layers()) break;
    if (fits(longer)) return fmt::format("--pp {}", longer.sharing.pipeline);
  }
  ServedNetwork low_precision = served;
  low_precision.formats = {GemmFormat::Int4Weights, ExpertFormat::Int4Weights, true};
  if (fits(low_precision)) return "--precision int4_wo --kv-precision fp8";
  return "GPUs with more memory";
}

}  // namespace

ServedMemory served_memory(const ServedNetwork& served, const EngineProfile& engine,
                           const GpuSpec& gpu, const MemoryOptions& options,
                           std::int64_t usual_tokens) {
  ServedMemory m;
  m.board = gpu.memory;
  m.budget = (gpu.memory - Bytes(kReservedMib * (1 << 20))) *
             options.memory_share.value_or(engine.memory_share);
  m.weights = served_weight_bytes(served);
  const double rows = num(options.tokens_per_step.value_or(engine.tokens_of(gpu)));
  const double sequences = num(options.sequences.value_or(engine.sequences_of(gpu)));
  m.activations =
      Bytes(rows * (widest(served) + 2 * num(served.network.width)) * 2 +
            std::min(sequences, rows) * num(served.network.vocabulary) * 4 * engine.logit_copies);
  m.graphs = engine.graph * num(served.network.layers()) / num(served.sharing.pipeline) *
             static_cast<double>(engine.graph_batches.size());
  m.context = engine.context;
  const std::int64_t peers = served.sharing.tensor * served.sharing.data;
  if (peers > 1) m.buffers = Bytes(16.0 * (1 << 20) * num(peers));
  m.cache = m.budget - m.weights - m.activations - m.graphs - m.context - m.buffers;
  const ServedCache cache = served_cache(served);
  // A long sequence's token: those of windows only as far as the window goes.
  const double seen =
      cache.window > 0
          ? std::min(1.0, num(cache.window) / num(std::max<std::int64_t>(1, usual_tokens)))
          : 0;
  m.cache_token = cache.token + cache.window_token * seen;
  m.cache_sequence = cache.sequence;
  const Bytes token = m.cache_token + cache.sequence / num(std::max<std::int64_t>(1, usual_tokens));
  if (m.cache > Bytes(0) && token > Bytes(0)) {
    const double blocks = std::floor(m.cache / token / engine.block_tokens);
    m.cache_tokens = static_cast<std::int64_t>(std::min(blocks, 1e15)) * engine.block_tokens;
  }
  return m;
}

std::string smallest_change(const ServedNetwork& served, const EngineProfile& engine,
                            const GpuSpec& gpu, const MemoryOptions& options,
                            std::int64_t least_tokens) {
  const std::function<bool(const ServedNetwork&)> fits = [&](const ServedNetwork& s) {
    return served_memory(s, engine, gpu, options, least_tokens).cache_tokens >= least_tokens;
  };
  // Weights of 8 bits on as many GPUs cost none.
  ServedNetwork low_precision = served;
  low_precision.formats.gemms = GemmFormat::Fp8;
  if (low_precision.formats.experts == ExpertFormat::Half)
    low_precision.formats.experts = ExpertFormat::Fp8;
  const bool low_precision_fits = served.formats.gemms == GemmFormat::Half && fits(low_precision);
  return (low_precision_fits ? "--precision fp8, or " : "") + wider(served, fits);
}

}  // namespace tracecast::serve
