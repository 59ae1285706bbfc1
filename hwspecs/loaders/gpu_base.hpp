#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/gpu_spec.hpp"
#include "hwspecs/loaders/spec_text.hpp"

namespace tracecast::proto {
class GpuSpec;
}

namespace tracecast {

/// load_gpu_spec for files that may name a base, which `find` has.
[[nodiscard]] GpuSpec load_gpu_spec(std::string_view text, std::string_view where,
                                    const FindSpecText& find);

/// A spec whose values another one takes over where it states none.
struct SpecBase {
  std::string id, name;
};
/// What a spec is a variant of, the nearest first; nothing for one that stands alone.
[[nodiscard]] std::vector<SpecBase> bases_of(const SpecIdentity& spec);

/// Id of the spec that states an inherited value; empty: the spec itself does.
[[nodiscard]] std::string_view inherited_from(const SpecValue& value);

/// What a spec file says of itself, before its values are looked at.
struct GpuNames {
  std::string id, name;  ///< empty: none
  std::vector<std::string> aliases;
};
/// The names that a spec file gives its GPU. Throws InputError on bad syntax.
[[nodiscard]] GpuNames read_gpu_names(std::string_view text, std::string_view where);

/// Completes `message`, which names a base, with what it does not state itself: facts, peaks of
/// other precisions and units, the chip. Aliases stay the base's own. Sources of what it takes over
/// are called BASE/KEY, and each base is a source itself. Returns the bases, the nearest first;
/// none of a spec that stands alone.
///
/// What belongs together is inherited together: an own dram_gb_per_s or memory_type leaves the
/// base's memory clocks behind, an own tdp_w its limits of power. Refused is an own sm_count,
/// fp32_lanes_per_sm or boost_clock_mhz beside a peak of the base's (it holds at the base's), and
/// an own value that the die decides (architecture, compute_capability, process_nm, lanes,
/// schedulers) without an own chip: what is known of a chip must not pass to another one.
///
/// Throws InputError: no such base, bases in a circle, more than 8 of them, a base that cannot be
/// parsed, a key of an own source that would be taken for a base's.
[[nodiscard]] std::vector<SpecBase> inherit(proto::GpuSpec& message, std::string_view where,
                                            const FindSpecText& find);

}  // namespace tracecast
