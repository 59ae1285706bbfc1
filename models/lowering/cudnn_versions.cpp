#include "models/lowering/cudnn_versions.hpp"

#include <algorithm>
#include <variant>
#include <vector>

#include "models/lowering/convolution.hpp"

namespace tracecast::lowering {
namespace {

/// First cuDNN, major.minor, with this algorithm for this pass.
double first_cudnn_version(Algorithm algorithm, Pass pass) {
  switch (algorithm) {
    case Algorithm::Fft:
      return 3;
    case Algorithm::FftTiling:
      return pass == Pass::BackwardWeights ? 6 : 4;
    case Algorithm::WinogradFused:
      return 5;
    case Algorithm::WinogradNonfused:
      return 5.1;
    default:
      return 1;
  }
}

}  // namespace

void keep_known_algorithms(std::vector<Candidate>& candidates, Pass pass, double cudnn_version) {
  std::erase_if(candidates, [&](const Candidate& candidate) {
    return first_cudnn_version(candidate.algorithm, pass) > cudnn_version;
  });
  for (Candidate& candidate : candidates) {
    for (Kernel& kernel : candidate.kernels) {
      if (auto* work = std::get_if<ConvWork>(&kernel.work)) work->cudnn_version = cudnn_version;
    }
  }
}

void launch_by_group(std::vector<Candidate>& candidates, std::int64_t groups) {
  for (Candidate& candidate : candidates) {
    if (candidate.algorithm == Algorithm::Direct) continue;
    for (Kernel& kernel : candidate.kernels) {
      if (kernel.unit == MathUnit::CudaCore && kernel.kernel_class == KernelClass::Convolution) {
        kernel.more_launches = static_cast<double>(groups - 1);
      }
    }
  }
}

bool lacks_grouped_kernels(Architecture architecture, double cudnn_version) {
  constexpr double kFirst = 8.0, kAfter = 8.1;
  return architecture == Architecture::Turing && cudnn_version >= kFirst && cudnn_version < kAfter;
}

bool lacks_grouped_tensor_kernels(const ConvAttributes& a, Pass pass, double cudnn_version) {
  constexpr double kFirst = 8.1, kAnyNumber = 8.9, kAfter = 9;
  constexpr std::int64_t kEdge = 64, kLargestShared = 32, kTogether = 32;
  if (a.groups == 1 || a.groups == a.c) return false;
  if (cudnn_version < kFirst || cudnn_version >= kAfter) return false;
  const bool forward = pass == Pass::Forward;
  const std::int64_t in = a.c / a.groups, out = a.k / a.groups;
  if (std::max(in, out) <= kLargestShared && kEdge % in == 0 && kEdge % out == 0)
    return a.groups % kTogether != 0 && !(forward && cudnn_version >= kAnyNumber);
  return !forward || in % kEdge != 0 || out % kEdge != 0;
}

bool takes_library_depthwise(const ConvAttributes& a, ImageLayout layout, Precision storage,
                             double cudnn_version) {
  constexpr double kFirst = 8.2;
  if (cudnn_version < kFirst || a.is_volume) return false;
  if (layout == ImageLayout::Nhwc) return true;
  const bool is_plain = a.r == a.s && (a.r == 1 || a.r == 3 || a.r == 5) && a.dilation_h == 1 &&
                        a.dilation_w == 1 && a.stride_h == a.stride_w;
  if (storage != Precision::Fp16 || !is_plain || a.c < 32 || a.w < 7) return false;
  if (a.stride_h == 1) return true;
  return a.stride_h == 2 && a.r > 1 && (a.n == 1 || a.c >= 512 || (a.c >= 256 && a.w >= 28));
}

bool multiplies_images_as_they_lie(Architecture architecture, Precision storage,
                                   double cudnn_version) {
  constexpr double kFirst = 8.1;
  return architecture >= Architecture::Ampere && element_size(storage) >= Bytes(2) &&
         cudnn_version >= kFirst;
}

double first_cudnn_version(Architecture architecture) {
  switch (architecture) {
    case Architecture::Kepler:
    case Architecture::Maxwell:
    case Architecture::Pascal:
      return 1;
    case Architecture::Volta:
      return 7;
    case Architecture::Turing:
      return 7.3;
    case Architecture::Ampere:
      return 8;
    case Architecture::Ada:
    case Architecture::Hopper:
      return 8.6;
    case Architecture::Blackwell:
      return 9.6;
  }
  return 1;
}

}  // namespace tracecast::lowering
