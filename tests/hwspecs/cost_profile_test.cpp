#include "hwspecs/cost_profile.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <span>
#include <sstream>
#include <string>
#include <utility>

#include "hwspecs/parameter_access.hpp"
#include "sim/base/embedded.hpp"
#include "sim/base/error.hpp"

namespace tracecast {
namespace embedded {
std::span<const EmbeddedFile> cost_profiles();
}
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
    // What no table tells is a factor of 1 on what engines or generations have in common, or adds
    // nothing.
    std::size_t factors = 0;
    for (const std::string& name : parameter_names()) {
      CAPTURE(name);
      const bool is_given = std::any_of(profile.parameters.begin(), profile.parameters.end(),
                                        [&](const ProfileParameter& p) { return p.name == name; });
      if (is_given) continue;
      ++factors;
      const double value = get_parameter(profile, name);
      CHECK((value == 1 || value == 0));
    }
    CHECK(profile.parameters.size() + factors == parameter_names().size());
    for (const ProfileParameter& p : profile.parameters) {
      CAPTURE(p.name);
      CHECK(p.log_sd > 0);
      CHECK(get_parameter(profile, p.name) == p.value);
    }
  }

  TEST_CASE("the binary's profiles are what their files say") {
    for (const EmbeddedFile& file : embedded::cost_profiles()) {
      CAPTURE(file.path);
      const CostProfile text = parse_cost_profile(file.content, file.path);
      const bool is_prior = file.path.ends_with("prior.textproto");
      const CostProfile& read = is_prior ? prior_cost_profile() : default_cost_profile();
      REQUIRE(text.parameters.size() == read.parameters.size());
      for (std::size_t i = 0; i < text.parameters.size(); ++i) {
        CHECK(text.parameters[i].name == read.parameters[i].name);
        CHECK(text.parameters[i].value == read.parameters[i].value);
        CHECK(text.parameters[i].log_sd == read.parameters[i].log_sd);
        CHECK(text.parameters[i].data_set == read.parameters[i].data_set);
      }
      CHECK(text.data_sets.size() == read.data_sets.size());
      CHECK(text.fitted == read.fitted);
      CHECK(text.fitted_gpus == read.fitted_gpus);
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
            doctest::Approx(get_parameter(profile, name)).epsilon(1e-3).scale(0));
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

  TEST_CASE("priors name every parameter, and a fit moves no expected error") {
    const CostProfile& prior = prior_cost_profile();
    for (const ProfileParameter& p : default_cost_profile().parameters) {
      CAPTURE(p.name);
      CHECK(std::any_of(prior.parameters.begin(), prior.parameters.end(),
                        [&](const ProfileParameter& q) { return q.name == p.name; }));
    }
    for (const ProfileParameter& p : prior_parameters()) CHECK(!p.name.starts_with("error."));
    // Before any row was left out nothing is surer than after, but for what no row tells.
    for (const char* name : {"error.gemm.spec", "error.tensor_gemm.spec", "error.experts.spec",
                             "error.streaming.measured"}) {
      CAPTURE(name);
      CHECK(get_parameter(prior, name) > get_parameter(default_cost_profile(), name));
    }
  }

  TEST_CASE("parameters are found by the names that they had before 0.2.0") {
    const std::string text = format_cost_profile(default_cost_profile());
    std::string earlier;
    std::size_t renamed = 0;
    const auto replace = [&](std::string line, std::string_view now, std::string_view before) {
      const std::size_t at = line.find(now);
      if (at == line.npos) return line;
      ++renamed;
      return line.replace(at, now.size(), before);
    };
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      line = replace(line, "\"tensor_gemm.", "\"product.");
      line = replace(line, "\"error.tensor_gemm", "\"error.product");
      line = replace(line, "form: \"tensor_gemm\"", "form: \"product\"");
      line = replace(line, ".factor_of.", ".pace_of.");
      line = replace(line, "single_block_cycles", "lone_block_cycles");
      line = replace(line, "_active_idle_pj_per_byte", "_awake_pj_per_byte");
      earlier += line + '\n';
    }
    CHECK(renamed > 500);
    CHECK(format_cost_profile(parse_cost_profile(earlier, "earlier")) == text);
    CHECK(get_parameter(with_parameter(default_cost_profile(), "product.start_us", 7),
                        "tensor_gemm.start_us") == 7);
    CHECK_THROWS_AS((void)with_parameter(default_cost_profile(), "product.pace_of", 1), InputError);
  }
  TEST_CASE(
      "a profile that an older version saved keeps its values, what came later is filled in") {
    CostProfile saved = default_cost_profile();
    saved = with_parameter(std::move(saved), "gemm.issue", 0.61);
    saved = with_parameter(std::move(saved), "tensor_gemm.start_us", 7);
    std::string older;
    const std::string text = format_cost_profile(saved);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at) + 1;
      const std::string line = text.substr(at, end - at);
      const auto names = [&](const char* start) {
        return line.find("name: \"" + std::string(start)) != std::string::npos;
      };
      const bool is_later = names("tensor_gemm.") || names("attention.") || names("latent.") ||
                            names("experts.") || names("quantization.") || names("error.prefill") ||
                            names("error.tensor_gemm");
      if (!is_later) older += line;
      at = end;
    }
    older +=
        "parameter { name: \"tensor.gemm.hopper\" value: 0.7 log_sd: 0.1 data_set: \"prior\" }\n";
    const CostProfile read = parse_cost_profile(older, "older");
    CHECK(get_parameter(read, "gemm.issue") == doctest::Approx(0.61));
    // The shipped profile's, not what this file never said.
    CHECK(get_parameter(read, "tensor_gemm.start_us") ==
          get_parameter(default_cost_profile(), "tensor_gemm.start_us"));
    // Expected errors: wide.
    for (const char* name : {"error.prefill.spec", "error.tensor_gemm.transferred"}) {
      CAPTURE(name);
      CHECK(get_parameter(read, name) == get_parameter(prior_cost_profile(), name));
      CHECK(get_parameter(read, name) > get_parameter(default_cost_profile(), name));
    }
    const char* const kFormat = "error.tensor_gemm_format.sglang";
    CHECK(get_parameter(read, kFormat) == get_parameter(prior_cost_profile(), kFormat));
    const auto says = [](const CostProfile& profile) {
      return std::count_if(profile.data_sets.begin(), profile.data_sets.end(),
                           [](const ProfileDataSet& set) { return set.key == kOlderFile; });
    };
    CHECK(says(read) == 1);
    CHECK(says(saved) == 0);
    // Saved again it is complete, and says still what it is.
    const CostProfile again = parse_cost_profile(format_cost_profile(read), "again");
    CHECK(says(again) == 1);
    CHECK(format_cost_profile(again) == format_cost_profile(read));
    // What every version had is missed.
    CHECK_THROWS_WITH_AS(
        (void)parse_cost_profile(replaced(older, "gemm.issue\"", "gemm.tile_overhead\""), "x"),
        doctest::Contains("twice"), InputError);
    const std::size_t line = older.find("parameter { name: \"gemm.issue\"");
    std::string without = older;
    without.erase(line, older.find('\n', line) + 1 - line);
    CHECK_THROWS_WITH_AS((void)parse_cost_profile(without, "x"), doctest::Contains("gemm.issue"),
                         InputError);
  }

  TEST_CASE("what no fit moves may be missing from a profile: the prior holds") {
    constexpr std::string_view kName = "memory.addition_cycles";
    std::string text = format_cost_profile(default_cost_profile());
    const std::size_t at = text.find("parameter { name: \"" + std::string(kName));
    text.erase(at, text.find('\n', at) + 1 - at);
    const CostProfile read = parse_cost_profile(text, "x");
    CHECK(get_parameter(read, kName) == get_parameter(prior_cost_profile(), kName));
    CHECK(get_parameter(default_cost_profile(), kName) ==
          get_parameter(prior_cost_profile(), kName));
    // A fit leaves it out.
    for (const ProfileParameter& p : prior_parameters()) CHECK(p.name != kName);
    const auto given = std::find_if(read.parameters.begin(), read.parameters.end(),
                                    [&](const ProfileParameter& p) { return p.name == kName; });
    REQUIRE(given != read.parameters.end());
    CHECK(given->data_set == "prior");
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
