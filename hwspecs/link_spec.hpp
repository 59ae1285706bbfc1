#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/loaders/catalog.hpp"
#include "hwspecs/loaders/spec_identity.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// C2c: NVLink-C2C, which joins a GPU to the CPU of its superchip. It is a way to the host as PCIe
/// is, and none of the GPU's NVLinks.
enum class LinkKind { Pcie, Nvlink, Socket, Ethernet, Infiniband, Ipoib, C2c };
[[nodiscard]] std::string_view to_string(LinkKind kind);

/// Public facts about one kind of link. A LinkSpec that exists is valid.
struct LinkSpec : SpecIdentity {
  LinkKind kind{};
  BytesPerSecond bandwidth{};  ///< each direction, after line coding
  Seconds latency{};           ///< one small message, one way
  /// Share of `bandwidth` that payload gets, where a document states it.
  std::optional<double> efficiency;
  bool bypasses_kernel = false;  ///< Ethernet whose messages no thread of the kernel's TCP copies
  bool reaches_gpus = false;  ///< such Ethernet, if the adapter reads and writes GPU memory itself
  std::vector<std::string> words;  ///< what published texts call a network of it, lower case

  /// Adapters read and write the memory of GPUs below the same switch (GPUDirect RDMA).
  [[nodiscard]] bool has_gpu_direct() const {
    return kind == LinkKind::Infiniband || (bypasses_kernel && reaches_gpus);
  }
  /// The kernel's TCP carries what goes over it: threads copy every byte.
  [[nodiscard]] bool is_tcp() const {
    return kind == LinkKind::Ipoib || (kind == LinkKind::Ethernet && !bypasses_kernel);
  }
};

/// Reads and checks one spec in text format (hwspecs/proto/link_spec.proto). `where` names it in
/// errors. Throws InputError with line or field: bad syntax, a missing value, a value without a
/// source or with an unknown one, or out of range.
[[nodiscard]] LinkSpec load_link_spec(std::string_view text, std::string_view where);

using LinkCatalog = Catalog<LinkSpec>;

}  // namespace tracecast
