#include "hwspecs/software/input_pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "hwspecs/loaders/sourced_reader.hpp"
#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/proto/input_pipeline.pb.h"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

using PipelineMessage = proto::InputPipelineProfile;

#define TRACECAST_FIELD(name) #name, message.name()

void read_structure(const PipelineMessage& message, SourcedReader& read, InputPipelineProfile& p) {
  const std::array<std::string, 3> units{"sample", "batch", "caller"};
  const auto unit = read.choice(TRACECAST_FIELD(worker_unit), units);
  p.worker_makes_batches = unit != 0;
  p.default_workers = read.count(TRACECAST_FIELD(default_workers), 0, 256);
  if (unit == 2) p.default_workers = -1;  // none: the thread that launches kernels loads
  p.prefetch_batches = read.count(TRACECAST_FIELD(prefetch_batches), 1, 64);
  p.device_prefetch_batches = read.count(TRACECAST_FIELD(device_prefetch_batches), 0, 64);
  p.dispatch_takes_batch = read.flag(TRACECAST_FIELD(dispatch_takes_batch));
  p.copies_in_compute_stream = read.flag(TRACECAST_FIELD(copies_in_compute_stream));
  p.stored_side_px = read.number(TRACECAST_FIELD(stored_side_px), 0, 1e4);
  p.stored_encoded = read.flag(TRACECAST_FIELD(stored_encoded));
  p.reads_single_files = read.flag(TRACECAST_FIELD(reads_single_files));
  const std::array<std::string, 3> pins{"thread", "worker", "none"};
  p.pinned_by = static_cast<PinnedBy>(read.choice(TRACECAST_FIELD(pinned_by), pins));
}

void read_costs(const PipelineMessage& message, SourcedReader& read, InputPipelineProfile& p) {
  constexpr double kMostCycles = 1e10;
  p.decode_cycles_per_pixel = read.number(TRACECAST_FIELD(decode_cycles_per_pixel), 0, 1e4);
  p.image_overhead_pixels = read.number(TRACECAST_FIELD(image_overhead_pixels), 0, 1e7);
  p.resize_cycles_per_source_pixel =
      read.number(TRACECAST_FIELD(resize_cycles_per_source_pixel), 0, 1e4);
  p.resize_cycles_per_output_pixel =
      read.number(TRACECAST_FIELD(resize_cycles_per_output_pixel), 0, 1e5);
  p.convert_cycles_per_value = read.number(TRACECAST_FIELD(convert_cycles_per_value), 0, 1e4);
  p.cycles_per_token = read.number(TRACECAST_FIELD(cycles_per_token), 0, 1e6);
  p.cycles_per_sample = read.number(TRACECAST_FIELD(cycles_per_sample), 0, kMostCycles);
  p.cycles_per_record = p.cycles_per_sample;
  if (message.has_cycles_per_record()) {
    p.cycles_per_record = read.number(TRACECAST_FIELD(cycles_per_record), 0, kMostCycles);
  }
  p.train_crop_fraction = read.number(TRACECAST_FIELD(train_crop_fraction), 0.01, 1);
  p.decodes_crop_only = read.flag(TRACECAST_FIELD(decodes_crop_only));
  p.gpu_decode_per_pixel =
      Seconds(read.number(TRACECAST_FIELD(gpu_decode_ns_per_pixel), 0, 1e3) * 1e-9);
  p.cycles_per_batch = read.number(TRACECAST_FIELD(cycles_per_batch), 0, kMostCycles);
  p.bytes_per_value = read.number(TRACECAST_FIELD(bytes_per_value), 1, 8);
  if (message.has_dispatch_spins()) p.dispatch_spins = read.flag(TRACECAST_FIELD(dispatch_spins));
  p.worker_copies = read.number(TRACECAST_FIELD(worker_copies), 0, 20);
  p.memory_copy =
      BytesPerSecond(read.number(TRACECAST_FIELD(memory_copy_gb_per_s), 0.1, 1e3) * 1e9);
  p.second_thread_gain = read.number(TRACECAST_FIELD(second_thread_gain), 0, 1);
  p.log_sd = read.number(TRACECAST_FIELD(log_sd), 0, 2);
  p.unknown_host_log_sd = read.number(TRACECAST_FIELD(unknown_host_log_sd), 0, 2);
}

}  // namespace

InputPipelineProfile parse_input_pipeline(std::string_view text, std::string_view where) {
  PipelineMessage message;
  parse_textproto(text, where, message);
  InputPipelineProfile profile;
  profile.id = message.id();
  profile.name = message.name();
  profile.version_word = to_lower(message.version_word());
  profile.frameworks.assign(message.framework().begin(), message.framework().end());
  if (profile.id.empty()) throw InputError(where, "no id", "an id such as \"pytorch\"");
  SourcedReader read(message.source(), where, profile.sources, profile.values);
  read_structure(message, read, profile);
  read_costs(message, read, profile);
  return profile;
}

DataSetSpec parse_data_set(std::string_view text, std::string_view where) {
  proto::DataSetSpec message;
  parse_textproto(text, where, message);
  DataSetSpec spec;
  spec.id = message.id();
  spec.name = message.name();
  spec.aliases.assign(message.alias().begin(), message.alias().end());
  if (spec.id.empty()) throw InputError(where, "no id", "an id such as \"imagenet\"");
  SourcedReader read(message.source(), where, spec.sources, spec.values);
  const std::array<std::string, 3> kinds{"jpeg", "raw", "tokens"};
  spec.kind = static_cast<SampleKind>(read.choice(TRACECAST_FIELD(kind), kinds));
  spec.samples = read.number(TRACECAST_FIELD(samples), 1, 1e13);
  const double fewest = spec.kind == SampleKind::Tokens ? 0 : 1;
  spec.width_px = read.number(TRACECAST_FIELD(width_px), fewest, 1e5);
  spec.height_px = read.number(TRACECAST_FIELD(height_px), fewest, 1e5);
  spec.bytes_per_sample = Bytes(read.number(TRACECAST_FIELD(bytes_per_sample), 1, 1e9));
  return spec;
}

#undef TRACECAST_FIELD

}  // namespace tracecast
