#include "traces/kineto/reader.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/error.hpp"
#include "tests/traces/text_source.hpp"

using namespace tracecast;
using namespace tracecast::traces;

namespace {

Trace read(const std::string& text) {
  test::TextSource source(text);
  return read_kineto(source, "t.json");
}

/// A document with these events.
Trace read_events(const std::string& events) {
  return read("{\"schemaVersion\": 1, \"traceEvents\": [" + events + "]}");
}

std::string refusal(const std::string& text) {
  try {
    (void)read(text);
    return "taken";
  } catch (const InputError& error) {
    return error.what();
  }
}

std::uint64_t left_out(const Trace& trace, const char* kind) {
  const auto found = trace.left_out.find(kind);
  return found == trace.left_out.end() ? 0 : found->second.count;
}

}  // namespace

TEST_CASE(
    "a kernel of the new schema comes with time, name, stream, geometry, launch and operator") {
  const Trace trace = read_events(R"({
    "ph": "X", "cat": "kernel", "name": "volta_sgemm_64x64_nt", "pid": 3, "tid": 20,
    "ts": 1712195495520824.518, "dur": 2636.669,
    "args": {"External id": 12945, "queued": 0, "device": 3, "context": 1, "stream": 20, "correlation": 60047,
             "registers per thread": 96, "shared memory": 87568, "blocks per SM": 0.074, "grid": [8, 2, 1],
             "block": [544, 1, 1], "est. achieved occupancy %": NaN}})");
  REQUIRE(trace.kernels.size() == 1);
  // 1712195495520824.518 us: beyond a double, whose steps are 0.25 us there.
  CHECK(trace.kernels.span[0] == Span{1712195495520824518, 2636669});
  CHECK(trace[trace.kernels.name[0]] == "volta_sgemm_64x64_nt");
  CHECK(trace.streams[trace.kernels.stream[0].index] == Stream{3, 20});
  const Geometry expected{
      .grid = {8, 2, 1}, .block = {544, 1, 1}, .registers_per_thread = 96, .shared_bytes = 87568};
  CHECK(trace.geometries[trace.kernels.geometry[0].index] == expected);
  CHECK(trace.kernels.correlation[0] == 60047);
  CHECK(trace.kernels.op[0] == 12945);
}

TEST_CASE("the old schema's words mean the same") {
  const Trace trace = read_events(R"~(
    {"ph": "X", "cat": "Kernel", "name": "k", "pid": 0, "tid": "stream 7", "ts": 10, "dur": 2,
     "args": {"device": 0, "stream": 7, "correlation": 5, "external id": 9}},
    {"ph": "X", "cat": "Memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 0, "tid": "stream 7", "ts": 1, "dur": 4,
     "args": {
  "device" : 0, "stream" : 7, "correlation" : 6, "bytes" : 4096}},
    {"ph": "X", "cat": "Memset", "name": "Memset (Device)", "pid": 0, "tid": "stream 7", "ts": 6, "dur": 1,
     "args": {"device": 0, "stream": 7, "bytes": 16}},
    {"ph": "X", "cat": "Runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": "144", "ts": 0, "dur": 3,
     "args": {"cbid": 211, "correlation": 5}},
    {"ph": "X", "cat": "Operator", "name": "aten::conv2d", "pid": 9, "tid": "144", "ts": 0, "dur": 9,
     "args": {"External id": 9, "Input dims": [[32, 3, 8, 8], []], "Input type": ["float", ""]}},
    {"ph": "X", "cat": "Operator", "name": "ProfilerStep#3", "pid": 9, "tid": "144", "ts": 0, "dur": 99},
    {"ph": "s", "cat": "async", "id": 5, "pid": 9, "tid": "144", "ts": 0, "name": "launch"},
    {"ph": "i", "name": "[memory]", "s": "t", "pid": 9, "tid": "144", "ts": 2,
     "args": {"Device Type": 1, "Device Id": 0, "Bytes": -512}})~");
  CHECK(trace.kernels.op[0] == 9);
  CHECK(trace.streams[trace.kernels.stream[0].index] == Stream{0, 7});
  REQUIRE(trace.copies.size() == 1);
  CHECK(trace.copies.kind[0] == CopyKind::HostToDevice);
  CHECK(trace.copies.memory[0] == HostMemory::Pageable);
  CHECK(trace.copies.bytes[0] == 4096);
  REQUIRE(trace.memsets.size() == 1);
  CHECK(trace.memsets.bytes[0] == 16);
  REQUIRE(trace.calls.size() == 1);
  CHECK(trace.calls.correlation[0] == 5);
  REQUIRE(trace.ops.size() == 1);
  CHECK(trace[trace.ops.dims[0]] == "[[32,3,8,8],[]]");
  CHECK(trace[trace.ops.types[0]] == R"(["float",""])");
  REQUIRE(trace.marks.size() == 1);
  CHECK(trace[trace.marks.name[0]] == "ProfilerStep#3");
  CHECK(left_out(trace, "arrow from launch to GPU (told by the correlation)") == 1);
  REQUIRE(trace.allocations.size() == 1);
  CHECK(trace.allocations.bytes[0] == -512);
  CHECK(trace.allocations.device[0] == 0);
}

