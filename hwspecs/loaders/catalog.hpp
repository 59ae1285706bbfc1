#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace tracecast {

/// Every piece of hardware of one kind that there is a spec of. Words are compared without case,
/// '-', ' ', '.', '_' and brackets: "RTX 4090" is rtx4090. A word names a spec when it is its id,
/// name or alias, with or without the maker's words before it ("NVIDIA Tesla T4"), or else the
/// whole-word beginning of exactly one id ("h100_sxm5" for h100_sxm5_80gb). Spec is one of GpuSpec,
/// CpuSpec, DiskSpec, LinkSpec, MachineSpec.
template <class Spec>
class Catalog {
 public:
  /// The specs in the binary, each parsed when it is first asked for.
  [[nodiscard]] static Catalog embedded();

  /// Adds every *.textproto of `folder`, in name order; a spec whose id is known replaces it. Ends
  /// the life of references given out before. Throws InputError and leaves the catalog as it was:
  /// no such folder, a spec that is refused, an id twice in the folder, a spelling that names
  /// another spec already, more than 10000 files.
  void add_folder(const std::filesystem::path& folder);

  /// Every spec from now on as `change` makes it of what its file says: what if the hardware were
  /// other than it is. Ends the life of references alike.
  void change_all(std::function<Spec(Spec)> change);

  /// The spec that a word means. Throws InputError with the nearest word, or the ids that an
  /// ambiguous word may mean.
  [[nodiscard]] const Spec& find(std::string_view word) const;

  /// Sorted by id.
  [[nodiscard]] std::span<const Spec> all() const;

 private:
  struct State;
  explicit Catalog(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;  ///< shared by copies; what is not parsed yet is parsed in place
};

}  // namespace tracecast
