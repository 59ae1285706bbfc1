#include "traces/intervals.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "sim/base/random.hpp"

using namespace tracecast::traces;

TEST_CASE("the union joins what overlaps or touches, in any order") {
  const Intervals set = Intervals::union_of({{20, 5}, {0, 10}, {5, 8}, {25, 1}, {100, 0}});
  const std::vector<Span> expected = {{0, 13}, {20, 6}};
  REQUIRE(set.spans().size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(set.spans()[i] == expected[i]);
  CHECK(set.length_ns() == 19);
  REQUIRE(set.gaps().size() == 1);
  CHECK(set.gaps()[0] == Span{13, 7});
}

TEST_CASE("a stretch of time is reported how much of it lies in the set") {
  const Intervals set = Intervals::union_of({{0, 10}, {20, 10}});
  struct Row {
    std::int64_t from, to, inside;
  };
  const Row rows[] = {{-5, 40, 20}, {5, 25, 10}, {10, 20, 0}, {22, 23, 1},
                      {30, 99, 0},  {25, 5, 0},  {-9, -1, 0}};
  for (const Row& row : rows) {
    CAPTURE(row.from);
    CHECK(set.within(row.from, row.to) == row.inside);
  }
  CHECK(set.contains(0));
  CHECK_FALSE(set.contains(10));
  CHECK(Intervals().within(0, 10) == 0);
}

TEST_CASE("overlap is the same from both sides, and what counting instants gives") {
  tracecast::Random random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<Span> a, b;
    std::vector<bool> in_a(200), in_b(200);
    const auto fill = [&random](std::vector<Span>& spans, std::vector<bool>& marks) {
      for (int i = 0; i < 10; ++i) {
        const auto begin = static_cast<std::int64_t>(random.uniform() * 180);
        const auto length = static_cast<std::int64_t>(random.uniform() * 20);
        spans.push_back({begin, length});
        for (auto t = begin; t < begin + length; ++t) marks[static_cast<std::size_t>(t)] = true;
      }
    };
    fill(a, in_a);
    fill(b, in_b);
    std::int64_t both = 0, either = 0;
    for (std::size_t t = 0; t < in_a.size(); ++t) both += in_a[t] && in_b[t], either += in_a[t];
    const Intervals set_a = Intervals::union_of(a), set_b = Intervals::union_of(b);
    CHECK(set_a.length_ns() == either);
    CHECK(set_a.overlap_ns(set_b) == both);
    CHECK(set_b.overlap_ns(set_a) == both);
  }
}
