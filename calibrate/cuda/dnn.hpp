#pragma once
#include <memory>
#include <string>

#include "calibrate/cuda/library.hpp"
#include "calibrate/cuda/operation.hpp"

namespace tracecast::calibrate::cuda {

struct DnnState;

/// cuDNN 7 to 9: convolutions by algorithm, pooling, batch norm, and recurrent layers from cuDNN 8
/// on. Calls and enumerators that we use are the same in all three; status codes are not, so texts
/// come from the library.
class Dnn {
 public:
  /// Nothing, with `why`, when it cannot be used on this device. `driver` must outlive it.
  static std::unique_ptr<Dnn> open(Library library, const Driver& driver, std::string& why);
  ~Dnn();
  Dnn(const Dnn&) = delete;
  Dnn& operator=(const Dnn&) = delete;

  [[nodiscard]] std::string version() const;  ///< "8.9.2"
  /// Algorithms that name a workspace of at most a quarter of the memory for the shape, and the
  /// heuristic's first among them. Gradients' ALGO_0 is reported as ImplicitGemm, ALGO_1 as
  /// ImplicitPrecomputedGemm; filter gradients' ALGO_3 is left out.
  [[nodiscard]] OfferedAlgorithms offered(const ConvolutionShape& shape, Precision precision) const;
  /// Throws CannotRun when cuDNN has no such operation (tried once before it returns).
  [[nodiscard]] Operation prepare(const ConvolutionShape& shape, Precision precision) const;
  [[nodiscard]] Operation prepare(const PoolingShape& shape, Precision precision) const;
  [[nodiscard]] Operation prepare(const BatchNormShape& shape, Precision precision) const;
  [[nodiscard]] Operation prepare(const RecurrentShape& shape, Precision precision) const;

 private:
  explicit Dnn(std::shared_ptr<DnnState> state);
  std::shared_ptr<DnnState> state_;
};

}  // namespace tracecast::calibrate::cuda
