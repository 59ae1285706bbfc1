#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/gpu_spec.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// How samples lie on disk.
enum class SampleKind { Jpeg, Raw, Tokens };

/// Public facts about a data set. One that exists is valid.
struct DataSetSpec {
  std::string id;
  std::string name;
  std::vector<std::string> aliases;
  SampleKind kind{};
  double samples = 0;
  double width_px = 0, height_px = 0;  ///< mean; 0 for tokens
  Bytes bytes_per_sample{};            ///< mean, as stored
  std::vector<SpecSource> sources;
  std::vector<SpecValue> values;
};

/// Who turns a batch into pinned memory, from which the GPU copies without the host's help.
enum class PinnedBy { Thread, Worker, None };

/// How a framework's data loader prepares samples: its documented structure, and costs in clock
/// cycles of a Haswell core that is alone. Sources and what is a guess: in the profile's text file.
struct InputPipelineProfile {
  std::string id;
  std::string name;
  std::vector<std::string> frameworks;  ///< whose loader it is
  std::string version_word;             ///< only for versions that contain it; empty: any

  bool worker_makes_batches = false;  ///< each worker makes whole batches; else all share one
  int default_workers = 0;            ///< 0 = one per CPU thread
  int prefetch_batches = 0;           ///< ready in host memory; per worker where each makes batches
  int device_prefetch_batches = 0;    ///< copied to the GPU before their step begins
  bool dispatch_takes_batch = false;  ///< the dispatch thread waits for the batch first
  bool copies_in_compute_stream = false;  ///< the copy to the GPU waits for the kernels before it

  double stored_side_px = 0;  ///< shorter side after conversion; 0 = the data set as it is
  bool stored_encoded = false;
  bool reads_single_files = false;

  double decode_cycles_per_pixel = 0;
  double image_overhead_pixels = 0;  ///< the fixed cost of an image, in pixels decoded
  double resize_cycles_per_source_pixel = 0;
  double resize_cycles_per_output_pixel = 0;
  double convert_cycles_per_value = 0;
  double cycles_per_token = 0;
  double cycles_per_sample = 0;
  double cycles_per_record = 0;    ///< of a sample that is no image: fetched and collated
  double train_crop_fraction = 1;  ///< mean share of the image that a training crop keeps
  bool decodes_crop_only = false;
  Seconds gpu_decode_per_pixel{};  ///< the part of the decoder on the GPU

  double cycles_per_batch = 0;
  double bytes_per_value = 4;  ///< of a prepared image on its way to the GPU
  double worker_copies = 0;    ///< of the batch's bytes, by the worker
  PinnedBy pinned_by{};
  BytesPerSecond memory_copy{};  ///< of one thread

  bool dispatch_spins =
      false;  ///< the dispatch thread keeps its CPU busy while it waits for the GPU
  double second_thread_gain = 0;   ///< throughput that a core's second hardware thread adds
  double log_sd = 0;               ///< of ln(measured / predicted) of the loader's rate
  double unknown_host_log_sd = 0;  ///< further, when the host is assumed

  std::vector<SpecSource> sources;
  std::vector<SpecValue> values;
};

/// Read text format (hwspecs/proto/input_pipeline.proto); `where` names it in errors. Throw
/// InputError: syntax, a missing or absurd value, a value without a source.
[[nodiscard]] InputPipelineProfile parse_input_pipeline(std::string_view text,
                                                        std::string_view where);
[[nodiscard]] DataSetSpec parse_data_set(std::string_view text, std::string_view where);

}  // namespace tracecast
