#include <cstddef>
#include <cstdint>
#include <string>

#include "sim/base/error.hpp"
#include "tests/traces/text_source.hpp"
#include "traces/kineto/reader.hpp"
#include "traces/summary.hpp"

/// A trace, read in small pieces so that tokens meet the window's end, and what it says.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tracecast;
  static const traces::KernelNames names = traces::KernelNames::builtin();
  test::TextSource source(std::string(reinterpret_cast<const char*>(data), size), 97);
  try {
    (void)traces::summarize(traces::read_kineto(source, "fuzz"), names);
  } catch (const InputError&) {
  }
  return 0;
}
