#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "hwspecs/gpu_spec.hpp"

namespace tracecast {

/// Reads and checks one spec in text format (hwspecs/proto/gpu_spec.proto). `where` names it in errors.
/// Throws InputError with line or field: bad syntax, a missing value, a value without a source or with an
/// unknown one, out of range, or at odds with another:
///   base and application clock <= boost clock, threads a multiple of the warp size,
///   |peak fp32 - sm_count * fp32_lanes_per_sm * 2 * boost| <= 3 %, no peak twice, tensor cores not slower than
///   CUDA cores in the same format.
[[nodiscard]] GpuSpec load_gpu_spec(std::string_view text, std::string_view where);

/// Every GPU there is a spec of. Words are compared without case; '-', ' ', '.' and '_' are one letter.
/// A word names a GPU when it is its id, name or alias, or else the whole-word beginning of exactly one GPU's id
/// ("h100_sxm5" for h100_sxm5_80gb).
class GpuCatalog {
 public:
  /// The specs in the binary, each parsed when it is first asked for.
  [[nodiscard]] static GpuCatalog embedded();
  GpuCatalog(GpuCatalog&&) noexcept;
  GpuCatalog& operator=(GpuCatalog&&) noexcept;
  ~GpuCatalog();

  /// Adds every *.textproto of `folder`, in name order; a spec whose id is known replaces it. Ends the life of
  /// references given out before. Throws InputError and leaves the catalog as it was: no such folder, a spec that
  /// is refused, an id twice in the folder, a spelling that names another GPU already, more than 10000 files.
  void add_folder(const std::filesystem::path& folder);

  /// Throws InputError with the nearest word, or the GPUs that an ambiguous word may mean.
  [[nodiscard]] const GpuSpec& find(std::string_view word) const;

  /// Sorted by id.
  [[nodiscard]] std::span<const GpuSpec> all() const;

 private:
  struct State;
  explicit GpuCatalog(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tracecast
