#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/gpu_spec.hpp"
#include "hwspecs/loaders/spec_identity.hpp"
#include "hwspecs/tensor_gemm_parameters.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// What a step of an engine holds.
enum class EngineBatching {
  Mixed,  ///< one token of each running sequence, and prompts with what is left of the budget
  PrefillFirst,  ///< prompts alone while some wait and fit, else one token of each running sequence
};
/// Pages of the cache that must be free before a request begins, beyond those of its prompt.
enum class EngineAdmission {
  AsNeeded,   ///< none but the watermark
  Estimated,  ///< a share of all outputs to come
  Reserved,   ///< all of them
};

/// How an inference engine batches, keeps its cache and spends its host's time. Values and sources,
/// and what is a guess: in hwspecs/engine.
struct EngineProfile : SpecIdentity {
  std::string engine, from_version;
  std::string known_version;  ///< newest one that the profile was made from; empty: not told
  double newer_log_sd = 0;    ///< that a newer one adds to `system_log_sd`
  std::optional<GemmEngine> kernels;
  std::string collectives;
  bool fuses_sums = true;    ///< norms add the residual
  bool early_gemms = false;  ///< as FrameworkKernels::early_gemms

  EngineBatching batching{};
  bool chunks_prompts = false;
  int tokens_per_step = 0, large_tokens_per_step = 0;
  int sequences = 0, large_sequences = 0;
  Bytes large_memory{};
  std::vector<std::string> large_except;  ///< parts of names of boards that are never large

  int block_tokens = 1;
  double watermark = 0;
  EngineAdmission admission{};
  double reserved_share = 0;
  bool preempts = false, caches_prefixes = false;

  double memory_share = 1;
  Bytes context{}, graph{};
  double logit_copies = 1;

  std::vector<int> graph_batches;  ///< rising; empty: no graphs
  int graph_tokens = 0;
  Seconds launch{}, library_call{}, prompt_call{}, step{}, sequence{}, request{}, context_token{};
  Seconds communication_hop{};  ///< of the GPU, around a collective outside graphs
  double renewed_seconds_per_byte =
      0;                      ///< of communicated tensors that do not fit beside the cache
  std::string reference_cpu;  ///< id of the CPU that these times of the host belong to
  Seconds frontend{};  ///< between a client and the engine's queue, once a request; not on the
                       ///< engine's path
  bool overlaps_host = false;
  double host_log_sd = 0, system_log_sd = 0;
  double load_share = 0,
         place_share = 0;  ///< of the errors' variance, alike at other loads, and elsewhere

  /// Large boards have budgets of their own.
  [[nodiscard]] bool is_large(const GpuSpec& gpu) const;
  [[nodiscard]] int tokens_of(const GpuSpec& gpu) const {
    return is_large(gpu) ? large_tokens_per_step : tokens_per_step;
  }
  [[nodiscard]] int sequences_of(const GpuSpec& gpu) const {
    return is_large(gpu) ? large_sequences : sequences;
  }
  /// `version` is newer than all that the profile was made from.
  [[nodiscard]] bool is_newer(std::string_view version) const;
  /// The same with times of the host as one thread of another CPU takes them, `slower` times as
  /// long.
  [[nodiscard]] EngineProfile on_host(double slower) const;
  /// The captured batch that `sequences` run in; nothing: more than the largest.
  [[nodiscard]] std::optional<int> graph_of(int sequences) const;
};

/// Reads text format (hwspecs/proto/engine_profile.proto); `where` names it in errors. Throws
/// InputError.
[[nodiscard]] EngineProfile parse_engine_profile(std::string_view text, std::string_view where);
/// Of `profiles` the one of that id or alias; or of `engine` the last that begins no later than
/// `version` (empty: the newest; older than all: the oldest). Throws InputError with the nearest
/// word. Usually through SpecLibrary::find_engine.
[[nodiscard]] const EngineProfile& find_engine_profile(std::span<const EngineProfile> profiles,
                                                       std::string_view engine,
                                                       std::string_view version = "");

}  // namespace tracecast
