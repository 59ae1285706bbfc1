#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "hwspecs/gpu_spec.hpp"
#include "models/ops.hpp"
#include "sim/job/hardware.hpp"
#include "sim/step/interval.hpp"
#include "sim/step/prediction.hpp"

namespace tracecast {

/// Recurrent layers without a network: their input is steps x batch x input.
struct RecurrentLayer {
  GraphBuilder::RecurrentLayers layers;
  std::int64_t steps = 1, batch = 1, input = 1;
};

struct RecurrentTime {
  Interval time_s;
  std::string_view basis;  ///< on which most of the time rests
};

/// A pass of cuDNN's standard algorithm as benchmarks time it.
struct RecurrentCall {
  Pass pass = Pass::Forward;      ///< or BackwardData, BackwardWeights
  bool keeps_activations = true;  ///< for a backward pass
  PrecisionMode precision{};
  std::optional<double> cudnn_version{};  ///< nothing: today's
};
/// The least host time of a launch when calls come back to back: PyTorch's.
[[nodiscard]] Seconds recurrent_call_launch(const Hardware& hardware);
/// One call in a row of them: its kernels, or their launches where these take longer. Nothing: no
/// kernel runs for this pass.
[[nodiscard]] std::optional<RecurrentTime> predict_recurrent_call(const RecurrentLayer& layer,
                                                                  const RecurrentCall& call,
                                                                  const GpuSpec& gpu,
                                                                  const Hardware& hardware);

/// A step of a framework whose network is the layers.
struct RecurrentStep {
  std::string framework;       ///< id
  bool is_unrolled = false;    ///< each layer a graph of ordinary ops, whatever the framework does
  Phase phase = Phase::Infer;  ///< the last state; Train: its squared error, backward, SGD too
  PrecisionMode precision{};
  std::optional<double> cudnn_version{};  ///< nothing: the framework's
};
[[nodiscard]] RecurrentTime predict_recurrent_step(const RecurrentLayer& layer,
                                                   const RecurrentStep& step, const GpuSpec& gpu,
                                                   const Hardware& hardware);

}  // namespace tracecast
