#include <cstddef>
#include <cstdint>
#include <string_view>

#include "models/encoder/config.hpp"
#include "models/language/config.hpp"
#include "sim/base/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    if (tracecast::encoder_family(text).empty()) {
      (void)tracecast::read_config_json(text, "input");
    } else {
      (void)tracecast::read_encoder_config(text, "input", {});
    }
  } catch (const tracecast::InputError&) {
  }
  return 0;
}
