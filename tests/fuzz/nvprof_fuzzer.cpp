#include <cstddef>
#include <cstdint>
#include <string>

#include "sim/base/error.hpp"
#include "tests/traces/text_source.hpp"
#include "traces/nvprof/reader.hpp"
#include "traces/summary.hpp"

/// A log, and what it says.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tracecast;
  static const traces::KernelNames names = traces::KernelNames::builtin();
  test::TextSource source(std::string(reinterpret_cast<const char*>(data), size), 97);
  try {
    (void)traces::summarize(traces::read_nvprof(source, "fuzz"), names);
  } catch (const InputError&) {
  }
  return 0;
}
