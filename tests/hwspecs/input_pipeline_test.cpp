#include "hwspecs/software/input_pipeline.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <span>
#include <string>

#include "hwspecs/default_host.hpp"
#include "hwspecs/loaders/cpu_loader.hpp"
#include "sim/base/embedded.hpp"
#include "sim/base/error.hpp"
#include "tests/hwspecs/spec_checks.hpp"
#include "tests/support/specs.hpp"

namespace tracecast::embedded {
std::span<const EmbeddedFile> input_pipelines();
std::span<const EmbeddedFile> data_sets();
}  // namespace tracecast::embedded

using namespace tracecast;

namespace {

std::string text_of(std::span<const EmbeddedFile> files, std::string_view path) {
  for (const EmbeddedFile& file : files) {
    if (file.path == path) return std::string(file.content);
  }
  FAIL("no such file");
  return {};
}

template <class Parse>
std::string error_of(const std::string& text, Parse parse) {
  try {
    (void)parse(text, "file");
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

bool all_have_sources(const std::vector<SpecValue>& values,
                      const std::vector<SpecSource>& sources) {
  return std::all_of(values.begin(), values.end(), [&](const SpecValue& value) {
    return std::any_of(sources.begin(), sources.end(), [&](const SpecSource& s) {
      return s.key == value.source && !s.title.empty() && !s.where.empty();
    });
  });
}

}  // namespace

TEST_SUITE("hwspecs/software/input_pipeline") {
  TEST_CASE("every loader and data set in the binary states a source for every value") {
    CHECK(input_pipeline_ids().size() >= 12);
    for (const std::string& id : input_pipeline_ids()) {
      CAPTURE(id);
      const InputPipelineProfile& profile = find_input_pipeline(id);
      CHECK(profile.values.size() >= 27);  // and what a profile may leave out
      CHECK(all_have_sources(profile.values, profile.sources));
    }
    for (const std::string& id : data_set_ids()) {
      CAPTURE(id);
      const DataSetSpec& spec = find_data_set(id);
      CHECK(spec.values.size() == 5);
      CHECK(all_have_sources(spec.values, spec.sources));
    }
  }

  TEST_CASE("framework and version decide which loader it is") {
    CHECK(input_pipeline_of("tensorflow", "1.15").id == "tensorflow");
    CHECK(input_pipeline_of("tensorflow", "NGC TensorFlow 20.06-tf1-py3").default_workers == 10);
    CHECK(
        input_pipeline_of("tensorflow", "tf@b1e, tf_cnn_benchmarks@916").device_prefetch_batches ==
        1);
    CHECK(input_pipeline_of("pytorch", "1.7").worker_makes_batches);
    CHECK(input_pipeline_of("mxnet", "ngc mxnet-22.10").gpu_decode_per_pixel > Seconds(0));
    CHECK(input_pipeline_of("abacus", "").id == "generic");
    CHECK(find_input_pipeline("keras_arrays").default_workers == -1);  // the caller loads
  }

  TEST_CASE("a data set has several spellings, and an unknown one names its neighbour") {
    CHECK(find_data_set("ImageNet").samples == 1'281'167);
    CHECK(find_data_set("cifar-10").kind == SampleKind::Raw);
    CHECK_THROWS_WITH_AS((void)find_data_set("imagnet"), doctest::Contains("nearest: imagenet"),
                         InputError);
  }

  TEST_CASE("a profile or data set that makes no sense is refused in one line") {
    const std::string pipeline =
        text_of(embedded::input_pipelines(), "hwspecs/pipeline/pytorch.textproto");
    const auto pipeline_error = [&](std::string_view from, std::string_view to) {
      return error_of(test::replace(pipeline, from, to), parse_input_pipeline);
    };
    CHECK(pipeline_error("id: \"pytorch\"", "").find("no id") != std::string::npos);
    CHECK(pipeline_error("worker_unit { value: \"batch\"", "worker_unit { value: \"bag\"")
              .find("worker_unit") != std::string::npos);
    CHECK(pipeline_error("default_workers { value: 4 ", "default_workers { value: 2.5 ")
              .find("whole number") != std::string::npos);
    CHECK(pipeline_error("bytes_per_value { value: 4 ", "bytes_per_value { value: -4 ")
              .find("from 1 to 8") != std::string::npos);
    CHECK(pipeline_error("log_sd { value: 0.35 source: \"uncertainty\"",
                         "log_sd { value: 0.35 source: \"x\"")
              .find("key of a source") != std::string::npos);
    const std::string data = text_of(embedded::data_sets(), "hwspecs/dataset/imagenet.textproto");
    CHECK(error_of(test::replace(data, "\"jpeg\"", "\"tiff\""), parse_data_set).find("kind") !=
          std::string::npos);
    CHECK(error_of(test::replace(data, "width_px { value: 500", "width_px { value: 0"),
                   parse_data_set)
              .find("width_px") != std::string::npos);
  }

  TEST_CASE("every year has a default host whose CPU has a spec") {
    const CpuCatalog cpus = CpuCatalog::embedded();
    for (int year = 2000; year < 2035; ++year) {
      CAPTURE(year);
      CHECK(cpus.find(default_host(year).cpu).cores > 0);
    }
    CHECK(default_host(2017).cpu == "e5_2698_v4");  // DGX-1
    const auto host = [](int year) {
      return parse_default_host(
          "era { from_year: 0 cpu: 'a' sockets: 1 } era { from_year: 2015 cpu: 'b' sockets: 2 }",
          "file", year);
    };
    CHECK(host(2014).cpu == "a");
    CHECK(host(2015).cpu == "b");
    CHECK(host(2015).sockets == 2);
    CHECK_THROWS_AS((void)parse_default_host("", "file", 2020), InputError);
    CHECK_THROWS_AS(
        (void)parse_default_host("era { from_year: 0 cpu: \"a\" sockets: 0 }", "file", 2020),
        InputError);
    CHECK_THROWS_AS(
        parse_default_host(
            "era { from_year: 0 cpu: \"a\" sockets: 1 } era { from_year: 0 cpu: \"b\" sockets: 1 }",
            "file", 2020),
        InputError);
  }
}
