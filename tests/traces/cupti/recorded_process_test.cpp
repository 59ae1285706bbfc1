#include "traces/cupti/recorded_process.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "tests/support/temporary_folder.hpp"
#include "traces/cupti/cupti_api.hpp"
#include "traces/cupti/stream_writer.hpp"
#include "traces/open.hpp"

namespace tracecast::traces::cupti {
namespace {

namespace fs = std::filesystem;

/// A process that began at 1000 ns: two kernels, a range around them, a driver call within a
/// runtime call, an event that is recorded twice and awaited between, three dropped records.
void write_stream(const fs::path& path, bool is_whole = true) {
  StreamWriter writer(path.string());
  REQUIRE(writer.is_open());
  writer.add(ProcessRecord{1000, 5, 18, 3, 8, Timing::Cupti, 0});
  const std::uint32_t range = writer.name("step 7 \"\xC3\xBC\" \x01"),
                      kernel = writer.name("_Z3addPfi");
  const std::uint32_t launch = writer.name("cudaLaunchKernel_ptsz_v7000"),
                      inner = writer.name("cuLaunchKernel");
  writer.add(MarkerRecord{1500, kMarkerStart, 1, range, 11});
  writer.add(CallRecord{1600, 1700, inner, 11, 21, 1});
  writer.add(CallRecord{1550, 1750, launch, 11, 21, 0});
  writer.add(CallRecord{1760, 1770, inner, 11, 22, 1});  // the program's own
  writer.add(KernelRecord{2000, 3001, kernel, 0, 7, 21, {8, 2, 1}, {32, 4, 1}, 1024, 40});
  writer.add(KernelRecord{3001, 4000, kernel, 1, 7, 22, {8, 2, 1}, {32, 4, 1}, 1024, 40});
  writer.add(EventRecord{30, 7, 2, 0});
  writer.add(SyncRecord{1900, 1910, 2, 31, 13, 2});
  writer.add(EventRecord{32, 9, 2, 0});
  writer.add(MarkerRecord{4500, kMarkerEnd, 1, 0, 11});
  const std::uint32_t dropped = writer.name("records dropped");
  writer.add(LossRecord{1, dropped, 0});
  writer.add(LossRecord{3, dropped, 0});
  if (is_whole) writer.add(EndRecord{5000});
}

Trace convert(const fs::path& stream, const std::string& steps = "") {
  const fs::path out = stream.parent_path() / "out.json.gz";
  write_trace(scan_stream(stream), out, steps);
  Recording recording = read_recording(out);
  REQUIRE(recording.traces.size() == 1);
  return std::move(recording.traces.front());
}

TEST_SUITE_BEGIN("traces/cupti/recorded_process");

TEST_CASE("what was recorded reads back to the nanosecond") {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "5.stream";
  write_stream(path);
  const RecordedProcess process = scan_stream(path);
  CHECK(process.pid == 5);
  CHECK(process.rank == 3);
  CHECK(process.world_size == 8);
  CHECK(process.kernels == 2);
  CHECK_FALSE(process.is_cut_short);
  CHECK(process.losses.at("records dropped") == 3);

  const Trace trace = convert(path);
  CHECK(trace.format == "tracecast recording");
  CHECK(trace.epoch_ns == 1000);
  CHECK(trace.rank == 3);
  REQUIRE(trace.kernels.size() == 2);
  CHECK(trace.kernels.span[0] == Span{1000, 1001});
  CHECK(trace.kernels.span[1] == Span{2001, 999});
  CHECK(trace[trace.kernels.name[0]] == "add(float*, int)");
  CHECK(trace.streams.size() == 2);
  const Geometry& geometry = trace.geometries[trace.kernels.geometry[0].index];
  CHECK(geometry.grid == std::array<std::uint32_t, 3>{8, 2, 1});
  CHECK(geometry.block == std::array<std::uint32_t, 3>{32, 4, 1});
  CHECK(geometry.shared_bytes == 1024);
  REQUIRE(trace.calls.size() == 2);
  CHECK(trace[trace.calls.name[0]] == "cudaLaunchKernel");
  CHECK(trace.calls.span[0] == Span{550, 200});
  CHECK(trace[trace.calls.name[1]] == "cuLaunchKernel");
  REQUIRE(trace.syncs.size() == 1);
  CHECK(trace.syncs.kind[0] == SyncKind::StreamWaitEvent);
  CHECK(trace.syncs.stream[0] == 13);
  CHECK(trace.syncs.awaited_stream[0] == 7);
  CHECK(trace.syncs.awaited_record[0] == 30);
  REQUIRE(trace.marks.size() == 1);
  CHECK(trace[trace.marks.name[0]] == "step 7 \"\xC3\xBC\" \x01");
  CHECK(trace.marks.span[0] == Span{500, 3000});
  REQUIRE(trace.left_out.size() == 1);
  CHECK(trace.left_out.begin()->first == "while recording: records dropped");
  CHECK(trace.left_out.begin()->second.count == 3);
}

TEST_CASE("ranges of a prefix become steps") {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "5.stream";
  write_stream(path);
  const Trace steps = convert(path, "step"), none = convert(path, "other");
  CHECK(steps[steps.marks.name[0]] == "ProfilerStep#0");
  CHECK(none[none.marks.name[0]] != "ProfilerStep#0");
}

TEST_CASE("a range whose name is no UTF-8 leaves a file that JSON readers take") {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "1.stream";
  {
    StreamWriter writer(path.string());
    writer.add(ProcessRecord{});
    writer.add(MarkerRecord{1, kMarkerStart, 1, writer.name("a\xFF\xC3z"), 1});
    writer.add(MarkerRecord{2, kMarkerEnd, 1, 0, 1});
  }
  const Trace trace = convert(path);
  CHECK(trace[trace.marks.name[0]] == "a\uFFFD\uFFFDz");
}

TEST_CASE("names beyond the bound are forgotten and written again") {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "1.stream";
  constexpr int kNames = 70'000;  // of which 65536 are kept
  {
    StreamWriter writer(path.string());
    writer.add(ProcessRecord{});
    for (int i = 0; i < kNames; ++i) {
      const std::uint32_t name = writer.name(("kernel " + std::to_string(i)).c_str());
      writer.add(KernelRecord{1, 2, name, 0, 7, 1, {}, {}, 0, 0});
    }
    const std::uint32_t first = writer.name("kernel 0");
    CHECK(first > kNames);
    CHECK(writer.name("kernel 0") == first);
    CHECK(writer.name(nullptr) == 0);
    CHECK(writer.generation() == 1);
  }
  const Trace trace = convert(path);
  REQUIRE(trace.kernels.size() == kNames);
  CHECK(trace[trace.kernels.name[kNames - 1]] == "kernel 69999");
}

TEST_CASE("a stream that ends anywhere holds up to there, and says so") {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "5.stream", cut = folder.path() / "cut.stream";
  write_stream(path);
  const std::string bytes = read_file(path, 1 << 20);
  for (std::size_t size = kMagicBytes; size < bytes.size(); ++size) {
    write_file(cut, bytes.substr(0, size));
    const RecordedProcess process = scan_stream(cut);
    CHECK(process.is_cut_short);
    CHECK(process.kernels <= 2);
  }
  const Trace trace = convert(cut);
  CHECK(trace.kernels.size() == 2);
  CHECK(trace.left_out.size() == 2);
  write_file(cut, bytes.substr(0, kMagicBytes - 1));
  CHECK_THROWS_AS(static_cast<void>(scan_stream(cut)), InputError);
}

TEST_CASE("damaged streams are refused or read, and never more") {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "5.stream", bad = folder.path() / "bad.stream";
  write_stream(path);
  const std::string bytes = read_file(path, 1 << 20);
  int refused = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0xA5);
    write_file(bad, damaged);
    try {
      write_trace(scan_stream(bad), folder.path() / "bad.json", "step");
      static_cast<void>(read_recording(folder.path() / "bad.json"));
    } catch (const InputError&) {
      ++refused;
    }
  }
  CHECK(refused > 100);
}

TEST_CASE("several processes make one archive of ranks") {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "5.stream";
  write_stream(path);
  const std::vector<fs::path> members = {folder.path() / "rank0.json",
                                         folder.path() / "rank1.json"};
  for (const fs::path& member : members) write_trace(scan_stream(path), member, "");
  write_archive(members, folder.path() / "ranks.tar.gz");
  const Recording recording = read_recording(folder.path() / "ranks.tar.gz");
  REQUIRE(recording.traces.size() == 2);
  CHECK(recording.traces[1].kernels.size() == 2);
}

TEST_CASE("a place that cannot be written is refused and leaves nothing") {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "5.stream";
  write_stream(path);
  const RecordedProcess process = scan_stream(path);
  CHECK_THROWS_AS(write_trace(process, folder.path() / "absent" / "out.json", ""), InputError);
  fs::create_directory(folder.path() / "out.json");
  CHECK_THROWS_AS(write_trace(process, folder.path() / "out.json", ""), InputError);
  CHECK_FALSE(fs::exists(folder.path() / "out.json.partial"));
}

}  // namespace
}  // namespace tracecast::traces::cupti
