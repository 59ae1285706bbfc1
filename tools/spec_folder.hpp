#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "hwspecs/catalog.hpp"

namespace tracecast {

/// The catalog in the binary and what `--hwspecs FOLDER` adds: GPUs stand in the folder itself (`kind` empty), other
/// hardware in its sub-folder `kind`, where there is one. Throws InputError.
template <class Spec>
[[nodiscard]] Catalog<Spec> load_catalog(const std::string& folder, std::string_view kind) {
  Catalog<Spec> catalog = Catalog<Spec>::embedded();
  if (folder.empty()) return catalog;
  const std::filesystem::path outer(folder), inner = outer / kind;
  // A folder that is not there is refused even when its sub-folder would be left out.
  if (kind.empty() || std::filesystem::is_directory(inner) || !std::filesystem::exists(outer)) {
    catalog.add_folder(kind.empty() ? outer : inner);
  }
  return catalog;
}

}  // namespace tracecast
