#include <doctest/doctest.h>

#include <string>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/base/random.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/traces/trace_text.hpp"
#include "traces/cut.hpp"
#include "traces/open.hpp"
#include "traces/record/reader.hpp"
#include "traces/record/writer.hpp"

namespace tracecast {
namespace {

using namespace test;
using traces::Recording;
using traces::Trace;

std::string written(const Recording& recording) {
  std::string bytes;
  traces::write_records(recording, [&bytes](std::string_view piece) { bytes += piece; });
  return bytes;
}
Recording read_back(const std::string& bytes) {
  TextSource source(bytes, 97);
  return traces::read_records(source, "t.tctrace");
}

/// Two steps of 100 us with a launch and a kernel each, at 0 and at 100 us, and something of every
/// other kind.
Recording small() {
  Recording recording;
  recording.traces.push_back(trace_of(
      event("user_annotation", "ProfilerStep#1", 0, 100) + "," +
      event("user_annotation", "ProfilerStep#2", 100, 100) + "," + op("aten::mm", 5, 50, 9) + "," +
      launch(10, 4, 1) + "," + launch(110, 4, 2) + "," + kernel("a", 20, 50, 1, 9) + "," +
      event(
          "kernel", "ncclDevKernel_AllReduce", 120, 50,
          R"("device":0,"stream":20,"correlation":2,"grid":[8,1,1],"block":[256,1,1],)"
          R"("Collective name":"allreduce","In msg nelems":1000,"dtype":"Float","Group size":8)") +
      "," + event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 1, 2, R"("bytes":4096)") + "," +
      event("gpu_memset", "Memset", 3, 1, R"("bytes":7)") + "," +
      event("cuda_sync", "Event Sync", 90, 5, R"("wait_on_cuda_event_id":3)") +
      R"(,{"ph":"i","name":"[memory]","ts":7,"args":{"Device Type":1,"Bytes":64,"Total Allocated":64}})" +
      R"(,{"ph":"s","cat":"fwdbwd","id":4,"ts":6,"pid":0,"tid":1})" +
      R"(,{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":-5})"));
  Trace& trace = recording.traces.back();
  trace.epoch_ns = 1'700'000'000'000'000'000;
  trace.rank = 3;
  trace.devices.push_back({.id = 0, .name = "Some GPU", .memory_bytes = 1 << 30, .sm_count = 80});
  traces::Totals& totals = trace.totals;
  totals.name.push_back(trace.names.intern("sum"));
  totals.is_call.push_back(true);
  totals.count.push_back(3);
  totals.ns.push_back(30), totals.least_ns.push_back(9), totals.most_ns.push_back(11);
  traces::Metrics& metrics = trace.metrics;
  for (auto* names : {&metrics.device, &metrics.kernel, &metrics.metric})
    names->push_back(trace.names.intern("m"));
  metrics.invocations.push_back(2);
  metrics.least.push_back(0.5), metrics.most.push_back(1.5), metrics.average.push_back(1);
  traces::Nodes& nodes = trace.nodes;
  for (std::uint64_t id = 0; id < 3; ++id) {
    nodes.id.push_back(id);
    nodes.name.push_back(trace.names.intern("node"));
    nodes.kind.push_back(traces::NodeKind::Compute);
    nodes.on_gpu.push_back(id > 0);
    nodes.duration_ns.push_back(id == 0 ? -1 : 100);
    for (auto* names : {&nodes.dims, &nodes.types, &nodes.values}) names->push_back({});
    nodes.message_bytes.push_back(id);
    nodes.first_dependency.push_back(static_cast<std::uint32_t>(nodes.dependency.size()));
    for (std::uint64_t before = 0; before < id; ++before) nodes.dependency.push_back(before);
  }
  return recording;
}

TEST_SUITE_BEGIN("traces/record");

TEST_CASE("what is written is read back, every kind of record") {
  const Recording before = small();
  const Recording after = read_back(written(before));
  REQUIRE(after.traces.size() == 1);
  const Trace &a = before.traces[0], &b = after.traces[0];
  CHECK(b.epoch_ns == a.epoch_ns);
  CHECK(b.rank == a.rank);
  CHECK_FALSE(b.world_size.has_value());
  REQUIRE(b.devices.size() == 1);
  CHECK(b.devices[0].name == "Some GPU");
  CHECK(b.devices[0].sm_count == 80);
  CHECK(b.kernels.span == a.kernels.span);
  CHECK(b[b.kernels.name[1]] == "ncclDevKernel_AllReduce");
  CHECK(b.streams == a.streams);
  CHECK(b.threads == a.threads);
  CHECK(b.geometries == a.geometries);
  CHECK(b.kernels.correlation == a.kernels.correlation);
  CHECK(b.kernels.op == a.kernels.op);
  CHECK(b.copies.bytes == a.copies.bytes);
  CHECK(b.copies.kind == a.copies.kind);
  CHECK(b.copies.memory == a.copies.memory);
  CHECK(b.memsets.bytes == a.memsets.bytes);
  CHECK(b.calls.span == a.calls.span);
  CHECK(b.syncs.awaited_event == a.syncs.awaited_event);
  CHECK(b.syncs.awaited_record == a.syncs.awaited_record);
  CHECK(b.ops.sequence == a.ops.sequence);
  CHECK(b.marks.on_gpu == a.marks.on_gpu);
  CHECK(b.collectives.kernel == a.collectives.kernel);
  CHECK(b[b.collectives.data_type[0]] == "Float");
  CHECK(b.forward_backward.at_ns == a.forward_backward.at_ns);
  CHECK(b.allocations.total_reserved == a.allocations.total_reserved);
  CHECK(b.totals.most_ns == a.totals.most_ns);
  CHECK(b.metrics.least == a.metrics.least);
  CHECK(b.nodes.duration_ns == a.nodes.duration_ns);
  CHECK(b.nodes.first_dependency == a.nodes.first_dependency);
  CHECK(b.nodes.dependency == a.nodes.dependency);
  REQUIRE(b.left_out.size() == 1);
  CHECK(b.left_out.begin()->second.is_damage);
  // Every column at once: the same bytes again.
  CHECK(written(after) == written(before));
}

TEST_CASE("records appended in pieces, their arrays emptied in between, are one trace") {
  Recording whole = small();
  Trace piece = trace_of(kernel("a", 20, 50, 1, 9));
  std::string bytes;
  traces::RecordWriter writer([&bytes](std::string_view text) { bytes += text; });
  writer.begin(piece);
  writer.append(piece);
  piece.kernels = {};
  piece.kernels.span.push_back({200, 5});
  piece.kernels.name.push_back(piece.names.intern("later"));
  piece.streams.push_back({0, 8});
  piece.kernels.stream.push_back({1});
  piece.kernels.geometry.push_back({});
  piece.kernels.correlation.push_back(0);
  piece.kernels.op.push_back(0);
  writer.append(piece);
  writer.end(piece);
  writer.finish();
  const Recording after = read_back(bytes);
  const Trace& trace = after.traces.at(0);
  REQUIRE(trace.kernels.size() == 2);
  CHECK(trace[trace.kernels.name[1]] == "later");
  CHECK(trace.streams[trace.kernels.stream[1].index].number == 8);
}

TEST_CASE("the index finds steps and the records of a range of time") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "t.tctrace";
  write_file(path, written(small()));
  const traces::RecordIndex index = traces::read_record_index(path);
  REQUIRE(index.steps.size() == 2);
  CHECK(index.steps[1].name == "ProfilerStep#2");
  CHECK(index.steps[1].span == traces::Span{100'000, 100'000});
  const Recording second = traces::read_records_within(path, index.steps[1].span);
  const Trace& trace = second.traces.at(0);
  REQUIRE(trace.kernels.size() == 1);
  CHECK(trace[trace.kernels.name[0]] == "ncclDevKernel_AllReduce");
  REQUIRE(trace.collectives.size() == 1);
  CHECK(trace.collectives.kernel[0] == 0);
  CHECK(trace.marks.size() == 1);
  CHECK(trace.copies.size() == 0);
  CHECK(trace.nodes.size() == 3);
  const Recording first = traces::read_records_within(path, index.steps[0].span);
  CHECK(first.traces.at(0).kernels.size() == 1);
  CHECK(first.traces.at(0).collectives.size() == 0);
}

