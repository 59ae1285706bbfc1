#include "calibrate/cuda/dnn.hpp"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "calibrate/cuda/dnn_state.hpp"

namespace tracecast::calibrate::cuda {
namespace {

struct TensorDescriptor : Descriptor<cudnnTensorDescriptor_t> {
  TensorDescriptor(const DnnState& dnn, cudnnDataType_t type, std::int64_t n, std::int64_t c,
                   std::int64_t h, std::int64_t w)
      : Descriptor(dnn, dnn.cudnnCreateTensorDescriptor, dnn.cudnnDestroyTensorDescriptor) {
    dnn.check(dnn.cudnnSetTensor4dDescriptor(get(), CUDNN_TENSOR_NCHW, type, low_precision(n),
                                             low_precision(c), low_precision(h), low_precision(w)),
              "describing a tensor");
  }
};

}  // namespace

std::string DnnState::fill() {
  Symbols symbols(library);
#define TRACECAST_CUDNN_NEEDED(name) symbols.need(name, {#name});
#define TRACECAST_CUDNN_WANTED(name) symbols.want(name, {#name});
#include "calibrate/cuda/dnn_functions.inc"
#undef TRACECAST_CUDNN_NEEDED
#undef TRACECAST_CUDNN_WANTED
  return symbols.missing();
}

void DnnState::check(cudnnStatus_t status, const char* what) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const char* text = cudnnGetErrorString(status);
  throw CannotRun(
      fmt::format("cuDNN, {}: {}", what, text != nullptr ? text : "an error without a name"));
}

cudnnDataType_t data_type(Precision precision, std::size_t version) {
  switch (precision) {
    case Precision::Fp16:
      return CUDNN_DATA_HALF;
    case Precision::Bf16:
      if (version < 8000) throw CannotRun("bf16 needs cuDNN 8");
      return CUDNN_DATA_BFLOAT16;
    case Precision::Int8:
      return CUDNN_DATA_INT8;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

int low_precision(std::int64_t value) {
  if (value > std::numeric_limits<int>::max()) throw CannotRun("a size over 2^31");
  return static_cast<int>(value);
}

std::unique_ptr<Dnn> Dnn::open(Library library, const Driver& driver, std::string& why) {
  auto state = std::make_shared<DnnState>(std::move(library), driver);
  if (const std::string missing = state->fill(); !missing.empty()) {
    why = "cuDNN lacks " + missing + ": version 7 or later is needed";
    return nullptr;
  }
  state->version = state->cudnnGetVersion();
  if (const cudnnStatus_t status = state->cudnnCreate(&state->handle);
      status != CUDNN_STATUS_SUCCESS) {
    state->handle = nullptr;
    why = fmt::format("cuDNN does not start: {}", state->cudnnGetErrorString(status));
    return nullptr;
  }
  if (state->cudnnSetStream(state->handle, driver.stream()) != CUDNN_STATUS_SUCCESS) {
    why = "cuDNN takes no stream";
    return nullptr;
  }
  return std::unique_ptr<Dnn>(new Dnn(std::move(state)));
}

Dnn::Dnn(std::shared_ptr<DnnState> state) : state_(std::move(state)) {}
Dnn::~Dnn() = default;

std::string Dnn::version() const {
  // The factor of the major version grew from 1000 to 10000 with version 9.
  const std::size_t v = state_->version;
  if (v >= 90000) return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
  return fmt::format("{}.{}.{}", v / 1000, v / 100 % 10, v % 100);
}

Operation Dnn::prepare(const PoolingShape& s, Precision precision) const {
  struct Parts {
    TensorDescriptor x, y;
    Descriptor<cudnnPoolingDescriptor_t> pooling;
    DeviceMemory in, out;
  };
  const DnnState& dnn = *state_;
  const cudnnDataType_t type = data_type(precision, dnn.version);
  const auto out = [&](std::int64_t in) { return (in + 2 * s.pad - s.window) / s.stride + 1; };
  const std::int64_t p = out(s.h), q = out(s.w);
  const auto e = static_cast<std::size_t>(element_size(precision).in_bytes());
  const std::shared_ptr<Parts> parts(
      new Parts{{dnn, type, s.n, s.c, s.h, s.w},
                {dnn, type, s.n, s.c, p, q},
                {dnn, dnn.cudnnCreatePoolingDescriptor, dnn.cudnnDestroyPoolingDescriptor},
                noise(dnn.driver, static_cast<std::size_t>(s.n * s.c * s.h * s.w), precision),
                zeros(dnn.driver, static_cast<std::size_t>(s.n * s.c * p * q) * e)});
  const int window = low_precision(s.window), pad = low_precision(s.pad),
            stride = low_precision(s.stride);
  dnn.check(dnn.cudnnSetPooling2dDescriptor(
                parts->pooling.get(),
                s.average ? CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING : CUDNN_POOLING_MAX,
                CUDNN_NOT_PROPAGATE_NAN, window, window, pad, pad, stride, stride),
            "describing a pooling");
  Operation operation;
  operation.launch = [state = state_, parts] {
    const float one = 1, zero = 0;
    state->check(state->cudnnPoolingForward(state->handle, parts->pooling.get(), &one,
                                            parts->x.get(), parts->in.pointer(), &zero,
                                            parts->y.get(), parts->out.pointer()),
                 "pooling");
  };
  operation.launch();
  dnn.driver.wait();
  return operation;
}

Operation Dnn::prepare(const BatchNormShape& s, Precision precision) const {
  struct Parts {
    TensorDescriptor x, channel;
    DeviceMemory in, out, scale, bias, mean, variance, saved_mean, saved_variance;
  };
  const DnnState& dnn = *state_;
  const auto elements = static_cast<std::size_t>(s.n * s.c * s.h * s.w);
  const auto e = static_cast<std::size_t>(element_size(precision).in_bytes());
  const std::size_t per_channel = static_cast<std::size_t>(s.c) * 4;
  const Driver& driver = dnn.driver;
  const std::shared_ptr<Parts> parts(
      new Parts{{dnn, data_type(precision, dnn.version), s.n, s.c, s.h, s.w},
                {dnn, CUDNN_DATA_FLOAT, 1, s.c, 1, 1},
                noise(driver, elements, precision),
                zeros(driver, elements * e),
                noise(driver, static_cast<std::size_t>(s.c), Precision::Fp32),
                noise(driver, static_cast<std::size_t>(s.c), Precision::Fp32),
                zeros(driver, per_channel),
                zeros(driver, per_channel),
                zeros(driver, per_channel),
                zeros(driver, per_channel)});
  Operation operation;
  operation.launch = [state = state_, parts, training = s.training] {
    const float one = 1, zero = 0;
    const Parts& p = *parts;
    constexpr double kEpsilon = 1e-5;
    state->check(
        training
            ? state->cudnnBatchNormalizationForwardTraining(
                  state->handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, p.x.get(), p.in.pointer(),
                  p.x.get(), p.out.pointer(), p.channel.get(), p.scale.pointer(), p.bias.pointer(),
                  0.1, p.mean.pointer(), p.variance.pointer(), kEpsilon, p.saved_mean.pointer(),
                  p.saved_variance.pointer())
            : state->cudnnBatchNormalizationForwardInference(
                  state->handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, p.x.get(), p.in.pointer(),
                  p.x.get(), p.out.pointer(), p.channel.get(), p.scale.pointer(), p.bias.pointer(),
                  p.mean.pointer(), p.variance.pointer(), kEpsilon),
        "batch norm");
  };
  operation.launch();
  driver.wait();
  return operation;
}

}  // namespace tracecast::calibrate::cuda
