#include <cstddef>
#include <cstdint>
#include <string_view>

#include "models/onnx/import.hpp"
#include "sim/base/error.hpp"

/// The last byte, which is the file's like all others, also chooses what is asked of the file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  tracecast::OnnxOptions options;
  const std::uint8_t choice = data[size - 1];
  options.batch = choice & 1 ? 4 : 1;
  options.training = choice & 2;
  if (choice & 4) options.image_size = 64;
  if (choice & 8) options.seq_len = 128;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    (void)tracecast::import_onnx(bytes, "input.onnx", options);
  } catch (const tracecast::InputError&) {
  }
  return 0;
}
