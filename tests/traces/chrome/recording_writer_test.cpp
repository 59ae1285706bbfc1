#include "traces/chrome/recording_writer.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/traces/trace_text.hpp"

namespace tracecast {
namespace {

using namespace test;
using traces::Trace;

std::string written(const Trace& trace) {
  std::string text;
  traces::write_chrome_recording(trace, [&text](std::string_view piece) { text += piece; });
  return text;
}
Trace read_back(const Trace& trace) {
  TextSource source(written(trace), 97);
  return traces::read_kineto(source, "written.json");
}

/// Something of everything that the form holds.
Trace everything() {
  Trace trace = trace_of(
      event(
          "cpu_op", R"(aten::conv2d \"x\")", 0, 50,
          R"("External id":9,"Input Dims":[[32,3],[ ]],"Input type":["float","c\"x"],"Concrete Inputs":["","[1]"],)"
          R"("Sequence number":5,"Fwd thread id":2)") +
      "," +
      event("cpu_op", "record_param_comms", 60, 5,
            R"("External id":10,"Collective name":"allreduce","In msg nelems":7,"Group size":2)") +
      "," + launch(-3, 4, 1) + "," +
      event("kernel", "a", 20, 50,
            R"("device":1,"stream":7,"correlation":1,"External id":9,"registers per thread":32,)"
            R"("shared memory":1024,"grid":[8,2,1],"block":[128,1,1])") +
      "," +
      event("kernel", "ncclKernel", 80, 5,
            R"("device":1,"stream":9,"Collective name":"broadcast")") +
      "," + event("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 71, 2, R"("bytes":4096)") +
      "," + event("gpu_memset", "Memset (Device)", 74, 1, R"("bytes":7)") + "," +
      event(
          "cuda_sync", "Stream Wait Event", 90, 5,
          R"("stream":7,"wait_on_stream":9,"wait_on_cuda_event_id":3,"wait_on_cuda_event_record_corr_id":1)") +
      "," + event("gpu_user_annotation", "ProfilerStep#1", 0, 100) + "," +
      event("user_annotation", "ProfilerStep#1", 0, 100) +
      R"(,{"ph":"i","name":"[memory]","ts":7,"args":{"Device Type":1,"Device Id":1,"Bytes":-64}})" +
      R"(,{"ph":"s","cat":"fwdbwd","id":4,"ts":6.125,"pid":"x y","tid":"007"})");
  trace.devices.push_back({.id = 1, .name = "Some GPU", .memory_bytes = 1 << 20, .sm_count = 80});
  trace.epoch_ns = 1'700'000'000'000'000'000;
  trace.rank = 1;
  trace.world_size = 2;
  return trace;
}

TEST_SUITE_BEGIN("traces/chrome/recording_writer");

TEST_CASE("a recording comes back from JSON record by record") {
  const Trace a = everything(), b = read_back(a);
  CHECK(b.epoch_ns == a.epoch_ns);
  CHECK(b.rank == a.rank);
  CHECK(b.world_size == a.world_size);
  REQUIRE(b.devices.size() == 1);
  CHECK(b.devices[0].sm_count == 80);
  CHECK(b.kernels.span == a.kernels.span);
  CHECK(b.geometries == a.geometries);
  CHECK(b.kernels.op == a.kernels.op);
  CHECK(b.streams == a.streams);
  CHECK(b.copies.kind == a.copies.kind);
  CHECK(b.copies.memory == a.copies.memory);
  CHECK(b.copies.bytes == a.copies.bytes);
  CHECK(b.memsets.bytes == a.memsets.bytes);
  REQUIRE(b.calls.size() == 1);
  CHECK(b.calls.span[0] == traces::Span{-3'000, 4'000});
  CHECK(b.syncs.kind == a.syncs.kind);
  CHECK(b.syncs.awaited_record == a.syncs.awaited_record);
  REQUIRE(b.ops.size() == 2);
  CHECK(b[b.ops.name[0]] == "aten::conv2d \"x\"");
  CHECK(b[b.ops.dims[0]] == a[a.ops.dims[0]]);
  CHECK(b[b.ops.types[0]] == a[a.ops.types[0]]);
  CHECK(b[b.ops.values[0]] == a[a.ops.values[0]]);
  CHECK(b.ops.sequence == a.ops.sequence);
  CHECK(b.ops.forward_thread == a.ops.forward_thread);
  CHECK(b.marks.on_gpu.size() == 2);
  REQUIRE(b.collectives.size() == 2);
  CHECK(b.collectives.kernel[0] == 1);
  CHECK(b.collectives.kernel[1] == traces::Collectives::kNone);
  CHECK(b.collectives.op[1] == 10);
  CHECK(b.allocations.bytes == a.allocations.bytes);
  CHECK(b.allocations.device == a.allocations.device);
  REQUIRE(b.forward_backward.size() == 1);
  CHECK(b.forward_backward.at_ns[0] == 6'125);
  CHECK(b.threads[b.forward_backward.thread[0].index] == traces::Thread{"x y", "007"});
  // Written again it is the same text, and a strict parser takes it.
  CHECK(written(b) == written(read_back(b)));
  const auto json = nlohmann::json::parse(written(a));
  CHECK(json["traceEvents"].size() == 14);  // 12 records, an arrow of two ends
}

TEST_CASE("shapes that are no JSON are quoted") {
  Trace trace = everything();
  for (const char* odd : {"[1,2", "[[1],2]]", "[]{}[]", "[\"]", "[1;2]", "x", "[1] [2]"}) {
    CAPTURE(odd);
    trace.ops.dims[0] = trace.names.intern(odd);
    CHECK(nlohmann::json::accept(written(trace)));
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
