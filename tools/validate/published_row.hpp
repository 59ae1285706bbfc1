#pragma once
#include <initializer_list>
#include <string>
#include <string_view>

#include "hwspecs/software/published_source.hpp"
#include "sim/job/resolved_job.hpp"
#include "tools/validate/validation.hpp"

namespace tracecast {

/// The job behind a row of components.csv, as far as its columns and notes tell.
struct PublishedJob {
  PlacedJob options;    ///< batch 0: not stated
  std::string unknown;  ///< why it cannot be predicted; empty when it can
};

/// Reads columns gpu, model, framework, framework_version, precision, phase, batch_per_gpu, date
/// and these notes: "GPU power limit 175 W", "core 1607 MHz, memory 3500 MHz (absolute clocks)",
/// "optimiser adadelta", "dataset imagenet" (loaded on the host of the GPU's years; one that is not
/// known counts as on the GPU), "a PCIe board is likely", "max memory 3 MiB", "Sequence length=64",
/// "CUDA 8.0/cuDNN 5.1", "+ XLA" or "with xla". Clock *offsets* have no known base and make the row
/// unknown. `program`: what the source's record says of the row, its network and optimizer before
/// those of the columns.
[[nodiscard]] PublishedJob read_published_job(const RowFields& row, const SpecLibrary& specs,
                                              const PublishedProgram& program = {});

/// Asks the job as columns image_size ("224", "224x224"), seq_len, channels_last ("yes", "no") and
/// compiled ("no", or the compiler's name: "inductor") say. Returns what of it cannot be asked;
/// empty: nothing. Needs the job's framework.
[[nodiscard]] std::string read_conditions(const RowFields& row, const SpecLibrary& specs,
                                          PlacedJob& job);

/// Adds to `version` the first of the texts that names a cuDNN, where it names none itself.
void add_cudnn_of(std::string& version, std::initializer_list<std::string_view> texts);

/// The profile of a framework itself, whatever compiles its graphs. Throws InputError.
[[nodiscard]] FrameworkProfile uncompiled(Software software, const Hardware& hardware);
/// The zoo's name for what `framework` calls `network`: frameworks' benchmarks have their own of
/// some.
[[nodiscard]] std::string meant_network(std::string network, const FrameworkProfile& framework);

/// Average board power in watts, of one GPU.
[[nodiscard]] bool is_board_power(std::string_view metric, std::string_view unit);
/// GPU utilisation as nvidia-smi shows it, in percent.
[[nodiscard]] bool is_gpu_utilization(std::string_view metric, std::string_view unit);

/// The zoo name for a network as tables write it: letters and digits decide, a remark in brackets
/// or "training" may follow ("ShuffleNetV2 (CIFAR-100)", "ResNet-50 training", "... while training
/// resnet50_FP16"). Empty: none.
[[nodiscard]] std::string find_published_network(std::string_view text);

}  // namespace tracecast
