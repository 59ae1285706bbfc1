#include "models/language/forward.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "models/language/forward_parts.hpp"
#include "sim/base/error.hpp"

namespace tracecast {
namespace {

constexpr double kHalf = 2;  // bytes of a value between kernels

double num(std::int64_t value) { return static_cast<double>(value); }

bool is_norm_before(const LanguageLayer& layer) { return !(layer.parallel && layer.shared_norm); }

/// Biases of GEMMs whose results ranks sum: added after the sum.
double biases_after_sums(const LanguageLayer& layer) {
  double count = 0;
  if (const auto* a = std::get_if<GroupedQueryAttention>(&layer.mixer))
    count += a->output_bias ? 1 : 0;
  if (const auto* f = std::get_if<DenseFeedForward>(&layer.feed_forward))
    count += f->biases ? 1 : 0;
  return count;
}

}  // namespace

using forward_parts::Layer;

std::vector<ForwardKernel> row_kernels(const ServedNetwork& served, double rows) {
  const LanguageNetwork& n = served.network;
  const ModelSharing& s = served.sharing;
  std::vector<ForwardKernel> out;
  const double width = num(n.width);
  out.push_back({"embedding",
                 ForwardPass{rows * width, rows * width * kHalf, rows * width * kHalf, 1}, 1, 2});
  if (s.tensor > 1)
    out.push_back(
        {"embedding sum", ForwardCommunication{Collective::AllReduce, rows * width * kHalf}});
  if (n.layer_input_width > 0) {
    const double inputs = num(n.layers() * n.layer_input_width);
    out.push_back({"layers' inputs",
                   ForwardPass{rows * inputs, rows * inputs * kHalf, rows * inputs * kHalf, 1}, 1,
                   2});
    out.push_back(
        {"tokens to layers' inputs", ForwardGemm{1, rows, inputs, width, GemmFormat::Half}});
  }
  std::vector<double> counts(n.kinds.size(), 0.0);
  for (const std::uint32_t kind : n.order) counts[kind] += 1;
  for (std::size_t kind = 0; kind < n.kinds.size(); ++kind) {
    if (counts[kind] == 0) continue;
    const LanguageLayer& layer = n.kinds[kind];
    const Layer at{served, layer, rows, counts[kind], out};
    forward_parts::add_mixer_rows(at);
    forward_parts::add_feed_forward(at);
    if (n.layer_input_width > 0) {
      at.gemm("gate of the layer's input", num(n.layer_input_width), width);
      at.gemm("layer's input to layer", width, num(n.layer_input_width));
      at.add("norm of the layer's input", ForwardNorm{rows, width, 4});
    }
    if (n.streams > 1) {
      // Each half reads all streams for their weights and their mean, and writes all.
      const double streams = num(n.streams), values = rows * width;
      at.add("weights of streams",
             ForwardGemm{1, rows, (2 + streams) * streams, streams * width, GemmFormat::Half}, 2);
      at.add("streams mixed",
             ForwardPass{streams * values, (2 * streams + 1) * values * kHalf,
                         (streams + 1) * values * kHalf, 2 * streams},
             2, 2);
    }
    const bool has_mixer = !std::holds_alternative<std::monostate>(layer.mixer);
    const bool has_feed = !std::holds_alternative<std::monostate>(layer.feed_forward);
    double norms = (has_mixer ? 1.0 : 0.0) + (has_feed && is_norm_before(layer) ? 1.0 : 0.0);
    if (layer.norms_after && layer.norms_before) norms *= 2;
    if (served.fuses_sums) {
      out.push_back({"norm and sum", ForwardNorm{rows, width, 4}, counts[kind] * norms});
      continue;
    }
    out.push_back({"norm", ForwardNorm{rows, width, 2}, counts[kind] * norms});
    const double values = rows * width;
    out.push_back({"sum", ForwardPass{values, 2 * values * kHalf, values * kHalf, 1},
                   counts[kind] * ((has_mixer ? 1.0 : 0.0) + (has_feed ? 1.0 : 0.0))});
    if (const double biases = biases_after_sums(layer); biases > 0)
      out.push_back(
          {"bias", ForwardPass{values, values * kHalf, values * kHalf, 1}, counts[kind] * biases});
  }
  if (s.pipeline > 1) {
    // The last norm's sum goes with it: two tensors.
    out.push_back({"stage",
                   ForwardCommunication{Collective::SendReceive, 2 * rows * width * kHalf,
                                        ForwardGroup::Stage},
                   num(s.pipeline - 1)});
  }
  return out;
}

std::vector<ForwardKernel> logit_kernels(const ServedNetwork& served, double sequences) {
  const LanguageNetwork& n = served.network;
  const double words = num(n.vocabulary) / num(served.sharing.tensor), width = num(n.width);
  std::vector<ForwardKernel> out;
  if (n.last_norm) out.push_back({"last norm", ForwardNorm{sequences, width, 4}});
  out.push_back({"words", ForwardGemm{1, sequences, words, width, GemmFormat::Half}});
  if (served.sharing.tensor > 1)
    out.push_back({"words gathered", ForwardCommunication{Collective::AllGather,
                                                          sequences * num(n.vocabulary) * kHalf}});
  // Widened to 32 bits, then read by softmax and argmax.
  const double all = sequences * num(n.vocabulary);
  out.push_back({"choice", ForwardPass{all, all * (kHalf + 4 + 4), all * 4, 4}, 1, 6});
  return out;
}

ExpertLoad random_expert_load(double tokens, double per_token, double experts, double ranks) {
  ExpertLoad load;
  const double p = std::min(1.0, per_token / experts), mean = tokens * p, local = experts / ranks;
  load.experts = local * -std::expm1(tokens * std::log1p(-std::min(p, 1 - 1e-12)));
  load.rows = local * mean;
  load.others = (experts - local) * mean;
  const double sd = std::sqrt(std::max(mean * (1 - p), 1e-12));
  constexpr double kMany = 64;
  for (std::size_t i = 0; i < kExpertTileRows.size(); ++i) {
    const double t = kExpertTileRows[i];
    double tiles = 0;  // expected ceil(X / t): sum over j of P(X > j t)
    if (mean > kMany) {
      for (double j = 0; j * t < mean + 6 * sd; ++j)
        tiles += 0.5 * std::erfc((j * t + 0.5 - mean) / (sd * std::sqrt(2.0)));
    } else {
      double pmf = std::exp(tokens * std::log1p(-std::min(p, 1 - 1e-12)));
      const double most = std::min(tokens, mean + 10 * sd + 20);
      for (double x = 1; x <= most; ++x) {
        pmf *= std::max(0.0, tokens - x + 1) / x * p / std::max(1e-12, 1 - p);
        tiles += pmf * std::ceil(x / t);
      }
    }
    load.tiles[i] = local * tiles;
  }
  return load;
}

namespace {

void check_divides(std::int64_t count, std::int64_t by, const char* flag, const std::string& what) {
  if (count % by != 0)
    throw InputError(flag, std::to_string(by), "a divisor of the network's " + what);
}

std::int64_t heads_of(const LanguageMixer& mixer) {
  if (const auto* a = std::get_if<GroupedQueryAttention>(&mixer)) return a->heads;
  if (const auto* a = std::get_if<LatentAttention>(&mixer)) return a->heads;
  if (const auto* a = std::get_if<GatedDeltaNet>(&mixer)) return a->key_heads;
  if (const auto* a = std::get_if<Mamba2>(&mixer)) return a->heads;
  if (const auto* a = std::get_if<Mamba>(&mixer)) return a->inner;
  if (const auto* a = std::get_if<CompressedAttention>(&mixer)) return a->output_groups;
  return 0;
}

}  // namespace

void check_sharing(const ServedNetwork& served) {
  const ModelSharing& s = served.sharing;
  if (s.tensor < 1 || s.pipeline < 1 || s.experts < 1 || s.data < 1)
    throw InputError("--tp", "less than 1", "1 or more of each kind of sharing");
  if (s.pipeline > served.network.layers())
    throw InputError(
        "--pp", std::to_string(s.pipeline),
        "at most the network's " + std::to_string(served.network.layers()) + " layers");
  bool has_experts = false;
  for (const LanguageLayer& layer : served.network.kinds) {
    for (const LanguageMixer* mixer : {&layer.mixer, &layer.beside}) {
      if (const std::int64_t heads = heads_of(*mixer); heads > 0)
        check_divides(heads, s.tensor, "--tp", std::to_string(heads) + " heads");
    }
    if (const auto* dense = std::get_if<DenseFeedForward>(&layer.feed_forward))
      check_divides(dense->width, s.tensor, "--tp",
                    "feed-forward of " + std::to_string(dense->width));
    if (const auto* experts = std::get_if<ExpertFeedForward>(&layer.feed_forward)) {
      has_experts = true;
      check_divides(experts->experts, s.experts, "--ep",
                    std::to_string(experts->experts) + " experts");
      if ((s.tensor * s.data) % s.experts == 0)
        check_divides(experts->width, s.expert_tensor(), "--tp",
                      "experts' width " + std::to_string(experts->width));
    }
  }
  if (s.experts > 1 && !has_experts)
    throw InputError("--ep", std::to_string(s.experts), "1: the network has no experts");
  if ((s.tensor * s.data) % s.experts != 0)
    throw InputError("--ep", std::to_string(s.experts),
                     "a divisor of --tp times --dp, " + std::to_string(s.tensor * s.data));
}

Bytes served_weight_bytes(const ServedNetwork& served) {
  const LanguageNetwork& n = served.network;
  const ModelSharing& s = served.sharing;
  const double gemm = weight_bytes(served.formats.gemms) * 8;
  WeightBits bits;
  bits.mixers = bits.feed_forward = gemm;
  bits.experts = expert_weight_bytes(served.formats.experts) * 8;
  // A stage's share of the layers; the first holds the table, the last the head: whichever is more.
  const std::int64_t stage = (n.layers() + s.pipeline - 1) / s.pipeline;
  ParameterShares held;
  for (std::int64_t i = 0; i < stage; ++i) {
    const ParameterShares p = layer_parameters(n, n.layer(static_cast<std::size_t>(i)));
    held.mixers += p.mixers / num(s.tensor);
    held.feed_forward += p.feed_forward / num(s.tensor);
    held.experts += p.experts / num(s.tensor * s.data);
    held.router += p.router;
    held.norms += p.norms;
  }
  const ParameterShares all = parameters(n);
  held.embedding = all.embedding / num(s.tensor);
  held.head = all.head / num(s.tensor);
  if (s.pipeline > 1) (held.embedding > held.head ? held.head : held.embedding) = 0;
  return weight_bytes(held, bits);
}

namespace {

void add_cache(ServedCache& cache, const LanguageMixer& mixer, const ServedNetwork& served) {
  const double element = served.formats.fp8_cache ? 1 : kHalf;
  const double tensor = num(served.sharing.tensor);
  if (const auto* a = std::get_if<GroupedQueryAttention>(&mixer)) {
    if (a->borrows_keys) return;
    const double heads = std::ceil(num(a->kv_heads) / tensor);
    const Bytes token(2 * heads * num(a->head_width) * element);
    if (a->window > 0) {
      cache.window_token += token;
      cache.window = std::max(cache.window, a->window);
    } else {
      cache.token += token;
    }
  } else if (const auto* l = std::get_if<LatentAttention>(&mixer)) {
    cache.token += Bytes(num(l->kv_rank + l->rope_width) * element);  // every rank holds it
    if (l->indexer) cache.token += Bytes(num(l->indexer->head_width));
  } else if (const auto* c = std::get_if<CompressedAttention>(&mixer)) {
    const double head = num(c->head_width) * element;  // every rank holds it
    cache.window_token += Bytes(head);
    cache.window = std::max(cache.window, c->window);
    if (c->rate > 0) cache.token += Bytes(head / num(c->rate));
    if (c->indexer) cache.token += Bytes(num(c->indexer->head_width) / num(c->rate));
  } else if (const auto* g = std::get_if<GatedDeltaNet>(&mixer)) {
    const double before = num(std::max<std::int64_t>(g->convolution - 1, 0));
    cache.sequence += Bytes((num(g->value_heads * g->key_width * g->value_width) * 4 +
                             num(g->channels()) * before * kHalf) /
                            tensor);
  } else if (const auto* m = std::get_if<Mamba2>(&mixer)) {
    cache.sequence +=
        Bytes((num(m->inner() * m->state) * 4 + num(m->channels() * (m->convolution - 1)) * kHalf) /
              tensor);
  } else if (const auto* one = std::get_if<Mamba>(&mixer)) {
    cache.sequence += Bytes(
        (num(one->inner * one->state) * 4 + num(one->inner * (one->convolution - 1)) * kHalf) /
        tensor);
  }
}

}  // namespace

ServedCache served_cache(const ServedNetwork& served) {
  const LanguageNetwork& n = served.network;
  ServedCache cache;
  for (std::int64_t i = 0; i < (n.layers() + served.sharing.pipeline - 1) / served.sharing.pipeline;
       ++i) {
    const LanguageLayer& layer = n.layer(static_cast<std::size_t>(i));
    add_cache(cache, layer.mixer, served);
    add_cache(cache, layer.beside, served);
  }
  return cache;
}

}  // namespace tracecast
