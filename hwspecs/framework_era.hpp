#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "hwspecs/gpu_spec.hpp"

namespace tracecast {

/// Whether code that asks for nothing but FP32 computes convolutions in TF32 on this GPU. Only Ampere
/// and later have TF32. Documented defaults:
///   TensorFlow: always. These GPUs need CUDA 11, for which 2.4 is the first official build (release notes: TF32 by
///   default); what runs 1.15 or 2.3 there is NVIDIA's build of it (release 20.06 on), with the same default
///   PyTorch 1.7 on (torch.backends.cudnn.allow_tf32 = True; matrix products too until 1.11), and NVIDIA's
///   containers: the first that runs on Ampere, 20.06, has it; an older one that a table names was not what ran
/// `version`: "1.15", "2.4.1", "NGC TensorFlow 20.06-tf1-py3". Without one, `date` (year-month of the
/// measurement) decides: from 2021 on the current release had TF32. Neither: PyTorch of today does, others do not.
[[nodiscard]] bool fp32_runs_as_tf32(std::string_view framework, std::string_view version,
                                     std::string_view date, const GpuSpec& gpu);

/// Whether that TF32 is the convolutions' alone: PyTorch from 1.12 (July 2022) on, where
/// torch.backends.cuda.matmul.allow_tf32 is off; NVIDIA's containers turn it on (TORCH_ALLOW_TF32_CUBLAS_OVERRIDE).
[[nodiscard]] bool tf32_spares_products(std::string_view framework, std::string_view version,
                                        std::string_view date);

/// The cuDNN version in texts such as "1.6.0, cuDNN 7.0.5" or "CUDA 8.0/cuDNN v5.1": 7.0, 5.1. It decides which
/// convolution algorithms exist; 0 for "cuDNN none": the framework's own, image by image. Nothing when the text does not say.
[[nodiscard]] std::optional<double> find_cudnn_version(std::string_view text);

/// The newest cuDNN (major.minor) released up to a month ("2016-04"); 1 before the first.
[[nodiscard]] double newest_cudnn(std::string_view date);

/// Whether a framework hands the bias of a matrix product to the library's epilogue although its
/// profile does not say so: PyTorch from 1.13 on, whose official builds have the CUDA 11.4 that
/// addmm's cublasLt path asks for (ATen/native/cuda/Blas.cpp), and NVIDIA's containers from 22.05 on
/// (1.12). Without a version: yes on GPUs that need such a build (Ada, Hopper and later).
[[nodiscard]] bool fuses_product_bias(std::string_view framework, std::string_view version,
                                      const GpuSpec& gpu);

/// Numbers of a version text: {2, 4} of "TF 2.4.1"; {20, 6} of "NGC 20.06-tf1-py3" with `container`.
struct VersionNumber {
  int major = 0, minor = 0;
  bool is_container = false;  ///< NVIDIA's year.month
};
/// The first "a.b" in the text that is not CUDA's or cuDNN's; {0, 0} when there is none.
[[nodiscard]] VersionNumber parse_version(std::string_view text);
/// The month of NVIDIA's container, "2020-10" of "NGC 20.10"; nothing where the text names none.
[[nodiscard]] std::optional<std::string> month_of_container(std::string_view text);

}  // namespace tracecast
