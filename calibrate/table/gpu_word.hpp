#pragma once
#include <string_view>

namespace tracecast {

/// What a table means by a GPU's name: tables use a short form for another board than
/// GpuCatalog::find takes it for. `table`: its file's name, packed or not. The word itself where
/// the table has no meaning of its own for it.
[[nodiscard]] std::string_view gpu_word(std::string_view word, std::string_view table);

}  // namespace tracecast
