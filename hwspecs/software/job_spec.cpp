#include "hwspecs/software/job_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "hwspecs/loaders/sourced_reader.hpp"
#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/proto/job_spec.pb.h"
#include "hwspecs/software/training_habits.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

using JobMessage = proto::JobSpec;

#define TRACECAST_TAKE(target, kind, name, ...) \
  if (m.has_##name()) target = read.kind(#name, m.name() __VA_OPT__(, ) __VA_ARGS__)

void read_program(const JobMessage& m, SourcedReader& read, JobSpec& spec) {
  TRACECAST_TAKE(spec.network, word, network);
  TRACECAST_TAKE(spec.framework, word, framework);
  TRACECAST_TAKE(spec.framework_version, word, framework_version);
  TRACECAST_TAKE(spec.optimizer, word, optimizer);
  TRACECAST_TAKE(spec.precision, word, precision);
  TRACECAST_TAKE(spec.host, word, host);
  TRACECAST_TAKE(spec.data, word, data);
  TRACECAST_TAKE(spec.pipeline, word, pipeline);
  TRACECAST_TAKE(spec.workers, count, workers, 0, 4096);
  TRACECAST_TAKE(spec.autotunes_convolutions, flag, autotunes_convolutions);
  if (m.has_decays_weights()) read.flag("decays_weights", m.decays_weights());
  if (m.has_replicates()) {
    const std::string parts[] = {"all", "features"};
    read.choice("replicates", m.replicates(), parts);
  }
  TRACECAST_TAKE(spec.batch, count, batch, 1, 1'000'000);
  if (!m.has_tokens_mean()) return;
  PaddedLengths lengths;
  lengths.mean = read.number("tokens_mean", m.tokens_mean(), 1, 1e6);
  TRACECAST_TAKE(lengths.sd, number, tokens_sd, 0, 1e6);
  lengths.most = 1e6;
  TRACECAST_TAKE(lengths.most, number, tokens_most, 1, 1e6);
  TRACECAST_TAKE(lengths.added, number, tokens_added, 0, 1e3);
  spec.lengths = lengths;
}

void read_loop(const JobMessage& m, SourcedReader& read, LoopWork& loop) {
  TRACECAST_TAKE(loop.waits_at_end, count, waits_at_end, 0, 1000);
  TRACECAST_TAKE(loop.waits_within_forward, count, waits_within_forward, 0, 1000);
  TRACECAST_TAKE(loop.waits_after_forward, count, waits_after_forward, 0, 1000);
  TRACECAST_TAKE(loop.waits_per_update, flag, waits_per_update);
  TRACECAST_TAKE(loop.steps_per_report, count, steps_per_report, 0, 1000);
  TRACECAST_TAKE(loop.cycles_per_step, number, loop_cycles_per_step, 0, 1e13);
  TRACECAST_TAKE(loop.cycles_per_sample, number, loop_cycles_per_sample, 0, 1e13);
  TRACECAST_TAKE(loop.ops_per_sample, number, loop_ops_per_sample, 0, 1e4);
  TRACECAST_TAKE(loop.kernels_per_sample, number, loop_kernels_per_sample, 0, 1e4);
  TRACECAST_TAKE(loop.weight_copies, count, loop_weight_copies, 0, 100);
  double rate = 5;
  TRACECAST_TAKE(rate, number, loop_memory_gb_per_s, 0.1, 1e3);
  loop.copy_rate = BytesPerSecond(rate * 1e9);
  TRACECAST_TAKE(loop.processes, count, processes, 1, 64);
}

#undef TRACECAST_TAKE

/// Inverse of the normal distribution by bisection: called once per job.
double normal_quantile(double p) {
  double low = -9, high = 9;
  while (high - low > 1e-12) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < p ? low : high) = middle;
  }
  return low;
}

}  // namespace

std::int64_t PaddedLengths::longest_of(std::int64_t batch) const {
  const auto n = static_cast<double>(std::max<std::int64_t>(batch, 1));
  const double variance = std::log1p((sd / mean) * (sd / mean));
  const double z = normal_quantile((n - 0.375) / (n + 0.25));
  const double longest = std::exp(std::log(mean) - variance / 2 + std::sqrt(variance) * z);
  return static_cast<std::int64_t>(std::ceil(std::min(longest, most) + added - 1e-9));
}

JobSpec parse_job_spec(std::string_view text, std::string_view where) {
  JobMessage message;
  parse_textproto(text, where, message);
  JobSpec spec;
  spec.id = message.id();
  spec.name = message.name();
  spec.aliases.assign(message.alias().begin(), message.alias().end());
  if (spec.id.empty()) throw InputError(where, "no id", "an id such as \"lstm_wikitext2\"");
  SourcedReader read(message.source(), where, spec.sources, spec.values);
  read_program(message, read, spec);
  read_loop(message, read, spec.loop);
  if (spec.network.empty() || spec.framework.empty()) {
    throw InputError(where, "no network or no framework", "both");
  }
  return spec;
}

TrainingHabits habits_of(const JobSpec& spec) {
  TrainingHabits habits;
  for (const SpecValue& value : spec.values) {
    if (value.field == "decays_weights") habits.decays_weights = value.value == "true";
    if (value.field == "replicates") habits.replicates_features = value.value == "features";
  }
  return habits;
}

}  // namespace tracecast
