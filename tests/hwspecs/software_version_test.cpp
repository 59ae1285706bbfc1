#include "hwspecs/software/software_version.hpp"

#include <doctest/doctest.h>

#include "hwspecs/library.hpp"
#include "hwspecs/software/release_history.hpp"

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("hwspecs/software/software_version");

TEST_CASE("versions are found in what people write") {
  CHECK(parse_version("1.15").minor == 15);
  CHECK(parse_version("TF 2.4.1").major == 2);
  CHECK(parse_version("NGC TensorFlow 20.06-tf1-py3").is_container);
  CHECK(parse_version("NGC TensorFlow 20.06-tf1-py3").minor == 6);
  CHECK(parse_version("tf@b1e174e").major == 0);
  CHECK(parse_version("").major == 0);
  CHECK(parse_version("cuDNN 5.1.05").major == 0);  // a library's version is not the framework's
  CHECK(parse_version("CUDA 8.0; 0.11").minor == 11);
}

TEST_CASE("the cuDNN version is found in what people write") {
  CHECK(find_cudnn_version("1.6.0, cuDNN 7.0.5").value() == doctest::Approx(7.0));
  CHECK(find_cudnn_version("DGX-1; CUDA 8.0/cuDNN 5.1; local SSD").value() == doctest::Approx(5.1));
  CHECK(find_cudnn_version("Torch7, cuDNN None").value() == 0);
  CHECK(find_cudnn_version("cudnn v4").value() == doctest::Approx(4.0));
  CHECK(find_cudnn_version("CuDNN[R4]-fp32 (Torch)").value() == doctest::Approx(4.0));
  for (const char* none : {"", "1.15", "cuDNN", "cuDNN 0.1", "cuDNN 999999"}) {
    CAPTURE(none);
    CHECK_FALSE(find_cudnn_version(none));
  }
}

TEST_CASE("what begins with a version holds for later ones, and without one for dates or GPUs") {
  GpuSpec volta, ada;
  volta.architecture = Architecture::Volta;
  ada.architecture = Architecture::Ada;
  SinceVersion since{.version = VersionNumber{1, 7, false},
                     .container = VersionNumber{20, 6, true},
                     .date = "2021",
                     .today = false,
                     .architecture = {}};
  CHECK(since.holds("1.7.1", "", volta));
  CHECK_FALSE(since.holds("1.6", "2024-01", volta));  // a version goes before a date
  CHECK(since.holds("NGC 20.10", "", volta));
  CHECK_FALSE(since.holds("NGC 20.03", "", volta));
  CHECK(since.holds("", "2021-01", volta));
  CHECK_FALSE(since.holds("", "2020-12", volta));
  CHECK_FALSE(since.holds("", "", volta));
  since.today = true;
  CHECK(since.holds("", "", volta));
  since.container.reset();
  CHECK_FALSE(since.holds("NGC 20.10", "", volta));
  since.architecture = Architecture::Ada;
  CHECK_FALSE(since.holds("", "", volta));
  CHECK(since.holds("", "", ada));
}

// The rules of the binary's files, as they stood in code before:
// hwspecs/framework/{pytorch,tensorflow,generic}.textproto.
SoftwareDefaults defaults(std::string_view framework, std::string_view version,
                          std::string_view date, const GpuSpec& gpu) {
  const SpecLibrary& specs = SpecLibrary::embedded();
  return specs.defaults_of(specs.find_framework(framework), {.version = version, .date = date},
                           gpu);
}

TEST_CASE("PyTorch fuses the bias of GEMMs from the builds on that can") {
  GpuSpec volta, hopper;
  volta.architecture = Architecture::Volta;
  hopper.architecture = Architecture::Hopper;
  const auto fuses = [](std::string_view framework, std::string_view version, const GpuSpec& gpu) {
    return defaults(framework, version, "", gpu).fuses_gemm_bias;
  };
  CHECK_FALSE(fuses("pytorch", "", volta));
  CHECK(fuses("pytorch", "", hopper));  // no older build runs there
  CHECK_FALSE(fuses("pytorch", "1.12.1", volta));
  CHECK(fuses("pytorch", "1.13", volta));
  CHECK(fuses("pytorch", "2.0.1", volta));
  CHECK_FALSE(fuses("pytorch", "NGC pytorch-21.03", volta));
  CHECK(fuses("pytorch", "NGC pytorch-22.10-py3", volta));
  CHECK_FALSE(fuses("tensorflow", "2.10", hopper));
  CHECK(fuses("ideal", "", volta));  // whatever the version: its profile says so
}

