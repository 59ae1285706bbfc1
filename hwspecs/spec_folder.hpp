#pragma once
#include <filesystem>
#include <span>
#include <string_view>

#include "hwspecs/catalog.hpp"

namespace tracecast {

/// The catalog in the binary and what folders (`--hwspecs`) add, later ones first: GPUs stand in the folder itself (`kind` empty), other
/// hardware in its sub-folder `kind`, where there is one. Throws InputError.
template <class Spec>
[[nodiscard]] Catalog<Spec> load_catalog(std::span<const std::filesystem::path> folders,
                                         std::string_view kind) {
  Catalog<Spec> catalog = Catalog<Spec>::embedded();
  for (const std::filesystem::path& outer : folders) {
    const std::filesystem::path inner = outer / kind;
    // A folder that is not there is refused even when its sub-folder would be left out.
    if (kind.empty() || std::filesystem::is_directory(inner) || !std::filesystem::exists(outer)) {
      catalog.add_folder(kind.empty() ? outer : inner);
    }
  }
  return catalog;
}

}  // namespace tracecast
