#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "hwspecs/gpu_spec.hpp"

namespace tracecast {

/// Numbers of a version text: {2, 4} of "TF 2.4.1"; {20, 6} of "NGC 20.06-tf1-py3" with
/// `is_container`.
struct VersionNumber {
  int major = 0, minor = 0;
  bool is_container = false;  ///< NVIDIA's year.month
};
/// The first "a.b" in the text that is not CUDA's or cuDNN's; {0, 0} when there is none.
[[nodiscard]] VersionNumber parse_version(std::string_view text);
/// The month of NVIDIA's container, "2020-10" of "NGC 20.10"; nothing where the text names none.
[[nodiscard]] std::optional<std::string> month_of_container(std::string_view text);
/// The cuDNN version in texts such as "1.6.0, cuDNN 7.0.5" or "CUDA 8.0/cuDNN v5.1": 7.0, 5.1. It
/// decides which convolution algorithms exist; 0 for "cuDNN none": the framework's own, image by
/// image. Nothing when the text does not say.
[[nodiscard]] std::optional<double> find_cudnn_version(std::string_view text);

/// From when on something holds for a framework.
struct SinceVersion {
  std::optional<VersionNumber> version;    ///< of its own releases; nothing: in none of them
  std::optional<VersionNumber> container;  ///< of NVIDIA's; nothing: in none of them
  std::string date;                        ///< "2021": of measurements whose version is not known
  bool today = false;                      ///< where neither version nor date is known
  /// On these GPUs and later ones where the version is not known: what runs there cannot be older.
  std::optional<Architecture> architecture;

  /// For the software that `version` ("1.15", "NGC 20.06") and `date` ("2016-11"; empty: today)
  /// name, on `gpu`. A container is no release: without `container` it never holds there. A version
  /// whose first number is 0 is not known.
  [[nodiscard]] bool holds(std::string_view version, std::string_view date,
                           const GpuSpec& gpu) const;
};

}  // namespace tracecast