TEST_CASE("device and stream come from process and thread where the arguments lack them") {
  const Trace trace = read_events(R"(
    {"ph": "X", "cat": "kernel", "name": "k", "pid": 2, "tid": "stream 31", "ts": 1, "dur": 1},
    {"ph": "X", "cat": "kernel", "name": "k", "pid": "GPU", "tid": "x", "ts": 3, "dur": 1, "args": {}})");
  CHECK(trace.streams[trace.kernels.stream[0].index] == Stream{2, 31});
  CHECK(trace.streams[trace.kernels.stream[1].index] == Stream{-1, -1});
}

TEST_CASE("members stand in any order, and unknown ones are passed over") {
  const Trace trace = read_events(
      R"({"args": {"x": {"y": [1, {"z": "}"}]}, "correlation": "17"}, "sf": [1], "dur": "1.5", "ts": "2", "tid": 1,
          "name": "k", "cat": "KERNEL", "ph": "X"})");
  REQUIRE(trace.kernels.size() == 1);
  CHECK(trace.kernels.span[0] == Span{2000, 1500});
  CHECK(trace.kernels.correlation[0] == 17);
}

TEST_CASE("the header tells devices, ranks and the epoch, before or behind the events") {
  const Trace trace = read(
      R"({"distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8, "pg": [{"r": [0]}]},
    "traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 4.001, "dur": 1}],
    "deviceProperties": [{"id": 1, "name": "Tesla T4", "totalGlobalMem": 15843721216, "computeMajor": 7,
      "computeMinor": 5, "warpSize": 32, "numSms": 40, "maxThreadsPerMultiprocessor": 1024,
      "regsPerMultiprocessor": 65536, "sharedMemPerMultiprocessor": 65536, "new": null}],
    "baseTimeNanoseconds": 1711964646000000000})");
  CHECK(trace.rank == 3);
  CHECK(trace.world_size == 8);
  CHECK(trace.epoch_ns == 1711964646000000000);
  CHECK(trace.kernels.span[0].begin_ns == 4001);
  REQUIRE(trace.devices.size() == 1);
  const Device& device = trace.devices[0];
  CHECK(device.id == 1);
  CHECK(device.name == "Tesla T4");
  CHECK(device.memory_bytes == 15843721216);
  CHECK(device.compute_major * 10 + device.compute_minor == 75);
  CHECK(device.sm_count == 40);
  CHECK(device.max_threads_per_sm == 1024);
}

