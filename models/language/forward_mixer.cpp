#include <algorithm>
#include <cmath>

#include "models/language/forward_parts.hpp"

namespace tracecast {
namespace {

constexpr double kHalf = 2;

double num(std::int64_t value) { return static_cast<double>(value); }

using forward_parts::Layer;

void add_rows(const Layer&, const std::monostate&) {}

void add_rows(const Layer& at, const GroupedQueryAttention& a) {
  const double heads = num(a.heads) / at.tensor(), width = num(a.head_width);
  const double kv = std::ceil(num(a.kv_heads) / at.tensor());
  const double model = num(at.served.network.width);
  const double kept = a.borrows_keys ? 0 : a.keys_are_values ? 1 : 2;
  at.gemm("queries, keys, values", (heads * (a.output_gate ? 2 : 1) + kept * kv) * width, model);
  if (a.head_norm != HeadNorm::None)
    at.add("norm of heads", ForwardNorm{at.rows * (heads + kv), width, 2}, 1, 2);
  if (a.output_gate) {
    const double values = at.rows * heads * width;
    at.add("gate of heads", ForwardPass{values, 2 * values * kHalf, values * kHalf, 6});
  }
  at.gemm("heads to layer", model, heads * width);
}

void add_rows(const Layer& at, const LatentAttention& a) {
  const double heads = num(a.heads) / at.tensor(), model = num(at.served.network.width);
  const double query = heads * num(a.nope_width + a.rope_width), rank = num(a.query_rank);
  const double latent = num(a.kv_rank + a.rope_width);
  if (rank > 0) {
    at.gemm("query and latent", rank + latent, model);
    at.add("norms of ranks", ForwardNorm{at.rows, rank + num(a.kv_rank), 2}, 1, 2);
    at.gemm("queries", query, rank);
  } else {
    at.gemm("queries", query, model);
    at.gemm("latent", latent, model);
    at.add("norm of the latent", ForwardNorm{at.rows, num(a.kv_rank), 2});
  }
  if (a.indexer) {
    const SparseIndexer& i = *a.indexer;
    at.gemm("indexer", num(i.heads * i.head_width), rank > 0 ? rank : model);
    at.gemm("indexer keys", num(i.head_width + i.heads), model);
  }
  at.gemm("heads to layer", model, heads * num(a.value_width));
}

void add_rows(const Layer& at, const CompressedAttention& a) {
  const double heads = num(a.heads) / at.tensor(), model = num(at.served.network.width);
  const double rank = num(a.query_rank), groups = num(a.output_groups) / at.tensor();
  at.gemm("query and keys", rank + num(a.head_width), model);
  at.add("norms of ranks", ForwardNorm{at.rows, rank + num(a.head_width), 2}, 1, 2);
  at.gemm("queries", heads * num(a.head_width), rank);
  at.add("norm of heads", ForwardNorm{at.rows * heads, num(a.head_width), 2});
  if (a.rate > 0) {
    at.gemm("tokens to entries", 2 * num(a.entry_width() + a.index_width()), model);
    const double values = at.rows * num(a.entry_width() + a.index_width());
    at.add("entries", ForwardPass{values, 2 * values * kHalf, values * kHalf / num(a.rate), 4}, 1,
           3);
  }
  if (a.indexer) {
    at.gemm("indexer", num(a.indexer->heads * a.indexer->head_width), rank);
    at.gemm("indexer's weights", num(a.indexer->heads), model);
  }
  at.add("heads to groups",
         ForwardGemm{groups, at.rows, num(a.output_rank), heads * num(a.head_width) / groups,
                     at.served.formats.gemms});
  at.gemm("groups to layer", model, groups * num(a.output_rank));
}

/// Recurrent layers: GEMMs, and the state read and written by a kernel that no cost model knows.
void add_rows(const Layer& at, const GatedDeltaNet& g) {
  const double t = at.tensor(), model = num(at.served.network.width);
  const double gate = g.gate_rank > 0 ? num(g.gate_rank) * t : num(g.values());
  const double decay = g.fixed_decay      ? 0
                       : g.decay_rank > 0 ? num(g.decay_rank) * t + num(g.value_heads)
                                          : num(2 * g.value_heads);
  at.gemm("inputs of the recurrence", (num(g.channels()) + gate + decay) / t, model);
  if (g.gate_rank > 0) at.gemm("gate of values", num(g.values()) / t, num(g.gate_rank));
  if (g.decay_rank > 0) at.gemm("decays of channels", num(g.keys()) / t, num(g.decay_rank));
  const double channels = at.rows * num(g.channels()) / t, values = at.rows * num(g.values()) / t;
  if (g.convolution > 0)
    at.add("convolution", ForwardPass{channels, 2 * channels * kHalf, channels * kHalf, 8});
  at.add("gated norm", ForwardNorm{at.rows, num(g.values()) / t, 3});
  at.gemm("recurrence to layer", model, num(g.values()) / t);
  at.add("delta rule",
         ForwardPass{values, 4 * values * kHalf, values * kHalf, 6 * num(g.key_width)}, 1, 4, true);
}

void add_rows(const Layer& at, const Mamba2& m) {
  const double t = at.tensor(), model = num(at.served.network.width);
  at.gemm("inputs of the scan", (num(m.inner() + m.channels() + m.heads)) / t, model);
  const double channels = at.rows * num(m.channels()) / t, values = at.rows * num(m.inner()) / t;
  at.add("convolution", ForwardPass{channels, 2 * channels * kHalf, channels * kHalf, 8});
  at.add("gated norm", ForwardNorm{at.rows, num(m.inner()) / t, 3});
  at.gemm("scan to layer", model, num(m.inner()) / t);
  at.add("scan", ForwardPass{values, 4 * values * kHalf, values * kHalf, 6 * num(m.state)}, 1, 4,
         true);
}

void add_rows(const Layer& at, const Mamba& m) {
  const double t = at.tensor(), model = num(at.served.network.width), inner = num(m.inner) / t;
  at.gemm("inputs of the scan", 2 * inner, model);
  const double channels = at.rows * inner;
  at.add("convolution", ForwardPass{channels, 2 * channels * kHalf, channels * kHalf, 8});
  at.gemm("steps and states of the scan", num(m.step_rank + 2 * m.state), inner);
  at.gemm("steps of channels", inner, num(m.step_rank));
  at.gemm("scan to layer", model, inner);
  at.add("scan", ForwardPass{channels, 4 * channels * kHalf, channels * kHalf, 6 * num(m.state)}, 1,
         2, true);
}

/// Bytes of a recurrent layer's state on a rank, 32 bits each.
double state_bytes(const LanguageMixer& mixer, double tensor) {
  if (const auto* g = std::get_if<GatedDeltaNet>(&mixer))
    return num(g->value_heads * g->key_width * g->value_width) * 4 / tensor;
  if (const auto* m = std::get_if<Mamba2>(&mixer)) return num(m->inner() * m->state) * 4 / tensor;
  if (const auto* m = std::get_if<Mamba>(&mixer)) return num(m->inner * m->state) * 4 / tensor;
  return 0;
}

/// Layers of each kind in the network.
std::vector<double> counts_of(const LanguageNetwork& network) {
  std::vector<double> counts(network.kinds.size(), 0.0);
  for (const std::uint32_t kind : network.order) counts[kind] += 1;
  return counts;
}

void add_prefill(const Layer& at, const GroupedQueryAttention& a, const PrefillShape& s) {
  PrefillWork work;
  work.batch = s.sequences;
  work.tokens = s.tokens;
  work.keys = s.keys;
  work.causal = s.keys == 0;
  work.heads = num(a.heads) / at.tensor();
  work.kv_heads = std::ceil(num(a.kv_heads) / at.tensor());
  work.key_width = work.value_width = num(a.head_width);
  work.window = work.causal ? num(a.window) : 0;
  if (!work.causal && a.window > 0) work.keys = std::min(work.keys, num(a.window));
  work.engine = at.served.engine;
  at.add("attention of prompts", work, 1, 3);
  if (at.served.fuses_sums) return;
  // Keys and values once for each head of queries, by a kernel each; the result to its place.
  const double row = at.rows * work.heads * num(a.head_width) * kHalf;
  if (work.kv_heads < work.heads)
    at.add("heads repeated", ForwardPass{row / kHalf, row * work.kv_heads / work.heads, row, 1}, 2,
           1);
  at.add("result to its place", ForwardPass{row / kHalf, row, row, 1});
}

void add_prefill(const Layer& at, const LatentAttention& a, const PrefillShape& s) {
  const double heads = num(a.heads) / at.tensor();
  const double keys = s.keys > 0 ? std::max(s.keys, s.tokens) : s.tokens;
  at.add("latent to keys and values",
         ForwardGemm{1, s.sequences * keys, heads * num(a.nope_width + a.value_width),
                     num(a.kv_rank), at.served.formats.gemms});
  PrefillWork work;
  work.batch = s.sequences;
  work.tokens = s.tokens;
  work.keys = s.keys;
  work.causal = s.keys == 0;
  work.heads = work.kv_heads = heads;
  work.key_width = num(a.nope_width + a.rope_width);
  work.value_width = num(a.value_width);
  work.latent = true;
  if (a.indexer && !work.causal) work.keys = std::min(work.keys, num(a.indexer->top_keys));
  work.engine = at.served.engine;
  at.add("attention of prompts", work, 1, 4);
}

/// Keys that are values are read once, as latents are.
void add_prefill(const Layer& at, const CompressedAttention& a, const PrefillShape& s) {
  PrefillWork work;
  work.batch = s.sequences;
  work.tokens = s.tokens;
  work.keys = s.keys;
  work.causal = s.keys == 0;
  work.heads = num(a.heads) / at.tensor();
  work.kv_heads = 1;
  work.key_width = work.value_width = num(a.head_width);
  // On average half of the tokens stand before a query.
  const double seen = work.causal ? s.tokens / 2 : s.keys;
  const double read = num(a.window) + a.entries(seen);
  if (work.causal) {
    work.window = read < s.tokens ? read : 0;
  } else {
    work.keys = std::min(work.keys, read);
  }
  work.engine = at.served.engine;
  at.add("attention of prompts", work, 1, 4);
}

void add_decode(const Layer& at, const CompressedAttention& a, const DecodeShape& s) {
  DecodeWork work;
  work.batch = s.sequences;
  work.keys = std::min(s.keys, num(a.window)) + a.entries(s.keys);
  work.heads = num(a.heads) / at.tensor();
  work.kv_heads = 1;
  work.width = work.key_values = num(a.head_width);
  work.gemms = 2 * work.width;
  work.latent = true;
  work.fp8_cache = at.served.formats.fp8_cache;
  work.engine = at.served.engine;
  at.add("attention of one token", work, 1, 4);
}

void add_decode(const Layer& at, const GroupedQueryAttention& a, const DecodeShape& s) {
  DecodeWork work;
  work.batch = s.sequences;
  work.keys = s.keys;
  work.heads = num(a.heads) / at.tensor();
  work.kv_heads = std::ceil(num(a.kv_heads) / at.tensor());
  work.width = num(a.head_width);
  work.key_values = work.gemms = 2 * work.width;
  work.window = num(a.window);
  work.fp8_cache = at.served.formats.fp8_cache;
  work.engine = at.served.engine;
  at.add("attention of one token", work, 1, 3);
}

void add_decode(const Layer& at, const LatentAttention& a, const DecodeShape& s) {
  const double heads = num(a.heads) / at.tensor(), latent = num(a.kv_rank);
  at.add("queries to the latent",
         ForwardGemm{heads, s.sequences, latent, num(a.nope_width), GemmFormat::Half});
  DecodeWork work;
  work.batch = s.sequences;
  work.keys = a.indexer ? std::min(s.keys, num(a.indexer->top_keys)) : s.keys;
  work.heads = heads;
  work.kv_heads = 1;
  work.width = latent + num(a.rope_width);
  work.key_values = latent + num(a.rope_width);
  work.gemms = 2 * latent + num(a.rope_width);
  work.latent = true;
  work.fp8_cache = at.served.formats.fp8_cache;
  work.engine = at.served.engine;
  at.add("attention of one token", work, 1, 4);
  at.add("latent to values",
         ForwardGemm{heads, s.sequences, num(a.value_width), latent, GemmFormat::Half});
}

}  // namespace

void forward_parts::add_mixer_rows(const Layer& at) {
  std::visit([&](const auto& mixer) { add_rows(at, mixer); }, at.layer.mixer);
  std::visit([&](const auto& mixer) { add_rows(at, mixer); }, at.layer.beside);
  const bool has_mixer = !std::holds_alternative<std::monostate>(at.layer.mixer);
  // One sum serves both halves of a parallel layer.
  if (has_mixer && at.tensor() > 1 && !at.layer.parallel) {
    at.add("sum over ranks", ForwardCommunication{Collective::AllReduce,
                                                  at.rows * num(at.served.network.width) * kHalf});
  }
}

std::vector<ForwardKernel> prefill_kernels(const ServedNetwork& served, const PrefillShape& shape) {
  std::vector<ForwardKernel> out;
  const std::vector<double> counts = counts_of(served.network);
  for (std::size_t kind = 0; kind < counts.size(); ++kind) {
    const LanguageLayer& layer = served.network.kinds[kind];
    const Layer at{served, layer, shape.sequences * shape.tokens, counts[kind], out};
    if (counts[kind] == 0) continue;
    for (const LanguageMixer* mixer : {&layer.mixer, &layer.beside}) {
      if (const auto* a = std::get_if<GroupedQueryAttention>(mixer)) add_prefill(at, *a, shape);
      if (const auto* a = std::get_if<LatentAttention>(mixer)) add_prefill(at, *a, shape);
      if (const auto* a = std::get_if<CompressedAttention>(mixer)) add_prefill(at, *a, shape);
    }
    const double state =
        state_bytes(layer.mixer, at.tensor()) + state_bytes(layer.beside, at.tensor());
    if (state > 0) {
      // Chunks of 64 tokens keep their state.  Source: the chunked form of arXiv 2412.06464,
      // section 3.
      const double chunks = shape.sequences * std::ceil(shape.tokens / 64);
      at.add("states of prompts",
             ForwardPass{chunks * state / 4, chunks * state, chunks * state, 2}, 1, 1, true);
    }
  }
  return out;
}

std::vector<ForwardKernel> decode_kernels(const ServedNetwork& served, const DecodeShape& shape) {
  std::vector<ForwardKernel> out;
  const std::vector<double> counts = counts_of(served.network);
  for (std::size_t kind = 0; kind < counts.size(); ++kind) {
    const LanguageLayer& layer = served.network.kinds[kind];
    const Layer at{served, layer, shape.sequences, counts[kind], out};
    if (counts[kind] == 0) continue;
    for (const LanguageMixer* mixer : {&layer.mixer, &layer.beside}) {
      if (const auto* a = std::get_if<GroupedQueryAttention>(mixer)) add_decode(at, *a, shape);
      if (const auto* a = std::get_if<LatentAttention>(mixer)) add_decode(at, *a, shape);
      if (const auto* a = std::get_if<CompressedAttention>(mixer)) add_decode(at, *a, shape);
    }
    const double state =
        (state_bytes(layer.mixer, at.tensor()) + state_bytes(layer.beside, at.tensor())) *
        shape.sequences;
    if (state > 0) at.add("states", ForwardPass{state / 4, state, state, 4}, 1, 1, true);
  }
  return out;
}

}  // namespace tracecast
