#include "hwspecs/cost_profile.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

std::string complete_profile() {
  std::string text = "id: \"t\"\n";
  for (const std::string& name : parameter_names()) {
    text += "parameter { name: \"" + name + "\" value: 1 log_sd: 0.1 data_set: \"prior\" }\n";
  }
  return text;
}
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST_SUITE("hwspecs/cost_profile") {
  TEST_CASE("the default profile is complete and names a data set for every fitted value") {
    const CostProfile& profile = default_cost_profile();
    CHECK(profile.parameters.size() == parameter_names().size());
    for (const ProfileParameter& p : profile.parameters) {
      CAPTURE(p.name);
      CHECK(p.log_sd > 0);
      CHECK(get_parameter(profile, p.name) == p.value);
    }
  }

  TEST_CASE("set and get are by name") {
    CostProfile profile = default_cost_profile();
    set_parameter(profile, "gemm.step_cycles.kepler", 150);
    CHECK(profile.gemm.step_cycles[Architecture::Kepler] == 150);
    CHECK(get_parameter(profile, "gemm.step_cycles.kepler") == 150);
    CHECK_THROWS_WITH_AS(set_parameter(profile, "gemm.step_cyles.kepler", 0.5),
                         doctest::Contains("gemm.step_cycles.kepler"), InputError);
    CHECK_THROWS_AS(set_parameter(profile, "gemm.step_cycles.kepler", -1), InputError);
  }

  TEST_CASE("a broken profile is refused with what is wrong") {
    const std::string good = complete_profile();
    CHECK_THROWS_AS((void)parse_cost_profile("parameter {", "x"), InputError);
    CHECK_THROWS_WITH_AS((void)parse_cost_profile("id: \"t\"", "x"),
                         doctest::Contains("no parameter"), InputError);
    const std::string first = "name: \"" + parameter_names().front() + "\"";
    CHECK_THROWS_AS((void)parse_cost_profile(replaced(good, first, "name: \"nonsense\""), "x"),
                    InputError);
    CHECK_THROWS_AS((void)parse_cost_profile(replaced(good, "value: 1", "value: nan"), "x"),
                    InputError);
    CHECK_THROWS_AS((void)parse_cost_profile(replaced(good, "value: 1", "value: -7"), "x"),
                    InputError);
    CHECK_THROWS_AS((void)parse_cost_profile(replaced(good, "\"prior\"", "\"none\""), "x"),
                    InputError);
    CHECK_THROWS_AS((void)parse_cost_profile(good + good.substr(good.find("parameter")), "x"),
                    InputError);
    CHECK_THROWS_AS(
        (void)parse_cost_profile(good + "coverage { form: \"gemm\" architecture: \"tesla\" }", "x"),
        InputError);
  }
}

}  // namespace
}  // namespace tracecast