TEST_CASE("collectives, synchronisation and forward-backward arrows are kept") {
  const Trace trace = read_events(R"(
    {"ph": "X", "cat": "kernel", "name": "ncclKernel_AllReduce", "pid": 0, "tid": 40, "ts": 1, "dur": 1,
     "args": {"External id": 7, "Collective name": "allreduce", "In msg nelems": 100, "Out msg nelems": 200,
              "Group size": 2, "dtype": "Float", "Process Group Name": "0"}},
    {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 1, "ts": 0, "dur": 3,
     "args": {"External id": 7, "Collective name": "allreduce", "In msg nelems": 100}},
    {"ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", "pid": 0, "tid": 24, "ts": 5, "dur": 2,
     "args": {"cuda_sync_kind": "Stream Wait Event", "wait_on_stream": 20, "stream": 24, "correlation": 1389,
              "wait_on_cuda_event_record_corr_id": 1385, "wait_on_cuda_event_id": 19}},
    {"ph": "X", "cat": "cpu_op", "name": "AddBackward0", "pid": 1, "tid": 2, "ts": 0, "dur": 3,
     "args": {"External id": 8, "Fwd thread id": 1, "Sequence number": 50}},
    {"ph": "s", "cat": "fwdbwd", "id": 11, "pid": 1, "tid": 1, "ts": 2, "name": "fwdbwd"},
    {"ph": "f", "cat": "fwdbwd", "id": 11, "pid": 1, "tid": 2, "ts": 4, "name": "fwdbwd", "bp": "e"})");
  REQUIRE(trace.collectives.size() == 2);
  CHECK(trace.collectives.kernel[0] == 0);
  CHECK(trace.collectives.out_elements[0] == 200);
  CHECK(trace.collectives.group_size[0] == 2);
  CHECK(trace[trace.collectives.data_type[0]] == "Float");
  CHECK(trace.collectives.kernel[1] == Collectives::kNone);
  CHECK(trace.collectives.op[1] == 7);
  REQUIRE(trace.syncs.size() == 1);
  CHECK(trace.syncs.kind[0] == SyncKind::StreamWaitEvent);
  CHECK(trace.syncs.awaited_record[0] == 1385);
  CHECK(trace.syncs.awaited_stream[0] == 20);
  CHECK(trace.ops.sequence[1] == 50);
  CHECK(trace.ops.forward_thread[1] == 1);
  REQUIRE(trace.forward_backward.size() == 2);
  CHECK_FALSE(trace.forward_backward.is_backward[0]);
  CHECK(trace.forward_backward.is_backward[1]);
  CHECK(trace.forward_backward.at_ns[1] == 4000);
}

TEST_CASE("records that cannot be used are left out and counted by what is wrong with them") {
  struct Row {
    const char *what, *event, *kind;
    bool is_damage;
  };
  const Row rows[] = {
      {"no duration", R"({"ph":"X","cat":"kernel","name":"k","ts":1})",
       "event without begin or duration", true},
      {"negative duration", R"({"ph":"X","cat":"kernel","name":"k","ts":1,"dur":-2})",
       "event of negative duration", true},
      {"NaN", R"({"ph":"X","cat":"kernel","name":"k","ts":NaN,"dur":1})",
       "event with a time that is no number or out of range", true},
      {"a time that overflows",
       R"({"ph":"X","cat":"kernel","name":"k","ts":99999999999999999999,"dur":1})",
       "event with a time that is no number or out of range", true},
      {"a duration that overflows", R"({"ph":"X","cat":"kernel","name":"k","ts":1,"dur":1e300})",
       "event with a time that is no number or out of range", true},
      {"a time that is a list", R"({"ph":"X","cat":"kernel","name":"k","ts":[1],"dur":1})",
       "event with a time that is no number or out of range", true},
      {"Python", R"({"ph":"X","cat":"python_function","name":"f","ts":1,"dur":1})",
       "Python function", false},
      {"an unknown category", R"({"ph":"X","cat":"mtia","name":"f","ts":1,"dur":1})",
       "event of category \"mtia\"", false},
      {"an unknown phase", R"({"ph":"C","name":"f","ts":1})", "event of phase \"C\"", false},
      {"no object", "17", "event that is no object", true},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const Trace trace = read_events(row.event);
    CHECK(trace.kernels.size() == 0);
    REQUIRE(trace.left_out.size() == 1);
    CHECK(trace.left_out.begin()->first == row.kind);
    CHECK(trace.left_out.begin()->second.count == 1);
    CHECK(trace.left_out.begin()->second.is_damage == row.is_damage);
  }
}

TEST_CASE("the bare array of the Chrome format is read too") {
  CHECK(read(R"([{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1}])")
            .kernels.size() == 1);
}

TEST_CASE("documents that are no trace are refused in one line") {
  struct Row {
    const char *what, *text, *message;
  };
  const Row rows[] = {
      {"no events", R"({"a": 1})", "found no \"traceEvents\"; expected a Kineto trace"},
      {"events that are no list", R"({"traceEvents": {}})", "expected an array"},
      {"an end within the events", R"({"traceEvents": [{"ph":"X")", "found the end of the file"},
      {"two documents", R"([] [])", "found more text behind the trace"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const std::string message = refusal(row.text);
    CAPTURE(message);
    CHECK(message.starts_with("t.json, byte "));
    CHECK(message.find(row.message) != std::string::npos);
  }
}

TEST_CASE("a correlation beyond 32 bits is counted as lost, and the record stays") {
  const Trace trace = read_events(
      R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1,"args":{"correlation":4294967296}})");
  CHECK(trace.kernels.size() == 1);
  CHECK(trace.kernels.correlation[0] == 0);
  CHECK(left_out(trace, "correlation beyond 32 bits") == 1);
}
