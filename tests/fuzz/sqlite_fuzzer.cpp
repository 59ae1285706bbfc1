#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "sim/base/error.hpp"
#include "traces/open.hpp"
#include "traces/summary.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {

constexpr std::size_t kHeader = 100;

std::size_t page_bytes(const std::uint8_t* data) {
  const std::size_t reported = static_cast<std::size_t>(data[16]) << 8 | data[17];
  const std::size_t bytes = reported == 1 ? 65536 : reported;
  return bytes >= 512 && (bytes & (bytes - 1)) == 0 ? bytes : 4096;
}

}  // namespace

/// Mutates within one page, or lets pages stand in each other's place; the file keeps its length
/// and its name, so that SQLite gets as far as the tables.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  if (size < kHeader || seed % 16 == 0) return LLVMFuzzerMutate(data, size, most);
  const std::size_t page = page_bytes(data);
  const std::size_t pages = std::max<std::size_t>(size / page, 1);
  const std::size_t one = seed / 16 % pages, other = seed / 4096 % pages;
  std::uint8_t* at = data + one * page;
  const std::size_t length = std::min(page, size - one * page);
  const std::size_t skipped = one == 0 ? std::min(kHeader, length) : 0;
  switch (seed % 4) {
    case 0:
      if (one != 0 && other != 0 && (std::max(one, other) + 1) * page <= size)
        std::memcpy(at, data + other * page, page);
      break;
    case 1:  // the b-tree's head: kind, cells, where they begin, the rightmost page, pointers to
             // cells
      if (length - skipped > 24) (void)LLVMFuzzerMutate(at + skipped, 24, 24);
      break;
    case 2:  // a number of a page or a length somewhere
      if (length > skipped + 4) {
        const std::size_t place = skipped + seed / 64 % (length - skipped - 4);
        const std::uint8_t number[] = {0, 0, 0, static_cast<std::uint8_t>(other + 1)};
        std::memcpy(at + place, number, sizeof number);
      }
      break;
    default:
      if (length > skipped)
        (void)LLVMFuzzerMutate(at + skipped, length - skipped, length - skipped);
  }
  return size;
}

/// A database as the commands open it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tracecast;
  static const traces::KernelNames names = traces::KernelNames::builtin();
  const int file = memfd_create("export", 0);
  if (file < 0 || write(file, data, size) != static_cast<ssize_t>(size)) std::abort();
  try {
    const traces::Recording recording =
        traces::read_recording("/proc/self/fd/" + std::to_string(file));
    for (const traces::Trace& trace : recording.traces) (void)traces::summarize(trace, names);
  } catch (const InputError&) {
  }
  close(file);
  return 0;
}
