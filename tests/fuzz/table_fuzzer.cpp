#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "calibrate/table/csv_reader.hpp"
#include "sim/base/error.hpp"

/// Plain or gzip, as its first bytes say.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int file = memfd_create("table", 0);
  if (file < 0 || write(file, data, size) != static_cast<ssize_t>(size)) std::abort();
  try {
    tracecast::CsvReader reader("/proc/self/fd/" + std::to_string(file));
    while (reader.next()) {
      for (std::size_t column = 0; column < reader.header().size(); ++column) {
        (void)reader.field(column);
      }
    }
  } catch (const tracecast::InputError&) {
  }
  close(file);
  return 0;
}
