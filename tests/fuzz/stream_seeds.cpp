#include <filesystem>
#include <string>

#include "traces/cupti/cupti_api.hpp"
#include "traces/cupti/stream_writer.hpp"

/// stream_seeds FOLDER: a stream that holds a record of every kind, and one of a recording that was
/// refused.
int main(int argc, char** argv) {
  using namespace tracecast::traces::cupti;
  if (argc < 2) return 2;
  const std::filesystem::path folder = argv[1];
  {
    StreamWriter writer((folder / "whole").string());
    writer.add(ProcessRecord{1000, 5, 18, 3, 8, Timing::Cupti, 0});
    const std::uint32_t gpu = writer.name("Tesla V100"), range = writer.name("step 7 \"\xC3\xBC\"");
    const std::uint32_t kernel = writer.name("_Z3addPfi"),
                        call = writer.name("cudaLaunchKernel_v7000");
    writer.add(DeviceRecord{16ull << 30, 0, 7, 0, 80, 32, 2048, 65536, 98304, gpu, 12080});
    writer.add(MarkerRecord{1500, kMarkerStart, 1, range, 11});
    writer.add(CallRecord{1550, 1750, call, 11, 21, 0});
    writer.add(CallRecord{1600, 1700, call, 11, 21, 1});
    writer.add(KernelRecord{2000, 3001, kernel, 0, 7, 21, {8, 2, 1}, {32, 4, 1}, 1024, 40});
    writer.add(CopyRecord{3100, 3200, 4096, 0, 7, 22, 1, 1, 3, 0});
    writer.add(MemsetRecord{3300, 3400, 512, 0, 7, 23, 0});
    writer.add(EventRecord{30, 7, 2, 0});
    writer.add(SyncRecord{3500, 3910, 2, 31, 13, 2});
    writer.add(OverheadRecord{4000, 4100, 1, 11});
    writer.add(MarkerRecord{4500, kMarkerEnd, 1, 0, 11});
    writer.add(LossRecord{3, writer.name("records dropped"), 0});
    writer.add(EndRecord{5000});
  }
  StreamWriter writer((folder / "refused").string());
  writer.add(ProcessRecord{1, 5, 12, -1, -1, Timing::Events, writer.name("no privileges")});
}
