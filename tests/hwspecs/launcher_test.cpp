#include "hwspecs/software/launcher.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/error.hpp"
#include "tests/support/specs.hpp"

using namespace tracecast;

namespace {

std::string profile(const std::string& from = "", const std::string& to = "") {
  std::string text = R"(
id: "x" source { key: "s" title: "T" where: "W" }
node_heartbeat_s { value: 4 source: "s" }
first_request_s { value: 0.5 source: "s" }
container_start_s { value: 3 source: "s" }
context_start_s { value: 7 source: "s" }
worker_start_s { value: 11 source: "s" }
task_launch_s { value: 0.25 source: "s" }
records_per_s { value: 100 source: "s" }
)";
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  return text;
}

}  // namespace

TEST_SUITE("hwspecs/software/launcher") {
  TEST_CASE("a job waits for reports of nodes, answers and processes") {
    const LauncherProfile l = parse_launcher(profile(), "f");
    // 4 / 2 + 3, then 0.5 + 4 * 1 / 2 + 3; three executors: 4 * 3 / 4
    CHECK(l.scheduling(1).in_s() == doctest::Approx(5 + 5.5));
    CHECK(l.scheduling(3).in_s() == doctest::Approx(5 + 6.5));
    CHECK(l.execution(8).in_s() == doctest::Approx(7 + 11 + 2));
    CHECK(l.records.in_si() == 100);
  }

  TEST_CASE("a launcher's file that is wrong is refused") {
    for (const auto& [from, to] : {std::pair{"id: \"x\"", ""},
                                   {"worker_start_s", "worker_stop_s"},
                                   {"{ value: 7 source: \"s\" }", "{ value: 7 source: \"t\" }"},
                                   {"value: 100", "value: 0"},
                                   {"value: 0.5", "value: -1"},
                                   {"first_request_s { value: 0.5 source: \"s\" }", ""}}) {
      CAPTURE(from);
      CHECK_THROWS_AS((void)parse_launcher(profile(from, to), "f"), InputError);
    }
    CHECK_THROWS_AS((void)find_launcher("slingshot"), InputError);
    CHECK(find_launcher("spark_on_yarn").values.size() == 7);
  }
}
