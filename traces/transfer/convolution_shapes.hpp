#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "models/graph.hpp"
#include "traces/trace.hpp"
#include "traces/transfer/input_shapes.hpp"

namespace tracecast::traces {

/// Inputs of the operators of a trace, each text read once.
class InputShapes {
 public:
  explicit InputShapes(const Trace& trace) : trace_(trace) {}
  [[nodiscard]] const std::vector<InputTensor>& of(std::uint32_t op);

 private:
  const Trace& trace_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<InputTensor>> read_;
};

/// One convolution as an operator was asked for it.
struct ConvolutionCall {
  ConvAttributes shape;
  std::vector<Pass> passes;
};

/// Shapes of the convolutions of a trace. Profilers write what went into an operator, not its
/// result, strides or padding (unless "Concrete Inputs" were asked for). The result's size is the
/// next operator's input on that thread, of the same images and with the filters as channels.
/// Stride and padding are the ones that give this size: of the nearest ratio and the padding that
/// keeps the image's size first. A gradient operator says what it gets; the rest is that of the
/// forward convolution with the same sizes.
class ConvolutionShapes {
 public:
  ConvolutionShapes(const Trace& trace, InputShapes& inputs);
  /// Nothing: no convolution, or sizes that are not recorded.
  [[nodiscard]] std::optional<ConvolutionCall> of(std::uint32_t op) const;

 private:
  void add_forward(const Trace& trace, InputShapes& inputs, std::uint32_t op,
                   const std::vector<std::uint32_t>& thread, std::size_t position);
  void add_gradient(const Trace& trace, InputShapes& inputs, std::uint32_t op);

  std::vector<ConvAttributes> known_;  ///< of forward operators, each once
  std::map<std::uint32_t, ConvolutionCall> calls_;
};

}  // namespace tracecast::traces
