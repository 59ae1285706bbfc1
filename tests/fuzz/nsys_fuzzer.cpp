#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "sim/base/error.hpp"
#include "traces/nsys/reader.hpp"
#include "traces/summary.hpp"

/// A database file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tracecast;
  static const traces::KernelNames names = traces::KernelNames::builtin();
  const int file = memfd_create("export", 0);
  if (file < 0 || write(file, data, size) != static_cast<ssize_t>(size)) std::abort();
  try {
    (void)traces::summarize(traces::read_nsys("/proc/self/fd/" + std::to_string(file)), names);
  } catch (const InputError&) {
  }
  close(file);
  return 0;
}