TEST_CASE(
    "PyTorch composes the attention of grouped 32-bit heads from the version on that groups them") {
  const GpuSpec gpu;
  const auto groups = [&](std::string_view version, std::string_view date) {
    return defaults("pytorch_2", version, date, gpu).groups_attention;
  };
  CHECK(groups("", ""));
  CHECK(groups("2.5.0", ""));
  CHECK(groups("2.11", ""));
  CHECK_FALSE(groups("2.4.1", ""));
  CHECK_FALSE(groups("", "2024-06"));
  CHECK(groups("", "2025-06"));
  CHECK(groups("NGC pytorch-24.10-py3", ""));
  CHECK_FALSE(groups("NGC pytorch-24.03-py3", ""));
}

TEST_CASE("a release of PyTorch links the cuDNN of its month, a later date or GPU regardless") {
  GpuSpec ampere;
  ampere.architecture = Architecture::Ampere;
  const auto cudnn = [&](std::string_view framework, std::string_view version,
                         std::string_view date) {
    return defaults(framework, version, date, ampere).cudnn_version;
  };
  CHECK(cudnn("pytorch", "1.12", "") == 8.5);
  CHECK(cudnn("pytorch_2", "2.0.1", "") == 8.5);
  CHECK(cudnn("pytorch_2", "2.1", "2025-01") == 8.9);
  CHECK(cudnn("pytorch_2", "2.3", "") == 8.9);
  CHECK(cudnn("pytorch_2", "2.4.1", "") == 9);
  CHECK(cudnn("pytorch_2", "2.11", "") == 9);
  CHECK(cudnn("pytorch_2", "", "2023-06") == 8.9);
  CHECK(cudnn("pytorch_2", "", "") == 9);
}

TEST_CASE("kernels written for Hopper come with the library of a version, container or month") {
  GpuSpec hopper;
  hopper.architecture = Architecture::Hopper;
  struct Row {
    const char *framework, *version, *date;
    bool early_gemms, early_attention;
  };
  const Row rows[] = {
      {"pytorch_2", "", "", false, false},          {"pytorch_2", "2.4.1", "", true, true},
      {"pytorch_2", "2.7", "", false, true},        {"pytorch_2", "2.11", "", false, false},
      {"pytorch_2", "", "2024-11", true, true},     {"pytorch_2", "", "2025-06", false, true},
      {"pytorch_fsdp", "", "2023", true, true},     {"megatron", "", "2024-08", true, false},
      {"megatron", "NGC 24.03", "", true, false},   {"megatron", "NGC 25.09", "", false, false},
      {"mxnet_nvidia", "", "2023-06", true, false}, {"tensorflow", "", "", false, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.framework);
    CAPTURE(row.version);
    CAPTURE(row.date);
    const SoftwareDefaults settled = defaults(row.framework, row.version, row.date, hopper);
    CHECK(settled.early_gemms == row.early_gemms);
    CHECK(settled.early_attention == row.early_attention);
  }
}

TEST_CASE("no measurement used a cuDNN of later months") {
  const ReleaseHistory& cudnn = SpecLibrary::embedded().find_releases("cudnn");
  CHECK(cudnn.newest("2014-01") == 1);
  CHECK(cudnn.newest("2016-04") == 4);
  CHECK(cudnn.newest("2016-12") == doctest::Approx(5.1));
  CHECK(cudnn.newest("2024-02") == 9);
  const GpuSpec gpu;
  CHECK(defaults("tensorflow", "", "2014..2016-04", gpu).cudnn_version == 4);
  CHECK(defaults("tensorflow", "1.6, cuDNN 7.0", "2016-04", gpu).cudnn_version == 7);
  CHECK(defaults("tensorflow", "1.6, cuDNN 7.0", "2016-04", gpu).states_cudnn);
  CHECK(defaults("tensorflow", "", "", gpu).cudnn_version ==
        SpecLibrary::embedded().find_framework("tensorflow").convolutions.cudnn_version);
}

