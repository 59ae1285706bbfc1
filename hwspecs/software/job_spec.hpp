#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/gpu_spec.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// Lengths of sequences that are padded to the longest of their batch: log-normal.
struct PaddedLengths {
  double mean = 0, sd = 0;  ///< tokens
  double most = 0;          ///< longer ones are left out
  double added = 0;         ///< begin and end marks

  /// Expected length of a padded batch: that of the longest of `batch` lengths.
  ///   exp(mu + sigma z),  z = Phi^-1((batch - 0.375) / (batch + 0.25)),
  ///   sigma^2 = ln(1 + (sd / mean)^2),  mu = ln(mean) - sigma^2 / 2
  /// Source of z: Blom, Statistical Estimates and Transformed Beta-Variables (1958). Rounded up.
  [[nodiscard]] std::int64_t longest_of(std::int64_t batch) const;
};

/// What a training loop does round the step of its network. All of it happens in the process that
/// dispatches.
struct LoopWork {
  int waits_at_end =
      0;  ///< results read back after the update: the host begins no step before the GPU is done
  int waits_after_forward = 0;  ///< read back between the forward and the backward pass
  /// Read back on the way through the forward pass, at equal distances: what the loop does by
  /// itself falls between.
  int waits_within_forward = 0;
  bool waits_per_update = false;  ///< one value per parameter read back before the updates
  /// Once in so many steps results are read back after the update, to be printed; 0: never. Counts
  /// where one process trains on several GPUs (sim/parallel/replicas.hpp): on one GPU a wait of the
  /// host in ten steps changes nothing.
  int steps_per_report = 0;
  // Between two steps, with nothing queued on the GPU when the loop waits at the end:
  double cycles_per_step = 0, cycles_per_sample = 0;  ///< of a Haswell core that is alone
  double ops_per_sample = 0;                          ///< dispatched like the framework's own
  double kernels_per_sample = 0;                      ///< that these launch
  int weight_copies = 0;                              ///< of all weights between host and GPU
  BytesPerSecond copy_rate{};                         ///< of these copies
  int processes = 1;  ///< side by side on one GPU; one of them is counted
};

/// A training program: a network, the framework that runs it, and the loop that trains it. What is
/// empty is the usual: the framework's loader, its default optimizer. One that exists is valid.
struct JobSpec {
  std::string id;
  std::string name;
  std::vector<std::string> aliases;
  std::string network;  ///< of the zoo
  std::string framework, framework_version;
  std::string optimizer;
  std::string precision;  ///< as `predict --precision`
  std::string host;       ///< program of host/programs.textproto whose host time its loop has
  std::string data;       ///< as `predict --data`
  std::string pipeline;   ///< as `predict --pipeline`
  std::optional<int> workers;
  std::optional<bool> autotunes_convolutions;
  std::optional<std::int64_t> batch;  ///< the only batch that the loop knows
  std::optional<PaddedLengths> lengths;
  LoopWork loop;
  std::vector<SpecSource> sources;
  std::vector<SpecValue> values;
};

/// Reads text format (hwspecs/proto/job_spec.proto); `where` names it in errors. Throws InputError:
/// syntax, an absurd value, a value without a source.
[[nodiscard]] JobSpec parse_job_spec(std::string_view text, std::string_view where);

}  // namespace tracecast
