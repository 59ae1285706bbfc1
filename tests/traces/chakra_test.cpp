#include "traces/chakra/reader.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "tests/traces/text_source.hpp"
#include "tests/traces/trace_text.hpp"
#include "traces/chakra/writer.hpp"
#include "traces/summary.hpp"

using namespace tracecast;
using namespace tracecast::traces;

namespace {

// Protobuf's wire form by hand: a tag is field * 8 + type (0 = varint, 2 = bytes with their
// length).
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value > 127; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string number(int field, std::uint64_t value) {
  return varint(static_cast<std::uint64_t>(field) * 8) + varint(value);
}
std::string text(int field, const std::string& bytes) {
  return varint(static_cast<std::uint64_t>(field) * 8 + 2) + varint(bytes.size()) + bytes;
}
std::string message(const std::string& bytes) { return varint(bytes.size()) + bytes; }

/// An attribute with a value in the field of its type: 9 = int64, 13 = uint64, 27 = bool.
std::string attribute(const std::string& name, int type, std::uint64_t value) {
  return text(10, text(1, name) + number(type, value));
}

const std::string kMetadata = message(text(1, "0.0.4"));

Trace read(const std::string& bytes) {
  test::TextSource source(bytes, 13);
  return read_chakra(source, "t.et");
}
Trace read_json(const std::string& json, bool is_chakra) {
  test::TextSource source(json);
  return is_chakra ? read_chakra_json(source, "t.json") : read_execution_trace(source, "t.json");
}

}  // namespace