TEST_CASE("a container ships the cuDNN of its month, binaries what they were built with") {
  const SpecLibrary& specs = SpecLibrary::embedded();
  const GpuSpec gpu;
  const auto of_container = [&](std::string_view version, std::string_view date) {
    return defaults("tensorflow", version, date, gpu).cudnn_version;
  };
  CHECK(of_container("NGC 20.03", "2023-04") == doctest::Approx(7.6));
  CHECK(of_container("NGC TensorFlow 20.06-tf1-py3", "2023-04") == 8);
  CHECK(of_container("NGC 21.03", "") == doctest::Approx(8.1));
  CHECK(of_container("NGC", "2018-01..2020-07") ==
        8);  // no month of its own: that of the measurement
  CHECK(of_container("1.15", "2020-07") == doctest::Approx(7.6));
  CHECK(of_container("NGC 20.06, cuDNN 7.0", "") == 7);  // stated
  const auto pytorch = [&](std::string_view version, std::string_view date) {
    const SoftwareWords words{.version = version, .date = date};
    return specs.defaults_of(specs.find_framework("pytorch", words), words, gpu).cudnn_version;
  };
  CHECK(pytorch("1.4", "2021-01") == doctest::Approx(7.6));
  CHECK(pytorch("1.7", "2020-12") == 8);
  CHECK(pytorch("NGC 20.10", "2021-01") == 8);
  // Nothing says when: what runs on Ampere was built lately.
  GpuSpec ampere;
  ampere.architecture = Architecture::Ampere;
  CHECK(defaults("mxnet", "", "", ampere).cudnn_version == 9);
  CHECK(defaults("mxnet", "", "2020-09", ampere).cudnn_version == 7);
}

TEST_CASE("FP32 code means TF32 on Ampere where the framework says so") {
  GpuSpec volta, ampere;
  ampere.peaks = {{Precision::Tf32, MathUnit::TensorCore, 156.0_TFLOPps}};
  struct Row {
    const char *framework, *version, *date;
    bool expected;
  };
  const Row rows[] = {
      {"tensorflow", "2.4", "", true},
      {"tensorflow", "1.15", "", true},
      {"tensorflow", "", "", true},
      {"pytorch", "1.6", "", false},
      {"pytorch", "1.7.1", "", true},
      {"pytorch", "NGC 20.03-py3", "", true},  // a later one: 20.03 has no Ampere
      {"pytorch", "NGC 20.06", "", true},
      {"pytorch", "", "", true},
      {"mxnet", "", "", false},
      {"pytorch", "", "2021-04", true},
      {"pytorch", "", "2020-04", false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.framework);
    CAPTURE(row.version);
    CHECK(defaults(row.framework, row.version, row.date, ampere).fp32_runs_as_tf32 == row.expected);
    CHECK_FALSE(defaults(row.framework, row.version, row.date, volta).fp32_runs_as_tf32);
  }
}

TEST_CASE("PyTorch's TF32 spares GEMMs from 1.12 on, but for NVIDIA's containers") {
  const auto tf32_spares_gemms = [](std::string_view framework, std::string_view version,
                                    std::string_view date) {
    return defaults(framework, version, date, GpuSpec{}).tf32_spares_gemms;
  };
  CHECK_FALSE(tf32_spares_gemms("pytorch", "1.11", ""));
  CHECK(tf32_spares_gemms("pytorch", "1.12", ""));
  CHECK(tf32_spares_gemms("pytorch", "", ""));
  CHECK(tf32_spares_gemms("pytorch", "", "2022-07"));
  CHECK_FALSE(tf32_spares_gemms("pytorch", "", "2022-06"));
  CHECK_FALSE(tf32_spares_gemms("pytorch", "NGC 22.10", ""));
  CHECK_FALSE(tf32_spares_gemms("tensorflow", "2.9", ""));
}

}  // namespace
}  // namespace tracecast
