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

#define TRACECAST_CUDNN_NEEDED(name) decltype(&::name) name = nullptr;
#define TRACECAST_CUDNN_WANTED(name) decltype(&::name) name = nullptr;
#include "calibrate/cuda/dnn_functions.inc"
#undef TRACECAST_CUDNN_NEEDED
#undef TRACECAST_CUDNN_WANTED

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
[[nodiscard]] int low_precision(std::int64_t value);

}  // namespace tracecast::calibrate::cuda
