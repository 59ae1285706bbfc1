#pragma once
#include <memory>
#include <string>

#include "calibrate/cuda/library.hpp"
#include "calibrate/cuda/operation.hpp"

namespace tracecast::calibrate::cuda {

/// cuBLAS 9 to 13: GEMMs as frameworks call them.
class Blas {
 public:
  /// Nothing, with `why`, when it cannot be used on this device. `driver` must outlive it.
  static std::unique_ptr<Blas> open(Library library, const Driver& driver, std::string& why);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  [[nodiscard]] std::string version() const;  ///< "12.2.5"
  /// Row-major C = A B is column-major C' = B' A'. Fp32 without TF32; Tf32 on tensor cores; Fp16
  /// and Bf16 with FP32 sums, Int8 with int32 sums. Throws CannotRun when cuBLAS has no such GEMM
  /// (tried once before it returns).
  [[nodiscard]] Operation prepare(const GemmShape& shape, Precision precision);

 private:
  struct State;
  explicit Blas(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace tracecast::calibrate::cuda
