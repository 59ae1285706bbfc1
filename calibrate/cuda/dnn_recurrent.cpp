#include <array>
#include <cstdint>
#include <vector>

#include "calibrate/cuda/dnn.hpp"
#include "calibrate/cuda/dnn_state.hpp"

namespace tracecast::calibrate::cuda {
namespace {

cudnnRNNMode_t mode_of(CellKind cell) {
  switch (cell) {
    case CellKind::RnnRelu:
      return CUDNN_RNN_RELU;
    case CellKind::Lstm:
      return CUDNN_LSTM;
    case CellKind::Gru:
      return CUDNN_GRU;
    default:
      return CUDNN_RNN_TANH;
  }
}

/// One layer, standard algorithm, its input without weights of its own, as DeepBench's: descriptors
/// and memory.
class Layer {
 public:
  Layer(const DnnState& dnn, const RecurrentShape& s, Precision precision)
      : dnn_(dnn),
        pass_(s.pass),
        rnn_(dnn, dnn.cudnnCreateRNNDescriptor, dnn.cudnnDestroyRNNDescriptor),
        dropout_(dnn, dnn.cudnnCreateDropoutDescriptor, dnn.cudnnDestroyDropoutDescriptor),
        data_(dnn, dnn.cudnnCreateRNNDataDescriptor, dnn.cudnnDestroyRNNDataDescriptor),
        state_(dnn, dnn.cudnnCreateTensorDescriptor, dnn.cudnnDestroyTensorDescriptor) {
    const cudnnDataType_t type = data_type(precision, dnn.version);
    const int hidden = low_precision(s.hidden), batch = low_precision(s.batch),
              steps = low_precision(s.steps);
    dnn.check(dnn.cudnnSetDropoutDescriptor(dropout_.get(), dnn.handle, 0, nullptr, 0, 0),
              "dropout");
    const cudnnMathType_t math = precision == Precision::Fp32   ? CUDNN_FMA_MATH
                                 : precision == Precision::Tf32 ? CUDNN_DEFAULT_MATH
                                                                : CUDNN_TENSOR_OP_MATH;
    dnn.check(dnn.cudnnSetRNNDescriptor_v8(
                  rnn_.get(), CUDNN_RNN_ALGO_STANDARD, mode_of(s.cell), CUDNN_RNN_DOUBLE_BIAS,
                  CUDNN_UNIDIRECTIONAL, CUDNN_SKIP_INPUT, type, CUDNN_DATA_FLOAT, math, hidden,
                  hidden, hidden, 1, dropout_.get(), CUDNN_RNN_PADDED_IO_DISABLED),
              "describing a recurrent layer");
    const std::vector<int> lengths(static_cast<std::size_t>(batch), steps);
    float fill = 0;
    dnn.check(
        dnn.cudnnSetRNNDataDescriptor(data_.get(), type, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED,
                                      steps, batch, hidden, lengths.data(), &fill),
        "describing sequences");
    const std::array<int, 3> sizes = {1, batch, hidden}, strides = {batch * hidden, hidden, 1};
    dnn.check(dnn.cudnnSetTensorNdDescriptor(state_.get(), type, 3, sizes.data(), strides.data()),
              "describing states");
    dnn.check(dnn.cudnnGetRNNWeightSpaceSize(dnn.handle, rnn_.get(), &weight_bytes_), "weights");
    std::size_t work_bytes = 0, reserve_bytes = 0;
    dnn.check(dnn.cudnnGetRNNTempSpaceSizes(dnn.handle, rnn_.get(), CUDNN_FWD_MODE_TRAINING,
                                            data_.get(), &work_bytes, &reserve_bytes),
              "workspace");

    const Driver& driver = dnn.driver;
    const auto e = static_cast<std::size_t>(element_size(precision).in_bytes());
    const auto sequence = static_cast<std::size_t>(s.steps * s.batch * s.hidden);
    x_ = noise(driver, sequence, precision);
    y_ = zeros(driver, sequence * e);
    gradient_y_ = noise(driver, sequence, precision);
    gradient_x_ = zeros(driver, sequence * e);
    weights_ = noise(driver, weight_bytes_ / e, precision);
    gradient_weights_ = zeros(driver, weight_bytes_);
    work_ = zeros(driver, work_bytes);
    reserve_ = zeros(driver, reserve_bytes);
    lengths_ = DeviceMemory(driver, lengths.size() * sizeof(int));
    driver.check(driver.api().copy_in(lengths_.at(), lengths.data(), lengths_.bytes()),
                 "filling memory");
    // Gradients read what a forward pass keeps; the weights' read what the data's gradient leaves.
    if (pass_ != Pass::Forward) forward(CUDNN_FWD_MODE_TRAINING);
    if (pass_ == Pass::BackwardWeights) backward_data();
  }

