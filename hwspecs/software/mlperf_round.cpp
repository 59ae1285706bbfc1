#include "hwspecs/software/mlperf_round.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "hwspecs/loaders/based_on.hpp"
#include "hwspecs/loaders/sourced_reader.hpp"
#include "hwspecs/loaders/spec_reader.hpp"
#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/proto/mlperf_round.pb.h"
#include "sim/base/error.hpp"

namespace tracecast {
namespace {

using RoundMessage = proto::MlperfRound;

/// One entry per benchmark: what a later entry states goes before.
std::vector<RoundMessage::Benchmark> merged(const RoundMessage& message) {
  std::vector<RoundMessage::Benchmark> result;
  for (const auto& benchmark : message.benchmark()) {
    const auto same = std::find_if(result.begin(), result.end(),
                                   [&](const auto& b) { return b.name() == benchmark.name(); });
    if (same == result.end()) {
      result.push_back(benchmark);
    } else {
      if (benchmark.fused_on_size() > 0) same->clear_fused_on();
      same->MergeFrom(benchmark);
    }
  }
  return result;
}

MlperfLayout read_layout(const RoundMessage::Benchmark& b, std::string_view where) {
  const RoundMessage::ParallelLayout& d = b.parallel_layout();
  if (d.software().empty()) {
    throw InputError(where,
                     fmt::format("benchmark {}: a parallel layout without software", b.name()),
                     "the id of a training software");
  }
  if ((d.has_chunks() && (d.chunks() < 1 || d.chunks() > 1000)) || d.lora_rank() < 0 ||
      d.lora_rank() > 65536) {
    throw InputError(
        where,
        fmt::format("benchmark {}: chunks {}, lora_rank {}", b.name(), d.chunks(), d.lora_rank()),
        "1 to 1000 chunks, a rank of at most 65536");
  }
  MlperfLayout parallel_layout{.software = d.software(), .lora_rank = d.lora_rank()};
  if (d.has_chunks()) parallel_layout.chunks = d.chunks();
  if (d.has_dropout()) parallel_layout.dropout = d.dropout();
  return parallel_layout;
}

MlperfBenchmark read_benchmark(const RoundMessage::Benchmark& b, std::string_view where,
                               const std::vector<SpecSource>& sources) {
  if (b.name().empty()) throw InputError(where, "a benchmark without name", "one such as resnet");
  const auto is_its_source = [&](const SpecSource& s) { return s.key == b.source(); };
  if (std::none_of(sources.begin(), sources.end(), is_its_source)) {
    throw InputError(where, fmt::format("benchmark {}: source \"{}\"", b.name(), b.source()),
                     "the key of a source in the same file or the round before");
  }
  if (b.network().empty() == b.unpredicted().empty()) {
    throw InputError(where, fmt::format("benchmark {}", b.name()),
                     "a network, or why it is unpredicted");
  }
  if (b.has_share_of_tokens() && !(b.share_of_tokens() > 0 && b.share_of_tokens() <= 1)) {
    throw InputError(where, fmt::format("share_of_tokens = {}", b.share_of_tokens()),
                     "above 0, at most 1");
  }
  MlperfBenchmark result;
  result.name = b.name();
  result.network = b.network();
  result.unpredicted = b.unpredicted();
  if (b.has_optimizer()) result.optimizer = b.optimizer();
  if (b.has_framework()) result.framework = b.framework();
  if (b.has_precision()) result.precision = b.precision();
  if (b.has_fp8_on()) result.fp8_on = from_proto<Architecture>(b.fp8_on());
  result.cuda_graphs = b.cuda_graphs();
  result.samples_differ = b.samples_differ();
  result.sentences = b.sentences();
  if (b.has_share_of_tokens()) result.share_of_tokens = b.share_of_tokens();
  result.fused_network = b.fused_network();
  result.fused_on.assign(b.fused_on().begin(), b.fused_on().end());
  if (b.has_parallel_layout()) result.parallel_layout = read_layout(b, where);
  result.strategy = b.strategy();
  return result;
}

}  // namespace

const std::string& MlperfBenchmark::network_on(const GpuSpec* gpu) const {
  const bool is_fused = gpu != nullptr && std::find(fused_on.begin(), fused_on.end(),
                                                    gpu->compute_capability) != fused_on.end();
  return is_fused ? fused_network : network;
}

std::string MlperfBenchmark::precision_on(const GpuSpec* gpu) const {
  return gpu != nullptr && fp8_on == gpu->architecture ? "fp8" : precision;
}

const MlperfBenchmark* MlperfRound::find(std::string_view benchmark) const {
  const auto found = std::find_if(benchmarks.begin(), benchmarks.end(),
                                  [&](const MlperfBenchmark& b) { return b.name == benchmark; });
  return found == benchmarks.end() ? nullptr : &*found;
}

MlperfRound parse_mlperf_round(std::string_view text, std::string_view where,
                               const FindSpecText& find) {
  RoundMessage message;
  parse_textproto(text, where, message);
  if (message.id().empty()) throw InputError(where, "no id", "an id such as \"v1.0\"");
  if (!message.has_month()) throw InputError(where, "no month", "its own, such as \"2021-06\"");
  complete_from_bases(message, where, find, [](RoundMessage&, const RoundMessage&) {});
  MlperfRound round;
  round.id = message.id();
  round.name = message.name();
  SourcedReader read(message.sources(), where, round.sources, round.values);
  round.month = read.word("month", message.month());
  round.strategy = read.word("strategy", message.strategy());
  round.sample_sd = read.number("sample_sd", message.sample_sd(), 0, 10);
  round.tokens_per_sentence =
      read.number("tokens_per_sentence", message.tokens_per_sentence(), 1, 1e5);
  for (const auto& benchmark : merged(message)) {
    round.benchmarks.push_back(read_benchmark(benchmark, where, round.sources));
  }
  return round;
}

}  // namespace tracecast
