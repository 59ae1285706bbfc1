#pragma once
#include <memory>
#include <string>

#include "calibrate/cuda/library.hpp"
#include "calibrate/cuda/operation.hpp"

namespace tracecast::calibrate::cuda {

/// From this GPU to another one, directly where the two can reach each other, else through the host
/// as the driver does it. Throws CannotRun where there is no other GPU.
[[nodiscard]] Operation prepare_peer_copy(const Driver& driver, std::int64_t bytes);

/// NCCL 2: collectives of one process over several GPUs.
class Collectives {
 public:
  /// Nothing, with `why`, when a function is missing.
  static std::unique_ptr<Collectives> open(Library library, const Driver& driver, std::string& why);
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  /// In place, FP32, sum; over this GPU and the next ones by index. Throws CannotRun.
  [[nodiscard]] Operation prepare(const AllReduceShape& shape);

 private:
  struct State;
  explicit Collectives(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace tracecast::calibrate::cuda