  void run() const {
    if (pass_ == Pass::BackwardData) return backward_data();
    if (pass_ == Pass::BackwardWeights) return backward_weights();
    forward(CUDNN_FWD_MODE_INFERENCE);
  }

 private:
  [[nodiscard]] const std::int32_t* lengths() const {
    return static_cast<const std::int32_t*>(lengths_.pointer());
  }
  void forward(cudnnForwardMode_t mode) const {
    const bool keeps = mode == CUDNN_FWD_MODE_TRAINING;
    dnn_.check(dnn_.cudnnRNNForward(
                   dnn_.handle, rnn_.get(), mode, lengths(), data_.get(), x_.pointer(), data_.get(),
                   y_.pointer(), state_.get(), nullptr, nullptr, state_.get(), nullptr, nullptr,
                   weight_bytes_, weights_.pointer(), work_.bytes(), work_.pointer(),
                   keeps ? reserve_.bytes() : 0, keeps ? reserve_.pointer() : nullptr),
               "recurrent forward");
  }
  void backward_data() const {
    dnn_.check(dnn_.cudnnRNNBackwardData_v8(dnn_.handle, rnn_.get(), lengths(), data_.get(),
                                            y_.pointer(), gradient_y_.pointer(), data_.get(),
                                            gradient_x_.pointer(), state_.get(), nullptr, nullptr,
                                            nullptr, state_.get(), nullptr, nullptr, nullptr,
                                            weight_bytes_, weights_.pointer(), work_.bytes(),
                                            work_.pointer(), reserve_.bytes(), reserve_.pointer()),
               "recurrent backward data");
  }
  void backward_weights() const {
    dnn_.check(dnn_.cudnnRNNBackwardWeights_v8(
                   dnn_.handle, rnn_.get(), CUDNN_WGRAD_MODE_ADD, lengths(), data_.get(),
                   x_.pointer(), state_.get(), nullptr, data_.get(), y_.pointer(), weight_bytes_,
                   gradient_weights_.pointer(), work_.bytes(), work_.pointer(), reserve_.bytes(),
                   reserve_.pointer()),
               "recurrent backward weights");
  }

  const DnnState& dnn_;
  Pass pass_;
  Descriptor<cudnnRNNDescriptor_t> rnn_;
  Descriptor<cudnnDropoutDescriptor_t> dropout_;
  Descriptor<cudnnRNNDataDescriptor_t> data_;
  Descriptor<cudnnTensorDescriptor_t> state_;
  std::size_t weight_bytes_ = 0;
  DeviceMemory x_, y_, gradient_y_, gradient_x_, weights_, gradient_weights_, work_, reserve_,
      lengths_;
};

}  // namespace

Operation Dnn::prepare(const RecurrentShape& s, Precision precision) const {
  if (!state_->has_recurrent()) throw CannotRun("recurrent layers need cuDNN 8 or later");
  const auto layer = std::make_shared<Layer>(*state_, s, precision);
  Operation operation;
  operation.method = TimingMethod::Events;  // its kernels overlap, so their sum says too much
  operation.launch = [state = state_, layer] { layer->run(); };
  operation.launch();
  state_->driver.wait();
  return operation;
}

}  // namespace tracecast::calibrate::cuda
