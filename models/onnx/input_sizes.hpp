#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "models/onnx/import.hpp"
#include "models/onnx/interpreter.hpp"
#include "models/onnx/program.hpp"

namespace tracecast::onnx {

/// The sizes of a program's inputs.
struct InputSizes {
  Sizes own;    ///< as the file says; a batch it leaves open is 1
  Sizes asked;  ///< as the options say
  std::vector<std::string> assumptions;
};

/// Which dimension of each input is the batch, which are the image, which the sequence.
/// Names decide first ("batch", "N", "sequence_length"), then places: the first dimension of inputs
/// of rank 2 and more is the batch when it equals the file's batch; the last two (or, with at most
/// 4 channels last, the middle two) of a rank 4 input of reals are the image; the second of a rank
/// 2 input of integers or a rank 3 input is the sequence. A network that takes keys of earlier
/// tokens ("past_sequence_length", inputs past_...) is read for one step: one new token, or as many
/// as the file fixes, behind `seq_len` of them.
/// A dimension that the file leaves open and the options do not give is assumed: image 224,
/// sequence 128, channels 3, else 1. Throws InputError naming `where`: an input that is not a
/// tensor of known rank, sizes out of range.
[[nodiscard]] InputSizes resolve_input_sizes(const Program& program, const OnnxOptions& options,
                                             std::string_view where);

}  // namespace tracecast::onnx
