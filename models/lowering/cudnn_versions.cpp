#include "models/lowering/cudnn_versions.hpp"

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

bool multiplies_images_as_they_lie(Architecture architecture, Precision storage,
                                   double cudnn_version) {
  constexpr double kFirst = 8.1;
  return architecture >= Architecture::Ampere && element_size(storage) == Bytes(4) &&
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
