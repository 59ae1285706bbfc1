#include "traces/ranks/one_job.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "tests/traces/ranks/rank_text.hpp"

namespace tracecast {
namespace {

using namespace test;
using traces::Trace;

constexpr std::int64_t kRecorded = 1'700'000'000'000'000'000;  // 2023

/// Rank `rank` of two with 20 kernels and a collective of both.
Trace rank(int rank) {
  std::string events = nccl("AllReduce", 100, 100, 1, 1000, 2);
  for (int i = 0; i < 20; ++i)
    events += "," + kernel("gemm_" + std::to_string(i % 4), 300 + 10 * i, 5, 2 + i);
  Trace trace = trace_of(events);
  trace.source = "rank" + std::to_string(rank) + ".json";
  trace.rank = rank;
  trace.world_size = 2;
  trace.epoch_ns = kRecorded;
  return trace;
}

std::string complaint(std::vector<Trace> traces) {
  try {
    traces::check_one_job(traces);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

/// The complaint about ranks 0 and 1 after `change` of rank 1.
std::string complaint_after(const std::function<void(Trace&)>& change) {
  std::vector<Trace> traces;
  traces.push_back(rank(0));
  traces.push_back(rank(1));
  change(traces[1]);
  return complaint(std::move(traces));
}

TEST_SUITE_BEGIN("traces/ranks/one_job");

TEST_CASE("ranks of one job pass, whatever may differ between them") {
  struct Row {
    const char* what;
    std::function<void(Trace&)> change;
  };
  const Row rows[] = {
      {"nothing", [](Trace&) {}},
      {"clocks half a minute apart", [](Trace& t) { t.epoch_ns += 30'000'000'000; }},
      {"times that are not absolute", [](Trace& t) { t.epoch_ns = 0; }},
      {"a number of ranks that is not recorded", [](Trace& t) { t.world_size.reset(); }},
      {"no kernels",
       [](Trace& t) {
         t.kernels = {};
         t.collectives = {};
       }},
      {"a piece that was asked for", [](Trace& t) { t.format += ", from 1s to its end"; }},
      {"a group of some ranks only",
       [](Trace& t) {
         t.collectives.group[0] = t.names.intern("1");
         t.collectives.group_size[0] = 1;
       }},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK(complaint_after(row.change) == "");
  }
  std::vector<Trace> alone;
  CHECK(complaint({}) == "");
  alone.push_back(rank(1));
  alone.back().rank = 7;  // of 2: strange, but nothing stands beside it
  CHECK(complaint(std::move(alone)) == "");
}

TEST_CASE("recordings of different jobs are refused, and two of them are named") {
  struct Row {
    std::function<void(Trace&)> change;
    const char* says;
  };
  const Row rows[] = {
      {[](Trace& t) { t.rank = 0; }, "rank 0 of 2 beside rank 0 of 2"},
      {[](Trace& t) { t.rank.reset(); }, "no rank beside rank 0 of 2"},
      {[](Trace& t) { t.world_size = 8; }, "rank 1 of 8 beside rank 0 of 2"},
      {[](Trace& t) { t.rank = 2; }, "rank 2 beside a job of 2"},
      {[](Trace& t) { t.format = "nvprof"; }, "a recording of nvprof beside one of PyTorch Kineto"},
      {[](Trace& t) { t.epoch_ns += 3 * 86'400'000'000'000; }, "a recording 3 days later"},
      {[](Trace& t) { t.epoch_ns -= 120'000'000'000; }, "a recording 2 minutes earlier"},
      {[](Trace& t) { t.collectives.group_size[0] = 4; }, "process group \"0\" of 4"},
      {[](Trace& t) {
         for (traces::NameId& name : t.kernels.name) name = t.names.intern("other_kernel");
       },
       "kernels of other names"},
  };
  for (const Row& row : rows) {
    const std::string line = complaint_after(row.change);
    CAPTURE(line);
    CHECK(line.find(row.says) != std::string::npos);
    CHECK(line.find("rank0.json") != std::string::npos);
    CHECK(line.find("rank1.json") != std::string::npos);
    CHECK(line.find("ranks of one job") != std::string::npos);
    CHECK(line.find('\n') == std::string::npos);
  }
}

TEST_CASE("without ranks and dates, collectives in all of them must speak for one job, or names") {
  const auto unnumbered = [](int i, bool has_collective) {
    Trace trace = rank(i);
    trace.source = i == 0 ? "before.json" : "after.json";
    trace.rank.reset();
    trace.world_size.reset();
    trace.epoch_ns = 0;
    if (has_collective) return trace;
    for (traces::NameId& name : trace.kernels.name) name = trace.names.intern("gemm_0");
    trace.collectives = {};
    return trace;
  };
  std::vector<Trace> both, neither, one;
  for (int i = 0; i < 2; ++i) {
    both.push_back(unnumbered(i, true));
    neither.push_back(unnumbered(i, false));
    one.push_back(unnumbered(i, i == 0));
  }
  both[0].collectives = {};  // its kernel's name tells it as well
  CHECK(complaint(std::move(both)) == "");
  std::vector<Trace> dated;
  for (int i = 0; i < 2; ++i) {
    dated.push_back(unnumbered(i, false));
    dated.back().epoch_ns = kRecorded;
  }
  CHECK(complaint(std::move(dated)) == "");
  CHECK(complaint(std::move(neither)).find("no rank and no collective") != std::string::npos);
  CHECK(complaint(std::move(one)).starts_with("after.json: "));
  struct Row {
    const char *first, *second;
    bool are_ranks;
  };
  const Row rows[] = {
      {"run/rank0.json", "run/rank1.json", true},
      {"job.tar: worker-0.pt.trace.json.gz", "job.tar: worker-1.pt.trace.json.gz", true},
      {"Rank_3.json", "rank_11.json", true},
      {"rank0.json", "again/rank0.json", false},
      {"batch_4.json", "batch_8.json", false},
      {"rank0.json", "notes.json", false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.first);
    std::vector<Trace> named;
    named.push_back(unnumbered(0, false));
    named.push_back(unnumbered(1, false));
    named[0].source = row.first;
    named[1].source = row.second;
    CHECK((complaint(std::move(named)) == "") == row.are_ranks);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
