#include "hwspecs/software/program_hosts.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/error.hpp"
#include "tests/support/specs.hpp"

namespace tracecast {
namespace {

constexpr const char* kText = R"(
data: "a test" bandwidth: 0.5 known_log_sd: 0.2
program { name: "bare" added_ms: 0 rows: 3 }
program { name: "slow" added_ms: 80 rows: 3 }
program { name: "quick" added_ms: 2 rows: 3 infers: true }
)";

double sum(const AddedHost& added) {
  double total = 0;
  for (const LikelyTime& one : added.times) total += one.weight;
  return total;
}

TEST_SUITE_BEGIN("hwspecs/software/program_hosts");

TEST_CASE("a known program has its own time, an unknown one that of any other of its kind") {
  const ProgramHosts hosts = parse_program_hosts(kText, "f");
  CHECK(hosts.knows("Slow"));
  CHECK_FALSE(hosts.knows("other"));
  const AddedHost known = hosts.added_by("slow", false);
  CHECK(sum(known) == doctest::Approx(1));
  CHECK(known.median().in_ms() == doctest::Approx(80).epsilon(0.2));
  // 80 e^(1.645 * 0.2) = 111, on a grid whose steps are 18 %
  CHECK(known.quantile(0.95).in_ms() == doctest::Approx(111).epsilon(0.2));
  const AddedHost other = hosts.added_by("other", false);
  CHECK(sum(other) == doctest::Approx(1));
  CHECK(other.times.front().time == Seconds(0));
  CHECK(other.times.front().weight == doctest::Approx(0.5));
  CHECK(other.quantile(0.4) == Seconds(0));
  CHECK(other.quantile(0.75).in_ms() == doctest::Approx(80).epsilon(0.2));
  CHECK(hosts.added_by("other", true).median().in_ms() == doctest::Approx(2).epsilon(0.2));
  // Leaving one out: nothing but the bare loop is left.
  CHECK(hosts.added_by("other", false, "slow").quantile(1) == Seconds(0));
}

TEST_CASE("the file of the binary has programs of every kind of table") {
  const ProgramHosts& hosts = binary().program_hosts();
  CHECK(hosts.programs.size() > 30);
  CHECK(hosts.knows("adaptdl_bert_squad"));
  CHECK(hosts.added_by("adaptdl_bert_squad", false).median().in_ms() > 40);
}

TEST_CASE("a wrong file is refused with what is wrong") {
  const auto refused = [](const std::string& text, const char* part) {
    try {
      (void)parse_program_hosts(text, "f");
      FAIL("taken: " << text);
    } catch (const InputError& error) {
      CHECK(std::string(error.what()).find(part) != std::string::npos);
    }
  };
  refused(R"(bandwidth: 0.5)", "no data");
  refused(R"(data: "d" bandwidth: 0 known_log_sd: 0.2)", "bandwidth");
  refused(R"(data: "d" bandwidth: 0.5 known_log_sd: 0.2)", "no program");
  refused(R"(data: "d" bandwidth: 0.5 known_log_sd: 0.2 program { added_ms: 1 })", "name");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
