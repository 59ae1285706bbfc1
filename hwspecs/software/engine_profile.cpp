#include "hwspecs/software/engine_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "hwspecs/loaders/sourced_reader.hpp"
#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/proto/engine_profile.pb.h"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

using EngineMessage = proto::EngineProfile;

#define TRACECAST_FIELD(name) #name, message.name()

constexpr double kMost = 1e9;
constexpr int kMostBatch = 1'000'000;

[[noreturn]] void refuse_batches(std::string_view where, const std::string& text) {
  throw InputError(where, "graph_batches = \"" + text + "\"",
                   "rising sizes as \"1,2,4,8-256/8\", or \"none\"");
}

/// "1,2,4,8-256/8": sizes, and ranges with a step.
std::vector<int> batches_of(const std::string& text, std::string_view where) {
  std::vector<int> sizes;
  if (text == "none") return sizes;
  const auto whole = [&](std::string_view word) {
    const auto value = parse_integer(word);
    if (!value || *value < 1 || *value > kMostBatch) refuse_batches(where, text);
    return static_cast<int>(*value);
  };
  const std::string_view all(text);
  for (std::size_t at = 0; at <= all.size();) {
    const std::size_t comma = std::min(all.find(',', at), all.size());
    const std::string_view part = all.substr(at, comma - at);
    const std::size_t dash = part.find('-'), slash = part.find('/');
    if (dash == std::string_view::npos) {
      sizes.push_back(whole(part));
    } else {
      if (slash == std::string_view::npos || slash < dash) refuse_batches(where, text);
      const int step = whole(part.substr(slash + 1));
      const int last = whole(part.substr(dash + 1, slash - dash - 1));
      for (int size = whole(part.substr(0, dash)); size <= last; size += step)
        sizes.push_back(size);
    }
    at = comma + 1;
  }
  if (!std::is_sorted(sizes.begin(), sizes.end(), std::less_equal<>{})) refuse_batches(where, text);
  return sizes;
}

/// "a100,a800", in lower case.
std::vector<std::string> names_of(const std::string& text, std::string_view where) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    names.push_back(to_lower(text.substr(at, comma - at)));
    if (names.back().empty())
      throw InputError(where, "large_except = \"" + text + "\"", "names as \"a100,a800\"");
    at = comma + 1;
  }
  return names;
}

/// {0, 8, 5} of "0.8.5.post1", {1, 2, 0} of "v1.2.0rc2". Throws InputError: no number.
std::vector<long long> version_numbers(std::string_view text) {
  std::vector<long long> numbers;
  const bool has_v = text.starts_with('v');
  for (std::string_view rest = text.substr(has_v ? 1 : 0);;) {
    const std::string_view part = rest.substr(0, rest.find('.'));
    const auto number = parse_integer(part.substr(0, part.find_first_not_of("0123456789")));
    if (!number) break;
    numbers.push_back(*number);
    if (part.size() == rest.size()) break;
    rest.remove_prefix(part.size() + 1);
  }
  if (numbers.empty())
    throw InputError("--engine-version", '"' + std::string(text) + '"', "a version such as 0.8");
  return numbers;
}

void read_cache(EngineProfile& p, const EngineMessage& message, SourcedReader& read) {
  constexpr int kMostTokens = 1 << 24;
  p.block_tokens = read.count(TRACECAST_FIELD(block_tokens), 1, kMostTokens);
  p.watermark = read.number(TRACECAST_FIELD(watermark), 0, 0.9);
  const std::array<std::string, 3> admissions = {"as_needed", "estimated", "reserved"};
  p.admission = static_cast<EngineAdmission>(read.choice(TRACECAST_FIELD(admission), admissions));
  p.reserved_share = read.number(TRACECAST_FIELD(reserved_share), 0, 1);
  p.preempts = read.flag(TRACECAST_FIELD(preempts));
  p.caches_prefixes = read.flag(TRACECAST_FIELD(caches_prefixes));
  p.memory_share = read.number(TRACECAST_FIELD(memory_share), 0.01, 1);
  constexpr double kMib = 1 << 20;
  p.context = Bytes(read.number(TRACECAST_FIELD(context_mib), 0, 1e6) * kMib);
  p.graph = Bytes(read.number(TRACECAST_FIELD(graph_mib), 0, 1e6) * kMib);
  p.logit_copies = read.number(TRACECAST_FIELD(logit_copies), 0, 1000);
}

void read_host(EngineProfile& p, const EngineMessage& message, SourcedReader& read,
               std::string_view where) {
  p.graph_batches = batches_of(read.word(TRACECAST_FIELD(graph_batches)), where);
  p.graph_tokens = read.count(TRACECAST_FIELD(graph_tokens), 0, 1 << 24);
  const auto us = [&](std::string_view field, const EngineMessage::Number& value) {
    return Seconds(read.number(field, value, 0, kMost) * 1e-6);
  };
  p.launch = us(TRACECAST_FIELD(launch_us));
  p.library_call = us(TRACECAST_FIELD(library_call_us));
  p.prompt_call = us(TRACECAST_FIELD(prompt_call_us));
  p.communication_hop = us(TRACECAST_FIELD(communication_hop_us));
  p.renewed_seconds_per_byte =
      read.number(TRACECAST_FIELD(renewed_us_per_mib), 0, kMost) * 1e-6 / (1 << 20);
  p.step = us(TRACECAST_FIELD(step_us));
  p.sequence = us(TRACECAST_FIELD(sequence_us));
  p.request = us(TRACECAST_FIELD(request_us));
  p.context_token = us(TRACECAST_FIELD(context_token_us));
  p.reference_cpu = read.word(TRACECAST_FIELD(reference_cpu));
  p.frontend = us(TRACECAST_FIELD(frontend_us));
  p.overlaps_host = read.flag(TRACECAST_FIELD(overlaps_host));
  p.host_log_sd = read.number(TRACECAST_FIELD(host_log_sd), 0, 3);
  p.system_log_sd = read.number(TRACECAST_FIELD(system_log_sd), 0, 3);
  p.load_share = read.number(TRACECAST_FIELD(load_share), 0, 1);
  p.place_share = read.number(TRACECAST_FIELD(place_share), 0, 1);
}

}  // namespace

