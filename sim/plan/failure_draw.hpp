#pragma once
#include <cstdint>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/base/units.hpp"
#include "sim/plan/fleet.hpp"
#include "sim/plan/free_gpus.hpp"

namespace tracecast::plan {

/// What fails: a machine with all its GPUs, or one GPU.
struct Failure {
  bool is_gpu = false;
  std::uint32_t machine = 0;
  std::uint64_t gpu = 0;  ///< of the fleet, in the order of its machines
};

/// Failures of a fleet, drawn: machines and GPUs fail independently of each other and of their age,
/// so that all together are a Poisson process of the sum of their rates, and each is one of them in
/// proportion. Needs Fleet::failures.
class FailureDraw {
 public:
  FailureDraw(const Fleet& fleet, std::uint64_t seed);
  /// Until the next one.
  [[nodiscard]] Seconds wait();
  /// Throws InputError after so many that jobs which have not ended by then never will: they fail
  /// more often than they get on.
  [[nodiscard]] Failure what();

 private:
  const Fleet& fleet_;
  Random random_;
  std::uint64_t left_;  ///< that may still come
};

/// Which gangs a failure strikes; asked of all that run, one after the other, always in the same
/// order. Where machines do not count, a GPU of the fleet names the gang, whatever fails. Of a
/// machine the gangs hold its GPUs from the first one on.
class FailureHits {
 public:
  FailureHits(const Fleet& fleet, const Failure& failure);
  /// Whether it strikes the gang on so many GPUs, or on `held` where machines count.
  [[nodiscard]] bool strikes(const std::vector<HeldGpus>& held, int gpus);
  /// The next gang is on the same GPUs as the last.
  void again() { before_ = last_; }

 private:
  Failure failure_;
  std::uint64_t number_ = 0;  ///< the GPU's in its machine
  std::uint64_t before_ = 0, last_ = 0;
};

}  // namespace tracecast::plan
