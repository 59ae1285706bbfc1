#pragma once
#include <cstdint>

#include "sim/step/prediction.hpp"

namespace tracecast {

/// Gradient accumulation: `micro_batches` batches in a row, of which the last one is followed by
/// the update.
///   step = (micro_batches - 1) * time(micro_batch) + time(request.graph)
/// `request.graph` is the last batch with the update, `micro_batch` one before it (StepOptions:
/// adds_gradients, with_update). Times and shares add up; utilisation, efficiency and power are
/// means over time, their least and greatest those of either part. Stages, timeline entries per
/// kernel and memory are those of `request.graph`, whose plan holds the gradients throughout
/// (`request.keeps_gradients`). Throughput counts the samples of all batches. Needs micro_batches
/// of at least 2.
[[nodiscard]] Prediction predict_accumulated(const PredictRequest& request,
                                             const NetworkGraph& micro_batch,
                                             std::int64_t micro_batches);

}  // namespace tracecast