TEST_CASE("blocks outside of a range are not read") {
  Recording recording;
  Trace& trace = recording.traces.emplace_back();
  trace.streams.push_back({0, 7});
  constexpr std::uint32_t kCount = 100'000;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    trace.kernels.span.push_back({i * 10, 5});
    trace.kernels.name.push_back({});
    trace.kernels.stream.push_back({0});
    trace.kernels.geometry.push_back({});
    trace.kernels.correlation.push_back(i + 1);
    trace.kernels.op.push_back(0);
  }
  trace.collectives.kernel.push_back(kCount - 2);
  trace.collectives.op.push_back(0);
  for (auto* names :
       {&trace.collectives.name, &trace.collectives.data_type, &trace.collectives.group})
    names->push_back({});
  for (auto* numbers : {&trace.collectives.in_elements, &trace.collectives.out_elements,
                        &trace.collectives.group_size})
    numbers->push_back(0);
  const TemporaryFolder folder;
  const auto path = folder.path() / "t.tctrace";
  std::string bytes = written(recording);
  CHECK(bytes.size() < 200'000);
  // Damage in an early block of kernels is found by whoever reads it, and by nobody else.
  bytes[bytes.size() / 4] ^= 0x55;
  write_file(path, bytes);
  CHECK_THROWS_AS(traces::read_recording(path), InputError);
  const Recording end = traces::read_records_within(path, {(kCount - 10) * 10, 100});
  const Trace& cut = end.traces.at(0);
  REQUIRE(cut.kernels.size() == 10);
  CHECK(cut.kernels.correlation[0] == kCount - 9);
  REQUIRE(cut.collectives.size() == 1);
  CHECK(cut.kernels.correlation[cut.collectives.kernel[0]] == kCount - 1);
}

TEST_CASE("a file that ends early, or is damaged anywhere, is refused in words or still sound") {
  const std::string whole = written(small());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(read_back(whole.substr(0, size)), InputError);
  }
  CHECK_THROWS_AS(read_back(whole + "x"), InputError);
  Random random(5);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = whole;
    bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
    try {
      (void)read_back(bytes);
    } catch (const InputError&) {
    }
  }
}

TEST_CASE("the content decides, and another version is named") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "no_ending";
  std::string bytes = written(small());
  write_file(path, bytes);
  CHECK(traces::read_recording(path).traces.size() == 1);
  bytes[7] = '2';
  write_file(path, bytes);
  try {
    (void)traces::read_recording(path);
    FAIL("another version was read");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find("version 02") != std::string::npos);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
