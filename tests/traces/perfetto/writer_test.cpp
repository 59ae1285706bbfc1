#include "traces/perfetto/writer.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/traces/trace_text.hpp"
#include "traces/recorded_timeline.hpp"

namespace tracecast {
namespace {

using namespace test;

/// A message of the wire form, field by field: numbers and lengths as the format's documents say,
/// nothing of ours.
struct Field {
  std::uint32_t number = 0;
  std::uint64_t value = 0;
  std::string bytes;
};
std::vector<Field> fields_of(std::string_view bytes) {
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if ((byte & 0x80) == 0) return value;
    }
  };
  std::vector<Field> fields;
  while (at < bytes.size()) {
    const std::uint64_t tag = varint();
    Field field{static_cast<std::uint32_t>(tag >> 3), 0, ""};
    if ((tag & 7) == 0) {
      field.value = varint();
    } else if ((tag & 7) == 1) {
      for (int i = 0; i < 8; ++i)
        field.value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes.at(at++)))
                       << (8 * i);
    } else {
      REQUIRE((tag & 7) == 2);
      const std::uint64_t size = varint();
      field.bytes = bytes.substr(at, size);
      REQUIRE(field.bytes.size() == size);
      at += size;
    }
    fields.push_back(std::move(field));
  }
  return fields;
}
const Field* find(const std::vector<Field>& fields, std::uint32_t number) {
  for (const Field& field : fields) {
    if (field.number == number) return &field;
  }
  return nullptr;
}
std::uint64_t value_of(const std::vector<Field>& fields, std::uint32_t number) {
  const Field* field = find(fields, number);
  return field == nullptr ? 0 : field->value;
}

struct Slice {
  std::string name;
  std::uint64_t begin = 0, end = 0;
  std::vector<std::uint64_t> flows;
};
struct Read {
  std::map<std::uint64_t, std::string> processes, tracks;
  std::map<std::uint64_t, std::vector<Slice>> slices;  ///< by track
};

/// As a viewer reads it: names from the interned ones, ends close the innermost open slice.
Read read(const Timeline& timeline) {
  std::string bytes;
  traces::write_perfetto_trace(timeline, [&bytes](std::string_view piece) { bytes += piece; });
  Read result;
  std::map<std::uint64_t, std::string> names;
  std::map<std::uint64_t, std::vector<std::size_t>> open;
  for (const Field& outer : fields_of(bytes)) {
    CHECK(outer.number == 1);
    const auto packet = fields_of(outer.bytes);
    CHECK(value_of(packet, 10) == 1);  // one sequence
    if (const Field* data = find(packet, 12)) {
      for (const Field& entry : fields_of(data->bytes)) {
        if (entry.number != 2) continue;
        const auto text = fields_of(entry.bytes);
        const Field* name = find(text, 2);
        names[value_of(text, 1)] = name == nullptr ? "" : name->bytes;
      }
    } else if (const Field* described = find(packet, 60)) {
      const auto track = fields_of(described->bytes);
      if (const Field* process = find(track, 3)) {
        result.processes[value_of(track, 1)] = find(fields_of(process->bytes), 6)->bytes;
      } else {
        CHECK(result.processes.count(value_of(track, 5)) == 1);
        result.tracks[value_of(track, 1)] = find(track, 2)->bytes;
      }
    } else {
      const auto event = fields_of(find(packet, 11)->bytes);
      const std::uint64_t track = value_of(event, 11), at = value_of(packet, 8);
      REQUIRE(result.tracks.count(track) == 1);
      auto& slices = result.slices[track];
      if (value_of(event, 9) == 1) {
        open[track].push_back(slices.size());
        slices.push_back({names.at(value_of(event, 10)), at, 0, {}});
        for (const Field& field : event) {
          if (field.number == 47) slices.back().flows.push_back(field.value);
        }
      } else {
        REQUIRE_FALSE(open[track].empty());
        slices[open[track].back()].end = at;
        open[track].pop_back();
      }
    }
  }
  for (const auto& [track, left] : open) CHECK(left.empty());
  return result;
}

traces::Recording recording(const std::string& events) {
  traces::Recording result;
  result.traces.push_back(trace_of(events));
  return result;
}

TEST_SUITE_BEGIN("traces/perfetto/writer");

TEST_CASE(
    "a recording has a process for GPU and host, nested slices, and an arrow to each kernel") {
  const auto events = op("aten::mm", 5, 50, 9) + "," + op("aten::inner", 8, 47, 8) + "," +
                      launch(10, 4, 1) + "," + kernel("sgemm", 20, 50, 1) + "," +
                      kernel("sgemm", 70, 30, 0);
  const Timeline timeline =
      traces::recorded_timeline(recording(events), traces::KernelNames::builtin());
  CHECK(find_faults(timeline).empty());
  const Read r = read(timeline);
  CHECK(r.processes.size() == 2);
  REQUIRE(r.tracks.size() == 2);
  const auto& gpu = r.slices.at(r.tracks.begin()->second == "stream 7" ? r.tracks.begin()->first
                                                                       : r.tracks.rbegin()->first);
  REQUIRE(gpu.size() == 2);  // times from the first begin, at 5 us
  CHECK(gpu[0].name == "sgemm");
  CHECK(gpu[0].begin == 15'000);
  CHECK(gpu[0].end == 65'000);
  CHECK(gpu[1].begin == 65'000);
  REQUIRE(gpu[0].flows.size() == 1);
  CHECK(gpu[1].flows.empty());
  for (const auto& [track, slices] : r.slices) {
    if (&slices == &gpu) continue;
    REQUIRE(slices.size() == 3);
    CHECK(slices[0].name == "aten::mm");
    CHECK(slices[1].name == "aten::inner");
    CHECK(slices[1].end == 50'000);  // with the outer one
    CHECK(slices[2].name == "cudaLaunchKernel");
    CHECK(slices[2].flows == gpu[0].flows);
  }
}

TEST_CASE("slices that overlap go side by side") {
  const auto events = kernel("a", 0, 50, 0) + "," + kernel("b", 20, 50, 0) + "," +
                      kernel("c", 40, 5, 0) + "," + kernel("d", 60, 50, 0);
  const Read r = read(traces::recorded_timeline(recording(events), traces::KernelNames::builtin()));
  CHECK(r.tracks.size() == 2);
  std::size_t count = 0;
  for (const auto& [track, slices] : r.slices) {
    CHECK(r.tracks.at(track) == "stream 7");
    for (const Slice& slice : slices)
      CHECK(slice.end - slice.begin == (slice.name == "c" ? 5'000 : 50'000));
    count += slices.size();
  }
  CHECK(count == 4);
}

TEST_CASE("ranks stand side by side by their clocks") {
  traces::Recording both = recording(kernel("a", 10, 5, 0));
  both.traces.push_back(trace_of(kernel("b", 10, 5, 0)));
  both.traces[0].epoch_ns = 1'700'000'000'000'000'000;
  both.traces[1].epoch_ns = both.traces[0].epoch_ns + 7'000;
  const Read r = read(traces::recorded_timeline(both, traces::KernelNames::builtin()));
  CHECK(r.processes.size() == 2);
  for (const auto& [track, slices] : r.slices) {
    CHECK(slices[0].begin == (slices[0].name == "a" ? 0 : 7'000));
    CHECK(r.tracks.at(track) == (slices[0].name == "a" ? "rank 0, stream 7" : "rank 1, stream 7"));
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
