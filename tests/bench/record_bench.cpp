// What the recorder itself costs for each record of CUPTI's: a program of 2e5 launches (a kernel
// and a call each, 200 kernel names of 300 letters) written to a stream, and the stream turned into
// a trace. CUPTI's own cost comes on top; it needs a GPU.
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/bench/bench.hpp"
#include "tests/support/temporary_folder.hpp"
#include "traces/cupti/buffer_pool.hpp"
#include "traces/cupti/cupti_api.hpp"
#include "traces/cupti/record_encoder.hpp"
#include "traces/cupti/recorded_process.hpp"
#include "traces/cupti/stream_writer.hpp"

namespace {

using namespace tracecast;
using namespace tracecast::traces::cupti;
namespace fs = std::filesystem;

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (int i = 0; i < 200; ++i) {
    names.push_back("kernel_" + std::to_string(i) + std::string(290, 'x'));
  }
  return names;
}

Api fake_api() {
  Api api;
  api.get_callback_name = [](CallbackDomain, std::uint32_t, const char** name) {
    return *name = "cudaLaunchKernel_v7000", kSuccess;
  };
  return api;
}

/// As a record lies in CUPTI's buffer.
template <class Record>
void encode(RecordEncoder& encoder, const Record& record) {
  alignas(8) std::byte bytes[sizeof record];
  std::memcpy(bytes, &record, sizeof record);
  encoder.write(*reinterpret_cast<const Activity*>(bytes));
}

void write_stream(const fs::path& path, std::size_t launches,
                  const std::vector<std::string>& names) {
  const Api api = fake_api();
  StreamWriter writer(path.string());
  writer.add(ProcessRecord{.begin = 0,
                           .pid = 1,
                           .cupti_version = 130001,
                           .rank = -1,
                           .world_size = -1,
                           .timing = Timing::Cupti,
                           .refusal = 0});
  RecordEncoder encoder(api, writer);
  KernelActivity kernel{};
  kernel.kind = ActivityKind::ConcurrentKernel;
  kernel.stream = 7;
  ApiActivity call{};
  call.kind = ActivityKind::Runtime;
  call.callback_id = 211;
  call.thread = 9;
  for (std::size_t i = 0; i < launches; ++i) {
    call.start = 10'000 * (i + 1);
    call.end = call.start + 4000;
    call.correlation = kernel.correlation = static_cast<std::uint32_t>(i + 1);
    encode(encoder, call);
    kernel.start = call.start + 5000;
    kernel.end = kernel.start + 9000;
    kernel.name = names[i % names.size()].c_str();
    encode(encoder, kernel);
  }
  writer.add(EndRecord{1});
}

void bench_writing(bool smoke) {
  const std::size_t launches = smoke ? 10'000 : 200'000;
  const test::TemporaryFolder folder;
  const std::vector<std::string> names = kernel_names();
  bench::Stopwatch watch, conversion;
  for (int repeat = 0; repeat < (smoke ? 1 : 6); ++repeat) {
    const fs::path path = folder.path() / (std::to_string(repeat) + ".stream");
    const bool is_timed = smoke || repeat > 0;
    if (is_timed) watch.start();
    write_stream(path, launches, names);
    if (is_timed) watch.stop();
    const RecordedProcess process = scan_stream(path);
    bench::check(process.kernels == launches && process.calls == launches, "every record is there");
    if (is_timed) conversion.start();
    write_trace(process, folder.path() / "out.json", "");
    if (is_timed) conversion.stop();
    fs::remove(path);
  }
  watch.print("record: CUPTI records to the stream", "record", 2.0 * static_cast<double>(launches));
  conversion.print("record: stream to trace", "record", 2.0 * static_cast<double>(launches));
}

/// What a thread of the program spends in our callbacks, once for each buffer of about 5000
/// kernels.
void bench_buffers(bool smoke) {
  const int rounds = smoke ? 1000 : 1'000'000;
  BufferPool pool(4);
  bench::Stopwatch watch;
  for (int repeat = 0; repeat < (smoke ? 1 : 5); ++repeat) {
    watch.start();
    for (int i = 0; i < rounds; ++i) {
      std::uint8_t* bytes = pool.take_empty();
      pool.put_filled({bytes, 64});
      FilledBuffer filled;
      bench::check(pool.wait_filled(filled, std::chrono::steady_clock::time_point::max()) ==
                       BufferPool::Event::Filled,
                   "a filled buffer comes back");
      pool.put_empty(filled.bytes);
    }
    watch.stop();
  }
  watch.print("record: a buffer's round through the pool", "buffer", rounds);
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = bench::is_smoke(argc, argv);
  bench_writing(smoke);
  bench_buffers(smoke);
}
