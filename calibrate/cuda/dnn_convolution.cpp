#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "calibrate/cuda/dnn.hpp"
#include "calibrate/cuda/dnn_state.hpp"

namespace tracecast::calibrate::cuda {
namespace {

/// cuDNN's number of an algorithm and ours.
struct Numbered {
  int number;
  Algorithm algorithm;
};
constexpr std::array<Numbered, 7> kForward{{
    {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, Algorithm::ImplicitGemm},
    {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, Algorithm::ImplicitPrecomputedGemm},
    {CUDNN_CONVOLUTION_FWD_ALGO_GEMM, Algorithm::ExplicitGemm},
    {CUDNN_CONVOLUTION_FWD_ALGO_FFT, Algorithm::Fft},
    {CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING, Algorithm::FftTiling},
    {CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, Algorithm::WinogradFused},
    {CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED, Algorithm::WinogradNonfused},
}};
constexpr std::array<Numbered, 6> kBackwardData{{
    {CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, Algorithm::ImplicitGemm},
    {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, Algorithm::ImplicitPrecomputedGemm},
    {CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT, Algorithm::Fft},
    {CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING, Algorithm::FftTiling},
    {CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD, Algorithm::WinogradFused},
    {CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED, Algorithm::WinogradNonfused},
}};
constexpr std::array<Numbered, 5> kBackwardFilter{{
    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, Algorithm::ImplicitGemm},
    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, Algorithm::ImplicitPrecomputedGemm},
    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT, Algorithm::Fft},
    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING, Algorithm::FftTiling},
    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED, Algorithm::WinogradNonfused},
}};

std::span<const Numbered> algorithms_of(Pass pass) {
  if (pass == Pass::BackwardData) return kBackwardData;
  if (pass == Pass::BackwardWeights) return kBackwardFilter;
  return kForward;
}

/// Tensor cores or not, as the format asks. FMA keeps FP32 from TF32 (cuDNN 8 on); the default
/// allows TF32.
cudnnMathType_t math_type(Precision precision, std::size_t version) {
  switch (precision) {
    case Precision::Fp32:
      return version >= 8000 ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
    case Precision::Fp16:
    case Precision::Bf16:
    case Precision::Int8:
      return CUDNN_TENSOR_OP_MATH;
    default:
      return CUDNN_DEFAULT_MATH;
  }
}

/// Everything that one convolution needs but memory.
class Described {
 public:
  Described(const DnnState& dnn, const ConvolutionShape& s, Precision precision)
      : dnn_(dnn),
        pass_(s.pass),
        x_(dnn, dnn.cudnnCreateTensorDescriptor, dnn.cudnnDestroyTensorDescriptor),
        y_(dnn, dnn.cudnnCreateTensorDescriptor, dnn.cudnnDestroyTensorDescriptor),
        w_(dnn, dnn.cudnnCreateFilterDescriptor, dnn.cudnnDestroyFilterDescriptor),
        convolution_(dnn, dnn.cudnnCreateConvolutionDescriptor,
                     dnn.cudnnDestroyConvolutionDescriptor) {
    const ConvAttributes& a = s.shape;
    const cudnnDataType_t type = data_type(precision, dnn.version);
    const auto format = s.layout == ImageLayout::Nhwc ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
    const auto tensor = [&](cudnnTensorDescriptor_t of, std::int64_t c, std::int64_t h,
                            std::int64_t w) {
      dnn.check(
          dnn.cudnnSetTensor4dDescriptor(of, format, type, low_precision(a.n), low_precision(c),
                                         low_precision(h), low_precision(w)),
          "describing a tensor");
    };
    tensor(x_.get(), a.c, a.h, a.w);
    tensor(y_.get(), a.k, a.p, a.q);
    dnn.check(dnn.cudnnSetFilter4dDescriptor(w_.get(), type, format, low_precision(a.k),
                                             low_precision(a.c / a.groups), low_precision(a.r),
                                             low_precision(a.s)),
              "describing a filter");
    const cudnnDataType_t compute =
        precision == Precision::Int8 ? CUDNN_DATA_INT32 : CUDNN_DATA_FLOAT;
    dnn.check(dnn.cudnnSetConvolution2dDescriptor(convolution_.get(), a.pad_top, a.pad_left,
                                                  a.stride_h, a.stride_w, a.dilation_h,
                                                  a.dilation_w, CUDNN_CROSS_CORRELATION, compute),
              "describing a convolution");
    dnn.check(dnn.cudnnSetConvolutionGroupCount(convolution_.get(), low_precision(a.groups)),
              "groups");
    dnn.check(
        dnn.cudnnSetConvolutionMathType(convolution_.get(), math_type(precision, dnn.version)),
        "the kind of arithmetic");
  }

