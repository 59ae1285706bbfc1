#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hwspecs/loaders/gpu_loader.hpp"
#include "sim/base/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    (void)tracecast::load_gpu_spec(text, "input");
  } catch (const tracecast::InputError&) {
  }
  return 0;
}