TEST_CASE("binary nodes come with kind, side, time, message and dependencies, in both dialects") {
  for (const int type : {9, 13}) {
    const Trace trace =
        read(kMetadata +
             message(number(1, 5) + text(2, "volta_sgemm_64x64_nn") + number(3, 4) + number(7, 12) +
                     text(8, text(2, "[[2, 3]]") + text(3, "['float']")) +
                     attribute("is_cpu_op", 27, 0)) +
             message(number(1, 6) + text(2, "all_reduce") + number(3, 7) + text(4, varint(5)) +
                     text(5, varint(5) + varint(300)) + attribute("is_cpu_op", 27, 1) +
                     attribute("comm_size", type, 1048576)));
    CHECK(trace.format == "Chakra execution trace 0.0.4");
    REQUIRE(trace.nodes.size() == 2);
    CHECK(trace.nodes.id[0] == 5);
    CHECK(trace.nodes.kind[0] == NodeKind::Compute);
    CHECK(trace.nodes.on_gpu[0]);
    CHECK(trace.nodes.duration_ns[0] == 12'000);
    CHECK(trace[trace.nodes.dims[0]] == "[[2, 3]]");
    CHECK(trace.nodes.kind[1] == NodeKind::Collective);
    CHECK_FALSE(trace.nodes.on_gpu[1]);
    CHECK(trace.nodes.duration_ns[1] == -1);
    CHECK(trace.nodes.message_bytes[1] == 1048576);
    CHECK(trace.nodes.first_dependency[1] == 0);
    CHECK(trace.nodes.dependency == std::vector<std::uint64_t>{5, 300, 5});
    const Summary summary = summarize(trace, KernelNames::builtin());
    CHECK(summary.gpu_nodes == 1);
    CHECK(summary.gpu_nodes_ns == 12'000);
    CHECK(summary.kernels == 1);
    CHECK(summary.classes.front().kernel_class == KernelClass::Gemm);
  }
}

TEST_CASE("a damaged stream is refused with the place") {
  struct Row {
    const char* what;
    std::string bytes;
    const char* found;
  };
  const Row rows[] = {
      {"nothing", "", "an empty file"},
      {"an end within a message", kMetadata + std::string("\x20\x08\x05"),
       "an end within a message"},
      {"an end within a length", kMetadata + std::string("\x80"), "an end within a length"},
      {"a length beyond bounds", kMetadata + std::string("\xff\xff\xff\xff\x0f"),
       "a message of 4294967295 bytes"},
      {"a length of six bytes", kMetadata + std::string("\xff\xff\xff\xff\xff\x0f"),
       "a length of more than 32 bits"},
      {"no node", kMetadata + message("\x0a"), "a damaged node"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK_THROWS_WITH_AS((void)read(row.bytes), doctest::Contains(row.found), InputError);
  }
}

TEST_CASE("a binary trace is known by how it begins") {
  CHECK(is_chakra(kMetadata));
  CHECK(is_chakra(message(text(2, text(1, "schema")))));
  CHECK(is_chakra(message("") + message(number(1, 5))));
  CHECK_FALSE(is_chakra("hello"));
  CHECK_FALSE(is_chakra(std::string("\0\x05\x16\x07", 4)));  // an AppleDouble file
  CHECK_FALSE(is_chakra(""));
}

TEST_CASE("nodes as JSON say the same") {
  const Trace trace = read_json(R"({"workload_name": "w", "workload_graph": [
    {"Id": 5, "Name": "k", "NodeType": 4, "runtime": 12, "is_cpu_op": false, "data_deps": [1, 2]},
    {"Id": 6, "Name": "c", "NodeType": 7, "ctrlDeps": [5], "is_cpu_op": true, "comm_size": 64}, 3]})",
                                true);
  REQUIRE(trace.nodes.size() == 2);
  CHECK(trace.nodes.on_gpu[0]);
  CHECK(trace.nodes.duration_ns[0] == 12'000);
  CHECK(trace.nodes.kind[1] == NodeKind::Collective);
  CHECK(trace.nodes.message_bytes[1] == 64);
  CHECK(trace.nodes.first_dependency[1] == 2);
  CHECK(trace.left_out.at("node that is no object").is_damage);
}

TEST_CASE("execution traces of both ages give operators with shapes and types") {
  struct Row {
    const char *what, *json;
  };
  const Row rows[] = {
      {"1.0.1",
       R"~({"schema": "1.0.1", "nodes": [{"name": "aten::mm", "id": 30, "parent": 13, "inputs": [[1, 2]],
        "input_shapes": [[16, 2]], "input_types": ["Tensor(int)"]}]})~"},
      {"1.1.0",
       R"~({"schema": "1.1.0", "nodes": [{"id": 30, "name": "aten::mm", "ctrl_deps": 13, "inputs":
        {"values": [[1, 2]], "shapes": [[16, 2]], "types": ["Tensor(int)"]}, "outputs": {"shapes": []}, "attrs": [{}]
}]
})~"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const Trace trace = read_json(row.json, false);
    CHECK(trace.format == std::string("PyTorch execution trace ") + row.what);
    REQUIRE(trace.nodes.size() == 1);
    CHECK(trace.nodes.kind[0] == NodeKind::Operator);
    CHECK(trace.nodes.id[0] == 30);
    CHECK(trace.nodes.dependency == std::vector<std::uint64_t>{13});
    CHECK(trace[trace.nodes.dims[0]] == "[[16, 2]]");
    CHECK(trace[trace.nodes.values[0]] == "[[1, 2]]");
  }
  CHECK_THROWS_AS((void)read_json("{}", false), InputError);
}

namespace {

/// What the writer makes of a trace, read again.
Trace way_through(const Trace& trace, std::string* bytes = nullptr) {
  std::string written;
  write_chakra(trace, KernelNames::builtin(),
               [&written](std::string_view piece) { written += piece; });
  if (bytes != nullptr) *bytes = written;
  return read(written);
}

/// The node of this name; fails when there is none or several.
std::size_t node_of(const Trace& trace, std::string_view name) {
  std::size_t found = trace.nodes.size();
  for (std::size_t i = 0; i < trace.nodes.size(); ++i) {
    if (trace[trace.nodes.name[i]] != name) continue;
    CHECK(found == trace.nodes.size());
    found = i;
  }
  REQUIRE(found < trace.nodes.size());
  return found;
}

std::vector<std::uint64_t> dependencies_of(const Trace& trace, std::size_t node) {
  const Nodes& nodes = trace.nodes;
  const std::size_t end =
      node + 1 < nodes.size() ? nodes.first_dependency[node + 1] : nodes.dependency.size();
  return {nodes.dependency.begin() + nodes.first_dependency[node],
          nodes.dependency.begin() + static_cast<std::ptrdiff_t>(end)};
}

}  // namespace

