#include "hwspecs/cost_profile.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>

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
    // What no table tells is a factor of 1 on what engines or generations have in common.
    std::size_t factors = 0;
    for (const std::string& name : parameter_names()) {
      CAPTURE(name);
      const bool is_given = std::any_of(profile.parameters.begin(), profile.parameters.end(),
                                        [&](const ProfileParameter& p) { return p.name == name; });
      if (is_given) continue;
      ++factors;
      CHECK(get_parameter(profile, name) == 1);
    }
    CHECK(profile.parameters.size() + factors == parameter_names().size());
    for (const ProfileParameter& p : profile.parameters) {
      CAPTURE(p.name);
      CHECK(p.log_sd > 0);
      CHECK(get_parameter(profile, p.name) == p.value);
    }
  }

  TEST_CASE("set and get are by name") {
    CostProfile profile = default_cost_profile();
    profile = with_parameter(std::move(profile), "tensor.convolution.volta", 0.5);
    CHECK(profile.tensor.convolution[Architecture::Volta] == 0.5);
    CHECK(get_parameter(profile, "tensor.convolution.volta") == 0.5);
    CHECK_THROWS_WITH_AS((void)with_parameter(profile, "tensor.convoluton.volta", 0.5),
                         doctest::Contains("tensor.convolution.volta"), InputError);
    CHECK_THROWS_AS((void)with_parameter(profile, "tensor.convolution.volta", -1), InputError);
  }

  TEST_CASE("what a fit may move has a prior within its bounds, once") {
    std::vector<std::string> seen;
    for (const ProfileParameter& p : prior_parameters()) {
      CAPTURE(p.name);
      const auto [low, high] = parameter_bounds(p.name);
      CHECK(p.value >= low);
      CHECK(p.value <= high);
      CHECK(p.log_sd > 0);
      CHECK(std::find(seen.begin(), seen.end(), p.name) == seen.end());
      seen.push_back(p.name);
    }
    CHECK(seen.size() > 20);
  }

  TEST_CASE("a written profile reads back as it was, to the digits written") {
    CostProfile profile = default_cost_profile();
    profile.title = "with \"quotes\" and a \\";
    profile.measured_gpu = "t4";
    profile.board = {.arithmetic = 0.9, .bandwidth = 1.1};
    const std::string text = format_cost_profile(profile);
    const CostProfile again = parse_cost_profile(text, "again");
    CHECK(format_cost_profile(again) == text);
    CHECK(again.title == profile.title);
    CHECK(again.board.arithmetic == doctest::Approx(0.9));
    CHECK(again.fitted == profile.fitted);
    for (const std::string& name : parameter_names()) {
      CAPTURE(name);
      CHECK(get_parameter(again, name) ==
            doctest::Approx(get_parameter(profile, name)).epsilon(1e-3));
    }
  }

  TEST_CASE("a board's factors count on the GPU that was measured alone") {
    CostProfile profile = default_cost_profile();
    profile.measured_gpu = "t4";
    profile.board = {.arithmetic = 0.9, .bandwidth = 1.1};
    GpuSpec gpu;
    gpu.id = "t4";
    CHECK(board_factors(profile, gpu).arithmetic == 0.9);
    gpu.id = "l4";
    CHECK(board_factors(profile, gpu).arithmetic == 1.0);
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
