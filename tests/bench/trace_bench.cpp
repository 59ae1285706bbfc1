// Work: reading a Kineto trace of 53.7 MB (unpacked), plain and from gzip, and summarising it;
// checking and writing a timeline of a million slices. Needs the measured data; without them, and
// for the smoke run, a made-up trace of the same make.
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "sim/base/file.hpp"
#include "tests/bench/bench.hpp"
#include "tests/support/temporary_folder.hpp"
#include "traces/bytes/byte_source.hpp"
#include "traces/chrome/writer.hpp"
#include "traces/open.hpp"
#include "traces/summary.hpp"

namespace {

using namespace tracecast;

/// `launches` operators, each with its call, arrows and kernel.
std::string made_up_trace(int launches) {
  std::string text = "{\"schemaVersion\": 1, \"traceEvents\": [";
  const auto event = [&text](const char* phase, const char* category, const char* name, long ts,
                             const std::string& rest) {
    if (!text.ends_with('[')) text += ",\n";
    text += std::string("  {\n    \"ph\": \"") + phase + "\", \"cat\": \"" + category +
            "\", \"name\": \"" + name + "\", \"pid\": 1, \"tid\": 7,\n    \"ts\": 16697836" +
            std::to_string(10'000'000 + ts) + rest + "\n  }";
  };
  for (int i = 1; i <= launches; ++i) {
    const std::string id = std::to_string(i);
    event("X", "cpu_op", "aten::addmm", 20L * i,
          ", \"dur\": 15,\n    \"args\": {\n      \"External id\": " + id + ",\"Ev Idx\": " + id +
              ", \"Input Dims\": [[512], [64, 1024], [1024, 512]], \"Input type\": [\"float\", "
              "\"float\", \"float\"]\n    }");
    event("X", "cuda_runtime", "cudaLaunchKernel", 20L * i + 5,
          ", \"dur\": 6,\n    \"args\": {\n      \"External id\": " + id +
              ", \"cbid\": 211, \"correlation\": " + id + "\n    }");
    event("s", "ac2g", "ac2g", 20L * i + 5, ", \"id\": " + id);
    event("f", "ac2g", "ac2g", 20L * i + 9, ", \"id\": " + id + ", \"bp\": \"e\"");
    event(
        "X", "kernel", "volta_sgemm_64x64_nt", 20L * i + 9,
        ", \"dur\": 8,\n    \"args\": {\n      \"External id\": " + id +
            ", \"queued\": 0, \"device\": 0, \"context\": 1, \"stream\": 7, \"correlation\": " +
            id +
            ", \"registers per thread\": 96, \"shared memory\": 8192, \"blocks per SM\": 0.8, "
            "\"warps per SM\": 3.2, "
            "\"grid\": [8, 8, 1], \"block\": [64, 1, 1], \"est. achieved occupancy %\": 12\n    }");
  }
  return text + "]}\n";
}

void time_reading(const std::string& name, const std::filesystem::path& file, double megabytes,
                  int repeats) {
  bench::Stopwatch watch;
  for (int repeat = 0; repeat <= repeats; ++repeat) {
    if (repeat > 0) watch.start();  // the first one warms up
    const traces::Recording recording = traces::read_recording(file);
    if (repeat > 0) watch.stop();
    bench::check(!recording.traces.front().kernels.span.empty(), "the trace has kernels");
  }
  watch.print(name, "MB", megabytes);
}

void time_summary(const std::filesystem::path& file, int repeats) {
  bench::Stopwatch watch;
  for (int repeat = 0; repeat <= repeats; ++repeat) {
    if (repeat > 0) watch.start();
    const traces::Recording recording = traces::read_recording(file);
    const traces::Summary summary =
        traces::summarize(recording.traces.front(), traces::KernelNames::builtin());
    if (repeat > 0) watch.stop();
    bench::check(summary.busy_ns > 0 && summary.busy_ns <= summary.span_ns,
                 "busy is a part of the span");
  }
  watch.print("trace_read_and_summarise", "trace", 1);
}

/// Unpacks `packed` to `plain`; its size in MB.
double unpack(const std::filesystem::path& packed, const std::filesystem::path& plain) {
  const auto source = traces::open_file(packed);
  std::string text(std::size_t{80} << 20, '\0');
  std::size_t size = 0;
  while (const std::size_t count = source->read(text.data() + size, text.size() - size))
    size += count;
  text.resize(size);
  write_file(plain, text);
  return static_cast<double>(size) * 1e-6;
}

/// A timeline of `slices` slices: launches and kernels, an arrow for each pair.
Timeline made_up_timeline(std::uint32_t slices) {
  Timeline timeline;
  timeline.names = {"", "cudaLaunchKernel", "volta_scudnn_128x64_relu_interior_nn_v1"};
  timeline.tracks = {{TimelineTrack::Kind::HostThread, 0, 0, "dispatch", false},
                     {TimelineTrack::Kind::Stream, 0, 7, "compute", false}};
  for (std::uint32_t i = 0; i + 1 < slices; i += 2) {
    const std::int64_t begin = std::int64_t{i} * 5'000'000;
    timeline.slices.push_back(
        {SliceKind::Call, KernelClass::Other, 0, 1, i / 2 + 1, begin, 4'123'000, 0});
    timeline.slices.push_back({SliceKind::Kernel, KernelClass::Convolution, 1, 2, i / 2 + 1,
                               begin + 5'000'000, 9'456'000, 0});
    timeline.flows.push_back({i, i + 1});
  }
  return timeline;
}

void time_writing(const std::filesystem::path& file, std::uint32_t slices, int repeats) {
  const Timeline timeline = made_up_timeline(slices);
  bench::Stopwatch watch;
  for (int repeat = 0; repeat <= repeats; ++repeat) {
    if (repeat > 0) watch.start();
    traces::write_chrome_trace(timeline, file);
    if (repeat > 0) watch.stop();
  }
  const traces::Recording recording = traces::read_recording(file);
  bench::check(recording.traces.front().kernels.size() == slices / 2, "every kernel is read back");
  watch.print("trace_write", "slices", slices);
}

double peak_memory_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024e-6;
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = bench::is_smoke(argc, argv);
  const int repeats = smoke ? 1 : 11;
  const test::TemporaryFolder folder;
  const char* root = std::getenv("TRACECAST_DATA");
  const std::filesystem::path packed =
      std::filesystem::path(root != nullptr ? root : "../shared/data") /
      "traces/kineto/hta_2xv100_allreduce2020_5steps.json.gz";
  const std::filesystem::path plain = folder.path() / "plain.json";
  const bool is_real = !smoke && std::filesystem::exists(packed);
  if (is_real) {
    // First and alone, so that the peak is that of reading.
    (void)traces::read_recording(packed);
    std::printf("{\"bench\":\"trace_read_memory\",\"peak_mb\":%.1f}\n", peak_memory_mb());
  }
  double megabytes = 0;
  if (is_real) {
    megabytes = unpack(packed, plain);
    time_reading("trace_read_gzip", packed, megabytes, repeats);
  } else {
    const std::string text = made_up_trace(smoke ? 1000 : 60'000);
    write_file(plain, text);
    megabytes = static_cast<double>(text.size()) * 1e-6;
  }
  time_reading(is_real ? "trace_read_plain" : "trace_read_made_up", plain, megabytes, repeats);
  time_summary(is_real ? packed : plain, repeats);
  time_writing(folder.path() / "written.json", smoke ? 2'000 : 1'000'000, smoke ? 1 : 5);
}
