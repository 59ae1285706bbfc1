#include <cstddef>
#include <cstdint>
#include <string_view>

#include "models/aten/import.hpp"
#include "sim/base/error.hpp"

/// A graph file, or where it begins as JSON does an exported program.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    (void)tracecast::import_aten(text, text.starts_with('{') ? "input.pt2" : "input.graph",
                                 {.training = true});
  } catch (const tracecast::InputError&) {
  }
  return 0;
}
