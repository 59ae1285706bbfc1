#include <doctest/doctest.h>

#include <string>

#include "tools/study/study.hpp"

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("validation/wisc_study");

/// University of Wisconsin, comparing ML hardware: four V100 in one box. How it was read, and which
/// readings were chosen after its rows had been seen:
/// sim/sharing/notes/0001-moved-and-colocated-jobs.md.
TEST_CASE("four V100 in one box gain, wait and are shared as in the Wisconsin study") {
  const Study& study = find_study("s_wisc");
  const auto results = run_study(study, load_hardware({}));
  CHECK(results.size() == 7);
  for (const StudyResult& result : results) {
    CAPTURE(result.row->id);
    MESSAGE(result.row->id << ": " << result.predicted.value_or(0));
    CHECK(result.agrees);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
