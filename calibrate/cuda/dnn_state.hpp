#pragma once
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // cuDNN 9 deprecates what 7 and 8 need
#include <cudnn.h>

#include <string>
#include <utility>

#include "calibrate/cuda/library.hpp"
#include "calibrate/cuda/operation.hpp"

namespace tracecast::calibrate::cuda {

/// cuDNN's functions that we use, and its handle.
struct DnnState {
  Library library;
  const Driver& driver;
  cudnnHandle_t handle = nullptr;
  std::size_t version = 0;  ///< 8902 is 8.9.2; 90100 is 9.1.0

#define TRACECAST_CUDNN(name) decltype(&::name) name = nullptr
  TRACECAST_CUDNN(cudnnGetVersion);
  TRACECAST_CUDNN(cudnnGetErrorString);
  TRACECAST_CUDNN(cudnnCreate);
  TRACECAST_CUDNN(cudnnDestroy);
  TRACECAST_CUDNN(cudnnSetStream);
  TRACECAST_CUDNN(cudnnCreateTensorDescriptor);
  TRACECAST_CUDNN(cudnnSetTensor4dDescriptor);
  TRACECAST_CUDNN(cudnnSetTensorNdDescriptor);
  TRACECAST_CUDNN(cudnnDestroyTensorDescriptor);
  TRACECAST_CUDNN(cudnnCreateFilterDescriptor);
  TRACECAST_CUDNN(cudnnSetFilter4dDescriptor);
  TRACECAST_CUDNN(cudnnDestroyFilterDescriptor);
  TRACECAST_CUDNN(cudnnCreateConvolutionDescriptor);
  TRACECAST_CUDNN(cudnnSetConvolution2dDescriptor);
  TRACECAST_CUDNN(cudnnSetConvolutionGroupCount);
  TRACECAST_CUDNN(cudnnSetConvolutionMathType);
  TRACECAST_CUDNN(cudnnDestroyConvolutionDescriptor);
  TRACECAST_CUDNN(cudnnGetConvolutionForwardWorkspaceSize);
  TRACECAST_CUDNN(cudnnGetConvolutionBackwardDataWorkspaceSize);
  TRACECAST_CUDNN(cudnnGetConvolutionBackwardFilterWorkspaceSize);
  TRACECAST_CUDNN(cudnnGetConvolutionForwardAlgorithm_v7);
  TRACECAST_CUDNN(cudnnGetConvolutionBackwardDataAlgorithm_v7);
  TRACECAST_CUDNN(cudnnGetConvolutionBackwardFilterAlgorithm_v7);
  TRACECAST_CUDNN(cudnnConvolutionForward);
  TRACECAST_CUDNN(cudnnConvolutionBackwardData);
  TRACECAST_CUDNN(cudnnConvolutionBackwardFilter);
  TRACECAST_CUDNN(cudnnCreatePoolingDescriptor);
  TRACECAST_CUDNN(cudnnSetPooling2dDescriptor);
  TRACECAST_CUDNN(cudnnDestroyPoolingDescriptor);
  TRACECAST_CUDNN(cudnnPoolingForward);
  TRACECAST_CUDNN(cudnnBatchNormalizationForwardTraining);
  TRACECAST_CUDNN(cudnnBatchNormalizationForwardInference);
  // Recurrent layers as they are called since cuDNN 8; null before.
  TRACECAST_CUDNN(cudnnCreateRNNDescriptor);
  TRACECAST_CUDNN(cudnnSetRNNDescriptor_v8);
  TRACECAST_CUDNN(cudnnDestroyRNNDescriptor);
  TRACECAST_CUDNN(cudnnCreateDropoutDescriptor);
  TRACECAST_CUDNN(cudnnSetDropoutDescriptor);
  TRACECAST_CUDNN(cudnnDestroyDropoutDescriptor);
  TRACECAST_CUDNN(cudnnCreateRNNDataDescriptor);
  TRACECAST_CUDNN(cudnnSetRNNDataDescriptor);
  TRACECAST_CUDNN(cudnnDestroyRNNDataDescriptor);
  TRACECAST_CUDNN(cudnnGetRNNWeightSpaceSize);
  TRACECAST_CUDNN(cudnnGetRNNTempSpaceSizes);
  TRACECAST_CUDNN(cudnnRNNForward);
  TRACECAST_CUDNN(cudnnRNNBackwardData_v8);
  TRACECAST_CUDNN(cudnnRNNBackwardWeights_v8);
#undef TRACECAST_CUDNN

  DnnState(Library opened, const Driver& of) : library(std::move(opened)), driver(of) {}
  ~DnnState() {
    if (handle != nullptr) cudnnDestroy(handle);
  }
  DnnState(const DnnState&) = delete;
  DnnState& operator=(const DnnState&) = delete;

  /// The first required function that the library lacks; empty when it has all.
  std::string fill();
  [[nodiscard]] bool has_recurrent() const { return cudnnRNNBackwardWeights_v8 != nullptr; }
  /// Throws CannotRun with the library's own text.
  void check(cudnnStatus_t status, const char* what) const;
};

/// A descriptor, destroyed with the object.
template <class Handle>
class Descriptor {
 public:
  Descriptor(const DnnState& dnn, cudnnStatus_t (*create)(Handle*),
             cudnnStatus_t (*destroy)(Handle))
      : destroy_(destroy) {
    dnn.check(create(&handle_), "creating a descriptor");
  }
  ~Descriptor() {
    if (handle_ != nullptr) destroy_(handle_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
  cudnnStatus_t (*destroy_)(Handle);
};

/// cuDNN's type of stored data. Throws CannotRun where this version has none.
[[nodiscard]] cudnnDataType_t data_type(Precision precision, std::size_t version);
/// cuDNN takes int; throws CannotRun beyond.
[[nodiscard]] int narrow(std::int64_t value);

}  // namespace tracecast::calibrate::cuda
