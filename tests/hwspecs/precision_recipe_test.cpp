#include "hwspecs/software/precision_recipe.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/error.hpp"
#include "tests/support/specs.hpp"

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("hwspecs/software/precision_recipe");

TEST_CASE("a recipe takes from its base what it does not state") {
  const PrecisionRecipe* fp8 = binary().find_precision_recipe_or_null("fp8");
  const PrecisionRecipe* nvfp4 = binary().find_precision_recipe_or_null("nvfp4");
  REQUIRE(fp8 != nullptr);
  REQUIRE(nvfp4 != nullptr);
  CHECK(fp8->gemms.math == Precision::Fp8);
  CHECK(fp8->gemms.input == OperandRecipe{.greatest_passes = 0, .cast_passes = 1});
  CHECK(nvfp4->gemms.math == Precision::Fp4);
  // Greatest values, the straight copy, the turned one behind a Hadamard transform; weights have no
  // transform.
  CHECK(nvfp4->gemms.gradient == OperandRecipe{.greatest_passes = 1, .cast_passes = 2});
  CHECK(nvfp4->gemms.weight == OperandRecipe{.greatest_passes = 1, .cast_passes = 1});
  CHECK(nvfp4->gemms.scale_bytes == 1.0 / 16);
  CHECK(nvfp4->gemms.keeps_frozen_weights);
  CHECK(nvfp4->last_wide_layers == 4);
  CHECK(binary().find_precision_recipe_or_null("bf16") == nullptr);
}

TEST_CASE("the longest word in what a published run says names the recipe") {
  const auto recipe_in = [](std::string_view text) {
    const PrecisionRecipe* found = binary().find_precision_recipe_in(text);
    return found == nullptr ? std::string() : found->id;
  };
  CHECK(recipe_in("FP8-MX") == "mxfp8");
  CHECK(recipe_in("FP8-CS") == "fp8_current");
  CHECK(recipe_in("FP8 (mxfp8/blockwise in parentheses)") == "fp8_current");
  CHECK(recipe_in("fp8+bf16") == "fp8");
  CHECK(recipe_in("amp_fp8") == "fp8");
  CHECK(recipe_in("NVFP4") == "nvfp4");
  CHECK(recipe_in("amp_bf16").empty());
}

TEST_CASE("a wrong recipe is refused with its field") {
  const FindSpecText none = [](std::string_view) { return std::nullopt; };
  const auto refused = [&](const std::string& text, const char* part) {
    try {
      (void)parse_precision_recipe(text, "f", none);
      FAIL("taken: " << text);
    } catch (const InputError& error) {
      CHECK(std::string(error.what()).find(part) != std::string::npos);
    }
  };
  refused("name: \"x\"", "no id");
  refused(R"(id: "x" math { value: "fp6" source: "s" })", "fp6");
  refused(R"(id: "x" sources { key: "s" } math { value: "fp8" source: "s" })",
          "input.greatest_passes");
  refused(R"(id: "x" based_on: "y")", "based_on \"y\"");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
