#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "hwspecs/gpu_spec.hpp"
#include "hwspecs/software/engine_profile.hpp"
#include "models/language/forward.hpp"
#include "sim/base/units.hpp"

namespace tracecast::serve {

struct MemoryOptions {
  std::optional<double> memory_share{};  ///< in place of the engine's
  std::optional<std::int64_t> tokens_per_step{};
  std::optional<std::int64_t> sequences{};
};

/// What the fullest GPU of a replica holds.
struct ServedMemory {
  Bytes board{}, budget{};  ///< all of it, and what the engine takes
  Bytes weights{}, activations{}, graphs{}, context{}, buffers{};
  Bytes cache{};                  ///< what is left; negative: so much is missing
  Bytes cache_token{};            ///< of one token of a long sequence
  Bytes cache_sequence{};         ///< of a sequence whatever its length
  std::int64_t cache_tokens = 0;  ///< in whole pages
  [[nodiscard]] bool fits() const { return cache_tokens > 0; }
};

/// budget = share of the board's memory that programs see; cache = budget - weights - activations -
/// graphs - context - buffers.
///   activations = rows (in and out of the widest feed-forward + 2 width) 2 bytes + sequences words
///   4 bytes logit_copies buffers     = 2 x 8 MiB per peer where ranks sum (staging of all-reduces)
/// Layers with a window count up to it in the length of a sequence of `usual_tokens`.
[[nodiscard]] ServedMemory served_memory(const ServedNetwork& served, const EngineProfile& engine,
                                         const GpuSpec& gpu, const MemoryOptions& options,
                                         std::int64_t usual_tokens);

/// The smallest changes that would make it fit, in words: 8-bit weights on as many GPUs, and more
/// tensor ranks or stages.
[[nodiscard]] std::string smallest_change(const ServedNetwork& served, const EngineProfile& engine,
                                          const GpuSpec& gpu, const MemoryOptions& options,
                                          std::int64_t least_tokens);

}  // namespace tracecast::serve
