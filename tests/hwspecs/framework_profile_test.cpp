#include "hwspecs/software/framework_profile.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "sim/base/embedded.hpp"
#include "sim/base/error.hpp"
#include "tests/hwspecs/spec_checks.hpp"
#include "tests/support/specs.hpp"

namespace tracecast::embedded {
std::span<const EmbeddedFile> framework_profiles();
}

using namespace tracecast;

namespace {

std::string text_of(std::string_view id) {
  for (const EmbeddedFile& file : embedded::framework_profiles()) {
    if (file.path == "hwspecs/framework/" + std::string(id) + ".textproto")
      return std::string(file.content);
  }
  FAIL("no such file");
  return {};
}

std::string profile_error(const std::string& text) {
  try {
    (void)parse_framework_profile(text, "profile");
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

bool has_known_version(const FrameworkProfile& profile) {
  return std::any_of(profile.values.begin(), profile.values.end(),
                     [](const SpecValue& value) { return value.field == "known.version"; });
}

}  // namespace

TEST_SUITE("hwspecs/software/framework_profile") {
  TEST_CASE(
      "a framework's newest profile knows how new it is, an older one is followed by others") {
    CHECK(has_known_version(find_framework("pytorch_2")));
    CHECK(has_known_version(find_framework("pytorch_compile")));
    CHECK(has_known_version(find_framework("tensorflow")));
    CHECK_FALSE(has_known_version(find_framework("pytorch")));
    CHECK_FALSE(has_known_version(find_framework("tensorflow_0")));
    std::string text = text_of("tensorflow");
    const std::string known = "known { version: \"2.4\"";
    REQUIRE(text.find(known) != std::string::npos);
    text.replace(text.find(known), known.size(), "known { version: \"new\"");
    CHECK(profile_error(text).find("known: version \"new\"") != std::string::npos);
  }

  TEST_CASE("every profile in the binary is found by its id and states a source for every value") {
    for (const std::string& id : framework_ids()) {
      CAPTURE(id);
      const FrameworkProfile& profile = find_framework(id);
      CHECK(profile.id == id);
      const std::size_t parts =
          (profile.compiler ? 10 : 0) + (profile.compiler && profile.compiler->pads_gemms ? 1 : 0) +
          (profile.compiler && profile.compiler->image_layout ? 6 : 0) +
          (profile.batch_norm.composed ? 4 : 0) + (profile.host.pooling ? 3 : 0) +
          (profile.batch_norm.own_half ? 6 : 0) +  // PyTorch and what is based on it
          (profile.host.update_per_parameter > Seconds(0) ? 6 : 0) +
          (profile.fusion.pair_gemms ? 1 : 0) + (profile.fusion.bias_gradients ? 1 : 0) +
          (profile.fusion.layers ? 1 : 0) + (profile.precision.quantizes_ends ? 1 : 0) +
          (profile.precision.keeps_int8_sums ? 1 : 0) + (profile.fusion.operand_casts ? 1 : 0) +
          (profile.fusion.edge_attention ? 1 : 0) +
          (profile.kernels.attention != AttentionKernels::Steps ? 1 : 0) +
          (has_known_version(profile) ? 2 : 0) +
          (profile.memory.log_sd != FrameworkProfile{}.memory.log_sd ? 1 : 0) +
          (profile.memory.update_temporaries > 0 ? 1 : 0);
      CHECK(profile.values.size() == 63 + parts);
      for (const SpecValue& value : profile.values) {
        CAPTURE(value.field);
        CHECK(std::any_of(profile.sources.begin(), profile.sources.end(), [&](const SpecSource& s) {
          return s.key == value.source && !s.title.empty() && !s.where.empty();
        }));
      }
    }
  }

  TEST_CASE("the version decides whose attention is one kernel, and who lays images") {
    struct Row {
      const char *framework, *version, *date;
      bool gpt2, opt, lays_images;
    };
    const Row rows[] = {
        {"pytorch_2", "2.1", "", false, false, false},
        {"pytorch_2", "2.4.1", "", true, false, false},
        {"pytorch_2", "2.6", "", true, true, false},
        {"pytorch_2", "", "2024-05", false, false, false},
        {"pytorch_2", "", "2024-08", true, false, false},
        {"pytorch_2", "", "", true, true, false},
        {"pytorch_2", "NGC 24.05", "", false, false, false},
        {"pytorch_2", "NGC 24.10", "", true, false, false},
        {"pytorch_compile", "2.0", "", false, false, false},
        {"pytorch_compile", "2.1", "", false, false, true},
        {"pytorch_compile", "", "", true, true, true},
    };
    for (const Row& row : rows) {
      CAPTURE(row.framework);
      CAPTURE(row.version);
      CAPTURE(row.date);
      const SoftwareDefaults defaults = SpecLibrary::embedded().defaults_of(
          find_framework(row.framework), {.version = row.version, .date = row.date},
          SpecLibrary::embedded().gpus().find("a100_sxm4_80gb"));
      const auto is_stepwise = [&](std::string_view family) {
        const auto& all = defaults.stepwise_attention;
        return std::find(all.begin(), all.end(), family) != all.end();
      };
      CHECK(is_stepwise("gpt2") == !row.gpt2);
      CHECK(is_stepwise("opt") == !row.opt);
      CHECK_FALSE(is_stepwise("llama"));
      CHECK(defaults.chooses_image_layout == row.lays_images);
    }
  }

  TEST_CASE("a family without a name and a date without a source are refused") {
    const std::string whole = text_of("pytorch_2");
    CHECK(profile_error(whole + "fused_since { since { version: \"2.4\" source: \"sdpa\" } }\n")
              .find("fused_since without family") != std::string::npos);
    CHECK(profile_error(whole + "fused_since { family: \"x\" since { version: \"2.4\" } }\n")
              .find("fused_since: source") != std::string::npos);
  }

  TEST_CASE("a profile based on another states what differs, and takes the rest") {
    const FrameworkProfile& plain = find_framework("tensorflow");
    const FrameworkProfile& compiled = find_compiled_framework("tensorflow", "xla");
    CHECK(compiled.id == "tensorflow_xla");
    CHECK_FALSE(plain.compiler);
    REQUIRE(compiled.compiler);
    CHECK(compiled.compiler->framework == "tensorflow");
    CHECK(compiled.compiler->most_operands == 64);
    CHECK(compiled.host.dispatch_per_op < plain.host.dispatch_per_op);
    CHECK(compiled.host.launch_per_kernel == plain.host.launch_per_kernel);
    CHECK(compiled.memory.allocator_block == plain.memory.allocator_block);
  }

  TEST_CASE("what a profile is based on exists, and is whole") {
    const std::string text = text_of("tensorflow_xla");
    CHECK(profile_error(
              test::replace(text, "based_on: \"tensorflow\"", "based_on: \"tensorfolw\"")) ==
          "profile: found based_on \"tensorfolw\"; expected the id of another file of this kind, "
          "and no "
          "circle");
    CHECK(profile_error(
              test::replace(text, "based_on: \"tensorflow\"", "based_on: \"tensorflow_xla\""))
              .find("no circle") != std::string::npos);
    CHECK(profile_error(test::replace(text, "name: \"xla\"", ""))
              .find("a compiler without framework or name") != std::string::npos);
    CHECK(
        profile_error(test::replace(text, "most_operands { value: 64", "most_operands { value: 1"))
            .find("most_operands 1; expected a number from") != std::string::npos);
  }

  TEST_CASE("a compiler is found for the frameworks that have it") {
    CHECK_THROWS_AS((void)find_compiled_framework("caffe", "xla"), InputError);
    try {
      (void)find_compiled_framework("caffe", "xla");
    } catch (const InputError& error) {
      CHECK(std::string(error.what()) ==
            "--framework: found caffe with xla; expected one of: tensorflow");
    }
  }

  TEST_CASE("every framework of the measured tables has a profile") {
    for (const char* id :
         {"caffe", "caffe2", "chainer", "cntk", "generic", "mxnet", "oneflow", "paddlepaddle",
          "pytorch", "tensorflow", "tensorrt", "theano", "torch7"}) {
      CAPTURE(id);
      CHECK_NOTHROW((void)find_framework(id));
    }
  }

  TEST_CASE("an old version, or an old date without one, has the profile of its era") {
    const auto id = [](std::optional<std::pair<int, int>> version, std::string_view date) {
      return find_framework("mxnet", version, date, false).id;
    };
    CHECK(id({{0, 9}}, "") == "mxnet_0");
    CHECK(id({{1, 2}}, "2016-12") == "mxnet");  // the version decides
    CHECK(id(std::nullopt, "2016-12") == "mxnet_0");
    CHECK(id(std::nullopt, "2018-05") == "mxnet");
    CHECK(id(std::nullopt, "") == "mxnet");
    CHECK(find_framework("torch7", {{1, 0}}, "2016-01", false).id == "torch7");  // has no eras
    CHECK(find_framework("mxnet", std::nullopt, "2022-12", true).id == "mxnet_nvidia");
    CHECK(find_framework("torch7", std::nullopt, "", true).id == "torch7");  // in no container
  }

  TEST_CASE("the newest state of a framework begins with a version, or a date, and is today's") {
    const auto id = [](std::optional<std::pair<int, int>> version, std::string_view date) {
      return find_framework("pytorch", version, date, false).id;
    };
    CHECK(id({{1, 13}}, "") == "pytorch");
    CHECK(id({{2, 0}}, "2020-01") == "pytorch_2");  // the version decides
    CHECK(id(std::nullopt, "2023-02") == "pytorch");
    CHECK(id(std::nullopt, "2023-03") == "pytorch_2");
    CHECK(id(std::nullopt, "") == "pytorch_2");
    CHECK(family_of(find_framework("pytorch_2")) == "pytorch");
    CHECK(family_of(find_framework("mxnet_nvidia")) == "mxnet");
    CHECK(family_of(find_framework("tensorflow_xla")) == "tensorflow");
    CHECK(family_of(find_framework("torch7")) == "torch7");
    CHECK(profile_error(
              "id: \"x\" based_on: \"mxnet\" era { framework: \"mxnet\" from_version: \"2.0\" }")
              .find("from_date") != std::string::npos);
  }

  TEST_CASE("a profile based on another states only what differs") {
    const FrameworkProfile& now = find_framework("tensorflow");
    const FrameworkProfile& then = find_framework("tensorflow_0");
    CHECK(then.host.launch_per_kernel == now.host.launch_per_kernel);
    CHECK(then.convolutions.image_layout == ImageLayout::Nhwc);
    CHECK(then.batch_norm.forward_passes > now.batch_norm.forward_passes);
    CHECK_FALSE(now.era);
    REQUIRE(then.era);
    CHECK(then.era->framework == "tensorflow");

    CHECK(profile_error("id: \"x\" based_on: \"nothing\"").find("based_on") != std::string::npos);
    const FrameworkProfile of_era = parse_framework_profile(
        "id: \"x\" name: \"X\" based_on: \"mxnet_0\"", "profile");  // an era's own based_on counts
    CHECK(of_era.convolutions.image_layout == find_framework("mxnet_0").convolutions.image_layout);
    CHECK_FALSE(of_era.era);
    CHECK(profile_error("id: \"x\" based_on: \"mxnet\" era { framework: \"mxnet\" }")
              .find("before_date") != std::string::npos);
  }

  TEST_CASE("an era has a source") {
    const std::string text = text_of("mxnet_0");
    CHECK(profile_error(text) == "none");
    CHECK(profile_error(test::replace(text, "source: \"unbulked\" }\n", "source: \"hearsay\" }\n"))
              .find("era: source \"hearsay\"") != std::string::npos);
  }

  TEST_CASE("what a framework means by a network's name has a source") {
    const std::string text = text_of("torch7");
    CHECK(profile_error(test::replace(text, "zoo: \"bvlc_alexnet\" source: \"models\"",
                                      "zoo: \"bvlc_alexnet\" source: \"hearsay\""))
              .find("hearsay") != std::string::npos);
    CHECK(parse_framework_profile(text, "profile").network_meanings.size() == 7);
  }

  TEST_CASE(
      "the gradient of a network's input is the framework's habit, unless the network spares it") {
    CHECK(differentiates_input(find_framework("torch7"), "vgg16"));
    CHECK_FALSE(differentiates_input(find_framework("torch7"), "resnet50"));
    CHECK_FALSE(differentiates_input(find_framework("pytorch"), "vgg16"));
  }

  TEST_CASE("of an era's own and its successor's meanings of a name, its own come last") {
    const auto& meanings = find_framework("mxnet_0").network_meanings;
    REQUIRE(meanings.size() == 2);
    CHECK(meanings.back().zoo == "alexnet_mxnet_0");
  }

  TEST_CASE("values arrive in their units") {
    const std::string text = test::replace(text_of("pytorch"), "launch_per_kernel_us { value: 4.5",
                                           "launch_per_kernel_us { value: 7.25");
    const FrameworkProfile profile = parse_framework_profile(text, "profile");
    CHECK(profile.host.launch_per_kernel.in_us() == doctest::Approx(7.25));
    CHECK(profile.memory.allocator_large_segment.in_mib() == doctest::Approx(20));
    CHECK(profile.convolutions.image_layout == ImageLayout::Nchw);
  }

  TEST_CASE("ideal software costs the host nothing") {
    const FrameworkProfile& ideal = find_framework("ideal");
    CHECK(ideal.host.dispatch_per_op.in_s() == 0);
    CHECK(ideal.host.launch_per_kernel.in_s() == 0);
  }

  TEST_CASE("an unknown framework names the nearest one") {
    CHECK_THROWS_WITH_AS((void)find_framework("tensorflw"), doctest::Contains("tensorflow"),
                         InputError);
  }

  TEST_CASE("a broken profile is refused in one line that says what is wrong") {
    const std::string good = text_of("tensorflow");
    CHECK(profile_error(good) == "none");
    const struct {
      const char* what;
      std::string text;
      const char* expected;
    } rows[] = {
        {"empty", "", "no id"},
        {"a missing value", test::replace(good, "fuses_bias { value: false source: \"code\" }", ""),
         "no fuses_bias"},
        {"a value without a number",
         test::replace(good, "launch_per_kernel_us { value: 3.5", "launch_per_kernel_us {"),
         "no launch_per_kernel_us"},
        {"negative time",
         test::replace(good, "launch_per_kernel_us { value: 3.5",
                       "launch_per_kernel_us { value: -1"),
         "launch_per_kernel_us -1; expected a number from 0"},
        {"not a number",
         test::replace(good, "launch_per_kernel_us { value: 3.5",
                       "launch_per_kernel_us { value: nan"),
         "launch_per_kernel_us"},
        {"a fraction of a kernel",
         test::replace(good, "dropout_kernels { value: 5", "dropout_kernels { value: 2.5"),
         "whole number"},
        {"an unknown source",
         test::replace(good, "dropout_kernels { value: 5 source: \"code\"",
                       "dropout_kernels { value: 5 source: \"hearsay\""),
         "hearsay"},
        {"no source",
         test::replace(good, "dropout_kernels { value: 5 source: \"code\"",
                       "dropout_kernels { value: 5"),
         "dropout_kernels"},
        {"an unknown layout", test::replace(good, "value: \"nchw\"", "value: \"nhcw\""), "nchw"},
        {"batch norm with less than its operands",
         test::replace(good, "batch_norm_forward_passes { value: 3",
                       "batch_norm_forward_passes { value: 2"),
         "batch_norm_forward_passes 2; expected a number from 3"},
        {"an unknown decay", test::replace(good, "value: \"as_loss\"", "value: \"as_los\""),
         "as_loss"},
        {"more sums than passes",
         test::replace(text_of("theano"), "forward_sums { value: 2", "forward_sums { value: 9"),
         "more sums than passes"},
        {"pooling on the host without a rate of copies",
         test::replace(text_of("theano"), "copy_gb_per_s { value: 5 source: \"memcpy\" }", ""),
         "no host_pooling.copy_gb_per_s"},
        {"an unknown field", good + "\ncolour { value: 1 }\n", "colour"},
        {"cut short", good.substr(0, good.size() / 2), ""},
    };
    for (const auto& row : rows) {
      CAPTURE(row.what);
      const std::string error = profile_error(row.text);
      CHECK(error != "none");
      CHECK(error.find(row.expected) != std::string::npos);
      CHECK(error.find('\n') == std::string::npos);
    }
  }
}
