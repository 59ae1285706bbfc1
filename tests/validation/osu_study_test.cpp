#include <doctest/doctest.h>

#include <cstdio>
#include <string>

#include "tools/study/study.hpp"

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("validation/osu_study");

/// Ohio State University, characterising deep-learning systems on data-centre architectures, 2018.
/// Channels are fitted to its point-to-point rows and to none of its training rows. Bounds: every
/// ratio of training rows on its side of 1 and within a factor of 1.5; of all rows, one is known to
/// disagree.
TEST_CASE("channels decide training with a parameter server as in the Ohio State study") {
  const Study& study = find_study("s_osu");
  const auto results = run_study(study, load_hardware({}));
  int disagreeing = 0, training_ratios = 0;
  for (const StudyResult& result : results) {
    const StudyRow& row = *result.row;
    CAPTURE(row.id);
    std::printf("%-28s published %8s predicted %8.3f %s\n", row.id.c_str(),
                row.published ? std::to_string(*row.published).substr(0, 6).c_str() : "-",
                result.predicted.value_or(0), result.agrees ? "" : "disagrees");
    CHECK(result.predicted.has_value());
    disagreeing += result.agrees ? 0 : 1;
    const bool trains = row.id.starts_with("inception") || row.id.starts_with("resnet");
    if (!trains || row.unit != "x") continue;
    ++training_ratios;
    CHECK(row.neutral == 1);
    CHECK(*row.factor <= 1.5);
    CHECK_FALSE(row.fitted);
    CHECK(result.agrees);
  }
  CHECK(training_ratios == 21);
  CHECK(disagreeing <= 1);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
