#include "traces/trace_builder.hpp"

#include <doctest/doctest.h>

#include <optional>

#include "sim/base/error.hpp"

using namespace tracecast::traces;

TEST_CASE("microseconds as text become integer nanoseconds") {
  struct Row {
    const char* text;
    std::optional<std::int64_t> ns;
  };
  const Row rows[] = {
      {"0", 0},
      {"45", 45'000},
      {"1712195495520824.518", 1712195495520824518},
      {"4458677009853.4", 4458677009853400},
      {"-2.5", -2500},
      {"1.2344", 1234},  // the fourth decimal rounds to nearest
      {"1.2345", 1235},
      {"0.9999", 1000},
      {"2.", 2000},
      {"1.5e3", 1'500'000},  // 1500 us
      {"2300000000000000", 2'300'000'000'000'000'000},
      {"2300000000000001", std::nullopt},
      {"99999999999999999999999", std::nullopt},
      {"1e300", std::nullopt},
      {"", std::nullopt},
      {"-", std::nullopt},
      {".5", std::nullopt},
      {"NaN", std::nullopt},
      {"12x", std::nullopt},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(nanoseconds_of_us(row.text) == row.ns);
  }
}

TEST_CASE("a hundred thousand records may be of any size; more take the bytes that records take") {
  Trace trace;
  TraceBuilder builder(trace);
  for (int i = 0; i < 100'000; ++i) builder.count_record(100);
  CHECK_THROWS_AS(builder.count_record(100), tracecast::InputError);
  CHECK_NOTHROW(builder.count_record(16 * 100'002));
  CHECK_THROWS_AS(builder.count_record(16 * 100'002), tracecast::InputError);
  CHECK_NOTHROW(builder.count_record(100'004, 1));
}

TEST_CASE("streams, threads and geometries are kept once") {
  Trace trace;
  TraceBuilder builder(trace);
  const StreamId seven = builder.stream(0, 7), twenty = builder.stream(0, 20);
  CHECK(builder.stream(0, 7) == seven);
  CHECK(builder.stream(1, 7) != seven);
  CHECK(twenty != seven);
  CHECK(trace.streams.size() == 3);
  const ThreadId thread = builder.thread("1", "a");
  CHECK(builder.thread("1", "b") != thread);
  CHECK(builder.thread("1", "a") == thread);
  CHECK(trace.threads.size() == 2);
  const Geometry geometry{.grid = {8, 1, 1}, .block = {256, 1, 1}};
  CHECK(builder.geometry({}) == GeometryId{});
  CHECK(builder.geometry(geometry) == GeometryId{1});
  CHECK(builder.geometry(geometry) == GeometryId{1});
}
