#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/software/framework_profile.hpp"

namespace tracecast {

/// What tells one state of a framework from others, as people and tables write it.
struct SoftwareWords {
  std::string_view
      version;  ///< "1.15", "NGC TensorFlow 20.06-tf1-py3", "1.6.0, cuDNN 7.0.5"; empty: not known
  std::string_view date;  ///< of a measurement, "2016-11" or "2014..2016-04"; empty: today
};

/// What a framework's version or a date decides beside its profile (SpecLibrary::defaults_of).
struct SoftwareDefaults {
  /// Code that asks for nothing but FP32 computes convolutions in TF32. Only on GPUs that have it.
  bool fp32_runs_as_tf32 = false;
  bool tf32_spares_gemms = false;  ///< that TF32 is the convolutions' alone
  /// The bias of a GEMM goes to the library's epilogue, as the profile or the version has it.
  bool fuses_gemm_bias = false;
  bool groups_attention = false;  ///< FrameworkKernels::wide_grouped_attention holds
  bool early_gemms = false;       ///< FrameworkKernels::early_gemms
  bool early_attention = false;   ///< FrameworkKernels::early_attention
  /// As the version says; else the profile's, but none newer than the end of the date.
  double cudnn_version = 0;
  bool states_cudnn = false;  ///< the version says it
  bool chooses_image_layout =
      false;  ///< the compiler lays images as GraphCompiler::image_layout says
  std::vector<ComposedKernels> composed{};  ///< FrameworkKernels::composed
  std::vector<std::string>
      stepwise_attention{};  ///< families whose code is older than their FusedSince
};

}  // namespace tracecast
