#include "traces/ranks/match.hpp"

#include <doctest/doctest.h>

#include "tests/traces/ranks/rank_text.hpp"
#include "traces/ranks/waiting.hpp"

namespace tracecast {
namespace {

using namespace test;
using traces::CollectiveMatch;
using traces::MatchedCollective;
using traces::Trace;

TEST_SUITE_BEGIN("traces/ranks/match");

TEST_CASE("names of collectives and types mean what libraries mean by them") {
  struct Row {
    const char* name;
    std::optional<Collective> kind;
  };
  const Row rows[] = {
      {"allreduce", Collective::AllReduce},
      {"_allgather_base", Collective::AllGather},
      {"_reduce_scatter_base", Collective::ReduceScatter},
      {"nccl:all_to_all", Collective::AllToAll},
      {"c10d::broadcast_", Collective::Broadcast},
      {"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", Collective::SendReceive},
      {"ncclDevKernel_Reduce_RING_LL", Collective::Reduce},
      {"aten::mm", std::nullopt},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(traces::collective_of(row.name) == row.kind);
  }
  CHECK(traces::bytes_of_type("long int") == 8);
  CHECK(traces::bytes_of_type("c10::BFloat16") == 2);
  CHECK(traces::bytes_of_type("TensorList") == 0);
  // 394241 floats and 12 of 8 bytes; a scalar has no dims.
  CHECK(traces::bytes_of_tensors("[[394241],[3,4],[]]", R"(["float","double","Scalar"])") ==
        394241 * 4 + 12 * 8);
  CHECK(traces::bytes_of_tensors("[[[3],[4]]]", R"(["TensorList"])") == 0);
  CHECK(traces::bytes_of_tensors("[[3]]", "[]") == 0);
  CHECK(traces::bytes_of_tensors("[[99999999999,99999999999]]", R"(["float"])") > 0);
}

TEST_CASE(
    "of an all-gather the operator lists one rank's part, of other collectives all that moves") {
  // No record of the collective: 1000 floats are the operator's input, in a job of eight.
  struct Row {
    const char* op;
    std::uint64_t bytes;
  };
  for (const Row& row : {Row{"nccl:_all_gather_base", 8 * 4000}, {"nccl:all_reduce", 4000}}) {
    CAPTURE(row.op);
    const std::string name(row.op);
    TextSource source(R"({"distributedInfo":{"rank":0,"world_size":8},"traceEvents":[)" +
                      event("cpu_op", name, 0, 50,
                            R"("External id":5,"Input Dims":[[1000]],"Input type":["float"])") +
                      "," + launch(10, 5, 1) + "," +
                      kernel("ncclDevKernel_AllGather_RING_LL", 20, 100, 1, 5) + "]}");
    const Trace trace = traces::read_kineto(source, "t.json");
    const traces::LaunchIndex launches(trace);
    const auto found = traces::find_collective_kernels(
        trace, traces::classify_kernels(trace, traces::KernelNames::builtin(), launches), launches);
    REQUIRE(found.size() == 1);
    CHECK(found[0].bytes == row.bytes);
  }
}

TEST_CASE("a rank waits until the last one begins, and all move data from then on") {
  // Rank 0's clock stands 1000 us before rank 1's. By rank 0's: it arrives at 100, rank 1 at 160,
  // both end at 200; then at 300 and 310, end 350.
  const std::vector<Trace> traces = [] {
    std::vector<Trace> list;
    list.push_back(trace_of(nccl("AllReduce", 100, 100, 1, 1000, 2) + "," +
                            nccl("AllReduce", 310, 40, 2, 50, 2)));
    list.push_back(trace_of(nccl("AllReduce", 1160, 40, 1, 1000, 2) + "," +
                            nccl("AllReduce", 1300, 50, 2, 50, 2)));
    return list;
  }();
  const CollectiveMatch match = match_of(traces);
  REQUIRE(match.collectives.size() == 2);
  CHECK(match.clocks[1].is_set);
  CHECK(match.clocks[1].offset_ns == -1'000'000);
  CHECK(match.clocks[1].sd_ns == 0);
  const MatchedCollective& first = match.collectives[0];
  CHECK(first.kind == Collective::AllReduce);
  CHECK(first.bytes == 4000);
  CHECK(first.is_complete);
  CHECK(first.parts[0].wait_ns == 60'000);
  CHECK(first.parts[1].wait_ns == 0);
  CHECK(first.last == 1);
  CHECK(first.moving_ns == 40'000);
  CHECK(match.collectives[1].last == 0);
  CHECK(match.collectives[1].parts[1].wait_ns == 10'000);
  CHECK(match.unmatched.empty());

  // 4000 + 200 bytes, moved in 40 + 40 us; bus bandwidth is 2 (N-1)/N = 1 times that.
  const traces::CollectiveWaiting sum = traces::sum_waiting(match);
  CHECK(sum.wait_ns == 70'000);
  CHECK(sum.move_ns == 160'000);
  CHECK(sum.kernels.ns == 230'000);
  CHECK(sum.ranks[0].wait_ns == 60'000);
  CHECK(sum.ranks[1].held_ns == 60'000);
  CHECK(sum.ranks[1].last == 1);
  REQUIRE(sum.kinds.size() == 1);
  CHECK(sum.kinds[0].bytes == 4200);
  CHECK(sum.kinds[0].sized_moving_ns == 80'000);
}

TEST_CASE("a recording that begins one collective later is matched by kinds, sizes and ends") {
  // Collectives of one size at irregular times; the second rank missed the first of them.
  const int begins[] = {100, 217, 391, 455, 600, 812};
  std::string first, second;
  for (int i = 0; i < 6; ++i) {
    const std::string all = nccl("AllReduce", begins[i], 50, i + 1, 1000, 2);
    first += (i > 0 ? "," : "") + all;
    if (i > 0) second += (i > 1 ? "," : "") + all;
  }
  std::vector<Trace> traces;
  traces.push_back(trace_of(first));
  traces.push_back(trace_of(second));
  const CollectiveMatch match = match_of(traces);
  CHECK(match.collectives.size() == 5);
  CHECK(match.clocks[1].offset_ns == 0);
  for (const MatchedCollective& c : match.collectives) CHECK(c.parts[0].wait_ns == 0);
  REQUIRE(match.unmatched.size() == 1);
  CHECK(match.unmatched.begin()->first == "without counterpart in the other ranks");
  CHECK(match.unmatched.begin()->second.count == 1);
}

TEST_CASE("an order in which many collectives differ is no match, however regular its ends are") {
  // Every 100 us, by threes of one size and of another; the second rank missed the first.
  // Unshifted, all ends are 100 us apart and 8 of 11 sizes agree; shifted by one, all agree and end
  // together.
  std::string first, second;
  for (int i = 0; i < 12; ++i) {
    const std::string one =
        nccl("AllReduce", 100 * (i + 1), 50, i + 1, i / 3 % 2 == 0 ? 1000 : 2000, 2);
    first += (i > 0 ? "," : "") + one;
    if (i > 0) second += (i > 1 ? "," : "") + one;
  }
  std::vector<Trace> traces;
  traces.push_back(trace_of(first));
  traces.push_back(trace_of(second));
  const CollectiveMatch match = match_of(traces);
  CHECK(match.collectives.size() == 11);
  CHECK(match.clocks[1].offset_ns == 0);
  REQUIRE(match.unmatched.size() == 1);
  CHECK(match.unmatched.begin()->second.count == 1);
}

TEST_CASE("what cannot be matched is counted with its reason") {
  std::vector<Trace> traces;
  traces.push_back(trace_of(nccl("AllReduce", 100, 50, 1, 1000, 4)));
  traces.push_back(trace_of(nccl("AllReduce", 120, 30, 1, 1000, 4)));
  SUBCASE("two ranks of four: the last may be another one") {
    const CollectiveMatch match = match_of(traces);
    REQUIRE(match.collectives.size() == 1);
    CHECK_FALSE(match.collectives[0].is_complete);
    CHECK(traces::sum_waiting(match).incomplete == 1);
  }
  SUBCASE("other kinds in the same place") {
    traces[1] = trace_of(nccl("Broadcast", 120, 30, 1, 1000, 4));
    const CollectiveMatch match = match_of(traces);
    CHECK(match.collectives.empty());
    CHECK(match.unmatched.begin()->second.count == 2);
  }
  SUBCASE("sends among more than two ranks") {
    traces.clear();
    for (int r = 0; r < 3; ++r) traces.push_back(trace_of(nccl("SendRecv", 100, 50, 1, 10, 3)));
    const CollectiveMatch match = match_of(traces);
    CHECK(match.collectives.empty());
    CHECK(match.unmatched.count("a send or receive, whose partner is not recorded") == 1);
  }
  SUBCASE("more ranks with a group's name than it has") {
    for (int r = 0; r < 3; ++r) traces.push_back(trace_of(nccl("AllReduce", 100, 50, 1, 1000, 4)));
    CHECK(match_of(traces).collectives.empty());
  }
}

TEST_CASE("one rank alone tells what repeats beyond its quickest") {
  const Trace trace = trace_of(nccl("AllReduce", 100, 50, 1, 1000, 2) + "," +
                               nccl("AllReduce", 200, 80, 2, 1000, 2) + "," +
                               nccl("AllReduce", 300, 60, 3, 2000, 2));
  const traces::LaunchIndex launches(trace);
  const auto infos = traces::classify_kernels(trace, traces::KernelNames::builtin(), launches);
  const auto single =
      traces::compare_repeats(trace, traces::find_collective_kernels(trace, infos, launches));
  CHECK(single.kernels.count == 3);
  CHECK(single.compared.count == 2);
  CHECK(single.beyond_quickest_ns == 30'000);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
