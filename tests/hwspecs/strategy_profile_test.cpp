#include "hwspecs/software/strategy_profile.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "hwspecs/collective_library.hpp"
#include "sim/base/error.hpp"
#include "tests/support/specs.hpp"

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("hwspecs/software/strategy_profile");

TEST_CASE("every strategy in the binary has a source for every value and a library that exists") {
  CHECK(strategy_ids().size() >= 14);
  for (const std::string& id : strategy_ids()) {
    CAPTURE(id);
    const StrategyProfile& strategy = find_strategy(id);
    CHECK(strategy.values.size() >= 18);
    for (const SpecValue& value : strategy.values) {
      CAPTURE(value.field);
      CHECK(std::any_of(strategy.sources.begin(), strategy.sources.end(),
                        [&](const SpecSource& s) { return s.key == value.source; }));
    }
    if (strategy.library != "copies")
      CHECK_NOTHROW((void)find_collective_library(strategy.library));
  }
  CHECK(rank_variation().rank_sd > 0);
}

TEST_CASE("a framework's usual strategy depends on the year and on the number of nodes") {
  struct Row {
    const char* framework;
    const char* date;
    bool several_nodes;
    const char* id;
  };
  const Row rows[] = {
      {"pytorch", "", false, "ddp"},
      {"pytorch", "2020-05", true, "ddp"},
      {"tensorflow", "2017-05", false, "parameter_server"},
      {"tensorflow", "2018-06", false, "replicated"},
      {"tensorflow", "2017-05", true, "distributed_ps"},
      {"tensorflow", "2020-08", true, "horovod"},
      {"mxnet", "2016-12", true, "kvstore_device"},
      {"mxnet", "", false, "horovod"},
      {"caffe", "2015-06", false, "caffe_tree"},
      {"caffe", "2018", false, "caffe_nccl"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.framework);
    CAPTURE(row.date);
    CHECK(usual_strategy(row.framework, row.date, row.several_nodes).id == row.id);
  }
}

TEST_CASE("the longest word of a description names its strategy") {
  struct Row {
    const char* text;
    const char* id;
  };
  const Row rows[] = {
      {"variable_update=parameter_server/cpu; sgd", "parameter_server"},
      {"variable_update=replicated (without NCCL)/gpu", "replicated_copies"},
      {"variable_update=distributed_replicated, cross_replica_sync=True", "distributed_replicated"},
      {"total batch 12 x GPUs with nn.DataParallel", "dataparallel"},
      {"TCP Horovod (allreduce on CPU)", "horovod_mpi"},
      {"RDMA Horovod (allreduce on GPU with NCCL)", "horovod"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const StrategyProfile* found = find_strategy_in(row.text);
    REQUIRE(found != nullptr);
    CHECK(found->id == row.id);
  }
  CHECK(find_strategy_in("nothing of the kind") == nullptr);
}

TEST_CASE("an unknown strategy, a missing value and a source that does not exist are refused") {
  CHECK_THROWS_WITH_AS((void)find_strategy("dpp"), doctest::Contains("nearest: ddp"), InputError);
  CHECK_THROWS_WITH_AS((void)parse_strategy("id: \"x\"", "file"),
                       doctest::Contains("communication"), InputError);
  CHECK_THROWS_WITH_AS(
      (void)parse_strategy("id: \"x\" communication { value: \"all_reduce\" source: \"code\" }",
                           "file"),
      doctest::Contains("code"), InputError);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
