#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/loaders/spec_identity.hpp"

namespace tracecast {

/// What library calls cost that tables time and no framework makes: values and sources in
/// hwspecs/calls/cudnn.textproto.
struct LibraryCalls {
  /// Instructions per element and operand of cuDNN's tensor ops, which find an element's place from
  /// the strides of every operand: on Kepler, and later.
  double strided_instructions_kepler = 0, strided_instructions = 0;
  /// Images that a batch norm with a scale for each activation moves, in reads and writes: for
  /// every image of the batch, and once.
  double activation_norm_inference_images = 0, activation_norm_inference_once = 0;
  double activation_norm_training_images = 0, activation_norm_training_once = 0;
  /// A 16-bit result that a fused bias writes back to NCHW takes as much of DRAM's bandwidth as so
  /// many bytes.
  double scattered_result_bytes = 0;
  std::vector<SpecSource> sources;
  std::vector<SpecValue> values;
};

/// Reads text format (hwspecs/proto/library_calls.proto); `where` names it in errors. Throws
/// InputError: syntax, a missing or absurd value, a value without a source.
[[nodiscard]] LibraryCalls parse_library_calls(std::string_view text, std::string_view where);

}  // namespace tracecast
