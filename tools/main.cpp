#include <csignal>
#include <cstdint>
#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "tools/command/run_command.hpp"

namespace {

/// The heap in pages of 2 MB where the kernel has them (transparent_hugepage: madvise or always),
/// and kept until the end: a third of a prediction's time went into first touches of small pages
/// (llama2_70b 46 ms of CPU, 31 so).
void ask_for_large_pages() {
#ifdef __GLIBC__
  constexpr int kReserved = 64 << 20, kLargestFromHeap = 32 << 20;  // of addresses, not of memory
  mallopt(M_TOP_PAD, kReserved);
  mallopt(M_TRIM_THRESHOLD, 4 * kReserved);
  mallopt(M_MMAP_THRESHOLD, kLargestFromHeap);
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(sbrk(0)) + page - 1) / page * page;
  void* volatile first =
      std::malloc(1 << 20);  // more than the heap has left: it grows by what is reserved
  std::free(first);
  const auto end = reinterpret_cast<std::uintptr_t>(sbrk(0));
  if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  ask_for_large_pages();
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is the reader's choice; see write_report
  return tracecast::run_program({argv + (argc > 0 ? 1 : 0), argv + argc});
}