TEST_CASE("a written recording has its work as nodes, each behind what it waits for") {
  using namespace tracecast::test;
  const std::string record =
      R"("Collective name":"_allgather_base","dtype":"Float","In msg nelems":250,"Out msg nelems":1000,)"
      R"("Group size":4,"Process Group Name":"tp","device":0,"stream":9,"correlation":4)";
  const Trace trace = trace_of(
      op("aten::mm", 0, 20, 5) + ',' + launch(1, 5, 1) + ',' + launch(30, 5, 4) + ',' +
      event("cuda_runtime", "cudaMemcpyAsync", 40, 5, R"("correlation":3)") + ',' +
      kernel("volta_sgemm_128x64_nn", 10, 100, 1, 5) + ',' +
      R"({"ph":"X","cat":"kernel","name":"ncclDevKernel_AllGather","pid":0,"tid":9,"ts":115,"dur":40.250,"args":{)" +
      record + "}}," +
      R"~({"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoH (Device -> Pinned)","pid":0,"tid":7,)~"
      R"("ts":112,"dur":8,)"
      R"("args":{"device":0,"stream":7,"correlation":3,"bytes":4096}})");
  std::string bytes;
  const Trace after = way_through(trace, &bytes);
  CHECK(after.format == "Chakra execution trace 0.0.4");
  const std::size_t gemm = node_of(after, "volta_sgemm_128x64_nn"),
                    gather = node_of(after, "ncclDevKernel_AllGather"),
                    copy = node_of(after, "Memcpy DtoH (Device -> Pinned)");
  const Nodes& nodes = after.nodes;
  CHECK(nodes.kind[gemm] == NodeKind::Compute);
  CHECK(nodes.duration_ns[gemm] == 100'000);
  CHECK(nodes.on_gpu[gemm]);
  CHECK(nodes.kind[gather] == NodeKind::Collective);
  CHECK(nodes.duration_ns[gather] == 40'250);  // beyond the format's microseconds
  CHECK(nodes.message_bytes[gather] == 4000);
  CHECK(nodes.kind[copy] == NodeKind::MemoryStore);
  CHECK(nodes.message_bytes[copy] == 4096);
  // CollectiveCommType ALL_GATHER = 2, as int64 (field 9), and the group's name (field 29).
  CHECK(bytes.find(text(1, "comm_type") + number(9, 2)) != std::string::npos);
  CHECK(bytes.find(text(1, "pg_name") + text(29, "tp")) != std::string::npos);
  const auto copy_waits = dependencies_of(after, copy);
  CHECK(std::find(copy_waits.begin(), copy_waits.end(), nodes.id[gemm]) != copy_waits.end());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    CHECK(nodes.id[i] == i);
    for (const std::uint64_t before : dependencies_of(after, i)) CHECK(before < i);
  }
  const Summary summary = summarize(after, KernelNames::builtin());
  CHECK(summary.gpu_nodes == 3);
  CHECK(summary.gpu_nodes_ns == 148'250);
}

TEST_CASE("a graph that was read is written as it stands") {
  const Trace trace =
      read(kMetadata +
           message(number(1, 7) + text(2, "a") + number(3, 4) + number(7, 12) +
                   text(8, text(1, "[1]") + text(2, "[[2, 3]]") + text(3, "['float']")) +
                   attribute("is_cpu_op", 27, 0)) +
           message(number(1, 300) + text(2, "b") + number(3, 7) + text(4, varint(7)) +
                   text(5, varint(9)) + attribute("is_cpu_op", 27, 1) +
                   attribute("comm_size", 9, 1048576)) +
           message(number(1, 9) + number(3, 1) + attribute("duration_ns", 9, 0)));
  const Trace after = way_through(trace);
  REQUIRE(after.nodes.size() == 3);
  CHECK(after.nodes.id == trace.nodes.id);
  CHECK(after.nodes.kind == trace.nodes.kind);
  CHECK(after.nodes.on_gpu == trace.nodes.on_gpu);
  CHECK(after.nodes.duration_ns == std::vector<std::int64_t>{12'000, -1, 0});
  CHECK(after.nodes.message_bytes == trace.nodes.message_bytes);
  CHECK(after.nodes.first_dependency == trace.nodes.first_dependency);
  CHECK(after.nodes.dependency == trace.nodes.dependency);
  CHECK(after[after.nodes.dims[0]] == "[[2, 3]]");
  CHECK(after[after.nodes.types[0]] == "['float']");
  CHECK(after[after.nodes.values[0]] == "[1]");
}
