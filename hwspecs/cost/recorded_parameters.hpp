#pragma once
#include <functional>
#include <string>
#include <vector>

namespace tracecast {

/// What no table of kernels tells and no stage of a fit moves: read off recordings of whole
/// networks, priors all. Sources stand beside the values in hwspecs/cost/prior.textproto.
struct RecordedParameters {
  /// Cycles of a tap of a depthwise pass over those of a forward pass in a framework's own kernels.
  struct DepthwisePasses {
    double forward = 1, backward_data = 1, backward_weights = 1;
  };
  DepthwisePasses own_depthwise;  ///< in those kernels; forward is what the others are over
  DepthwisePasses
      library_depthwise;  ///< in a library's kernels for images that lie channels last, 16 bits
  DepthwisePasses wide_library_depthwise;  ///< the same of 32 bits
  /// Of attention over 32-bit operands, which are split: of the tf32 rate, what its kernels reach.
  double split_attention = 1;
  double addition_cycles = 1;  ///< of a slice of L2, for one thread's atomic addition
};

/// A parameter of the struct by name, "memory.addition_cycles", and what values make sense.
struct RecordedSlot {
  std::string name;
  double low = 0, high = 0;
  std::function<double&(RecordedParameters&)> find;
};
[[nodiscard]] std::vector<RecordedSlot> recorded_slots();

}  // namespace tracecast
