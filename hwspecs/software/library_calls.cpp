#include "hwspecs/software/library_calls.hpp"

#include "hwspecs/loaders/sourced_reader.hpp"
#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/proto/library_calls.pb.h"

namespace tracecast {

#define TRACECAST_FIELD(name) #name, message.name()

LibraryCalls parse_library_calls(std::string_view text, std::string_view where) {
  proto::LibraryCalls message;
  parse_textproto(text, where, message);
  LibraryCalls calls;
  SourcedReader read(message.sources(), where, calls.sources, calls.values);
  constexpr double kMost = 1e4;
  calls.strided_instructions_kepler =
      read.number(TRACECAST_FIELD(strided_instructions_kepler), 0, kMost);
  calls.strided_instructions = read.number(TRACECAST_FIELD(strided_instructions), 0, kMost);
  calls.activation_norm_inference_images =
      read.number(TRACECAST_FIELD(activation_norm_inference_images), 1, kMost);
  calls.activation_norm_inference_once =
      read.number(TRACECAST_FIELD(activation_norm_inference_once), 0, kMost);
  calls.activation_norm_training_images =
      read.number(TRACECAST_FIELD(activation_norm_training_images), 1, kMost);
  calls.activation_norm_training_once =
      read.number(TRACECAST_FIELD(activation_norm_training_once), 0, kMost);
  calls.scattered_result_bytes = read.number(TRACECAST_FIELD(scattered_result_bytes), 2, kMost);
  return calls;
}

#undef TRACECAST_FIELD

}  // namespace tracecast
