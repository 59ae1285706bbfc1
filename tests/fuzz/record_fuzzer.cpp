#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "sim/base/error.hpp"
#include "tests/traces/text_source.hpp"
#include "traces/record/reader.hpp"
#include "traces/record/writer.hpp"
#include "traces/summary.hpp"

/// A file of our own form: read through, from its index, and written again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tracecast;
  static const traces::KernelNames names = traces::KernelNames::builtin();
  test::TextSource source(std::string(reinterpret_cast<const char*>(data), size), 97);
  try {
    const traces::Recording recording = traces::read_records(source, "fuzz");
    for (const traces::Trace& trace : recording.traces) (void)traces::summarize(trace, names);
    traces::write_records(recording, [](std::string_view) {});
  } catch (const InputError&) {
  }
  const int file = memfd_create("records", 0);
  if (file < 0 || write(file, data, size) != static_cast<ssize_t>(size)) std::abort();
  try {
    (void)traces::read_records_within("/proc/self/fd/" + std::to_string(file), {0, 1'000'000});
  } catch (const InputError&) {
  }
  close(file);
  return 0;
}