bool EngineProfile::is_large(const GpuSpec& gpu) const {
  const std::string board = to_lower(gpu.name);
  return gpu.memory >= large_memory &&
         std::none_of(large_except.begin(), large_except.end(), [&](const std::string& part) {
           return board.find(part) != std::string::npos;
         });
}

bool EngineProfile::is_newer(std::string_view version) const {
  if (known_version.empty() || version.empty()) return false;
  // As many numbers as the known one has: 0.17.1 is of 0.17.
  const auto known = version_numbers(known_version);
  auto asked = version_numbers(version);
  if (asked.size() > known.size()) asked.resize(known.size());
  return asked > known;
}

EngineProfile EngineProfile::on_host(double slower) const {
  EngineProfile here = *this;
  for (Seconds* cost : {&here.launch, &here.library_call, &here.prompt_call, &here.step,
                        &here.sequence, &here.request, &here.context_token})
    *cost *= slower;
  here.renewed_seconds_per_byte *= slower;
  return here;
}

std::optional<int> EngineProfile::graph_of(int count) const {
  const auto it = std::lower_bound(graph_batches.begin(), graph_batches.end(), count);
  if (it == graph_batches.end()) return std::nullopt;
  return *it;
}

EngineProfile parse_engine_profile(std::string_view text, std::string_view where) {
  EngineMessage message;
  parse_textproto(text, where, message);
  EngineProfile p;
  p.id = message.id();
  p.name = message.name();
  if (p.id.empty()) throw InputError(where, "no id", "an id such as \"vllm_v1\"");
  for (const std::string& alias : message.alias()) p.aliases.push_back(to_lower(alias));
  SourcedReader read(message.source(), where, p.sources, p.values);
  p.engine = read.word(TRACECAST_FIELD(engine));
  p.from_version = read.word(TRACECAST_FIELD(from_version));
  if (message.has_known_version()) {
    p.known_version = read.word(TRACECAST_FIELD(known_version));
    p.newer_log_sd = read.number(TRACECAST_FIELD(newer_log_sd), 0, 3);
  }
  const std::array<std::string, 4> kernels = {"trtllm", "sglang", "vllm", "none"};
  const std::size_t whose = read.choice(TRACECAST_FIELD(kernels), kernels);
  if (whose < kGemmEngineCount) p.kernels = static_cast<GemmEngine>(whose);
  p.fuses_sums = read.flag(TRACECAST_FIELD(fuses_sums));
  if (message.has_early_gemms()) p.early_gemms = read.flag(TRACECAST_FIELD(early_gemms));
  p.collectives = read.word(TRACECAST_FIELD(collectives));
  const std::array<std::string, 2> batchings = {"mixed", "prefill_first"};
  p.batching = static_cast<EngineBatching>(read.choice(TRACECAST_FIELD(batching), batchings));
  p.chunks_prompts = read.flag(TRACECAST_FIELD(chunks_prompts));
  p.tokens_per_step = read.count(TRACECAST_FIELD(tokens_per_step), 1, 1 << 24);
  p.large_tokens_per_step = read.count(TRACECAST_FIELD(large_tokens_per_step), 1, 1 << 24);
  p.sequences = read.count(TRACECAST_FIELD(sequences), 1, kMostBatch);
  p.large_sequences = read.count(TRACECAST_FIELD(large_sequences), 1, kMostBatch);
  p.large_memory = Bytes(read.number(TRACECAST_FIELD(large_memory_gib), 0, 1e6) * (1 << 30));
  if (message.has_large_except()) {
    p.large_except = names_of(read.word(TRACECAST_FIELD(large_except)), where);
  }
  read_cache(p, message, read);
  read_host(p, message, read, where);
  return p;
}
#undef TRACECAST_FIELD

const EngineProfile& find_engine_profile(std::span<const EngineProfile> profiles,
                                         std::string_view engine, std::string_view version) {
  const std::string word = to_lower(engine);
  std::vector<std::string> names;
  const EngineProfile* oldest = nullptr;
  const EngineProfile* last = nullptr;
  for (const EngineProfile& profile : profiles) {
    names.push_back(profile.engine);
    names.push_back(profile.id);
    const bool is_alias =
        std::find(profile.aliases.begin(), profile.aliases.end(), word) != profile.aliases.end();
    if (profile.id == word && profile.engine != word) return profile;
    if (profile.engine != word && !is_alias) continue;
    const auto begins = version_numbers(profile.from_version);
    if (oldest == nullptr || begins < version_numbers(oldest->from_version)) oldest = &profile;
    if (!version.empty() && begins > version_numbers(version)) continue;
    if (last == nullptr || begins > version_numbers(last->from_version)) last = &profile;
  }
  if (last != nullptr) return *last;
  if (oldest != nullptr) return *oldest;
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  throw InputError("--engine", '"' + std::string(engine) + '"', describe_choices(word, names));
}

}  // namespace tracecast