  /// Bytes of workspace, or nothing when cuDNN has not that algorithm for the shape.
  [[nodiscard]] std::optional<std::size_t> workspace(int algorithm) const {
    std::size_t bytes = 0;
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    if (pass_ == Pass::BackwardData) {
      status = dnn_.cudnnGetConvolutionBackwardDataWorkspaceSize(
          dnn_.handle, w_.get(), y_.get(), convolution_.get(), x_.get(),
          static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm), &bytes);
    } else if (pass_ == Pass::BackwardWeights) {
      status = dnn_.cudnnGetConvolutionBackwardFilterWorkspaceSize(
          dnn_.handle, x_.get(), y_.get(), convolution_.get(), w_.get(),
          static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm), &bytes);
    } else {
      status = dnn_.cudnnGetConvolutionForwardWorkspaceSize(
          dnn_.handle, x_.get(), w_.get(), convolution_.get(), y_.get(),
          static_cast<cudnnConvolutionFwdAlgo_t>(algorithm), &bytes);
    }
    return status == CUDNN_STATUS_SUCCESS ? std::optional(bytes) : std::nullopt;
  }

  /// cuDNN's first choice; nothing when it has none.
  [[nodiscard]] std::optional<int> heuristic() const {
    int count = 0;
    const auto first = [&](cudnnStatus_t status, const auto& results) -> std::optional<int> {
      if (status != CUDNN_STATUS_SUCCESS) return std::nullopt;
      for (int i = 0; i < count && i < static_cast<int>(results.size()); ++i) {
        const auto& result = results[static_cast<std::size_t>(i)];
        if (result.status == CUDNN_STATUS_SUCCESS) return static_cast<int>(result.algo);
      }
      return std::nullopt;
    };
    if (pass_ == Pass::BackwardData) {
      std::array<cudnnConvolutionBwdDataAlgoPerf_t, 8> results{};
      const auto status = dnn_.cudnnGetConvolutionBackwardDataAlgorithm_v7(
          dnn_.handle, w_.get(), y_.get(), convolution_.get(), x_.get(), 8, &count, results.data());
      return first(status, results);
    }
    if (pass_ == Pass::BackwardWeights) {
      std::array<cudnnConvolutionBwdFilterAlgoPerf_t, 8> results{};
      const auto status = dnn_.cudnnGetConvolutionBackwardFilterAlgorithm_v7(
          dnn_.handle, x_.get(), y_.get(), convolution_.get(), w_.get(), 8, &count, results.data());
      return first(status, results);
    }
    std::array<cudnnConvolutionFwdAlgoPerf_t, 8> results{};
    const auto status = dnn_.cudnnGetConvolutionForwardAlgorithm_v7(
        dnn_.handle, x_.get(), w_.get(), convolution_.get(), y_.get(), 8, &count, results.data());
    return first(status, results);
  }

  void run(int algorithm, void* x, void* w, void* y, void* space, std::size_t bytes) const {
    const float one = 1, zero = 0;
    if (pass_ == Pass::BackwardData) {
      dnn_.check(dnn_.cudnnConvolutionBackwardData(
                     dnn_.handle, &one, w_.get(), w, y_.get(), y, convolution_.get(),
                     static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm), space, bytes, &zero,
                     x_.get(), x),
                 "backward data");
    } else if (pass_ == Pass::BackwardWeights) {
      dnn_.check(dnn_.cudnnConvolutionBackwardFilter(
                     dnn_.handle, &one, x_.get(), x, y_.get(), y, convolution_.get(),
                     static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm), space, bytes, &zero,
                     w_.get(), w),
                 "backward filter");
    } else {
      dnn_.check(dnn_.cudnnConvolutionForward(dnn_.handle, &one, x_.get(), x, w_.get(), w,
                                              convolution_.get(),
                                              static_cast<cudnnConvolutionFwdAlgo_t>(algorithm),
                                              space, bytes, &zero, y_.get(), y),
                 "forward");
    }
  }

 private:
  const DnnState& dnn_;
  Pass pass_;
  Descriptor<cudnnTensorDescriptor_t> x_, y_;
  Descriptor<cudnnFilterDescriptor_t> w_;
  Descriptor<cudnnConvolutionDescriptor_t> convolution_;
};

}  // namespace

OfferedAlgorithms Dnn::offered(const ConvolutionShape& shape, Precision precision) const {
  OfferedAlgorithms result;
  try {
    const Described described(*state_, shape, precision);
    const double most = state_->driver.memory().in_bytes() / 4;
    const std::optional<int> heuristic = described.heuristic();
    for (const Numbered& one : algorithms_of(shape.pass)) {
      const auto workspace = described.workspace(one.number);
      if (!workspace || static_cast<double>(*workspace) > most) continue;
      result.algorithms.push_back(one.algorithm);
      if (heuristic == one.number) result.heuristic = one.algorithm;
    }
  } catch (const CannotRun&) {
    return {};  // no such convolution in this version
  }
  return result;
}

Operation Dnn::prepare(const ConvolutionShape& s, Precision precision) const {
  struct Parts {
    Described described;
    DeviceMemory x, w, y, space;
  };
  const ConvAttributes& a = s.shape;
  const Driver& driver = state_->driver;
  const auto known = algorithms_of(s.pass);
  const auto at = std::find_if(known.begin(), known.end(),
                               [&](const Numbered& one) { return one.algorithm == s.algorithm; });
  if (at == known.end()) throw CannotRun("cuDNN has no such algorithm for this pass");
  const Described probe(*state_, s, precision);
  const auto workspace = probe.workspace(at->number);
  if (!workspace) throw CannotRun("cuDNN does not offer this algorithm for the shape");
  const auto elements = [](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    return static_cast<std::size_t>(n * c * h * w);
  };
  const std::shared_ptr<Parts> parts(
      new Parts{{*state_, s, precision},
                noise(driver, elements(a.n, a.c, a.h, a.w), precision),
                noise(driver, elements(a.k, a.c / a.groups, a.r, a.s), precision),
                noise(driver, elements(a.n, a.k, a.p, a.q), precision),
                zeros(driver, *workspace)});
  Operation operation;
  operation.workspace = Bytes(static_cast<double>(*workspace));
  operation.launch = [state = state_, parts, number = at->number, bytes = *workspace] {
    parts->described.run(number, parts->x.pointer(), parts->w.pointer(), parts->y.pointer(),
                         parts->space.pointer(), bytes);
  };
  operation.launch();
  driver.wait();
  return operation;
}

}  // namespace tracecast::calibrate::cuda
