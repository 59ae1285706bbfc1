#include "models/lowering/alike.hpp"

#include <bit>
#include <unordered_map>

namespace tracecast::lowering {
namespace {

/// Whether the library would choose alike for both, at the same price.
bool are_alike(const LoweredOp& a, const LoweredOp& b) {
  return a.policy == b.policy && a.workspace_limit == b.workspace_limit &&
         a.candidates == b.candidates;
}

/// FNV-1a over 64-bit words: what most tells ops apart.
std::uint64_t hash_of(const LoweredOp& op) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](std::uint64_t word) { hash = (hash ^ word) * 0x100000001b3; };
  add(op.candidates.size());
  for (const Candidate& candidate : op.candidates) {
    add(candidate.kernels.size());
    if (candidate.kernels.empty()) continue;
    const Kernel& last = candidate.kernels.back();
    add(static_cast<std::uint64_t>(last.kernel_class));
    add(std::bit_cast<std::uint64_t>(last.flops.in_flop()));
    add(std::bit_cast<std::uint64_t>(last.bytes().in_bytes()));
  }
  return hash ^ (hash >> 32);
}

}  // namespace

std::vector<std::uint32_t> find_alike(const std::vector<LoweredOp>& ops) {
  constexpr std::uint32_t kNone = UINT32_MAX;
  const auto count = static_cast<std::uint32_t>(ops.size());
  std::vector<std::uint32_t> first(count), next(count, kNone);  // next: another one of that hash
  std::unordered_map<std::uint64_t, std::uint32_t> latest;
  latest.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    first[i] = i;
    const auto [found, is_new] = latest.try_emplace(hash_of(ops[i]), i);
    if (is_new) continue;
    std::uint32_t other = found->second;
    while (other != kNone && !are_alike(ops[other], ops[i])) other = next[other];
    if (other != kNone) {
      first[i] = other;
    } else {
      next[i] = found->second;
      found->second = i;
    }
  }
  return first;
}

}  // namespace tracecast::lowering
