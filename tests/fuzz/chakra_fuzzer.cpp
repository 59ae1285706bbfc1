#include <cstddef>
#include <cstdint>
#include <string>

#include "sim/base/error.hpp"
#include "tests/traces/text_source.hpp"
#include "traces/chakra/reader.hpp"
#include "traces/summary.hpp"

/// One input as a binary trace and as JSON of both kinds.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tracecast;
  static const traces::KernelNames names = traces::KernelNames::builtin();
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  for (const auto reader :
       {traces::read_chakra, traces::read_chakra_json, traces::read_execution_trace}) {
    test::TextSource source(bytes, 97);
    try {
      (void)traces::summarize(reader(source, "fuzz"), names);
    } catch (const InputError&) {
    }
  }
  return 0;
}
